//! Divides what a server did among kinds of operations: time, processor time and disk bytes, by namespace, kind and plan.
//!
//! Three sources add to one table. Readings of `$currentOp` say which kinds run and with which plan; `top` says how much time
//! operations of each collection and kind took that ended; the threads of a server on this host say how much of a processor and
//! of the disk each connection used. Whatever belongs to no row is kept as unattributed, and is never divided among the rows.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::disk::Entry;
use fathom_record::{OperationGroup, ServerWork, ThreadUse};
use fathom_stats::wilson_interval;
use serde::Serialize;

/// The longest time for which a reading of `$currentOp` stands for the time before it. Questions come at most ten seconds apart.
const MAX_SPAN_NS: u64 = 11 * SECOND_NS;
const SECOND_NS: u64 = 1_000_000_000;
/// The number of threads without a connection that are named.
const MAX_THREADS: usize = 5;

/// The work of one server within a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkTable {
    /// Kinds of operations, the longest time first.
    pub rows: Vec<WorkRow>,
    /// The use that no row accounts for.
    pub unattributed: WorkUse,
    /// The threads within the unattributed use that serve no connection, the busiest first: `WTEvict`, `WTCheck`.
    pub threads: Vec<ThreadUse>,
    /// The number of readings of `$currentOp`.
    pub readings: u64,
    /// The time that these readings and `top` stand for, in seconds.
    pub observed_s: f64,
}

/// Operations of one kind on one namespace with one plan.
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

impl WorkUse {
    /// Adds a part of what a thread used.
    fn add(&mut self, thread: &ThreadUse, part: f64) {
        let add = |sum: &mut Option<f64>, value: Option<u64>| {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0.0) + part * value as f64);
            }
        };
        add(&mut self.processor_us, Some(thread.processor_us));
        add(&mut self.run_wait_us, Some(thread.run_wait_us));
        add(&mut self.read_bytes, thread.read_bytes);
        add(&mut self.written_bytes, thread.written_bytes);
    }

    /// Bytes read from and written to disks; `None` if neither was read.
    pub fn disk_bytes(&self) -> Option<f64> {
        match (self.read_bytes, self.written_bytes) {
            (None, None) => None,
            (read, written) => Some(read.unwrap_or(0.0) + written.unwrap_or(0.0)),
        }
    }
}

/// The facts that make a row: namespace, kind, plan, and the client.
type RowKey = (String, String, Option<String>, [Option<String>; 3]);

fn row_key(group: &OperationGroup) -> RowKey {
    let client = [&group.application, &group.driver, &group.client].map(Clone::clone);
    (group.namespace.clone(), group.kind.clone(), group.plan.clone(), client)
}

/// The kind by which `top` counts a command.
fn kind_in_top(kind: &str) -> &'static str {
    match kind {
        "find" => "queries",
        "insert" => "insert",
        "update" => "update",
        "delete" | "remove" => "remove",
        kind if kind.starts_with("getMore") => "getmore",
        _ => "commands",
    }
}

/// The table of server `number` for the readings that end within the window; `None` if there is none.
pub fn work_table(results: &[Entry], number: usize, window_ns: (u64, u64)) -> Option<WorkTable> {
    let of_server = |entry: &'_ Entry| match entry {
        Entry::ServerWork(work)
            if work.server == number && (window_ns.0..=window_ns.1).contains(&work.end_ns) =>
        {
            Some(work.as_ref().clone())
        }
        _ => None,
    };
    let mut readings: Vec<ServerWork> = results.iter().filter_map(of_server).collect();
    if readings.is_empty() {
        return None;
    }
    readings.sort_by_key(|work| work.end_ns);
    let mut attribution = Attribution::default();
    attribution.add_sightings(&readings);
    attribution.add_totals(&readings);
    attribution.add_threads(&readings);
    Some(attribution.table())
}

/// A row so far.
#[derive(Debug, Default)]
struct Tally {
    row: WorkRow,
    /// Sightings by what they waited for.
    waits: BTreeMap<String, u64>,
}

/// The table in the making.
#[derive(Debug, Default)]
struct Attribution {
    rows: BTreeMap<RowKey, Tally>,
    unattributed: WorkUse,
    threads: BTreeMap<String, ThreadUse>,
    readings: u64,
    observed_ns: u64,
    unlisted: u64,
}

impl Attribution {
    /// Adds the operations that ran at each reading, each for the time since the reading before.
    fn add_sightings(&mut self, readings: &[ServerWork]) {
        let mut last_ns: Option<u64> = None;
        let last_reading =
            readings.iter().rev().find(|work| work.has_read_operations).map(|work| work.end_ns);
        for work in readings.iter().filter(|work| work.has_read_operations) {
            let begin_ns = last_ns.unwrap_or(work.begin_ns);
            let passed_ns = work.end_ns.saturating_sub(begin_ns);
            // After a longer pause the server was at rest, and only its last second was not.
            let span_ns = if passed_ns > MAX_SPAN_NS { SECOND_NS } else { passed_ns };
            let span_us = span_ns as f64 / 1e3;
            last_ns = Some(work.end_ns);
            self.readings += 1;
            self.observed_ns += span_ns;
            self.unlisted += work.unlisted;
            self.unattributed.time_us += work.unlisted as f64 * span_us;
            for group in &work.operations {
                let tally = self.rows.entry(row_key(group)).or_default();
                tally.add(group, span_us);
                tally.row.is_running = last_reading == Some(work.end_ns);
            }
        }
    }

    /// Raises the time of the rows of a collection and kind to what `top` says of operations that ended. A kind that no reading of
    /// `$currentOp` saw becomes a row of its own.
    fn add_totals(&mut self, readings: &[ServerWork]) {
        let mut totals: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for used in readings.iter().flat_map(|work| &work.collections) {
            let total = totals.entry((used.namespace.clone(), used.kind.clone())).or_default();
            *total = (total.0.saturating_add(used.time_us), total.1.saturating_add(used.count));
        }
        for ((namespace, kind), (time_us, count)) in totals {
            let time_us = time_us as f64;
            let mut of_kind: Vec<&mut Tally> = self
                .rows
                .values_mut()
                .filter(|tally| tally.row.namespace == namespace && kind_in_top(&tally.row.kind) == kind)
                .collect();
            let seen_us: f64 = of_kind.iter().map(|tally| tally.row.used.time_us).sum();
            if let [only] = of_kind.as_mut_slice() {
                only.row.ended = Some(count);
            }
            if seen_us <= 0.0 {
                let row = WorkRow { ended: Some(count), ..WorkRow::default() };
                let tally =
                    self.rows.entry((namespace.clone(), kind.clone(), None, Default::default())).or_default();
                tally.row =
                    WorkRow { namespace, kind, used: WorkUse { time_us, ..WorkUse::default() }, ..row };
            } else if time_us > seen_us {
                for tally in of_kind {
                    tally.row.used.time_us *= time_us / seen_us;
                }
            }
        }
    }

    /// Adds what threads used to the rows that their connections were seen with.
    fn add_threads(&mut self, readings: &[ServerWork]) {
        let mut seen: BTreeMap<u64, Vec<(u64, RowKey)>> = BTreeMap::new();
        for work in readings {
            for group in &work.operations {
                for connection in &group.connections {
                    seen.entry(*connection).or_default().push((work.end_ns, row_key(group)));
                }
            }
        }
        for work in readings {
            let mut listed = ThreadUse::default();
            for thread in &work.threads {
                sum_up(&mut listed, thread);
                let sightings = thread.connection().and_then(|number| seen.get(&number)).map(Vec::as_slice);
                let keys = keys_of(sightings.unwrap_or_default(), (work.begin_ns, work.end_ns));
                if keys.is_empty() {
                    self.unattributed.add(thread, 1.0);
                    if thread.connection().is_none() {
                        let sum = self.threads.entry(thread.name.clone()).or_default();
                        sum.name.clone_from(&thread.name);
                        sum_up(sum, thread);
                    }
                }
                for key in &keys {
                    let tally = self.rows.entry((*key).clone()).or_default();
                    tally.row.used.add(thread, 1.0 / keys.len() as f64);
                }
            }
            if let Some(process) = &work.process {
                self.unattributed.add(&rest_of(process, &listed), 1.0);
            }
        }
    }

    fn table(self) -> WorkTable {
        let sightings: u64 = self.rows.values().map(|tally| tally.row.sightings).sum::<u64>() + self.unlisted;
        let time_us: f64 =
            self.rows.values().map(|tally| tally.row.used.time_us).sum::<f64>() + self.unattributed.time_us;
        let mut rows: Vec<WorkRow> =
            self.rows.into_values().map(|tally| tally.row(sightings, time_us)).collect();
        rows.sort_by(|one, other| {
            other.used.time_us.total_cmp(&one.used.time_us).then_with(|| one.namespace.cmp(&other.namespace))
        });
        let mut threads: Vec<ThreadUse> = self.threads.into_values().collect();
        threads.sort_by_key(|thread| {
            let bytes = thread.read_bytes.unwrap_or(0).saturating_add(thread.written_bytes.unwrap_or(0));
            std::cmp::Reverse((thread.processor_us, bytes))
        });
        threads.truncate(MAX_THREADS);
        WorkTable {
            rows,
            unattributed: self.unattributed,
            threads,
            readings: self.readings,
            observed_s: self.observed_ns as f64 / 1e9,
        }
    }
}

impl Tally {
    fn add(&mut self, group: &OperationGroup, span_us: f64) {
        let row = &mut self.row;
        row.namespace.clone_from(&group.namespace);
        row.kind.clone_from(&group.kind);
        row.shape.clone_from(&group.shape);
        row.plan.clone_from(&group.plan);
        row.application.clone_from(&group.application);
        row.driver.clone_from(&group.driver);
        row.client.clone_from(&group.client);
        if group.phase.is_some() {
            row.phase.clone_from(&group.phase);
            row.progress = group.progress.map(|(done, total)| done as f64 / total.max(1) as f64);
        }
        row.sightings += group.count;
        row.used.time_us += group.count as f64 * span_us;
        if group.longest_us >= row.longest_us {
            row.longest_us = group.longest_us;
            row.longest_operation.clone_from(&group.longest_operation);
        }
        if let Some(wait) = &group.wait {
            *self.waits.entry(wait.clone()).or_default() += group.count;
        }
    }

    /// The row with its shares of all sightings and of the time of all operations.
    fn row(mut self, sightings: u64, time_us: f64) -> WorkRow {
        let waiting: u64 = self.waits.values().sum();
        self.row.wait = self.waits.into_iter().max_by_key(|(_, count)| *count).map(|(wait, _)| wait);
        self.row.waiting_share = waiting as f64 / self.row.sightings.max(1) as f64;
        self.row.time_share = if time_us > 0.0 { self.row.used.time_us / time_us } else { 0.0 };
        // A share that `top` counts is no estimate.
        if self.row.sightings > 0 && self.row.ended.is_none() {
            self.row.time_share_interval = wilson_interval(self.row.sightings, sightings);
        }
        self.row
    }
}

/// The rows of a connection within a window; outside of its sightings there, the row of a connection that was seen with one row only.
fn keys_of(sightings: &[(u64, RowKey)], window_ns: (u64, u64)) -> Vec<&RowKey> {
    let within = |(at_ns, _): &&(u64, RowKey)| window_ns.0 < *at_ns && *at_ns <= window_ns.1;
    let keys: BTreeSet<&RowKey> = sightings.iter().filter(within).map(|(_, key)| key).collect();
    if !keys.is_empty() {
        return keys.into_iter().collect();
    }
    let all: BTreeSet<&RowKey> = sightings.iter().map(|(_, key)| key).collect();
    if all.len() == 1 { all.into_iter().collect() } else { Vec::new() }
}

fn sum_up(sum: &mut ThreadUse, thread: &ThreadUse) {
    let add = |sum: &mut Option<u64>, value: Option<u64>| {
        if let Some(value) = value {
            *sum = Some(sum.unwrap_or(0).saturating_add(value));
        }
    };
    sum.processor_us = sum.processor_us.saturating_add(thread.processor_us);
    sum.run_wait_us = sum.run_wait_us.saturating_add(thread.run_wait_us);
    add(&mut sum.read_bytes, thread.read_bytes);
    add(&mut sum.written_bytes, thread.written_bytes);
}

/// The use of a process that its listed threads do not account for.
fn rest_of(process: &ThreadUse, listed: &ThreadUse) -> ThreadUse {
    let less = |all: Option<u64>, part: Option<u64>| Some(all?.saturating_sub(part.unwrap_or(0)));
    ThreadUse {
        name: String::new(),
        processor_us: process.processor_us.saturating_sub(listed.processor_us),
        run_wait_us: process.run_wait_us.saturating_sub(listed.run_wait_us),
        read_bytes: less(process.read_bytes, listed.read_bytes),
        written_bytes: less(process.written_bytes, listed.written_bytes),
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::CollectionUse;

    use super::*;

    fn group(kind: &str, namespace: &str, plan: Option<&str>, connections: &[u64]) -> OperationGroup {
        OperationGroup {
            kind: kind.into(),
            namespace: namespace.into(),
            plan: plan.map(str::to_owned),
            count: connections.len() as u64,
            running_us: 5000,
            longest_us: 5000,
            connections: connections.to_vec(),
            ..OperationGroup::default()
        }
    }

    fn thread(name: &str, processor_us: u64, read_bytes: u64) -> ThreadUse {
        ThreadUse {
            name: name.into(),
            processor_us,
            read_bytes: Some(read_bytes),
            written_bytes: Some(0),
            ..ThreadUse::default()
        }
    }

    fn entry(second: u64, work: ServerWork) -> Entry {
        let (begin_ns, end_ns) = ((second - 1) * SECOND_NS, second * SECOND_NS);
        let has_read_operations = !work.operations.is_empty();
        Entry::ServerWork(Box::new(ServerWork { begin_ns, end_ns, has_read_operations, ..work }))
    }

    fn table(entries: &[Entry]) -> WorkTable {
        work_table(entries, 0, (0, 100 * SECOND_NS)).unwrap()
    }

    #[test]
    fn sightings_and_top_divide_the_time() {
        // Ten seconds: two scans always run, a find is never seen; `top` counts 1 s of updates.
        let scan = || group("find", "shop.orders", Some("COLLSCAN"), &[3, 4]);
        let update = CollectionUse {
            namespace: "shop.orders".into(),
            kind: "update".into(),
            time_us: 100_000,
            count: 50,
        };
        let entries: Vec<Entry> = (1..=10)
            .map(|second| {
                entry(
                    second,
                    ServerWork {
                        operations: vec![scan()],
                        collections: vec![update.clone()],
                        ..ServerWork::default()
                    },
                )
            })
            .collect();
        let table = table(&entries);
        let [scans, updates] = table.rows.as_slice() else { panic!("{table:?}") };
        assert_eq!(
            (scans.kind.as_str(), scans.plan.as_deref(), scans.sightings),
            ("find", Some("COLLSCAN"), 20)
        );
        assert!((scans.used.time_us - 20e6).abs() < 1.0 && scans.is_running);
        assert!((scans.time_share - 20.0 / 21.0).abs() < 1e-9);
        let (low, high) = scans.time_share_interval.unwrap();
        assert!(low < 1.0 && high >= low);
        assert_eq!(
            (updates.kind.as_str(), updates.ended, updates.time_share_interval),
            ("update", Some(500), None)
        );
        assert_eq!((table.readings, table.observed_s), (10, 10.0));
    }

    #[test]
    fn what_top_counts_is_the_least_time_of_a_kind() {
        let insert =
            |time_us| CollectionUse { namespace: "a.b".into(), kind: "insert".into(), time_us, count: 7 };
        let of = |time_us| {
            let operations = vec![group("insert", "a.b", None, &[1])];
            let work = ServerWork { operations, collections: vec![insert(time_us)], ..ServerWork::default() };
            table(&[entry(1, work)]).rows.remove(0)
        };
        // Operations that have not ended are in no total.
        assert!((of(10).used.time_us - 1e6).abs() < 1.0);
        assert!((of(3_000_000).used.time_us - 3e6).abs() < 1.0);
        assert_eq!(of(10).ended, Some(7));
    }

    #[test]
    fn what_a_connection_reads_belongs_to_what_it_runs() {
        let operations =
            vec![group("find", "a.b", Some("COLLSCAN"), &[3]), group("update", "a.b", None, &[5])];
        let threads = vec![
            thread("conn3", 700, 9000),
            thread("conn5", 100, 0),
            thread("conn6", 50, 40),
            thread("WTEvict", 30, 0),
        ];
        let process = Some(thread("mongod", 1000, 9100));
        let work = ServerWork { operations, threads, process, ..ServerWork::default() };
        let table = table(&[entry(1, work)]);
        let scan = table.rows.iter().find(|row| row.kind == "find").unwrap();
        assert_eq!((scan.used.processor_us, scan.used.disk_bytes()), (Some(700.0), Some(9000.0)));
        // A connection that was not seen, the threads of the engine, and threads that are not listed.
        assert_eq!(
            (table.unattributed.processor_us, table.unattributed.read_bytes),
            (Some(200.0), Some(100.0))
        );
        assert_eq!(table.threads, [ThreadUse { name: "WTEvict".into(), ..thread("WTEvict", 30, 0) }]);
    }

    #[test]
    fn a_connection_with_one_kind_of_work_is_known_by_it_and_others_are_not_guessed() {
        let seen = entry(
            1,
            ServerWork {
                operations: vec![group("find", "a.b", None, &[3, 4]), group("insert", "a.c", None, &[4])],
                ..ServerWork::default()
            },
        );
        let threads = vec![thread("conn3", 10, 0), thread("conn4", 20, 0)];
        let later = entry(2, ServerWork { threads, ..ServerWork::default() });
        let table = table(&[seen, later]);
        let find = table.rows.iter().find(|row| row.kind == "find").unwrap();
        assert_eq!((find.used.processor_us, table.unattributed.processor_us), (Some(10.0), Some(20.0)));
    }

    #[test]
    fn waits_and_progress_are_kept() {
        let waiting =
            OperationGroup { wait: Some("lock Database".into()), ..group("find", "a.b", None, &[1, 2, 3]) };
        let build = OperationGroup {
            phase: Some("Index Build".into()),
            progress: Some((1, 4)),
            longest_operation: Some("17".into()),
            ..group("createIndexes", "a.b", None, &[9])
        };
        let work = ServerWork {
            operations: vec![waiting, group("find", "a.b", None, &[4]), build],
            unlisted: 5,
            ..ServerWork::default()
        };
        let table = table(&[entry(1, work)]);
        let find = &table.rows[0];
        assert_eq!((find.wait.as_deref(), find.waiting_share), (Some("lock Database"), 0.75));
        let build = &table.rows[1];
        assert_eq!((build.progress, build.longest_operation.as_deref()), (Some(0.25), Some("17")));
        assert!((table.unattributed.time_us - 5e6).abs() < 1.0);
        assert_eq!(work_table(&[], 0, (0, 1)), None);
    }
}
