//! Table: every series that samplers write, with its unit and its kind. It is the contract between samplers and the rules that judge.
//!
//! A name is a path of words joined by dots. A word in braces is a placeholder: `{member}` is the number of a server in
//! the run (`0`; the manifest's environment names it as `server.0`), `{device}` a block device, `{operation}` an
//! operation of the load, `{sampler}` a sampler. A [`Additivity::Sum`] holds the increase within the reading's window, so that
//! values of windows may be added; a window in which the counter was reset (a restart) is left out. A [`Additivity::Gauge`]
//! holds the reading at the window's end. If the source lacks a counter its series is absent, never zero.

/// Whether values of windows may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Additivity {
    /// A sum over the window.
    Sum,
    /// A reading at the window's end.
    Gauge,
}

/// One series, or a family with names in braces.
#[derive(Clone, Copy, Debug)]
pub struct SeriesKind {
    pub name: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// Whether windows may be added.
    pub kind: Additivity,
    /// Its meaning and its source.
    pub meaning: &'static str,
}

const fn sum(name: &'static str, unit: &'static str, meaning: &'static str) -> SeriesKind {
    SeriesKind { name, unit, kind: Additivity::Sum, meaning }
}

const fn gauge(name: &'static str, unit: &'static str, meaning: &'static str) -> SeriesKind {
    SeriesKind { name, unit, kind: Additivity::Gauge, meaning }
}

/// All series of samplers, of the load's client and of the disk probe.
pub static CATALOG: &[SeriesKind] = &[
    // The client: the measurements of the load itself, each over a second.
    gauge("client.operations.per_s", "1/s", "operations that ended"),
    gauge("client.cpu_share", "1", "share of their available processor time that the client's loops used"),
    gauge("client.in_flight", "1", "operations under way, on average over the window"),
    gauge("client.connections", "1", "connections, each with one operation under way at most"),
    sum("client.user_bytes", "bytes", "BSON bytes of inserted documents and of updated fields"),
    gauge("client.{operation}.per_s", "1/s", "operations of a kind that succeeded"),
    gauge("client.{operation}.failed.per_s", "1/s", "operations of a kind that failed"),
    gauge("client.{operation}.service.mean_ns", "ns", "mean time from the send"),
    gauge("client.{operation}.service.p50_ns", "ns", "median time from the send"),
    gauge("client.{operation}.service.p99_ns", "ns", "99th percentile of the time from the send"),
    gauge("client.{operation}.response.mean_ns", "ns", "mean time from when it was due"),
    gauge("client.{operation}.response.p50_ns", "ns", "median time from when it was due"),
    gauge("client.{operation}.response.p99_ns", "ns", "99th percentile of the time from when it was due"),
    // Each server: the path of an operation. The sources are opLatencies, and latencyStats of the namespace under load.
    gauge("server.{member}.up", "1", "1 if the server answered within the window, else 0"),
    gauge(
        "server.{member}.recorder.sample_ms",
        "ms",
        "of recordings: how long the server took for the sample at the window's begin",
    ),
    gauge("server.{member}.ping_us", "us", "round trip of a ping: the network and the client's socket"),
    sum("server.{member}.reads.operations", "1", "opLatencies.reads.ops"),
    sum("server.{member}.reads.latency_us", "us", "opLatencies.reads.latency"),
    sum("server.{member}.writes.operations", "1", "opLatencies.writes.ops"),
    sum("server.{member}.writes.latency_us", "us", "opLatencies.writes.latency"),
    sum("server.{member}.commands.operations", "1", "opLatencies.commands.ops"),
    sum("server.{member}.commands.latency_us", "us", "opLatencies.commands.latency"),
    sum(
        "server.{member}.collection.reads.operations",
        "1",
        "$collStats latencyStats.reads.ops of the namespace watched",
    ),
    sum("server.{member}.collection.reads.latency_us", "us", "$collStats latencyStats.reads.latency"),
    sum("server.{member}.collection.writes.operations", "1", "$collStats latencyStats.writes.ops"),
    sum("server.{member}.collection.writes.latency_us", "us", "$collStats latencyStats.writes.latency"),
    sum("server.{member}.opcounters.insert", "1", "opcounters.insert: documents"),
    sum("server.{member}.opcounters.query", "1", "opcounters.query"),
    sum("server.{member}.opcounters.update", "1", "opcounters.update: statements"),
    sum("server.{member}.opcounters.delete", "1", "opcounters.delete: statements"),
    sum("server.{member}.opcounters.getmore", "1", "opcounters.getmore"),
    sum("server.{member}.opcounters.command", "1", "opcounters.command"),
    sum("server.{member}.documents.inserted", "1", "metrics.document.inserted"),
    sum("server.{member}.documents.updated", "1", "metrics.document.updated"),
    sum("server.{member}.documents.deleted", "1", "metrics.document.deleted"),
    sum("server.{member}.documents.returned", "1", "metrics.document.returned"),
    sum("server.{member}.scan.keys", "1", "metrics.queryExecutor.scanned: index keys that queries examined"),
    sum(
        "server.{member}.scan.documents",
        "1",
        "metrics.queryExecutor.scannedObjects: documents that queries examined",
    ),
    sum(
        "server.{member}.scan.collections",
        "1",
        "metrics.queryExecutor.collectionScans.total: queries that scanned a whole collection",
    ),
    sum(
        "server.{member}.scan.sorts",
        "1",
        "metrics.operation.scanAndOrder: queries that sorted without an index",
    ),
    sum("server.{member}.network.in_bytes", "bytes", "network.bytesIn"),
    sum("server.{member}.network.out_bytes", "bytes", "network.bytesOut"),
    sum("server.{member}.network.requests", "1", "network.numRequests"),
    gauge("server.{member}.connections.current", "1", "connections.current"),
    gauge("server.{member}.clients.readers", "1", "globalLock.activeClients.readers"),
    gauge("server.{member}.clients.writers", "1", "globalLock.activeClients.writers"),
    gauge("server.{member}.queue.readers", "1", "globalLock.currentQueue.readers"),
    gauge("server.{member}.queue.writers", "1", "globalLock.currentQueue.writers"),
    gauge(
        "server.{member}.tickets.read.out",
        "1",
        "read tickets in use (queues.execution, or concurrentTransactions)",
    ),
    gauge("server.{member}.tickets.read.total", "1", "read tickets in total"),
    gauge("server.{member}.tickets.write.out", "1", "write tickets in use"),
    gauge("server.{member}.tickets.write.total", "1", "write tickets in total"),
    // Waits of operations, summed over them.
    sum(
        "server.{member}.wait.ticket_us",
        "us",
        "queues.execution.*.totalTimeQueuedMicros, or the same field of concurrentTransactions",
    ),
    sum("server.{member}.wait.lock_us", "us", "locks.*.timeAcquiringMicros, all modes"),
    sum("server.{member}.lock.global.wait_us", "us", "locks.Global.timeAcquiringMicros, all modes"),
    sum("server.{member}.lock.database.wait_us", "us", "locks.Database.timeAcquiringMicros, all modes"),
    sum("server.{member}.lock.collection.wait_us", "us", "locks.Collection.timeAcquiringMicros, all modes"),
    sum("server.{member}.write_conflicts", "1", "metrics.operation.writeConflicts"),
    gauge(
        "server.{member}.transactions.open",
        "1",
        "transactions: currentOpen, those between two operations included",
    ),
    gauge(
        "server.{member}.transactions.inactive",
        "1",
        "transactions: currentInactive, open ones between two operations",
    ),
    gauge(
        "server.{member}.transactions.pinned_ids",
        "1",
        "transaction: range of IDs currently pinned, the changes since the begin of the oldest one in use",
    ),
    sum("server.{member}.wait.flow_control_us", "us", "flowControl.timeAcquiringMicros"),
    sum(
        "server.{member}.wait.replication_us",
        "us",
        "metrics.getLastError.wtime.totalMillis, in microseconds",
    ),
    sum(
        "server.{member}.wait.page_read_us",
        "us",
        "cache: application threads page read from disk to cache time (usecs)",
    ),
    sum(
        "server.{member}.wait.page_write_us",
        "us",
        "cache: application threads page write from cache to disk time (usecs)",
    ),
    sum(
        "server.{member}.wait.evict_us",
        "us",
        "thread-yield or cache: application thread time evicting (usecs)",
    ),
    sum(
        "server.{member}.wait.cache_us",
        "us",
        "thread-yield or cache: application thread time waiting for cache (usecs)",
    ),
    sum(
        "server.{member}.wait.journal_us",
        "us",
        "operations' waits for the journal, if the server counts them",
    ),
    sum("server.{member}.wait.io_capacity_us", "us", "capacity: time waiting due to total capacity (usecs)"),
    sum("server.{member}.pages.read", "1", "cache: application threads page read from disk to cache count"),
    sum(
        "server.{member}.pages.written",
        "1",
        "cache: application threads page write from cache to disk count",
    ),
    sum("server.{member}.pages.evicted_by_operations", "1", "cache: pages evicted by application threads"),
    // The journal, checkpoints, the cache, the block manager.
    sum("server.{member}.journal.syncs", "1", "log: log sync operations"),
    sum("server.{member}.journal.sync_us", "us", "log: log sync time duration (usecs)"),
    sum("server.{member}.journal.written_bytes", "bytes", "log: log bytes written"),
    sum("server.{member}.journal.payload_bytes", "bytes", "log: log bytes of payload data"),
    gauge("server.{member}.checkpoint.running", "1", "1 while a checkpoint runs"),
    sum("server.{member}.checkpoint.count", "1", "checkpoints that ended"),
    sum("server.{member}.checkpoint.total_ms", "ms", "time of checkpoints that ended"),
    gauge("server.{member}.checkpoint.last_ms", "ms", "how long the last checkpoint took"),
    gauge("server.{member}.cache.used_bytes", "bytes", "cache: bytes currently in the cache"),
    gauge("server.{member}.cache.most_bytes", "bytes", "cache: maximum bytes configured"),
    gauge("server.{member}.cache.dirty_bytes", "bytes", "cache: tracked dirty bytes in the cache"),
    gauge("server.{member}.cache.update_bytes", "bytes", "cache: bytes allocated for updates"),
    sum("server.{member}.cache.read_bytes", "bytes", "cache: bytes read into cache"),
    sum("server.{member}.cache.written_bytes", "bytes", "cache: bytes written from cache"),
    sum("server.{member}.engine.reads", "1", "block-manager: blocks read"),
    sum(
        "server.{member}.engine.read_bytes",
        "bytes",
        "block-manager: bytes read; RocksDB: of point look-ups, scans and compaction",
    ),
    sum("server.{member}.engine.writes", "1", "block-manager: blocks written"),
    sum(
        "server.{member}.engine.written_bytes",
        "bytes",
        "block-manager: bytes written; RocksDB: flush and compaction",
    ),
    sum(
        "server.{member}.engine.read_times.{from}",
        "1",
        "of recordings: file system read latency histogram: reads that took this many milliseconds or longer, up to the next bound (0, 10, 50, 100, 250, 500, 1000)",
    ),
    sum(
        "server.{member}.engine.write_times.{from}",
        "1",
        "of recordings: file system write latency histogram: the same of writes",
    ),
    sum("server.{member}.engine.checkpoint_bytes", "bytes", "block-manager: bytes written for checkpoint"),
    sum("server.{member}.flush.written_bytes", "bytes", "RocksDB counters: flush-bytes-written"),
    sum("server.{member}.compaction.read_bytes", "bytes", "RocksDB counters: compaction-bytes-read"),
    sum("server.{member}.compaction.written_bytes", "bytes", "RocksDB counters: compaction-bytes-written"),
    gauge("server.{member}.compaction.pending", "1", "RocksDB: compaction-pending"),
    gauge(
        "server.{member}.storage.allocated_bytes",
        "bytes",
        "collStats storageSize and index sizes of the namespace watched",
    ),
    gauge("server.{member}.storage.logical_bytes", "bytes", "collStats size of the namespace watched"),
    gauge("server.{member}.parameter.syncdelay_s", "s", "getParameter syncdelay, read every ten seconds"),
    gauge(
        "server.{member}.fsync_locked",
        "1",
        "currentOp fsyncLock: 1 while writes wait for fsyncUnlock; asked while writes wait and none ends",
    ),
    sum("server.{member}.ttl.passes", "1", "metrics.ttl.passes: passes of the TTL monitor that ended"),
    sum("server.{member}.ttl.deleted", "1", "metrics.ttl.deletedDocuments"),
    // The set and the cluster.
    gauge("server.{member}.replication.state", "1", "replSetGetStatus myState"),
    gauge(
        "server.{member}.replication.lag_ms",
        "ms",
        "how far this member's last operation is behind the primary's",
    ),
    gauge(
        "server.{member}.replication.behind",
        "1",
        "entries that this member's journal lacks of the primary's newest write (serverStatus repl: 1, replicationProgress)",
    ),
    gauge(
        "server.{member}.replication.uncommitted",
        "1",
        "of a primary: entries between the commit point of the majority and its newest write",
    ),
    gauge("server.{member}.replication.oplog_s", "s", "oplog: seconds from its oldest entry to its newest"),
    sum("server.{member}.replication.applied", "1", "metrics.repl.apply.ops: entries that it applied"),
    sum("server.{member}.replication.batches", "1", "metrics.repl.apply.batches.num"),
    sum("server.{member}.replication.batch_ms", "ms", "metrics.repl.apply.batches.totalMillis"),
    sum(
        "server.{member}.replication.write_batches",
        "1",
        "metrics.repl.write.batches.num: batches written to its oplog; since 8.0, before they are applied",
    ),
    sum("server.{member}.replication.write_batch_ms", "ms", "metrics.repl.write.batches.totalMillis"),
    gauge(
        "server.{member}.replication.voters_down",
        "1",
        "of a primary: voters with data from which it gets no heartbeat (replSetGetStatus)",
    ),
    sum(
        "server.{member}.replication.waits",
        "1",
        "metrics.getLastError.wtime.num: writes that waited for members",
    ),
    gauge(
        "server.{member}.flow_control.lagged",
        "1",
        "flowControl.isLagged: 1 while writes are held back for members",
    ),
    // A router.
    sum("server.{member}.reads.shards_us", "us", "of a router: time that its reads waited for shards"),
    sum("server.{member}.writes.shards_us", "us", "of a router: time that its writes waited for shards"),
    sum("server.{member}.targeted.one", "1", "of a router: operations that went to one shard"),
    sum(
        "server.{member}.targeted.several",
        "1",
        "of a router: operations that went to several shards at once",
    ),
    gauge("server.{member}.sharding.chunks", "1", "chunks of the namespace watched on this shard"),
    gauge("server.{member}.sharding.balancing", "1", "1 while the balancer moves chunks"),
    // The server's process, if it runs on this host.
    sum(
        "server.{member}.process.cpu_us",
        "us",
        "user and system time of the process (/proc/PID/stat, else extra_info)",
    ),
    sum(
        "server.{member}.process.run_wait_us",
        "us",
        "time its threads were runnable without a processor (schedstat)",
    ),
    gauge(
        "server.{member}.process.cpu_quota",
        "1",
        "processors that its control groups allow it (cpu.max; cpu.cfs_quota_us)",
    ),
    sum(
        "server.{member}.process.throttled_us",
        "us",
        "time that its control groups were held back by that quota (cpu.stat throttled_usec)",
    ),
    gauge(
        "server.{member}.process.memory_limit_bytes",
        "bytes",
        "memory that its control groups allow it, page cache included (memory.max; memory.limit_in_bytes)",
    ),
    gauge(
        "server.{member}.process.memory_used_bytes",
        "bytes",
        "memory that the group of this limit uses (memory.current; memory.usage_in_bytes)",
    ),
    gauge(
        "server.{member}.volume.available_bytes",
        "bytes",
        "free space of the file system of its dbPath (FTDC: systemMetrics.mounts)",
    ),
    gauge("server.{member}.volume.capacity_bytes", "bytes", "the size of that file system"),
    sum("server.{member}.process.read_bytes", "bytes", "/proc/PID/io read_bytes"),
    sum(
        "server.{member}.process.read_call_bytes",
        "bytes",
        "/proc/PID/io rchar: bytes that its read calls returned, from the disk or the page cache",
    ),
    sum("server.{member}.process.written_bytes", "bytes", "/proc/PID/io write_bytes"),
    gauge("server.{member}.process.resident_bytes", "bytes", "mem.resident, or /proc/PID/status"),
    // Block devices: the one under the data, and the bottom ones below it.
    sum("device.{device}.reads", "1", "diskstats field 1"),
    sum("device.{device}.read_bytes", "bytes", "diskstats field 3"),
    sum("device.{device}.read_ms", "ms", "diskstats field 4: summed over reads"),
    sum(
        "device.{device}.writes",
        "1",
        "diskstats field 5, less the empty flushes if they are counted separately",
    ),
    sum("device.{device}.written_bytes", "bytes", "diskstats field 7"),
    sum(
        "device.{device}.write_ms",
        "ms",
        "diskstats field 8: summed over writes, less field 17 if the empty flushes are counted separately",
    ),
    sum("device.{device}.busy_ms", "ms", "diskstats field 10: with a request in flight, of recordings"),
    sum("device.{device}.flushes", "1", "diskstats field 16"),
    sum("device.{device}.flush_ms", "ms", "diskstats field 17: summed over flushes"),
    gauge("device.{device}.in_flight", "1", "requests in flight, /sys/block/*/inflight, 20 times a second"),
    gauge(
        "device.{device}.queue.requests",
        "1",
        "queue/nr_requests, or the depth of the device below if that is smaller",
    ),
    gauge(
        "device.{device}.cap.read_iops",
        "1/s",
        "the smallest cap on reads of a control group of the watched process",
    ),
    gauge("device.{device}.cap.write_iops", "1/s", "the same on writes"),
    gauge("device.{device}.cap.read_bytes_per_s", "bytes/s", "the same on bytes read"),
    gauge("device.{device}.cap.write_bytes_per_s", "bytes/s", "the same on bytes written"),
    sum(
        "device.{device}.throttle_reads",
        "1",
        "what the group of that cap read, as its throttle counts: before requests are merged (io.stat rios; blkio.throttle.io_serviced)",
    ),
    sum("device.{device}.throttle_writes", "1", "the same of writes, with flushes and discards"),
    sum("device.{device}.throttle_read_bytes", "bytes", "the same of bytes read"),
    sum("device.{device}.throttle_written_bytes", "bytes", "the same of bytes written and discarded"),
    gauge(
        "device.{device}.queued.mean_us",
        "us",
        "block tracepoints: mean time from queueing to issue (Q2D)",
    ),
    gauge(
        "device.{device}.served.mean_us",
        "us",
        "block tracepoints: mean time from issue to completion (D2C)",
    ),
    sum("device.{device}.traced", "1", "block tracepoints: requests that were matched"),
    // The host of the server.
    gauge("host.cpu.count", "1", "processors"),
    gauge("host.cpu.user_pct", "%", "/proc/stat: user and nice"),
    gauge("host.cpu.system_pct", "%", "/proc/stat: system and interrupts"),
    gauge("host.cpu.iowait_pct", "%", "/proc/stat: iowait"),
    gauge("host.cpu.steal_pct", "%", "/proc/stat: steal"),
    gauge("host.cpu.idle_pct", "%", "/proc/stat: idle"),
    sum(
        "host.cpu.counted_ms",
        "ms",
        "of recordings: the processors' time in all states, which a suspended host does not count",
    ),
    gauge("host.runnable", "1", "/proc/loadavg: tasks that run or are ready to run"),
    sum("host.run_wait_us", "us", "/proc/schedstat: tasks' waits for a processor, all processors"),
    sum("host.pressure.cpu.some_us", "us", "/proc/pressure/cpu: at least one task waited"),
    sum("host.pressure.io.some_us", "us", "/proc/pressure/io"),
    sum("host.pressure.io.full_us", "us", "/proc/pressure/io: all tasks waited"),
    sum("host.pressure.memory.some_us", "us", "/proc/pressure/memory"),
    sum("host.swap.in_pages", "1", "/proc/vmstat pswpin, of recordings"),
    sum("host.swap.out_pages", "1", "/proc/vmstat pswpout, of recordings"),
    gauge("host.memory.total_bytes", "bytes", "/proc/meminfo MemTotal, of recordings"),
    gauge("host.memory.available_bytes", "bytes", "/proc/meminfo MemAvailable"),
    gauge("host.memory.dirty_bytes", "bytes", "/proc/meminfo Dirty"),
    gauge("host.memory.writeback_bytes", "bytes", "/proc/meminfo Writeback"),
    sum("host.network.received_bytes", "bytes", "/proc/net/dev, all but lo"),
    sum("host.network.sent_bytes", "bytes", "/proc/net/dev, all but lo"),
    sum("host.network.retransmits", "1", "/proc/net/snmp Tcp RetransSegs"),
    sum("host.journal.{device}.commits", "1", "ext4: commits of jbd2; XFS: log writes of xs_log"),
    sum("host.journal.{device}.commit_us", "us", "ext4: time of commits of jbd2"),
    // The disk probe's own runs: a step, its device with the counters of iostat, the host.
    gauge(
        "probe.{step}.per_s",
        "1/s",
        "operations of a kind that ended; the step's name is that of its latency log",
    ),
    gauge("device.{device}.reads_per_s", "1/s", "reads, of a run of the probe"),
    gauge("device.{device}.writes_per_s", "1/s", "writes, flushes not counted again"),
    gauge("device.{device}.flushes_per_s", "1/s", "flushes, if the kernel counts them"),
    gauge("device.{device}.r_await_ms", "ms", "mean time of a read"),
    gauge("device.{device}.w_await_ms", "ms", "mean time of a write"),
    gauge("device.{device}.f_await_ms", "ms", "mean time of a flush"),
    gauge("device.{device}.aqu_sz", "requests", "requests in the device, on average"),
    gauge("device.{device}.util_pct", "%", "share of time with a request in flight, as the kernel counts it"),
    gauge("host.busy_pct", "%", "processors' busy time, steal included"),
    // Notes that the user took while watching.
    gauge("watch.mark", "1", "1 if a user marked the moment with a key"),
    // The cost of monitoring.
    sum("monitor.{sampler}.cpu_us", "us", "processor time of the sampler"),
    sum("monitor.{sampler}.samples", "1", "samples it took"),
    sum("monitor.{sampler}.missed", "1", "samples it skipped because the last one, or the machine, was late"),
    sum("monitor.trace.lost", "1", "events of block requests that the kernel dropped for lack of space"),
    gauge(
        "monitor.{sampler}.acquisition_us",
        "us",
        "how long the last sample took: the width of its window's edge",
    ),
    gauge("monitor.run_wait_pct", "%", "share of time the samplers waited for a processor"),
    sum(
        "monitor.throttled_us",
        "us",
        "time that Fathom's own control groups were held back by a processor quota (cpu.stat throttled_usec)",
    ),
    gauge(
        "monitor.processors",
        "1",
        "processors that Fathom's own process may use, if its control groups or its set of processors allow fewer than are online (cpu.max, Cpus_allowed)",
    ),
    sum(
        "monitor.quota.used_us",
        "us",
        "processor time of the group that has the least quota of Fathom's own (cpu.stat usage_usec; cpuacct.usage)",
    ),
    sum("monitor.quota.periods", "1", "periods in which that group wanted to run (cpu.stat nr_periods)"),
    sum(
        "monitor.quota.throttled",
        "1",
        "periods in which that group had used its quota up (cpu.stat nr_throttled)",
    ),
    sum(
        "monitor.server.{member}.command_us",
        "us",
        "time the server spent on our commands, round trips less the ping",
    ),
];

/// The entry for a name, if there is one: literal words must be equal, a word in braces matches one or more.
pub fn kind_of(name: &str) -> Option<&'static SeriesKind> {
    words_of(name).map(|(kind, _)| kind)
}

/// The values of the braces of an entry's name: `member` and `0`.
pub type BraceValues<'n> = Vec<(&'static str, &'n str)>;

/// The entry for a name, and the values of its braces, from left to right.
pub fn words_of(name: &str) -> Option<(&'static SeriesKind, BraceValues<'_>)> {
    CATALOG.iter().find_map(|kind| Some((kind, words(kind.name, name)?)))
}

fn words<'n>(pattern: &'static str, name: &'n str) -> Option<BraceValues<'n>> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return (pattern == name).then(Vec::new);
    };
    let (of, after) = rest.split_once('}')?;
    let tail = name.strip_prefix(before)?;
    // A device or a tag may contain dots, so every end that fits is tried.
    tail.char_indices().skip(1).map(|(at, _)| at).chain([tail.len()]).find_map(|at| {
        let (word, tail) = tail.split_at(at);
        let mut more = words(after, tail).filter(|_| !word.is_empty())?;
        more.insert(0, (of, word));
        Some(more)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_stands_in_the_braces() {
        let unit = |name| kind_of(name).map(|kind| kind.unit);
        assert_eq!(unit("server.0.wait.ticket_us"), Some("us"));
        assert_eq!(unit("device.nvme0n1.read_ms"), Some("ms"));
        assert_eq!(unit("client.server-on-rocksdb.workload-a.read.service.mean_ns"), Some("ns"));
        assert_eq!((unit("server..up"), unit("server.0.no"), unit("x")), (None, None, None));
        let (_, words) = words_of("host.journal.vda1.commits").unwrap();
        assert_eq!(words, [("device", "vda1")]);
    }

    #[test]
    fn no_name_stands_twice_and_units_end_names() {
        for (at, kind) in CATALOG.iter().enumerate() {
            assert!(CATALOG[at + 1..].iter().all(|other| other.name != kind.name), "{}", kind.name);
            for unit in ["us", "ms", "ns"] {
                assert_eq!(kind.name.ends_with(&format!("_{unit}")), kind.unit == unit, "{}", kind.name);
            }
        }
    }
}
