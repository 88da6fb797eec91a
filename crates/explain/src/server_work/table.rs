//! The types of a table of work: its rows, connections and clients, their use of the server's resources, and shares with bounds.

use fathom_record::{CollectionUse, ThreadUse};
use fathom_stats::wilson_interval;
use serde::Serialize;

/// Bounds that are further apart than this are printed as a lower bound only, and one below this minimum not at all.
const MAX_WIDTH: f64 = 0.25;
const MIN_LOWER_BOUND: f64 = 0.1;

/// The work of one server within a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkTable {
    /// Kinds of operations, the longest time first.
    pub rows: Vec<WorkRow>,
    /// Connections whose threads were read or whose operations were seen, the busiest first.
    pub connections: Vec<ConnectionWork>,
    /// The same added up by client: application, driver and host.
    pub clients: Vec<ClientWork>,
    /// The operations that ended by collection and kind, as `top` counts them, the longest time first.
    pub collections: Vec<CollectionUse>,
    /// The use that no row accounts for.
    pub unattributed: WorkUse,
    /// The part of the unattributed use by threads that serve no connection: the engine writes what operations changed before.
    pub engine: WorkUse,
    /// The threads within the unattributed use that serve no connection, the busiest first: `WTEvict`, `WTCheck`.
    pub threads: Vec<ThreadUse>,
    /// The number of readings of `$currentOp`.
    pub readings: u64,
    /// The time that these readings and `top` stand for, in seconds.
    pub observed_s: f64,
    /// The time over which threads were read, in seconds; zero if they were not.
    pub threads_s: f64,
}

/// Operations of one kind on one namespace with one plan, of one client.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkRow {
    pub namespace: String,
    /// The command's name (`find`); of operations that only `top` counted, its kind there (`queries`).
    pub kind: String,
    pub shape: String,
    pub plan: Option<String>,
    /// The cause of the wait of most of them, and the share of sightings in which they wait, 0 to 1.
    pub wait: Option<String>,
    pub waiting_share: f64,
    /// The last phase and its progress, 0 to 1.
    pub phase: Option<String>,
    pub progress: Option<f64>,
    pub application: Option<String>,
    pub driver: Option<String>,
    pub client: Option<String>,
    /// The share of the time of all operations, 0 to 1, and its 95 % interval if it was estimated from sightings.
    pub time_share: f64,
    pub time_share_interval: Option<(f64, f64)>,
    pub used: WorkUse,
    /// The factors of `used` at the ends of a 95 % interval. A connection is seen at moments only, and may do other work between them.
    pub use_factors: (f64, f64),
    /// The part of the sightings of its connections that are its own, 0 to 1: of 1, they do nothing else.
    pub own_part: f64,
    /// The number of sightings in `$currentOp`: an operation that runs during two readings counts twice.
    pub sightings: u64,
    /// Operations that ended, where `top` counts no other kind together with this one.
    pub ended: Option<u64>,
    /// The longest time for which one was seen running, and its number.
    pub longest_us: u64,
    pub longest_operation: Option<String>,
    /// Whether it ran at the last reading.
    pub is_running: bool,
}

/// The resources that one connection used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConnectionWork {
    pub number: u64,
    pub application: Option<String>,
    pub driver: Option<String>,
    pub client: Option<String>,
    /// The number of readings that saw an operation of it. Without any, its client is not known.
    pub sightings: u64,
    pub used: WorkUse,
}

/// The resources that all connections of one client used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClientWork {
    pub application: Option<String>,
    pub driver: Option<String>,
    pub client: Option<String>,
    /// The number of its connections that were seen.
    pub connections: usize,
    pub used: WorkUse,
}

/// Time and resources; `None` where they were not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WorkUse {
    /// The time of operations, in microseconds: that of two which run at once counts twice.
    pub time_us: f64,
    pub processor_us: Option<f64>,
    pub run_wait_us: Option<f64>,
    pub read_bytes: Option<f64>,
    pub written_bytes: Option<f64>,
}

/// A resource that operations of a server share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkResource {
    /// The processor time of the server's process.
    Processor,
    /// The bytes that connections read from disks.
    DiskReads,
    /// The bytes that connections have written. What the engine's own threads write for them is left out.
    DiskWrites,
    /// The time of operations.
    Time,
}

/// A part of a resource: the best estimate and the bounds of it, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WorkShare {
    pub share: f64,
    pub low: f64,
    pub high: f64,
}

impl WorkShare {
    /// The share as `85 to 92 %`, as `at least 40 %` if its bounds are far apart, and not at all if they say next to nothing.
    pub fn words(&self) -> Option<String> {
        let percent = |share: f64| (100.0 * share).round();
        if self.high - self.low > MAX_WIDTH {
            return (self.low >= MIN_LOWER_BOUND).then(|| format!("at least {:.0} %", percent(self.low)));
        }
        let (low, high) = (percent(self.low), percent(self.high));
        Some(if low == high { format!("{low:.0} %") } else { format!("{low:.0} to {high:.0} %") })
    }
}

impl WorkUse {
    /// The use by a thread.
    pub(super) fn of_thread(thread: &ThreadUse) -> WorkUse {
        WorkUse {
            time_us: 0.0,
            processor_us: Some(thread.processor_us as f64),
            run_wait_us: Some(thread.run_wait_us as f64),
            read_bytes: thread.read_bytes.map(|bytes| bytes as f64),
            written_bytes: thread.written_bytes.map(|bytes| bytes as f64),
        }
    }

    /// Adds a part of another use.
    pub(super) fn add(&mut self, other: &WorkUse, part: f64) {
        let add = |sum: &mut Option<f64>, value: Option<f64>| {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0.0) + part * value);
            }
        };
        self.time_us += part * other.time_us;
        add(&mut self.processor_us, other.processor_us);
        add(&mut self.run_wait_us, other.run_wait_us);
        add(&mut self.read_bytes, other.read_bytes);
        add(&mut self.written_bytes, other.written_bytes);
    }

    /// Bytes read from and written to disks; `None` if neither was read.
    pub fn disk_bytes(&self) -> Option<f64> {
        match (self.read_bytes, self.written_bytes) {
            (None, None) => None,
            (read, written) => Some(read.unwrap_or(0.0) + written.unwrap_or(0.0)),
        }
    }

    /// The use of one resource; `None` if it was not read.
    pub fn of(&self, resource: WorkResource) -> Option<f64> {
        match resource {
            WorkResource::Processor => self.processor_us,
            WorkResource::DiskReads => self.read_bytes,
            WorkResource::DiskWrites => self.written_bytes,
            WorkResource::Time => Some(self.time_us),
        }
    }

    /// A figure to sort by: a microsecond of a processor counts as much as a kilobyte of a disk.
    pub(super) fn rank(&self) -> f64 {
        self.processor_us.unwrap_or(0.0) + self.disk_bytes().unwrap_or(0.0) / 1024.0
    }
}

impl WorkTable {
    /// The share of these rows of a resource. The upper bound includes all that no row accounts for, because it may be theirs. `None` if the
    /// resource was not read, or nothing of it was used.
    pub fn share_of_rows(&self, rows: &[&WorkRow], resource: WorkResource) -> Option<WorkShare> {
        if resource == WorkResource::Time {
            return self.time_share(rows);
        }
        let used = |factor: fn(&WorkRow) -> f64| -> f64 {
            rows.iter().map(|row| factor(row) * row.used.of(resource).unwrap_or(0.0)).sum()
        };
        self.share(resource, [used(|_| 1.0), used(|row| row.use_factors.0), used(|row| row.use_factors.1)])
    }

    /// The share of one client of a resource. A connection belongs to one client, so that only connections of unknown clients widen the bounds.
    pub fn share_of_client(&self, client: &ClientWork, resource: WorkResource) -> Option<WorkShare> {
        let used = client.used.of(resource)?;
        let known: f64 = self.clients.iter().filter_map(|one| one.used.of(resource)).sum();
        let all = self.all_of(resource).filter(|all| *all > 0.0)?;
        let share = |used: f64| (used / all).clamp(0.0, 1.0);
        Some(WorkShare { share: share(used), low: share(used), high: share(used + (all - known).max(0.0)) })
    }

    /// The use of a resource by the whole server, as far as rows can have a share of it.
    pub fn all_of(&self, resource: WorkResource) -> Option<f64> {
        let rows: f64 = self.rows.iter().filter_map(|row| row.used.of(resource)).sum();
        let unattributed = self.unattributed_of(resource);
        let is_read = unattributed.is_some() || self.rows.iter().any(|row| row.used.of(resource).is_some());
        is_read.then(|| rows + unattributed.unwrap_or(0.0))
    }

    /// The use of a resource that no row accounts for. It is no row's share, and is never divided among the rows.
    pub fn unattributed_of(&self, resource: WorkResource) -> Option<f64> {
        let unattributed = self.unattributed.of(resource)?;
        // What connections change, the engine's threads write later: a share of writes is one of what connections wrote themselves.
        let is_of_disk = matches!(resource, WorkResource::DiskReads | WorkResource::DiskWrites);
        let engine = self.engine.of(resource).filter(|_| is_of_disk).unwrap_or(0.0);
        Some((unattributed - engine).max(0.0))
    }

    fn share(&self, resource: WorkResource, [used, least, most]: [f64; 3]) -> Option<WorkShare> {
        let all = self.all_of(resource).filter(|all| *all > 0.0)?;
        let rest = self.unattributed_of(resource).unwrap_or(0.0);
        let share = |used: f64| (used / all).clamp(0.0, 1.0);
        Some(WorkShare { share: share(used), low: share(least), high: share(most + rest) })
    }

    /// The share of the time of operations: exact if `top` counts these rows alone, else by the number of sightings.
    fn time_share(&self, rows: &[&WorkRow]) -> Option<WorkShare> {
        let all = self.all_of(WorkResource::Time).filter(|all| *all > 0.0)?;
        let share = rows.iter().map(|row| row.used.time_us).sum::<f64>() / all;
        if rows.iter().all(|row| row.ended.is_some()) {
            return Some(WorkShare { share, low: share, high: share });
        }
        let of = |rows: &mut dyn Iterator<Item = &WorkRow>| rows.map(|row| row.sightings).sum::<u64>();
        let seen = of(&mut rows.iter().copied());
        let (low, high) = wilson_interval(seen, of(&mut self.rows.iter()))?;
        Some(WorkShare { share, low: low.min(share), high: high.max(share) })
    }
}
