//! Table: the cells. Their sizes were fixed before any of them was scored; a share is of what the same load does without the fault.

use std::time::Duration;

/// Operations, and how they come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) operations: Operations,
    pub(crate) connections: u32,
    /// Operations a second; without, each connection begins the next when the last has ended.
    pub(crate) target_per_s: Option<u32>,
}

/// What operations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operations {
    /// Uniform reads of data that neither the engine's cache nor the kernel's holds.
    ReadsPastMemory,
    /// Uniform reads from memory.
    ReadsInMemory,
    /// Uniform updates that do not wait for the journal.
    Updates,
    /// Uniform updates that do.
    JournaledUpdates,
    /// Half of each, in memory, journaled.
    Mixed,
}

/// The fault of half of the windows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Nothing: a control.
    None,
    /// A control group's limit on reads a second, as a share of what is read without it.
    ReadCap(f64),
    /// The same on bytes read.
    ReadBandwidth(f64),
    /// The same on writes, of which flushes are some.
    WriteCap(f64),
    /// Each request of the device takes so much longer.
    SlowDevice(Duration),
    /// The device's queue holds so many requests.
    ShortQueue(u32),
    /// Another program writes to the device, with so many requests in flight.
    Neighbour(u32),
    /// The server's process is stopped once in each window.
    Stop(Duration),
    /// `fsync` locks the server once in each window.
    FsyncLock(Duration),
    /// The way to the server and back takes so much longer.
    Delay(Duration),
    /// So many programs for each processor burn time.
    Hogs(usize),
}

/// Where the data are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Disk {
    /// A folder of the machine's own disk.
    Folder,
    /// XFS on a loop device.
    Real,
    /// XFS on a loop device whose requests take so long without the fault, so many side by side.
    Slow(Duration, usize),
}

/// A cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) name: &'static str,
    pub(crate) engine: &'static str,
    pub(crate) disk: Disk,
    pub(crate) load: Load,
    pub(crate) fault: Fault,
    /// Findings that are a right cause; empty for a control.
    pub(crate) causes: &'static [&'static str],
}

impl Cell {
    pub(crate) fn is_control(&self) -> bool {
        matches!(self.fault, Fault::None)
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

const fn closed(operations: Operations, connections: u32) -> Load {
    Load { operations, connections, target_per_s: None }
}

const fn target(operations: Operations, connections: u32, per_s: u32) -> Load {
    Load { operations, connections, target_per_s: Some(per_s) }
}

const fn cell(
    name: &'static str,
    engine: &'static str,
    disk: Disk,
    load: Load,
    fault: Fault,
    causes: &'static [&'static str],
) -> Cell {
    Cell { name, engine, disk, load, fault, causes }
}

const WT: &str = "wiredTiger";
const ROCKS: &str = "rocksdb";
const CAP: &[&str] = &["capped-by-throttle"];
const SLOW_READS: &[&str] = &["cache-misses-on-path", "device-saturated"];
const SLOW_SYNCS: &[&str] = &["journal-on-path", "device-saturated"];
const NETWORK: &[&str] = &["network-takes-most"];
const BUSY: &[&str] = &["processor-is-short"];
const STOPPED: &[&str] = &["server-stood-still", "stalls"];
/// As fast as the kit can make a device whose speed it sets, eight requests at a time: a slower one would be a fault that no window lifts.
const FAST: Disk = Disk::Slow(ms(0), 8);

use Operations::{JournaledUpdates, Mixed, ReadsInMemory, ReadsPastMemory, Updates};

/// The cells.
pub(crate) static CELLS: &[Cell] = &[
    cell("read-cap-half", WT, Disk::Real, closed(ReadsPastMemory, 8), Fault::ReadCap(0.5), CAP),
    cell("read-cap-most", WT, Disk::Real, closed(ReadsPastMemory, 8), Fault::ReadCap(0.75), CAP),
    cell("read-bandwidth-half", WT, Disk::Real, closed(ReadsPastMemory, 8), Fault::ReadBandwidth(0.5), CAP),
    cell("read-bandwidth-most", WT, Disk::Real, closed(ReadsPastMemory, 8), Fault::ReadBandwidth(0.75), CAP),
    cell("read-cap-target", WT, FAST, target(ReadsPastMemory, 8, 600), Fault::ReadCap(0.7), CAP),
    cell("write-cap-half", WT, Disk::Real, closed(JournaledUpdates, 8), Fault::WriteCap(0.5), CAP),
    cell("write-cap-most", WT, Disk::Real, closed(JournaledUpdates, 8), Fault::WriteCap(0.75), CAP),
    cell("write-cap-target", WT, FAST, target(JournaledUpdates, 8, 200), Fault::WriteCap(0.7), CAP),
    cell("slow-reads-closed", WT, FAST, closed(ReadsPastMemory, 4), Fault::SlowDevice(ms(2)), SLOW_READS),
    cell("slow-reads-slight", WT, FAST, closed(ReadsPastMemory, 4), Fault::SlowDevice(us(150)), SLOW_READS),
    cell(
        "slow-reads-target",
        WT,
        FAST,
        target(ReadsPastMemory, 8, 400),
        Fault::SlowDevice(ms(4)),
        SLOW_READS,
    ),
    cell("slow-syncs-20", WT, FAST, target(JournaledUpdates, 16, 150), Fault::SlowDevice(ms(19)), SLOW_SYNCS),
    cell("slow-syncs-closed", WT, FAST, closed(JournaledUpdates, 8), Fault::SlowDevice(ms(2)), SLOW_SYNCS),
    cell("slow-mixed", WT, FAST, target(Mixed, 16, 300), Fault::SlowDevice(ms(9)), SLOW_SYNCS),
    cell(
        "short-queue-reads",
        WT,
        Disk::Slow(ms(10), 32),
        closed(ReadsPastMemory, 24),
        Fault::ShortQueue(4),
        &["queue-cap"],
    ),
    cell(
        "short-queue-target",
        WT,
        Disk::Slow(ms(10), 32),
        target(ReadsPastMemory, 24, 600),
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
        WT,
        Disk::Real,
        target(ReadsPastMemory, 8, 200),
        Fault::Neighbour(32),
        &["neighbour-io"],
    ),
    cell("stop-reads", WT, Disk::Folder, target(ReadsInMemory, 8, 300), Fault::Stop(ms(4000)), STOPPED),
    cell("stop-mixed", WT, Disk::Folder, target(Mixed, 8, 200), Fault::Stop(ms(4000)), STOPPED),
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
    cell("delay-closed", WT, Disk::Folder, closed(ReadsInMemory, 4), Fault::Delay(ms(5)), NETWORK),
    cell("delay-target", WT, Disk::Folder, target(Mixed, 8, 200), Fault::Delay(ms(20)), NETWORK),
    cell("hogs-reads", WT, Disk::Folder, target(ReadsInMemory, 8, 500), Fault::Hogs(3), BUSY),
    cell("hogs-syncs", WT, Disk::Real, target(JournaledUpdates, 8, 200), Fault::Hogs(3), BUSY),
    cell("rocks-read-cap-half", ROCKS, Disk::Real, closed(ReadsPastMemory, 8), Fault::ReadCap(0.5), CAP),
    cell("rocks-write-cap-half", ROCKS, Disk::Real, closed(JournaledUpdates, 8), Fault::WriteCap(0.5), CAP),
    cell(
        "rocks-slow-syncs",
        ROCKS,
        FAST,
        target(JournaledUpdates, 16, 150),
        Fault::SlowDevice(ms(19)),
        SLOW_SYNCS,
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
    cell("control-light", WT, Disk::Folder, target(Mixed, 8, 100), Fault::None, &[]),
    cell("control-memory", WT, Disk::Folder, target(ReadsInMemory, 8, 1000), Fault::None, &[]),
    cell("control-connections", WT, Disk::Folder, target(ReadsInMemory, 64, 500), Fault::None, &[]),
    cell("control-half", WT, Disk::Real, target(ReadsPastMemory, 8, 500), Fault::None, &[]),
    cell("control-syncs", WT, Disk::Real, target(JournaledUpdates, 8, 50), Fault::None, &[]),
    cell("rocks-control-light", ROCKS, Disk::Folder, target(Mixed, 8, 100), Fault::None, &[]),
];
