//! The transactions of a server that stayed open, and the operations that waited for the locks and the changes which they hold.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::{OpenTransaction, OperationGroup, ServerWork};

use crate::Evidence;
use crate::server_work::work_readings;
use crate::windows::Window;
use crate::work_users::WorkAction;

/// A session may open one transaction after another: a later begin than this is that of another one.
const SAME_BEGIN_NS: u64 = 2_000_000_000;
/// The longest time that a sighting represents.
const MAX_SPAN_NS: u64 = 2_500_000_000;
/// A write of one document that has been running for this long is tried again and again.
const MIN_RETRIED_US: u64 = 2_000_000;
/// Writes whose threads use a processor for a larger part of the time work, and do not wait.
const MAX_BUSY_PART: f64 = 0.25;

/// A transaction, and the time in which it was open.
#[derive(Clone, Debug)]
pub(crate) struct HeldTransaction<'e> {
    /// The last reading of it.
    pub(crate) last: &'e OpenTransaction,
    /// From its begin, or from that of the run, to the last reading that saw it.
    pub(crate) window: Window,
    /// Whether the last reading of all saw it.
    pub(crate) is_open: bool,
}

/// The transactions of a server that were open for this time or longer, the one that was opened first at the begin.
pub(crate) fn held_transactions<'e>(
    evidence: &'e Evidence,
    member: &str,
    min_open_us: u64,
) -> Vec<HeldTransaction<'e>> {
    let Ok(number) = member.parse() else { return Vec::new() };
    let readings = work_readings(&evidence.results, number, evidence.window_ns);
    let last_ns = readings.iter().rev().find(|work| work.has_read_operations).map(|work| work.end_ns);
    let mut found: BTreeMap<(Option<&str>, Option<u64>), Vec<HeldTransaction<'e>>> = BTreeMap::new();
    for work in &readings {
        for one in &work.transactions {
            let begin_ns = work.end_ns.saturating_sub(one.open_us.saturating_mul(1000));
            let begin_ns = begin_ns.max(evidence.window_ns.0);
            let connection = one.connection.filter(|_| one.session.is_none());
            let of_session = found.entry((one.session.as_deref(), connection)).or_default();
            let is_open = Some(work.end_ns) == last_ns;
            match of_session.last_mut().filter(|held| begin_ns <= held.window.0 + SAME_BEGIN_NS) {
                Some(held) => {
                    (held.last, held.is_open, held.window.1) = (one, is_open, work.end_ns);
                }
                None => {
                    let window = (begin_ns, work.end_ns);
                    of_session.push(HeldTransaction { last: one, window, is_open });
                }
            }
        }
    }
    let mut held: Vec<HeldTransaction<'e>> =
        found.into_values().flatten().filter(|held| held.last.open_us >= min_open_us).collect();
    held.sort_by_key(|held| std::cmp::Reverse(held.last.open_us));
    held
}

/// Operations that waited for a lock on a resource which a transaction held.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LockWaiters<'e> {
    /// Their time as it was seen: each for the time since the reading before.
    pub(crate) seen_us: f64,
    pub(crate) resources: BTreeSet<&'e str>,
    pub(crate) namespaces: BTreeSet<&'e str>,
    /// The ends of the readings that saw them.
    pub(crate) at_ns: Vec<u64>,
}

impl<'e> LockWaiters<'e> {
    /// The waiting operations that were seen while it was open.
    pub(crate) fn of(evidence: &'e Evidence, member: &str, held: &HeldTransaction<'e>) -> LockWaiters<'e> {
        let mut waiters = LockWaiters::default();
        let Ok(number) = member.parse() else { return waiters };
        let mut last_ns = held.window.0;
        for work in work_readings(&evidence.results, number, held.window) {
            let span_ns = work.end_ns.saturating_sub(last_ns).min(MAX_SPAN_NS);
            last_ns = work.end_ns;
            let mut is_seen = false;
            for group in &work.operations {
                let Some(resource) = held.blocks(group) else { continue };
                is_seen = true;
                waiters.resources.insert(resource);
                waiters.namespaces.insert(&group.namespace);
                waiters.seen_us += group.count as f64 * span_ns as f64 / 1e3;
            }
            waiters.at_ns.extend(is_seen.then_some(work.end_ns));
        }
        waiters
    }
}

/// Writes that began while a transaction held changes, have not ended, and wait for nothing that the server names. An engine tries a write again
/// until no other transaction has changed the document, and counts that when the write ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RetriedWrites<'e> {
    /// Their time as it was seen, at least and at most.
    pub(crate) seen_us: (f64, f64),
    pub(crate) namespaces: BTreeSet<&'e str>,
}

impl<'e> RetriedWrites<'e> {
    /// The writes that were seen while it was open. Those of a kind that takes as long without it are left out, and those that use processors.
    pub(crate) fn of(evidence: &'e Evidence, member: &str, held: &HeldTransaction<'e>) -> RetriedWrites<'e> {
        let mut writes = RetriedWrites::default();
        let Some(number) = member.parse().ok().filter(|_| held.writes()) else { return writes };
        let key = |group: &'e OperationGroup| (group.kind.as_str(), group.namespace.as_str());
        let is_within = |end_ns: u64| (held.window.0..=held.window.1).contains(&end_ns);
        let all = work_readings(&evidence.results, number, evidence.window_ns);
        let (within, without): (Vec<_>, Vec<_>) = all.into_iter().partition(|work| is_within(work.end_ns));
        let long_without: BTreeSet<_> = without
            .iter()
            .flat_map(|work| &work.operations)
            .filter(|group| is_long_write(group))
            .map(key)
            .collect();
        let threads = ConnectionThreads::from_readings(&within);
        let mut last_ns = held.window.0;
        for work in within.iter().filter(|work| work.has_read_operations) {
            let span_us = work.end_ns.saturating_sub(last_ns).min(MAX_SPAN_NS) as f64 / 1e3;
            last_ns = work.end_ns;
            let is_its = |group: &&'e OperationGroup| {
                is_long_write(group)
                    && held.precedes(work.end_ns, group.longest_us)
                    && !held.is_own(group)
                    && !threads.are_busy(&group.connections)
                    && !long_without.contains(&key(group))
            };
            for group in work.operations.iter().filter(is_its) {
                let most = group.count as f64;
                let least = (group.running_us as f64 / group.longest_us as f64).clamp(1.0, most.max(1.0));
                writes.seen_us.0 += least * span_us;
                writes.seen_us.1 += most.max(least) * span_us;
                writes.namespaces.insert(&group.namespace);
            }
        }
        writes
    }
}

/// Whether the longest write of a group has been running for long, and does not wait for a lock.
fn is_long_write(group: &OperationGroup) -> bool {
    let action = WorkAction::of(&group.kind, group.plan.as_deref());
    action.is_write() && group.wait.is_none() && group.longest_us >= MIN_RETRIED_US
}

/// The processor time of connections' threads, by the number of the connection.
struct ConnectionThreads {
    processor_us: BTreeMap<u64, f64>,
    seconds: f64,
}

impl ConnectionThreads {
    fn from_readings(readings: &[&ServerWork]) -> ConnectionThreads {
        let mut threads = ConnectionThreads { processor_us: BTreeMap::new(), seconds: 0.0 };
        for work in readings.iter().filter(|work| !work.threads.is_empty()) {
            threads.seconds += work.end_ns.saturating_sub(work.begin_ns) as f64 / 1e9;
            for thread in &work.threads {
                let number = thread.name.strip_prefix("conn").and_then(|number| number.parse().ok());
                if let Some(number) = number {
                    *threads.processor_us.entry(number).or_default() += thread.processor_us as f64;
                }
            }
        }
        threads
    }

    /// Whether these connections use processors for a good part of the time. If no thread was read, nothing shows that.
    fn are_busy(&self, connections: &[u64]) -> bool {
        let used: f64 = connections.iter().filter_map(|number| self.processor_us.get(number)).sum();
        used > MAX_BUSY_PART * 1e6 * self.seconds * connections.len() as f64
    }
}

impl HeldTransaction<'_> {
    /// Whether it was open when an operation began that has been running for so long at a moment.
    fn precedes(&self, at_ns: u64, running_us: u64) -> bool {
        let begin = |at_ns: u64, age_us: u64| i128::from(at_ns) - 1000 * i128::from(age_us);
        let own = begin(self.window.1, self.last.open_us);
        begin(at_ns, running_us) >= own - i128::from(SAME_BEGIN_NS)
    }

    /// Whether the operations of a group are its own.
    fn is_own(&self, group: &OperationGroup) -> bool {
        self.last.connection.is_some_and(|own| group.connections == [own])
    }

    /// The resource for whose lock the operations of a group wait, if the transaction holds one on it.
    fn blocks<'g>(&self, group: &'g OperationGroup) -> Option<&'g str> {
        let resource = group.wait.as_deref()?.strip_prefix("lock ")?;
        let is_its = |lock: &String| lock.split(' ').next() == Some(resource);
        (!self.is_own(group) && self.last.locks.iter().any(is_its)).then_some(resource)
    }

    /// Whether it holds a lock to write.
    pub(crate) fn writes(&self) -> bool {
        self.last.locks.iter().any(|lock| lock.ends_with(" w") || lock.ends_with(" W"))
    }

    /// Whose it is: `checkout on 10.0.0.7 (connection 17, session 5f3a01c2)`.
    pub(crate) fn owner(&self) -> String {
        let OpenTransaction { application, driver, client, connection, session, .. } = self.last;
        let name = application.as_deref().or(driver.as_deref()).unwrap_or("a client without a name");
        let host = client.as_deref().map_or_else(String::new, |host| format!(" on {host}"));
        let numbers: Vec<String> = [
            connection.map(|number| format!("connection {number}")),
            session.as_ref().map(|hash| format!("session {hash}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        let numbers = if numbers.is_empty() { String::new() } else { format!(" ({})", numbers.join(", ")) };
        format!("{name}{host}{numbers}")
    }
}
