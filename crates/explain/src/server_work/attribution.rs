//! Attributes sightings of operations, totals of `top` and the use of threads to the rows of a table of work.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::{CollectionUse, OperationGroup, ServerWork, ThreadUse};
use fathom_stats::wilson_interval;

use super::table::{ClientWork, ConnectionWork, WorkRow, WorkTable, WorkUse};

/// The longest time for which a reading of `$currentOp` represents the time before it. Questions come at most ten seconds apart.
const MAX_SPAN_NS: u64 = 11 * SECOND_NS;
const SECOND_NS: u64 = 1_000_000_000;
/// The number of threads without a connection that are named, and that of connections.
const MAX_THREADS: usize = 5;
const MAX_CONNECTIONS: usize = 64;

/// The facts that make a row: namespace, kind, plan, and the client.
type RowKey = (String, String, Option<String>, [Option<String>; 3]);

fn row_key(group: &OperationGroup) -> RowKey {
    let client = [&group.application, &group.driver, &group.client].map(Clone::clone);
    (group.namespace.clone(), group.kind.clone(), group.plan.clone(), client)
}

/// The kind by which `top` counts a command; a kind of `top` stays as it is.
pub(crate) fn kind_in_top(kind: &str) -> &'static str {
    match kind {
        "find" | "queries" => "queries",
        "insert" => "insert",
        "update" => "update",
        "delete" | "remove" => "remove",
        "getmore" => "getmore",
        kind if kind.starts_with("getMore") => "getmore",
        _ => "commands",
    }
}

/// A row so far.
#[derive(Debug, Default)]
struct Tally {
    row: WorkRow,
    /// Sightings by what they waited for.
    waits: BTreeMap<String, u64>,
}

/// The sightings of one connection: its client, and the rows that it was at work for, with the ends of the readings that saw it. An operation that
/// waits uses no processor and no disk.
#[derive(Debug, Default)]
struct SeenConnection {
    client: [Option<String>; 3],
    sightings: u64,
    rows: Vec<(u64, RowKey)>,
    used: WorkUse,
}

/// The table in the making.
#[derive(Debug, Default)]
pub(super) struct Attribution {
    rows: BTreeMap<RowKey, Tally>,
    connections: BTreeMap<u64, SeenConnection>,
    collections: Vec<CollectionUse>,
    unattributed: WorkUse,
    engine: WorkUse,
    threads: BTreeMap<String, ThreadUse>,
    readings: u64,
    observed_ns: u64,
    threads_ns: u64,
    unlisted: u64,
}

impl Attribution {
    /// Adds the operations that ran at each reading, each for the time since the reading before.
    pub(super) fn add_sightings(&mut self, readings: &[&ServerWork]) {
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
                self.add_connections(group, work.end_ns, span_us);
            }
        }
    }

    fn add_connections(&mut self, group: &OperationGroup, end_ns: u64, span_us: f64) {
        let key = row_key(group);
        for number in &group.connections {
            let connection = self.connections.entry(*number).or_default();
            connection.client.clone_from(&key.3);
            connection.sightings += 1;
            connection.used.time_us += span_us;
            if group.wait.is_none() {
                connection.rows.push((end_ns, key.clone()));
            }
        }
    }

    /// Raises the time of the rows of a collection and kind to what `top` says of operations that ended. A kind that no reading of
    /// `$currentOp` saw becomes a row of its own.
    pub(super) fn add_totals(&mut self, readings: &[&ServerWork]) {
        let mut totals: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for used in readings.iter().flat_map(|work| &work.collections) {
            let total = totals.entry((used.namespace.clone(), used.kind.clone())).or_default();
            *total = (total.0.saturating_add(used.time_us), total.1.saturating_add(used.count));
        }
        for ((namespace, kind), (time_us, count)) in totals {
            self.collections.push(CollectionUse {
                namespace: namespace.clone(),
                kind: kind.clone(),
                time_us,
                count,
            });
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
    pub(super) fn add_threads(&mut self, readings: &[&ServerWork]) {
        for work in readings.iter().filter(|work| !work.threads.is_empty() || work.process.is_some()) {
            self.threads_ns += work.end_ns.saturating_sub(work.begin_ns);
            let mut listed = ThreadUse::default();
            for thread in &work.threads {
                sum_up(&mut listed, thread);
                self.add_thread(thread, (work.begin_ns, work.end_ns));
            }
            if let Some(process) = &work.process {
                self.unattributed.add(&WorkUse::of_thread(&rest_of(process, &listed)), 1.0);
            }
        }
    }

    fn add_thread(&mut self, thread: &ThreadUse, window_ns: (u64, u64)) {
        let used = WorkUse::of_thread(thread);
        let Some(number) = thread.connection() else {
            self.unattributed.add(&used, 1.0);
            self.engine.add(&used, 1.0);
            let sum = self.threads.entry(thread.name.clone()).or_default();
            sum.name.clone_from(&thread.name);
            sum_up(sum, thread);
            return;
        };
        let connection = self.connections.entry(number).or_default();
        connection.used.add(&used, 1.0);
        let keys = keys_of(&connection.rows, window_ns);
        if keys.is_empty() {
            self.unattributed.add(&used, 1.0);
        }
        for key in &keys {
            let tally = self.rows.entry((*key).clone()).or_default();
            tally.row.used.add(&used, 1.0 / keys.len() as f64);
        }
    }

    /// The sightings of each row, and all sightings of the connections that were seen with it.
    fn sightings_by_connection(&self) -> BTreeMap<RowKey, (u64, u64)> {
        let mut by_row: BTreeMap<RowKey, (u64, u64)> = BTreeMap::new();
        for connection in self.connections.values() {
            let of_row = |key: &RowKey| connection.rows.iter().filter(|(_, one)| one == key).count() as u64;
            let keys: BTreeSet<&RowKey> = connection.rows.iter().map(|(_, key)| key).collect();
            for key in keys {
                let seen = by_row.entry(key.clone()).or_default();
                *seen = (seen.0 + of_row(key), seen.1 + connection.rows.len() as u64);
            }
        }
        by_row
    }

    /// What connections used, the busiest first.
    fn connection_list(&self) -> Vec<ConnectionWork> {
        let work = |(number, one): (&u64, &SeenConnection)| {
            let [application, driver, client] = one.client.clone();
            let (sightings, used) = (one.sightings, one.used);
            ConnectionWork { number: *number, application, driver, client, sightings, used }
        };
        let mut list: Vec<ConnectionWork> = self.connections.iter().map(work).collect();
        list.sort_by(|one, other| {
            let by_use = other.used.rank().total_cmp(&one.used.rank());
            by_use.then_with(|| other.used.time_us.total_cmp(&one.used.time_us))
        });
        list
    }

    pub(super) fn table(mut self) -> WorkTable {
        let sightings: u64 = self.rows.values().map(|tally| tally.row.sightings).sum::<u64>() + self.unlisted;
        let time_us: f64 =
            self.rows.values().map(|tally| tally.row.used.time_us).sum::<f64>() + self.unattributed.time_us;
        let by_connection = self.sightings_by_connection();
        let mut connections = self.connection_list();
        let clients = client_list(&connections);
        connections.truncate(MAX_CONNECTIONS);
        self.collections.sort_by_key(|used| std::cmp::Reverse(used.time_us));
        let row = |(key, tally): (RowKey, Tally)| {
            let mut row = tally.row(sightings, time_us);
            let seen = by_connection.get(&key).copied();
            row.use_factors = use_factors(seen);
            row.own_part = seen.map_or(0.0, |(own, all)| own as f64 / all.max(1) as f64);
            row
        };
        let mut rows: Vec<WorkRow> = self.rows.into_iter().map(row).collect();
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
            connections,
            clients,
            collections: self.collections,
            unattributed: self.unattributed,
            engine: self.engine,
            threads,
            readings: self.readings,
            observed_s: self.observed_ns as f64 / 1e9,
            threads_s: self.threads_ns as f64 / 1e9,
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

/// The factors of a row's use at the ends of a 95 % interval, from its sightings among all sightings of its connections.
fn use_factors(seen: Option<(u64, u64)>) -> (f64, f64) {
    let interval = seen.and_then(|(hits, all)| Some((wilson_interval(hits, all)?, hits as f64 / all as f64)));
    interval.map_or((1.0, 1.0), |((low, high), share)| (low / share, high / share))
}

/// What clients used. Connections that were never seen with an operation have no known client.
fn client_list(connections: &[ConnectionWork]) -> Vec<ClientWork> {
    let mut clients: BTreeMap<[Option<String>; 3], ClientWork> = BTreeMap::new();
    for one in connections.iter().filter(|one| one.sightings > 0) {
        let (application, driver, client) = (one.application.clone(), one.driver.clone(), one.client.clone());
        let sum = clients
            .entry([application.clone(), driver.clone(), client.clone()])
            .or_insert_with(|| ClientWork { application, driver, client, ..ClientWork::default() });
        sum.connections += 1;
        sum.used.add(&one.used, 1.0);
    }
    let mut clients: Vec<ClientWork> = clients.into_values().collect();
    clients.sort_by(|one, other| {
        let by_use = other.used.rank().total_cmp(&one.used.rank());
        by_use.then_with(|| other.used.time_us.total_cmp(&one.used.time_us))
    });
    clients
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
