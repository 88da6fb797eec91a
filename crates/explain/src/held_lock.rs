//! Names the operation that held a lock while others waited for it: a foreground build of an index, `collMod`, `drop` and their like.
//!
//! The server's log names such an operation with its time, or readings of `$currentOp` see it run, and the server counts what others waited for
//! locks. The cost is their wait: the time of the operation itself is no loss of theirs.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::{Confidence, Finding, Gain, OperationGroup, Severity, SlowOperation};
use fathom_units::{Nanos, decimal};

use crate::client::points;
use crate::logged_operations::{logged_operations, namespace_of, window_of};
use crate::member::name_of;
use crate::server_work::work_readings;
use crate::standstill::{gain_of_stops, gain_without_client};
use crate::windows::{Window, overlap};
use crate::{Evidence, Judgement};

/// The series that it is judged by, next to the server's log.
pub(crate) const NEEDS: &[&str] = &[
    "server.{member}.wait.lock_us",
    "server.{member}.reads.latency_us",
    "server.{member}.writes.latency_us",
];

const ID: &str = "lock-held-by";
const INDEX_BUILD: &str = "createIndexes";
/// Commands that take a collection or a database for themselves, for as long as they run or for a part of it.
const HOLDERS: &[&str] = &[
    INDEX_BUILD,
    "cloneCollectionAsCapped",
    "collMod",
    "compact",
    "convertToCapped",
    "deleteIndexes",
    "drop",
    "dropDatabase",
    "dropIndexes",
    "reIndex",
    "renameCollection",
];
/// The least part of all waits for locks that fall into the time of one holder.
const MIN_HOLDER_PART: f64 = 0.5;
/// A wait is counted when it ends, and read at the next sample, a second later and sometimes late.
const MAX_READING_DELAY_NS: u64 = 1_500_000_000;
/// The times that a claim lists.
const MAX_TIMES: usize = 3;

/// Adds a finding for each server on which one command held the lock that others waited for.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    for member in evidence.members() {
        let Some(finding) = finding(evidence, judgement, &member) else { continue };
        let of_member = format!("server.{member}.");
        let is_general = |one: &&mut Finding| {
            one.id == "tickets-or-locks" && one.series.iter().any(|name| name.starts_with(&of_member))
        };
        for general in judgement.findings.iter_mut().filter(is_general) {
            general.confidence = Confidence::CannotTell;
            general.severity = Severity::Note;
            general.evidence.push(format!("The lock has a holder: {}.", finding.claim));
        }
        judgement.findings.push(finding);
    }
}

/// The runs of one command on one collection, and what others waited for locks meanwhile.
struct LockHolder {
    operation: String,
    namespace: String,
    windows: Vec<Window>,
    waited_us: f64,
    /// Other slow operations of the log that spent half of their time waiting for a lock.
    waiters: usize,
    /// Whether readings saw some of the runs that the log does not have: these took longer than the reading shows.
    is_seen: bool,
}

fn finding(evidence: &Evidence, judgement: &Judgement, member: &str) -> Option<Finding> {
    let holder = largest_holder(evidence, member)?;
    let all_us = lock_waits_us(evidence, member, &[evidence.window_ns]);
    let sum = |name: &str| evidence.sum(&format!("server.{member}.{name}")).unwrap_or(0.0);
    let served_us = sum("reads.latency_us") + sum("writes.latency_us");
    if holder.waited_us <= 0.0 || holder.waited_us < MIN_HOLDER_PART * all_us || served_us <= 0.0 {
        return None;
    }
    let lengths_s: Vec<f64> =
        holder.windows.iter().map(|(begin_ns, end_ns)| (end_ns - begin_ns) as f64 / 1e9).collect();
    let of_server = (holder.waited_us / served_us).min(1.0);
    let mut finding = Finding::new(ID, Severity::Note, holder.claim(&lengths_s))
        .confidence(Confidence::Likely)
        .evidence(format!(
            "On {}, operations waited {} for locks while it ran and until the next reading, {:.0} % of all waits for locks and {:.0} % of the time of all operations.",
            name_of(evidence, member),
            seconds(holder.waited_us),
            100.0 * (holder.waited_us / all_us.max(holder.waited_us)),
            100.0 * of_server
        ))
        .advice(holder.advice())
        .command(format!(
            "mongosh --eval 'db.currentOp({{\"command.{}\": {{$exists: true}}}}).inprog'    # while it runs: its opid and progress",
            holder.operation
        ))
        .next_look("The server's log names the connection, and its 'connection accepted' line the client.")
        .source("https://www.mongodb.com/docs/manual/faq/concurrency/")
        .series(["wait.lock_us", "reads.latency_us", "writes.latency_us"].map(|name| format!("server.{member}.{name}")));
    if holder.waiters > 0 {
        finding = finding.evidence(format!(
            "The log has {} slow operations that spent half of their time or more waiting for a lock meanwhile.",
            holder.waiters
        ));
    }
    let gain = gain_of_stops(evidence, judgement, member, &holder.windows)
        .or_else(|| gain_without_client(evidence, judgement, member, &lengths_s, 1.0))?;
    finding.gain = Some(Gain {
        // The waits for the lock were counted, so that much is certain.
        interval: (of_server.min(gain.share), of_server.max(gain.share)),
        ..gain
    });
    Some(holder.windows.iter().copied().fold(finding, Finding::window))
}

/// The command during whose runs others waited longest for locks.
fn largest_holder(evidence: &Evidence, member: &str) -> Option<LockHolder> {
    let mut runs: BTreeMap<(String, String), Vec<Window>> = BTreeMap::new();
    // One that waited for its lock itself held nothing that others waited for.
    let is_holder = |one: &&SlowOperation| is_lock_holder(&one.operation) && !waited_for_lock(one);
    for one in logged_operations(evidence, member).filter(is_holder) {
        runs.entry((one.operation.clone(), namespace_of(one))).or_default().push(window_of(one));
    }
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    for (key, window) in seen_runs(evidence, member) {
        let logged = runs.entry(key.clone()).or_default();
        if !logged.iter().any(|one| overlap(*one, window)) {
            logged.push(window);
            logged.sort_unstable();
            seen.insert(key);
        }
    }
    let holder = |((operation, namespace), windows): ((String, String), Vec<Window>)| {
        let is_seen = seen.contains(&(operation.clone(), namespace.clone()));
        let waited = |one: &&SlowOperation| {
            let meets = windows.iter().any(|window| overlap(*window, window_of(one)));
            !is_lock_holder(&one.operation) && meets && waited_for_lock(one)
        };
        let logged = logged_operations(evidence, member).filter(waited);
        let (waiters, logged_us) =
            logged.fold((0, 0.0), |(count, us), one| (count + 1, us + one.lock_wait_us.unwrap_or(0) as f64));
        let until_read: Vec<Window> = windows
            .iter()
            .map(|(begin_ns, end_ns)| (*begin_ns, end_ns.saturating_add(MAX_READING_DELAY_NS)))
            .collect();
        let waited_us = lock_waits_us(evidence, member, &until_read).max(logged_us);
        LockHolder { operation, namespace, windows, waited_us, waiters, is_seen }
    };
    runs.into_iter().map(holder).max_by(|one, other| one.waited_us.total_cmp(&other.waited_us))
}

/// Whether a command takes a collection or a database for itself.
pub(crate) fn is_lock_holder(command: &str) -> bool {
    HOLDERS.contains(&command)
}

/// Whether an operation waited for locks for half of its time or more.
pub(crate) fn waited_for_lock(one: &SlowOperation) -> bool {
    2.0 * one.lock_wait_us.unwrap_or(0) as f64 >= 1e3 * one.duration_ms as f64
}

/// The runs of holders that readings of `$currentOp` saw, each from its begin to the last reading that saw it.
fn seen_runs(evidence: &Evidence, member: &str) -> Vec<((String, String), Window)> {
    let Ok(number) = member.parse() else { return Vec::new() };
    let mut runs: BTreeMap<(String, String, Option<String>), Window> = BTreeMap::new();
    for work in work_readings(&evidence.results, number, evidence.window_ns) {
        let holds = |one: &&OperationGroup| one.wait.is_none() && is_lock_holder(&one.kind);
        for one in work.operations.iter().filter(holds) {
            let begin_ns = work.end_ns.saturating_sub(one.longest_us.saturating_mul(1000));
            let key = (one.kind.clone(), one.namespace.clone(), one.longest_operation.clone());
            let run = runs.entry(key).or_insert((begin_ns, work.end_ns));
            *run = (run.0.min(begin_ns), work.end_ns);
        }
    }
    runs.into_iter().map(|((kind, namespace, _), window)| ((kind, namespace), window)).collect()
}

/// The wait of all operations for locks, by the server's count, in the readings that meet these windows.
fn lock_waits_us(evidence: &Evidence, member: &str, windows: &[Window]) -> f64 {
    let points = points(evidence, &format!("server.{member}.wait.lock_us"));
    let meets = points
        .iter()
        .filter(|point| windows.iter().any(|window| overlap(*window, (point.begin_ns, point.end_ns))));
    meets.map(|point| point.value).filter(|value| value.is_finite()).sum()
}

fn seconds(us: f64) -> String {
    format!("{} s", decimal(us / 1e6))
}

impl LockHolder {
    fn claim(&self, lengths_s: &[f64]) -> String {
        let time = |length_s: &f64| Nanos((length_s * 1e9) as u64).to_string();
        let lengths: Vec<String> = lengths_s.iter().take(MAX_TIMES).map(time).collect();
        let began = |window: &Window| format!("{:.0} s", window.0 as f64 / 1e9);
        let begins: Vec<String> = self.windows.iter().take(MAX_TIMES).map(began).collect();
        let times = match self.windows.len() {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            count => format!("{count} times"),
        };
        let more = if self.windows.len() > MAX_TIMES { " and more" } else { "" };
        let least = if self.is_seen { "at least " } else { "" };
        format!(
            "{} on {} held a lock {times}, for {least}{}{more} (from {}{more} on), and other operations waited {} for it in all",
            self.words(),
            self.namespace,
            lengths.join(" and "),
            begins.join(" and "),
            seconds(self.waited_us)
        )
    }

    fn words(&self) -> String {
        match self.operation.as_str() {
            INDEX_BUILD => format!("An index build ({INDEX_BUILD})"),
            other => format!("The command {other}"),
        }
    }

    fn advice(&self) -> &'static str {
        match self.operation.as_str() {
            INDEX_BUILD => {
                "Build indexes while few operations run, or on one member after the other. Before version 4.2 give {background: true}; from 4.2 on a build holds the lock at its begin and end alone."
            }
            _ => "Run such commands while few operations run: others wait until they have ended.",
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::budget::Budget;
    use fathom_record::disk::Entry;
    use fathom_record::{Point, SeriesSet};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn slow(operation: &str, duration_ms: u64, lock_wait_us: u64) -> Entry {
        Entry::SlowOperation(Box::new(SlowOperation {
            ended_ns: 21 * SECOND,
            namespace: "a.$cmd".to_owned(),
            operation: operation.to_owned(),
            duration_ms,
            lock_wait_us: Some(lock_wait_us),
            line: format!("command a.$cmd command: {operation} {{ {operation}: \"t\" }}"),
            ..SlowOperation::default()
        }))
    }

    /// A minute in which operations wait for locks in one second.
    fn judged(results: Vec<Entry>, wait_at: u64) -> Vec<Finding> {
        let mut series = SeriesSet::default();
        for second in 0..60u64 {
            let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
            let wait_us = if second == wait_at { 20e6 } else { 0.0 };
            for (name, value) in [
                ("reads.operations", 400.0),
                ("writes.operations", 400.0),
                ("reads.latency_us", 40_000.0 + wait_us),
                ("writes.latency_us", 40_000.0),
                ("wait.lock_us", wait_us),
            ] {
                series.add(&format!("server.0.{name}"), "us", Point { begin_ns, end_ns, value });
            }
        }
        let evidence = Evidence { series, results, window_ns: (0, 60 * SECOND), ..Evidence::default() };
        let budget = Budget {
            member: "0".into(),
            operations: "all".into(),
            count: 48_000.0,
            window_ns: evidence.window_ns,
            client_mean_us: None,
            server_mean_us: 500.0,
            layers: Vec::new(),
            unexplained_us: 0.0,
            closure: 1.0,
            closes: true,
            missing: Vec::new(),
        };
        let mut judgement = Judgement { budgets: vec![budget], ..Judgement::default() };
        judge(&evidence, &mut judgement);
        judgement.findings
    }

    #[test]
    fn an_index_build_is_named_with_what_others_waited() {
        let found = judged(vec![slow("createIndexes", 1500, 0), slow("find", 1400, 1_390_000)], 20);
        let [finding] = found.as_slice() else { panic!("{found:#?}") };
        assert!(
            finding.claim.starts_with("An index build (createIndexes) on a.t held a lock once, for 1.50 s"),
            "{finding:#?}"
        );
        assert!(finding.claim.contains("waited 20.0 s for it"), "{finding:#?}");
        let gain = finding.gain.as_ref().unwrap();
        // 20 of 24.8 s of all operations' time; operations due meanwhile wait 0.75 s each, 19 ms of the mean.
        assert!((gain.interval.0 - 20.0 / 24.8).abs() < 0.01 && gain.share > 0.95, "{gain:?}");
    }

    #[test]
    fn a_build_that_no_log_names_is_named_as_readings_see_it() {
        let seen = |end_ns: u64, longest_us| {
            let build = OperationGroup {
                kind: "createIndexes".to_owned(),
                namespace: "a.t".to_owned(),
                phase: Some("Index Build".to_owned()),
                longest_us,
                longest_operation: Some("17".to_owned()),
                count: 1,
                ..OperationGroup::default()
            };
            let operations = vec![build];
            Entry::ServerWork(Box::new(fathom_record::ServerWork {
                end_ns,
                operations,
                ..Default::default()
            }))
        };
        let runs = vec![seen(20 * SECOND, 400_000), seen(21 * SECOND, 1_400_000)];
        let found = judged(runs.clone(), 20);
        let [finding] = found.as_slice() else { panic!("{found:#?}") };
        assert!(
            finding
                .claim
                .starts_with("An index build (createIndexes) on a.t held a lock once, for at least 1.40 s"),
            "{finding:#?}"
        );
        // One that the log has too is counted once, by the log. An idle server loses nothing by a build.
        let both = [runs.clone(), vec![slow("createIndexes", 1500, 0)]].concat();
        assert!(judged(both, 20)[0].claim.contains("held a lock once, for 1.50 s"));
        assert_eq!(judged(runs, 40), []);
    }

    #[test]
    fn a_build_that_delays_no_operation_is_not_named() {
        assert_eq!(judged(vec![slow("createIndexes", 1500, 0)], 40), []);
        assert_eq!(judged(vec![slow("find", 1500, 1_400_000)], 20), []);
        let build = slow("createIndexes", 1500, 1_400_000);
        assert_eq!(judged(vec![build], 20), [], "it waited for the lock itself");
    }
}
