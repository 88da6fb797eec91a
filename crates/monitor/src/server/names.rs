//! Table: the fields of `serverStatus` for each series of a server, in versions 4.0 to 8.x and in the lab server.
//!
//! Series are those of `fathom_record::catalog` after `server.{member}.`; the catalog has unit and kind. Of several
//! places, the first one in a reply counts. A place is a path of field names, joined by dots; `*` matches any field.
//! The rows cite the sources of names that our servers did not show:
//!
//! - \[real\]: seen in the replies of `tests/fixtures`, of a mongod 4.0.3 or of public replies of real servers.
//! - \[wt\]: WiredTiger 11.3.1 (that of MongoDB 8.0), dist/stat_data.py.
//! - \[manual\]: serverStatus in the manual of 8.x.

/// A series and the places where servers keep it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    /// The series' name behind `server.{member}.`.
    pub(crate) series: &'static str,
    /// The first place that a reply has counts.
    pub(crate) places: &'static [ValuePath],
    /// True if the samplers of the host read it instead when the server runs on this host.
    pub(crate) remote_only: bool,
}

/// The path of a value, or of the values that it is the sum of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValuePath {
    /// The paths that are added up; at least one must exist.
    pub(crate) paths: &'static [&'static str],
    /// The paths that are subtracted.
    pub(crate) less: &'static [&'static str],
    /// A path whose presence means that the counter exists and is merely not shown while it is zero.
    pub(crate) zero_by: Option<&'static str>,
    /// The factor of the sum.
    pub(crate) factor: f64,
    /// True if only "more than zero" is of interest: 1, else 0.
    pub(crate) is_flag: bool,
}

const fn at(paths: &'static [&'static str]) -> ValuePath {
    ValuePath { paths, less: &[], zero_by: None, factor: 1.0, is_flag: false }
}

impl ValuePath {
    const fn times(self, factor: f64) -> ValuePath {
        ValuePath { factor, ..self }
    }

    const fn less(self, less: &'static [&'static str]) -> ValuePath {
        ValuePath { less, ..self }
    }

    const fn zero_by(self, path: &'static str) -> ValuePath {
        ValuePath { zero_by: Some(path), ..self }
    }

    const fn flag(self) -> ValuePath {
        ValuePath { is_flag: true, ..self }
    }

    /// The value of the series from the sum of its paths.
    pub(crate) fn value(&self, sum: f64) -> f64 {
        if self.is_flag { f64::from(u8::from(sum > 0.0)) } else { sum }
    }
}

const fn name(series: &'static str, places: &'static [ValuePath]) -> Name {
    Name { series, places, remote_only: false }
}

const fn remote(series: &'static str, places: &'static [ValuePath]) -> Name {
    Name { series, places, remote_only: true }
}

const MEBIBYTE: f64 = 1_048_576.0;

/// Every series that one `serverStatus` gives.
pub(crate) static NAMES: &[Name] = &[
    // The same in all versions [real].
    name("reads.operations", &[at(&["opLatencies.reads.ops"]), at(&["fathom.opLatencies.reads.ops"])]),
    name(
        "reads.latency_us",
        &[at(&["opLatencies.reads.latency"]), at(&["fathom.opLatencies.reads.latency"])],
    ),
    name("writes.operations", &[at(&["opLatencies.writes.ops"]), at(&["fathom.opLatencies.writes.ops"])]),
    name(
        "writes.latency_us",
        &[at(&["opLatencies.writes.latency"]), at(&["fathom.opLatencies.writes.latency"])],
    ),
    name(
        "commands.operations",
        &[at(&["opLatencies.commands.ops"]), at(&["fathom.opLatencies.commands.ops"])],
    ),
    name(
        "commands.latency_us",
        &[at(&["opLatencies.commands.latency"]), at(&["fathom.opLatencies.commands.latency"])],
    ),
    // Only Fathom's own router: the time that operations waited for shards.
    name("reads.shards_us", &[at(&["fathom.opLatencies.reads.waitedForShards"])]),
    name("writes.shards_us", &[at(&["fathom.opLatencies.writes.waitedForShards"])]),
    // Routers: ours, and mongos since 4.4 (serverStatus in the manual: shardingStatistics.numHostsTargeted) [manual].
    name(
        "targeted.one",
        &[
            at(&["fathom.opLatencies.reads.oneShard", "fathom.opLatencies.writes.oneShard"]),
            at(&[
                "shardingStatistics.numHostsTargeted.*.oneShard",
                "shardingStatistics.numHostsTargeted.*.unsharded",
            ]),
        ],
    ),
    name(
        "targeted.several",
        &[
            at(&["fathom.opLatencies.reads.manyShards", "fathom.opLatencies.writes.manyShards"]),
            at(&[
                "shardingStatistics.numHostsTargeted.*.manyShards",
                "shardingStatistics.numHostsTargeted.*.allShards",
            ]),
        ],
    ),
    // The work of a secondary that follows [real].
    name("replication.applied", &[at(&["metrics.repl.apply.ops"])]),
    name("replication.batches", &[at(&["metrics.repl.apply.batches.num"])]),
    name("replication.batch_ms", &[at(&["metrics.repl.apply.batches.totalMillis"])]),
    // Since 8.0, where a member writes a batch to its oplog before it applies it [real].
    name("replication.write_batches", &[at(&["metrics.repl.write.batches.num"])]),
    name("replication.write_batch_ms", &[at(&["metrics.repl.write.batches.totalMillis"])]),
    name("replication.waits", &[at(&["metrics.getLastError.wtime.num"])]),
    // The TTL monitor [real].
    name("ttl.passes", &[at(&["metrics.ttl.passes"])]),
    name("ttl.deleted", &[at(&["metrics.ttl.deletedDocuments"])]),
    name("opcounters.insert", &[at(&["opcounters.insert"])]),
    name("opcounters.query", &[at(&["opcounters.query"])]),
    name("opcounters.update", &[at(&["opcounters.update"])]),
    name("opcounters.delete", &[at(&["opcounters.delete"])]),
    name("opcounters.getmore", &[at(&["opcounters.getmore"])]),
    name("opcounters.command", &[at(&["opcounters.command"])]),
    name("documents.inserted", &[at(&["metrics.document.inserted"])]),
    name("documents.updated", &[at(&["metrics.document.updated"])]),
    name("documents.deleted", &[at(&["metrics.document.deleted"])]),
    name("documents.returned", &[at(&["metrics.document.returned"])]),
    // The work of queries [real]; `collectionScans` since 4.4 [manual].
    name("scan.keys", &[at(&["metrics.queryExecutor.scanned"])]),
    name("scan.documents", &[at(&["metrics.queryExecutor.scannedObjects"])]),
    name("scan.collections", &[at(&["metrics.queryExecutor.collectionScans.total"])]),
    name("scan.sorts", &[at(&["metrics.operation.scanAndOrder"])]),
    name("network.in_bytes", &[at(&["network.bytesIn"])]),
    name("network.out_bytes", &[at(&["network.bytesOut"])]),
    name("network.requests", &[at(&["network.numRequests"])]),
    name("connections.current", &[at(&["connections.current"])]),
    name("clients.readers", &[at(&["globalLock.activeClients.readers"])]),
    name("clients.writers", &[at(&["globalLock.activeClients.writers"])]),
    name("queue.readers", &[at(&["globalLock.currentQueue.readers"])]),
    name("queue.writers", &[at(&["globalLock.currentQueue.writers"])]),
    // 8.0 moved the tickets out of the engine's section [manual]; if priorities have tickets of their own (8.2), `out` of the
    // whole is next to them.
    name(
        "tickets.read.out",
        &[
            at(&["queues.execution.read.out"]),
            at(&["wiredTiger.concurrentTransactions.read.out"]),
            at(&["rocksdb.concurrentTransactions.read.out"]),
            at(&["ephemeralForTest.concurrentTransactions.read.out"]),
        ],
    ),
    name(
        "tickets.read.total",
        &[
            at(&["queues.execution.read.totalTickets"]),
            at(&["wiredTiger.concurrentTransactions.read.totalTickets"]),
            at(&["rocksdb.concurrentTransactions.read.totalTickets"]),
            at(&["ephemeralForTest.concurrentTransactions.read.totalTickets"]),
        ],
    ),
    name(
        "tickets.write.out",
        &[
            at(&["queues.execution.write.out"]),
            at(&["wiredTiger.concurrentTransactions.write.out"]),
            at(&["rocksdb.concurrentTransactions.write.out"]),
            at(&["ephemeralForTest.concurrentTransactions.write.out"]),
        ],
    ),
    name(
        "tickets.write.total",
        &[
            at(&["queues.execution.write.totalTickets"]),
            at(&["wiredTiger.concurrentTransactions.write.totalTickets"]),
            at(&["rocksdb.concurrentTransactions.write.totalTickets"]),
            at(&["ephemeralForTest.concurrentTransactions.write.totalTickets"]),
        ],
    ),
    // Per priority since 7.0 (mongodb/mongo:src/mongo/util/concurrency/ticketholder.cpp, semaphore_ticketholder.cpp); flat in some
    // releases before, by report. `exempt` does not wait. Groups by running time (8.3) count the same waits again.
    name(
        "wait.ticket_us",
        &[
            at(&[
                "queues.execution.read.normalPriority.totalTimeQueuedMicros",
                "queues.execution.read.lowPriority.totalTimeQueuedMicros",
                "queues.execution.write.normalPriority.totalTimeQueuedMicros",
                "queues.execution.write.lowPriority.totalTimeQueuedMicros",
            ]),
            at(&[
                "wiredTiger.concurrentTransactions.read.normalPriority.totalTimeQueuedMicros",
                "wiredTiger.concurrentTransactions.read.lowPriority.totalTimeQueuedMicros",
                "wiredTiger.concurrentTransactions.write.normalPriority.totalTimeQueuedMicros",
                "wiredTiger.concurrentTransactions.write.lowPriority.totalTimeQueuedMicros",
            ]),
            at(&[
                "wiredTiger.concurrentTransactions.read.totalTimeQueuedMicros",
                "wiredTiger.concurrentTransactions.write.totalTimeQueuedMicros",
            ]),
            at(&["fathom.tickets.totalWaitMicros"]),
        ],
    ),
    // A lock without any wait so far has only its `acquireCount` [real].
    name(
        "wait.lock_us",
        &[
            at(&["fathom.locks.totalWaitMicros"]),
            at(&["locks.*.timeAcquiringMicros.*"]).zero_by("locks.*.acquireCount.*"),
        ],
    ),
    // The same waits by the resource of the lock, from the one that holds the others down.
    name(
        "lock.global.wait_us",
        &[at(&["locks.Global.timeAcquiringMicros.*"]).zero_by("locks.Global.acquireCount.*")],
    ),
    name(
        "lock.database.wait_us",
        &[at(&["locks.Database.timeAcquiringMicros.*"]).zero_by("locks.Database.acquireCount.*")],
    ),
    name(
        "lock.collection.wait_us",
        &[at(&["locks.Collection.timeAcquiringMicros.*"]).zero_by("locks.Collection.acquireCount.*")],
    ),
    name("write_conflicts", &[at(&["metrics.operation.writeConflicts"])]),
    // Since 4.0 [real].
    name("transactions.open", &[at(&["transactions.currentOpen"])]),
    name("transactions.inactive", &[at(&["transactions.currentInactive"])]),
    name(
        "transactions.pinned_ids",
        &[at(&["wiredTiger.transaction.transaction range of IDs currently pinned"])],
    ),
    // Since 4.2 [real].
    name("wait.flow_control_us", &[at(&["flowControl.timeAcquiringMicros"])]),
    name("flow_control.lagged", &[at(&["flowControl.isLagged"]).flag()]),
    name("wait.replication_us", &[at(&["metrics.getLastError.wtime.totalMillis"]).times(1000.0)]),
    name(
        "wait.page_read_us",
        &[
            at(&["wiredTiger.cache.application threads page read from disk to cache time (usecs)"]),
            at(&["rocksdb.block-reads.micros"]),
        ],
    ),
    name(
        "wait.page_write_us",
        &[at(&["wiredTiger.cache.application threads page write from cache to disk time (usecs)"])],
    ),
    // Moved from the one section to the other between 7.0 and 8.0 [real], [wt].
    name(
        "wait.evict_us",
        &[
            at(&["wiredTiger.cache.application thread time evicting (usecs)"]),
            at(&["wiredTiger.thread-yield.application thread time evicting (usecs)"]),
        ],
    ),
    // In thread-yield in every version read [real], [wt]; in cache by report only.
    name(
        "wait.cache_us",
        &[
            at(&["wiredTiger.thread-yield.application thread time waiting for cache (usecs)"]),
            at(&["wiredTiger.cache.application thread time waiting for cache (usecs)"]),
        ],
    ),
    // The lab server alone; no mongod counts it.
    name("wait.journal_us", &[at(&["fathom.journal.totalWaitMicros"])]),
    // Since 4.2 [real].
    name("wait.io_capacity_us", &[at(&["wiredTiger.capacity.time waiting due to total capacity (usecs)"])]),
    name(
        "pages.read",
        &[
            at(&["wiredTiger.cache.application threads page read from disk to cache count"]),
            at(&["rocksdb.block-reads.blocks"]),
        ],
    ),
    name(
        "pages.written",
        &[at(&["wiredTiger.cache.application threads page write from cache to disk count"])],
    ),
    // 8.0.x still has the old name [real]; from WiredTiger 11.3.1 on attempts and failures are counted instead [wt].
    name(
        "pages.evicted_by_operations",
        &[
            at(&["wiredTiger.cache.pages evicted by application threads"]),
            at(&["wiredTiger.cache.page evict attempts by application threads"])
                .less(&["wiredTiger.cache.page evict failures by application threads"]),
        ],
    ),
    name(
        "journal.syncs",
        &[at(&["wiredTiger.log.log sync operations"]), at(&["rocksdb.counters.wal-syncs"])],
    ),
    name(
        "journal.sync_us",
        &[at(&["wiredTiger.log.log sync time duration (usecs)"]), at(&["rocksdb.counters.wal-sync-micros"])],
    ),
    name(
        "journal.written_bytes",
        &[at(&["wiredTiger.log.log bytes written"]), at(&["rocksdb.counters.wal-bytes"])],
    ),
    name("journal.payload_bytes", &[at(&["wiredTiger.log.log bytes of payload data"])]),
    // A section of its own since 7.1 or 8.0 [wt]; in `transaction` before [real].
    name(
        "checkpoint.running",
        &[
            at(&["wiredTiger.checkpoint.progress state"]).flag(),
            at(&["wiredTiger.transaction.transaction checkpoint currently running"]).flag(),
        ],
    ),
    name(
        "checkpoint.count",
        &[
            at(&["wiredTiger.checkpoint.total succeed number of checkpoints"]),
            at(&["wiredTiger.transaction.transaction checkpoints"]),
            at(&["fathom.checkpoints.count"]),
        ],
    ),
    name(
        "checkpoint.total_ms",
        &[
            at(&["wiredTiger.checkpoint.total time (msecs)"]),
            at(&["wiredTiger.transaction.transaction checkpoint total time (msecs)"]),
            at(&["fathom.checkpoints.totalMillis"]),
        ],
    ),
    name(
        "checkpoint.last_ms",
        &[
            at(&["wiredTiger.checkpoint.most recent time (msecs)"]),
            at(&["wiredTiger.transaction.transaction checkpoint most recent time (msecs)"]),
            at(&["fathom.checkpoints.lastMillis"]),
        ],
    ),
    name(
        "cache.used_bytes",
        &[at(&["wiredTiger.cache.bytes currently in the cache"]), at(&["rocksdb.block-cache-usage"])],
    ),
    name(
        "cache.most_bytes",
        &[at(&["wiredTiger.cache.maximum bytes configured"]), at(&["rocksdb.block-cache-capacity"])],
    ),
    name("cache.dirty_bytes", &[at(&["wiredTiger.cache.tracked dirty bytes in the cache"])]),
    // Since 4.4 [real].
    name("cache.update_bytes", &[at(&["wiredTiger.cache.bytes allocated for updates"])]),
    name("cache.read_bytes", &[at(&["wiredTiger.cache.bytes read into cache"])]),
    name("cache.written_bytes", &[at(&["wiredTiger.cache.bytes written from cache"])]),
    name("engine.reads", &[at(&["wiredTiger.block-manager.blocks read"])]),
    // RocksDB's under mongo-rocks' names, where sizes and some counts are text (mongodb-partners/mongo-rocks:
    // src/rocks_server_status.cpp); numbers in the lab server.
    name(
        "engine.read_bytes",
        &[
            at(&["wiredTiger.block-manager.bytes read"]),
            at(&[
                "rocksdb.counters.bytes-read-point-lookup",
                "rocksdb.counters.bytes-read-iteration",
                "rocksdb.counters.compaction-bytes-read",
            ]),
        ],
    ),
    name("engine.writes", &[at(&["wiredTiger.block-manager.blocks written"])]),
    name(
        "engine.written_bytes",
        &[
            at(&["wiredTiger.block-manager.bytes written"]),
            at(&["rocksdb.counters.flush-bytes-written", "rocksdb.counters.compaction-bytes-written"]),
        ],
    ),
    name("engine.checkpoint_bytes", &[at(&["wiredTiger.block-manager.bytes written for checkpoint"])]),
    name("flush.written_bytes", &[at(&["rocksdb.counters.flush-bytes-written"])]),
    name("compaction.read_bytes", &[at(&["rocksdb.counters.compaction-bytes-read"])]),
    name("compaction.written_bytes", &[at(&["rocksdb.counters.compaction-bytes-written"])]),
    name("compaction.pending", &[at(&["rocksdb.compaction-pending"])]),
    // Processor time since 4.2 or 4.4 [real]; the kernel shows both more often if the server is on this host.
    remote("process.cpu_us", &[at(&["extra_info.user_time_us", "extra_info.system_time_us"])]),
    remote("process.resident_bytes", &[at(&["mem.resident"]).times(MEBIBYTE)]),
];
