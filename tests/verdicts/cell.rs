//! A cell of the bench: a server, where its data are, a load, and the fault of half of the windows.

use std::fmt;
use std::time::Duration;

use crate::faults::other_clients::ClientWork;

/// A lab server as a cell wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub(crate) engine: &'static str,
    pub(crate) flags: &'static [&'static str],
    /// Records of about 1 KB that are loaded before the first window.
    pub(crate) records: u64,
    pub(crate) set: Set,
    /// Whether it and its client have one processor alone.
    pub(crate) is_pinned: bool,
}

/// The replica set that a server is the primary of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// One server, without a set.
    Standalone,
    /// Itself, a secondary on a device of its own, and an arbiter: a majority needs the secondary.
    SecondaryAndArbiter,
    /// Itself and four secondaries.
    FourSecondaries,
}

/// Operations, and how they come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) operations: Operations,
    pub(crate) connections: u32,
    pub(crate) rate: Rate,
}

impl Load {
    pub(crate) fn has_rate(&self) -> bool {
        self.rate != Rate::Closed
    }
}

/// When operations are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    /// Each connection begins the next when the last has ended.
    Closed,
    /// So many a second, evenly spaced.
    Target(u32),
    /// So many a second, at random times.
    Open(u32),
    /// A share of what the same connections do in a closed loop, evenly spaced.
    ShareOfCapacity(f64),
    /// So many a second, with so many more for 3 of each 10 seconds.
    Bursts(u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operations {
    /// No operations at all.
    Nothing,
    /// Reads with uniform keys.
    Reads,
    /// Uniform updates that do not wait for the journal.
    Updates,
    /// Uniform updates that do.
    JournaledUpdates,
    /// Uniform updates that wait for a majority of the set.
    MajorityUpdates,
    /// Half of each, journaled.
    Mixed,
    /// Half of each, not journaled.
    UnjournaledMixed,
    Inserts,
    /// Scans of a hundred records at most.
    Scans,
}

/// The fault of half of the windows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// No fault: a control.
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
    /// Of the file system so many MiB are free.
    NearlyFull(u64),
    /// A parameter of the server: its name, its value without the fault and with it.
    Parameter(&'static str, &'static str, &'static str),
    /// Every ten seconds the TTL monitor finds so many documents that have expired.
    TtlPasses(u32),
    /// The collection is validated without end, which holds it alone.
    Validations,
    /// Other clients, so many, update the one document that the load updates.
    HotDocument(u32),
    /// The server's process is stopped once in each window.
    Stop(Duration),
    /// The host of the server is paused once in each window.
    HostPause(Duration),
    /// The host's clock steps once in each window, by turns so many seconds on and back. Nothing takes longer for it.
    ClockStep(i64),
    /// `fsync` locks the server once in each window.
    FsyncLock(Duration),
    /// The way to the server and back takes so much longer.
    Delay(Duration),
    /// Of a hundred packets to the server so many are lost.
    Loss(u8),
    /// So many programs for each processor burn time.
    Hogs(usize),
    /// The server may use so many processors.
    Quota(f64),
    /// The client that makes the load may use so many processors.
    ClientQuota(f64),
    /// The server's memory and its files in the page cache may take so many MiB more than what the process needs.
    MemoryLimit(u64),
    /// The load comes over so many connections.
    FewConnections(u32),
    /// Each request of the secondary's device takes so much longer.
    SlowMember(Duration),
    /// The secondary may use so many processors.
    MemberQuota(f64),
    /// Two of the secondaries are stopped.
    TwoMembersDown,
    /// Other clients, so many, work without end, each with a pause after an operation. The collection that they read has so many documents.
    OtherClients { clients: u32, work: ClientWork, pause: Duration, documents: u32 },
    /// An index is built on the load's collection once in each window, which holds the collection alone.
    IndexBuild,
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

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) name: &'static str,
    pub(crate) server: Server,
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

    /// Whether the fault makes anything take longer.
    pub(crate) fn costs(&self) -> bool {
        !matches!(self.fault, Fault::ClockStep(_)) && self.load.operations != Operations::Nothing
    }

    /// A cause that the server has in all windows of this cell, and the cell that lifts it under the same load.
    pub(crate) fn standing_cause(&self) -> Option<(&'static str, &'static str)> {
        (self.name == "few-connections-slight").then_some(("small-cache", "one-connection-cache"))
    }

    /// Whether the fault can be made on a machine of two processors: rivals for a document that write as fast as they can fill both, and the
    /// load then waits for these and not for the document.
    pub(crate) fn is_made(&self) -> bool {
        !matches!(self.fault, Fault::HotDocument(_))
    }

    /// Whether the fault is in the load itself, so that windows with it and without it are runs of their own.
    pub(crate) fn has_load_of_its_own(&self) -> bool {
        matches!(self.fault, Fault::FewConnections(_))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations = match self.operations {
            Operations::Nothing => return f.write_str("none"),
            Operations::Reads => "reads",
            Operations::Updates => "updates",
            Operations::JournaledUpdates => "journaled updates",
            Operations::MajorityUpdates => "majority updates",
            Operations::Mixed => "reads and journaled updates",
            Operations::UnjournaledMixed => "reads and updates",
            Operations::Inserts => "inserts",
            Operations::Scans => "scans",
        };
        match self.rate {
            Rate::Closed => write!(f, "{operations}, {} connections", self.connections),
            Rate::Target(per_s) => write!(f, "{per_s} {operations} a second"),
            Rate::Open(per_s) => write!(f, "{per_s} {operations} a second at random times"),
            Rate::ShareOfCapacity(share) => write!(f, "{operations} at {:.0} % of capacity", 100.0 * share),
            Rate::Bursts(per_s, more) => {
                write!(f, "{per_s} {operations} a second, {more} more for 3 s of 10")
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        match *self {
            Fault::None => f.write_str("none"),
            Fault::ReadCap(share) => write!(f, "cap at {} of the reads", percent(share)),
            Fault::ReadBandwidth(share) => write!(f, "cap at {} of the bytes read", percent(share)),
            Fault::WriteCap(share) => write!(f, "cap at {} of the writes and flushes", percent(share)),
            Fault::SlowDevice(more) => write!(f, "each request of the device takes {more:?} longer"),
            Fault::ShortQueue(requests) => write!(f, "a device queue of {requests}"),
            Fault::Neighbour(depth) => write!(f, "another program writes, {depth} requests in flight"),
            Fault::NearlyFull(mib) => write!(f, "{mib} MiB of the file system are free"),
            Fault::Parameter(_, calm, faulty) => write!(f, "{faulty} in place of {calm}"),
            Fault::TtlPasses(documents) => write!(f, "{documents} documents expire every 10 s"),
            Fault::Validations => f.write_str("the collection is validated without end"),
            Fault::HotDocument(clients) => write!(f, "{clients} other clients update the one document"),
            Fault::Stop(time) => write!(f, "the process is stopped for {time:?}"),
            Fault::HostPause(time) => write!(f, "the server's host is paused for {time:?}"),
            Fault::ClockStep(seconds) => write!(f, "the host's clock steps by {seconds} s"),
            Fault::FsyncLock(time) => write!(f, "fsync locks the server for {time:?}"),
            Fault::Delay(more) => write!(f, "the round trip takes {more:?} longer"),
            Fault::Loss(percent) => write!(f, "{percent} % of the packets are lost"),
            Fault::Hogs(each) => write!(f, "{each} busy loops for each processor"),
            Fault::Quota(processors) => write!(f, "a quota of {processors} processors"),
            Fault::ClientQuota(processors) => write!(f, "a quota of {processors} processors for the client"),
            Fault::MemoryLimit(mib) => write!(f, "a memory limit that leaves {mib} MiB for the page cache"),
            Fault::FewConnections(1) => f.write_str("one connection"),
            Fault::FewConnections(few) => write!(f, "{few} connections"),
            Fault::SlowMember(more) => {
                write!(f, "each request of the secondary's device takes {more:?} longer")
            }
            Fault::MemberQuota(processors) => {
                write!(f, "a quota of {processors} processors for the secondary")
            }
            Fault::TwoMembersDown => f.write_str("two of five members are stopped"),
            Fault::OtherClients { clients, work, pause, documents } => {
                let who = if clients == 1 {
                    "another client".to_owned()
                } else {
                    format!("{clients} other clients")
                };
                let does = match (work, clients) {
                    (ClientWork::Scan, 1) => format!("scans {documents} documents"),
                    (ClientWork::Scan, _) => format!("scan {documents} documents"),
                    (ClientWork::Sort, 1) => format!("sorts {documents} documents"),
                    (ClientWork::Sort, _) => format!("sort {documents} documents"),
                    (ClientWork::BulkInsert, 1) => "inserts 1000 documents at a time".to_owned(),
                    (ClientWork::BulkInsert, _) => "insert 1000 documents at a time".to_owned(),
                    (ClientWork::PointRead(_), 1) => format!("reads single ones of {documents} documents"),
                    (ClientWork::PointRead(_), _) => format!("read single ones of {documents} documents"),
                };
                write!(f, "{who} {does}")?;
                if pause.is_zero() { Ok(()) } else { write!(f, ", with pauses of {pause:?}") }
            }
            Fault::IndexBuild => f.write_str("an index is built on the collection"),
        }
    }
}
