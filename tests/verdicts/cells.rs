//! Table: the cells. Their sizes were fixed before any of them was scored; a share is of what the same load does without the fault.

use std::time::Duration;

use super::cell::Operations::{
    Inserts, JournaledUpdates, MajorityUpdates, Mixed, Nothing, Reads, Scans, UnjournaledMixed, Updates,
};
use super::cell::{Cell, Disk, Fault, Load, Operations, Rate, Server, Set};
use crate::faults::other_clients::ClientWork::{self, BulkInsert, PointRead, Scan, Sort};
use crate::faults::recorder::NO_CACHE;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

const fn closed(operations: Operations, connections: u32) -> Load {
    Load { operations, connections, rate: Rate::Closed }
}

const fn target(operations: Operations, connections: u32, per_s: u32) -> Load {
    Load { operations, connections, rate: Rate::Target(per_s) }
}

const fn open(operations: Operations, connections: u32, per_s: u32) -> Load {
    Load { operations, connections, rate: Rate::Open(per_s) }
}

const fn cell(
    name: &'static str,
    server: Server,
    disk: Disk,
    load: Load,
    fault: Fault,
    causes: &'static [&'static str],
) -> Cell {
    Cell { name, server, disk, load, fault, causes }
}

/// Other clients at work in the windows with the fault.
const fn others(clients: u32, work: ClientWork, pause: Duration, documents: u32) -> Fault {
    Fault::OtherClients { clients, work, pause, documents }
}

const fn server(engine: &'static str, records: u64, flags: &'static [&'static str]) -> Server {
    Server { engine, flags, records, set: Set::Standalone, is_pinned: false }
}

/// All data in the cache.
const WT: Server = server("wiredTiger", 10_000, &[]);
/// Neither the engine's cache nor the kernel's holds the data.
const WT_PAST_MEMORY: Server = server("wiredTiger", 40_000, &NO_CACHE);
/// The kernel's page cache holds the data.
const WT_PAGE_CACHE: Server =
    server("wiredTiger", 120_000, &["--wiredTigerEngineConfigString", "cache_size=12M"]);
/// A cache whose size is set while the server runs, and one thread that evicts.
const WT_ONE_THREAD: Server = server(
    "wiredTiger",
    60_000,
    &[
        "--wiredTigerEngineConfigString",
        "cache_size=256M,direct_io=[data],eviction=(threads_min=1,threads_max=1)",
    ],
);
/// Checkpoints that come three times in a window, with much to write.
const WT_CHECKPOINTS: Server = server("wiredTiger", 60_000, &["--syncdelay", "10"]);
const WT_TTL: Server =
    server("wiredTiger", 10_000, &["--syncdelay", "10", "--setParameter", "ttlMonitorSleepSecs=10"]);
const WT_FEW_TICKETS: Server = server(
    "wiredTiger",
    10_000,
    &[
        "--setParameter",
        "wiredTigerConcurrentReadTransactions=4",
        "--setParameter",
        "wiredTigerConcurrentWriteTransactions=4",
    ],
);
/// A cache that an import fills with changes, and one thread that evicts.
const WT_SMALL_CACHE: Server = server(
    "wiredTiger",
    10_000,
    &[
        "--wiredTigerEngineConfigString",
        "cache_size=24M,direct_io=[data],eviction=(threads_min=1,threads_max=1)",
    ],
);
/// The records of the load are in the cache, as long as no other client reads more than fits.
const WT_JUST_CACHED: Server = server("wiredTiger", 2_000, &NO_CACHE);
/// Records enough that an index takes a while.
const WT_MANY_RECORDS: Server = server("wiredTiger", 60_000, &[]);
const WT_ONE_DOCUMENT: Server = server("wiredTiger", 1, &[]);
const WT_PAIR: Server = Server { set: Set::SecondaryAndArbiter, ..WT };
const WT_ONE_PROCESSOR: Server = Server { is_pinned: true, ..WT };
const WT_FIVE: Server = Server { set: Set::FourSecondaries, ..WT };
const ROCKS: Server = server("rocksdb", 10_000, &[]);
/// The same, and a memtable that holds a tenth of the data.
const ROCKS_PAST_MEMORY: Server = server(
    "rocksdb",
    40_000,
    &[
        "--rocksdbCacheSizeGB",
        "0.01",
        "--rocksdbConfigString",
        "use_direct_reads=true;write_buffer_size=4194304",
    ],
);
const ROCKS_PAIR: Server = Server { set: Set::SecondaryAndArbiter, ..ROCKS };

const CAP: &[&str] = &["capped-by-throttle"];
const SLOW_READS: &[&str] = &["cache-misses-on-path", "device-saturated"];
const SLOW_SYNCS: &[&str] = &["journal-on-path", "device-saturated"];
const CHECKPOINTS: &[&str] = &["checkpoint-spikes", "journal-on-path", "device-saturated"];
const EVICTION: &[&str] = &["eviction-by-operations", "cache-misses-on-path", "small-cache"];
const NETWORK: &[&str] = &["network-takes-most"];
const BUSY: &[&str] = &["processor-is-short"];
const STOPPED: &[&str] = &["server-stood-still", "stalls"];
const LOCKS: &[&str] = &["tickets-or-locks"];
const MEMBERS: &[&str] = &["replication-on-path"];
const SCANS: &[&str] = &["collection-scan"];
const BUILD: &[&str] = &["lock-held-by"];
const IMPORT: &[&str] = &["bulk-writer"];
const CLIENT: &[&str] = &["one-client"];
/// As fast as the kit can make a device whose speed it sets, eight requests at a time: a slower one would be a fault that no window lifts.
const FAST: Disk = Disk::Slow(ms(0), 8);
const ENGINE_CONFIG: &str = "wiredTigerEngineRuntimeConfig";

pub(crate) static CELLS: &[Cell] = &[
    // Faults in storage.
    cell("read-cap-half", WT_PAST_MEMORY, Disk::Real, closed(Reads, 8), Fault::ReadCap(0.5), CAP),
    cell("read-cap-most", WT_PAST_MEMORY, Disk::Real, closed(Reads, 8), Fault::ReadCap(0.75), CAP),
    cell("read-bandwidth-half", WT_PAST_MEMORY, Disk::Real, closed(Reads, 8), Fault::ReadBandwidth(0.5), CAP),
    cell(
        "read-bandwidth-most",
        WT_PAST_MEMORY,
        Disk::Real,
        closed(Reads, 8),
        Fault::ReadBandwidth(0.75),
        CAP,
    ),
    cell("read-cap-target", WT_PAST_MEMORY, FAST, target(Reads, 8, 600), Fault::ReadCap(0.7), CAP),
    cell("write-cap-half", WT, Disk::Real, closed(JournaledUpdates, 8), Fault::WriteCap(0.5), CAP),
    cell("write-cap-most", WT, Disk::Real, closed(JournaledUpdates, 8), Fault::WriteCap(0.75), CAP),
    cell("write-cap-target", WT, FAST, target(JournaledUpdates, 8, 200), Fault::WriteCap(0.7), CAP),
    cell("slow-reads-closed", WT_PAST_MEMORY, FAST, closed(Reads, 4), Fault::SlowDevice(ms(2)), SLOW_READS),
    cell("slow-reads-slight", WT_PAST_MEMORY, FAST, closed(Reads, 4), Fault::SlowDevice(us(150)), SLOW_READS),
    cell(
        "slow-reads-target",
        WT_PAST_MEMORY,
        FAST,
        target(Reads, 8, 400),
        Fault::SlowDevice(ms(4)),
        SLOW_READS,
    ),
    cell("slow-reads-open", WT_PAST_MEMORY, FAST, open(Reads, 16, 300), Fault::SlowDevice(ms(2)), SLOW_READS),
    cell("slow-syncs-20", WT, FAST, target(JournaledUpdates, 16, 150), Fault::SlowDevice(ms(19)), SLOW_SYNCS),
    cell("slow-syncs-closed", WT, FAST, closed(JournaledUpdates, 8), Fault::SlowDevice(ms(2)), SLOW_SYNCS),
    cell(
        "slow-syncs-open",
        WT,
        FAST,
        open(JournaledUpdates, 16, 100),
        Fault::SlowDevice(us(500)),
        SLOW_SYNCS,
    ),
    cell("slow-mixed", WT, FAST, target(Mixed, 16, 300), Fault::SlowDevice(ms(9)), SLOW_SYNCS),
    cell(
        "short-queue-reads",
        WT_PAST_MEMORY,
        Disk::Slow(ms(10), 32),
        closed(Reads, 24),
        Fault::ShortQueue(4),
        &["queue-cap"],
    ),
    cell(
        "short-queue-target",
        WT_PAST_MEMORY,
        Disk::Slow(ms(10), 32),
        target(Reads, 24, 600),
        Fault::ShortQueue(6),
        &["queue-cap"],
    ),
    cell(
        "neighbour-syncs",
        WT,
        Disk::Real,
        target(JournaledUpdates, 8, 100),
        Fault::Neighbour(32),
        &["neighbour-io"],
    ),
    cell(
        "neighbour-reads",
        WT_PAST_MEMORY,
        Disk::Real,
        target(Reads, 8, 200),
        Fault::Neighbour(32),
        &["neighbour-io"],
    ),
    cell("nearly-full", WT, Disk::Real, target(UnjournaledMixed, 8, 300), Fault::NearlyFull(48), SLOW_SYNCS),
    cell(
        "checkpoints-slow",
        WT_CHECKPOINTS,
        FAST,
        target(JournaledUpdates, 16, 150),
        Fault::SlowDevice(ms(4)),
        CHECKPOINTS,
    ),
    cell(
        "checkpoints-slight",
        WT_CHECKPOINTS,
        FAST,
        target(JournaledUpdates, 16, 150),
        Fault::SlowDevice(us(400)),
        CHECKPOINTS,
    ),
    // Faults of the cache.
    cell(
        "small-cache-updates",
        WT_ONE_THREAD,
        Disk::Real,
        target(Updates, 8, 600),
        Fault::Parameter(ENGINE_CONFIG, "cache_size=256M", "cache_size=12M"),
        EVICTION,
    ),
    cell(
        "small-cache-reads",
        WT_ONE_THREAD,
        FAST,
        target(Reads, 8, 500),
        Fault::Parameter(ENGINE_CONFIG, "cache_size=256M", "cache_size=24M"),
        EVICTION,
    ),
    cell(
        "dirty-limit",
        WT_ONE_THREAD,
        Disk::Real,
        closed(Updates, 8),
        Fault::Parameter(
            ENGINE_CONFIG,
            "eviction_dirty_target=5,eviction_dirty_trigger=20",
            "eviction_dirty_target=1,eviction_dirty_trigger=2",
        ),
        EVICTION,
    ),
    cell(
        "memory-limit-reads",
        WT_PAGE_CACHE,
        Disk::Real,
        target(Reads, 8, 500),
        Fault::MemoryLimit(16),
        EVICTION,
    ),
    // Faults of the server.
    cell(
        "ttl-passes",
        WT_TTL,
        Disk::Real,
        target(Updates, 8, 200),
        Fault::TtlPasses(20_000),
        &["ttl-spikes"],
    ),
    cell(
        "ttl-passes-slight",
        WT_TTL,
        Disk::Real,
        target(Updates, 8, 200),
        Fault::TtlPasses(5_000),
        &["ttl-spikes"],
    ),
    cell(
        "locked-collection",
        WT_FEW_TICKETS,
        Disk::Folder,
        target(UnjournaledMixed, 16, 200),
        Fault::Validations,
        LOCKS,
    ),
    cell(
        "locked-collection-closed",
        WT_FEW_TICKETS,
        Disk::Folder,
        closed(Reads, 16),
        Fault::Validations,
        LOCKS,
    ),
    cell(
        "hot-document",
        WT_ONE_DOCUMENT,
        Disk::Folder,
        target(Updates, 8, 200),
        Fault::HotDocument(8),
        &["write-conflicts"],
    ),
    cell(
        "hot-document-slight",
        WT_ONE_DOCUMENT,
        Disk::Folder,
        target(Updates, 8, 200),
        Fault::HotDocument(2),
        &["write-conflicts"],
    ),
    cell("stop-reads", WT, Disk::Folder, target(Reads, 8, 300), Fault::Stop(ms(4000)), STOPPED),
    cell("stop-mixed", WT, Disk::Folder, target(Mixed, 8, 200), Fault::Stop(ms(4000)), STOPPED),
    cell("host-pause", WT, Disk::Folder, target(Reads, 8, 100), Fault::HostPause(ms(4000)), STOPPED),
    cell("clock-step", WT, Disk::Folder, target(Mixed, 8, 100), Fault::ClockStep(30), &[]),
    cell(
        "fsync-lock-updates",
        WT,
        Disk::Folder,
        target(Updates, 8, 300),
        Fault::FsyncLock(ms(8000)),
        &["fsync-lock"],
    ),
    cell(
        "fsync-lock-mixed",
        WT,
        Disk::Folder,
        target(Mixed, 8, 200),
        Fault::FsyncLock(ms(8000)),
        &["fsync-lock"],
    ),
    // Faults of processors.
    cell("hogs-reads", WT, Disk::Folder, target(Reads, 8, 500), Fault::Hogs(3), BUSY),
    cell("hogs-syncs", WT, Disk::Real, target(JournaledUpdates, 8, 200), Fault::Hogs(3), BUSY),
    cell("quota-reads", WT, Disk::Folder, target(Reads, 8, 500), Fault::Quota(0.1), BUSY),
    cell("quota-slight", WT, Disk::Folder, target(Reads, 8, 300), Fault::Quota(0.3), BUSY),
    // Faults of the client and of the way to the server.
    cell(
        "busy-client",
        WT,
        Disk::Folder,
        target(Reads, 8, 500),
        Fault::ClientQuota(0.1),
        &["client-limited"],
    ),
    cell(
        "few-connections",
        WT_PAST_MEMORY,
        FAST,
        target(Reads, 16, 1800),
        Fault::FewConnections(1),
        &["waits-for-connections", "queue-cap"],
    ),
    cell(
        "few-connections-slight",
        WT_PAST_MEMORY,
        FAST,
        target(Reads, 16, 1000),
        Fault::FewConnections(1),
        &["waits-for-connections", "queue-cap"],
    ),
    // The cache that `few-connections-slight` has in all windows, lifted under its load.
    cell(
        "one-connection-cache",
        WT_PAST_MEMORY,
        FAST,
        target(Reads, 1, 1000),
        Fault::Parameter(ENGINE_CONFIG, "cache_size=256M", "cache_size=12M"),
        EVICTION,
    ),
    cell("delay-closed", WT, Disk::Folder, closed(Reads, 4), Fault::Delay(ms(5)), NETWORK),
    cell("delay-target", WT, Disk::Folder, target(Mixed, 8, 200), Fault::Delay(ms(20)), NETWORK),
    cell("loss", WT, Disk::Folder, target(Reads, 16, 200), Fault::Loss(5), NETWORK),
    cell("loss-slight", WT, Disk::Folder, target(Reads, 16, 200), Fault::Loss(1), NETWORK),
    // Faults of members.
    cell(
        "slow-secondary",
        WT_PAIR,
        Disk::Folder,
        target(MajorityUpdates, 8, 50),
        Fault::SlowMember(ms(9)),
        MEMBERS,
    ),
    cell(
        "slow-secondary-slight",
        WT_PAIR,
        Disk::Folder,
        target(MajorityUpdates, 8, 50),
        Fault::SlowMember(us(500)),
        MEMBERS,
    ),
    cell(
        "lagging-secondary",
        WT_PAIR,
        Disk::Folder,
        target(MajorityUpdates, 8, 50),
        Fault::MemberQuota(0.05),
        MEMBERS,
    ),
    cell(
        "two-voters-down",
        WT_FIVE,
        Disk::Folder,
        target(MajorityUpdates, 8, 30),
        Fault::TwoMembersDown,
        MEMBERS,
    ),
    // Work of other clients.
    cell("scans-large", WT, Disk::Folder, target(Reads, 8, 300), others(3, Scan, ms(0), 50_000), SCANS),
    cell("scans-small", WT, Disk::Folder, target(Reads, 8, 300), others(3, Scan, ms(0), 2_000), SCANS),
    cell(
        "scans-updates",
        WT,
        Disk::Folder,
        target(JournaledUpdates, 8, 150),
        others(3, Scan, ms(0), 50_000),
        SCANS,
    ),
    cell("sorts", WT, Disk::Folder, target(Reads, 8, 300), others(3, Sort, ms(0), 20_000), SCANS),
    cell("scans-harmless", WT, Disk::Folder, target(Reads, 8, 300), others(1, Scan, ms(1000), 2_000), SCANS),
    cell(
        "index-build-target",
        WT_MANY_RECORDS,
        Disk::Folder,
        target(UnjournaledMixed, 8, 200),
        Fault::IndexBuild,
        BUILD,
    ),
    cell("index-build-closed", WT_MANY_RECORDS, Disk::Folder, closed(Reads, 4), Fault::IndexBuild, BUILD),
    cell("index-build-idle", WT_MANY_RECORDS, Disk::Folder, closed(Nothing, 1), Fault::IndexBuild, &[]),
    cell(
        "import-small-cache",
        WT_SMALL_CACHE,
        Disk::Real,
        target(Reads, 8, 300),
        others(4, BulkInsert, ms(0), 0),
        IMPORT,
    ),
    cell(
        "import-large-cache",
        WT,
        Disk::Real,
        target(JournaledUpdates, 8, 100),
        others(4, BulkInsert, ms(0), 0),
        IMPORT,
    ),
    cell(
        "import-slow-device",
        WT_SMALL_CACHE,
        Disk::Slow(ms(2), 8),
        target(UnjournaledMixed, 8, 100),
        others(4, BulkInsert, ms(0), 0),
        IMPORT,
    ),
    cell(
        "import-with-room",
        WT,
        Disk::Real,
        target(Reads, 8, 300),
        others(1, BulkInsert, ms(500), 0),
        IMPORT,
    ),
    cell(
        "one-client-past-cache",
        WT_JUST_CACHED,
        Disk::Slow(ms(2), 2),
        target(Reads, 3, 150),
        others(1, PointRead(40_000), ms(0), 40_000),
        CLIENT,
    ),
    cell("cap-not-reached", WT_PAST_MEMORY, FAST, target(Reads, 8, 300), Fault::ReadCap(2.0), CAP),
    cell("rocks-scans", ROCKS, Disk::Folder, target(Reads, 8, 300), others(3, Scan, ms(0), 50_000), SCANS),
    cell(
        "rocks-import",
        ROCKS,
        Disk::Real,
        target(JournaledUpdates, 8, 100),
        others(4, BulkInsert, ms(0), 0),
        IMPORT,
    ),
    // RocksDB.
    cell("rocks-read-cap-half", ROCKS_PAST_MEMORY, Disk::Real, closed(Reads, 8), Fault::ReadCap(0.5), CAP),
    cell("rocks-write-cap-half", ROCKS, Disk::Real, closed(JournaledUpdates, 8), Fault::WriteCap(0.5), CAP),
    cell(
        "rocks-slow-reads",
        ROCKS_PAST_MEMORY,
        FAST,
        target(Reads, 8, 300),
        Fault::SlowDevice(ms(4)),
        SLOW_READS,
    ),
    cell(
        "rocks-slow-syncs",
        ROCKS,
        FAST,
        target(JournaledUpdates, 16, 150),
        Fault::SlowDevice(ms(19)),
        SLOW_SYNCS,
    ),
    cell(
        "rocks-neighbour",
        ROCKS,
        Disk::Real,
        target(JournaledUpdates, 8, 100),
        Fault::Neighbour(32),
        &["neighbour-io"],
    ),
    cell(
        "rocks-small-cache",
        ROCKS_PAST_MEMORY,
        FAST,
        target(Reads, 8, 500),
        Fault::Parameter("rocksdbRuntimeConfigCacheSizeGB", "0.25", "0.01"),
        EVICTION,
    ),
    cell("rocks-stop", ROCKS, Disk::Folder, target(Mixed, 8, 200), Fault::Stop(ms(4000)), STOPPED),
    cell(
        "rocks-fsync-lock",
        ROCKS,
        Disk::Folder,
        target(Updates, 8, 300),
        Fault::FsyncLock(ms(8000)),
        &["fsync-lock"],
    ),
    cell("rocks-delay", ROCKS, Disk::Folder, target(Mixed, 8, 200), Fault::Delay(ms(20)), NETWORK),
    cell("rocks-quota", ROCKS, Disk::Folder, target(Reads, 8, 500), Fault::Quota(0.1), BUSY),
    cell(
        "rocks-slow-secondary",
        ROCKS_PAIR,
        Disk::Folder,
        target(MajorityUpdates, 8, 50),
        Fault::SlowMember(ms(9)),
        MEMBERS,
    ),
    // Controls.
    cell("control-idle", WT, Disk::Folder, closed(Nothing, 1), Fault::None, &[]),
    cell("control-light", WT, Disk::Folder, target(UnjournaledMixed, 8, 100), Fault::None, &[]),
    cell("control-memory", WT, Disk::Folder, target(Reads, 8, 1000), Fault::None, &[]),
    cell(
        "control-bursts",
        WT,
        Disk::Folder,
        Load { operations: Reads, connections: 32, rate: Rate::Bursts(100, 300) },
        Fault::None,
        &[],
    ),
    cell("control-bulk-load", WT, Disk::Folder, target(Inserts, 8, 300), Fault::None, &[]),
    cell("control-scan", WT, Disk::Folder, target(Scans, 8, 30), Fault::None, &[]),
    cell("control-connections", WT, Disk::Folder, target(Reads, 64, 500), Fault::None, &[]),
    cell("control-small-machine", WT_ONE_PROCESSOR, Disk::Folder, target(Reads, 8, 300), Fault::None, &[]),
    cell("control-slow-disk", WT, Disk::Slow(ms(8), 8), target(UnjournaledMixed, 8, 100), Fault::None, &[]),
    cell(
        "control-half",
        WT,
        Disk::Real,
        Load { operations: Reads, connections: 8, rate: Rate::ShareOfCapacity(0.5) },
        Fault::None,
        &[],
    ),
    cell("control-set", WT_PAIR, Disk::Folder, target(UnjournaledMixed, 8, 100), Fault::None, &[]),
    cell("rocks-control-light", ROCKS, Disk::Folder, target(UnjournaledMixed, 8, 100), Fault::None, &[]),
    cell("rocks-control-memory", ROCKS, Disk::Folder, open(Reads, 16, 500), Fault::None, &[]),
];
