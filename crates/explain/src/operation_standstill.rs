//! Finds a server that answers and finishes nothing: pings come back, and operations that are under way do not end.
//!
//! Operations in flight are in no mean, because a server counts the time of an operation when it ends. So the mean of the operations that ended
//! says nothing about such a time. A server that answers nothing is in `standstill`, one that `fsync` locked in `fsync_lock`. Operations that run
//! for seconds, such as the scans of one client, wait for nothing: they use processors or read pages meanwhile.

use fathom_record::verdict::MIN_COST_SHARE;
use fathom_record::{Confidence, Finding, Point, Severity};
use fathom_stats::quantile;
use fathom_units::{Bytes, count};

use crate::caps::{REACHED_ID, reached_within};
use crate::client::{ClientLoads, points};
use crate::logged_operations::{logged_operations, namespace_of};
use crate::long_transaction;
use crate::member::{is_router, meets_clients, name_of};
use crate::seconds::mean;
use crate::server_devices::leaves;
use crate::server_work::work_readings;
use crate::standstill::{gain_of_stops, gain_without_client};
use crate::windows::{Window, in_ns, neighbours_as_one, overlap, read_in, spread_where};
use crate::{Evidence, Judgement};

/// The series that it is judged by.
pub(crate) const NEEDS: &[&str] = &[
    "server.{member}.reads.operations",
    "server.{member}.writes.operations",
    "server.{member}.tickets.read.out",
    "server.{member}.tickets.write.out",
    "server.{member}.clients.readers",
    "server.{member}.clients.writers",
    "server.{member}.queue.readers",
    "server.{member}.queue.writers",
    "server.{member}.checkpoint.running",
    "server.{member}.process.cpu_us",
    "server.{member}.process.run_wait_us",
    "server.{member}.wait.page_read_us",
    "host.cpu.idle_pct",
    "host.cpu.count",
];

const ID: &str = "operations-stand-still";
/// Findings that say why nothing ended, each for the same time.
const EXPLAINED_BY: [&str; 2] = ["server-stood-still", "fsync-lock"];
/// Operations a second that monitoring itself makes at most: this program asks for latencies each second, and others may do the same.
const MAX_MONITORING_PER_S: f64 = 3.0;
/// The least usual rate: a server with few operations ends none in many seconds.
const MIN_USUAL_PER_S: f64 = 20.0;
/// The largest part of the usual rate that counts as nothing.
const MAX_STANDSTILL_PART: f64 = 0.02;
/// The least length of a standstill, and the longest time between two readings of a server that answers.
const MIN_LENGTH_S: f64 = 2.0;
const MAX_READING_S: f64 = 2.5;
/// Where clients are watched, fewer seconds than this part are stalls, which have a rule of their own.
const MIN_SHARE_WATCHED: f64 = 0.2;
/// The least part of a standstill that the operations which end right behind it have waited.
const MIN_WAITED_PART: f64 = 0.5;
/// Operations run, and do not wait, if they are on a processor, want one or read pages for this part of their time.
const MIN_RUNNING_PART: f64 = 0.5;
/// The least part of a standstill in which their work must have been read.
const MIN_COVERED_PART: f64 = 0.5;
/// The least fill of a cache that operations make room in (WiredTiger's `eviction_trigger` is 95 %).
const MIN_CACHE_FILL: f64 = 0.95;
/// The standstills that a claim lists.
const MAX_MOMENTS: usize = 3;

/// Adds a finding for each server on which operations that were under way did not end.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    for member in evidence.members() {
        if is_router(evidence, &member) || !meets_clients(evidence, &member) {
            continue;
        }
        let Some(still) = OperationStandstill::from_evidence(evidence, judgement, &member) else { continue };
        let finding = still.finding(evidence, judgement, &member);
        judgement.findings.push(finding);
    }
}

/// Leaves a standstill that a cap made to the finding on the cap, if the cap explains the operations that ended too: it is one cause.
pub(crate) fn join_caps(findings: &mut [Finding]) {
    let is_costly = |one: &&mut Finding| {
        let share = one.cost.as_ref().map_or(0.0, |cost| cost.share);
        one.id == REACHED_ID && one.confidence != Confidence::CannotTell && share >= MIN_COST_SHARE
    };
    let still = findings.iter().position(|one| one.id == ID && one.claim.contains(AT_LIMIT));
    let Some(still) = still else { return };
    let Some((claim, lost)) =
        findings.get(still).map(|one| (one.claim.clone(), one.cost.as_ref().map(|cost| cost.words())))
    else {
        return;
    };
    let Some(cap) = findings.iter_mut().find(is_costly) else { return };
    let short = claim.split(": ").next().unwrap_or(&claim).to_owned();
    cap.claim = format!("{}. {short}, so clients that keep to a rate wait for seconds", cap.claim);
    cap.evidence.extend(lost.map(|lost| format!("These standstills add {lost}")));
    if let Some(still) = findings.get_mut(still) {
        still.cost = None;
        still.gain = None;
        still.severity = Severity::Note;
    }
}

/// The words of a device that its cap holds.
pub(crate) const AT_LIMIT: &str = "was at its limit of";

/// The times in which operations were under way and none ended.
struct OperationStandstill {
    windows: Vec<Window>,
    /// The operations a second in the other readings.
    usual_per_s: f64,
    /// Operations that held a ticket, that were at work or that queued within the server, on average.
    under_way: OpenOperations,
}

/// Operations that did not end, as the server counts them at a moment.
#[derive(Default)]
struct OpenOperations {
    write_tickets: f64,
    read_tickets: f64,
    clients: f64,
    queued: f64,
}

impl OpenOperations {
    fn within(evidence: &Evidence, member: &str, windows: &[Window]) -> OpenOperations {
        let gauge = |tail: &str| gauge_within(evidence, &format!("server.{member}.{tail}"), windows);
        OpenOperations {
            write_tickets: gauge("tickets.write.out"),
            // The command that reads the counters holds one.
            read_tickets: (gauge("tickets.read.out") - 1.0).max(0.0),
            clients: gauge("clients.readers") + gauge("clients.writers"),
            queued: gauge("queue.readers") + gauge("queue.writers"),
        }
    }

    fn most(&self) -> f64 {
        (self.write_tickets + self.read_tickets).max(self.clients).max(self.queued)
    }

    /// Whether no operation that writes is among them.
    fn are_reads(&self) -> bool {
        self.write_tickets < 1.0 && self.read_tickets + self.clients >= 1.0
    }

    fn words(&self) -> Option<String> {
        let (writes, reads) = (self.write_tickets.round(), self.read_tickets.round());
        let mut words = Vec::new();
        if writes >= 1.0 {
            words.push(format!("{writes:.0} write tickets were out"));
        }
        if reads >= 1.0 {
            words.push(format!("{reads:.0} read tickets were out"));
        }
        if words.is_empty() && self.clients >= 1.0 {
            words.push(format!("{:.0} operations were at work", self.clients));
        }
        if self.queued >= 1.0 {
            words.push(format!("{:.0} operations queued within the server", self.queued));
        }
        (!words.is_empty()).then(|| words.join(" and "))
    }
}

/// The mean of a gauge at the moments within the windows; 0 if it was not read.
fn gauge_within(evidence: &Evidence, name: &str, windows: &[Window]) -> f64 {
    let is_within =
        |point: &&Point| windows.iter().any(|(begin, end)| point.end_ns > *begin && point.end_ns <= *end);
    mean(points(evidence, name).iter().filter(is_within).map(|point| point.value)).unwrap_or(0.0)
}

fn length_s((begin_ns, end_ns): Window) -> f64 {
    end_ns.saturating_sub(begin_ns) as f64 / 1e9
}

/// The operations of each reading, reads and writes together.
fn ended(evidence: &Evidence, member: &str, tail: &str) -> Vec<Point> {
    let of = |kind: &str| points(evidence, &format!("server.{member}.{kind}.{tail}"));
    let writes = of("writes");
    let with_writes = |read: &Point| {
        let at = writes.partition_point(|write| write.end_ns < read.end_ns);
        let write =
            writes.get(at).filter(|write| write.end_ns == read.end_ns && write.begin_ns == read.begin_ns)?;
        let value = read.value + write.value;
        value.is_finite().then_some(Point { value, ..*read })
    };
    of("reads").iter().filter_map(with_writes).collect()
}

impl OperationStandstill {
    fn from_evidence(
        evidence: &Evidence,
        judgement: &Judgement,
        member: &str,
    ) -> Option<OperationStandstill> {
        let ended = ended(evidence, member, "operations");
        let length = |point: &Point| length_s((point.begin_ns, point.end_ns));
        let per_s = |point: &Point| point.value / length(point).max(1e-9);
        let busy: Vec<f64> = ended.iter().map(per_s).filter(|rate| *rate > MAX_MONITORING_PER_S).collect();
        let usual_per_s = quantile(&busy, 0.5).filter(|rate| *rate >= MIN_USUAL_PER_S)?;
        let nothing = |point: &&Point| {
            per_s(point) <= MAX_MONITORING_PER_S.max(MAX_STANDSTILL_PART * usual_per_s)
                && length(point) <= MAX_READING_S
        };
        let still = ended
            .iter()
            .filter(nothing)
            .map(|point| (point.begin_ns as f64 / 1e9, point.end_ns as f64 / 1e9));
        let explained: Vec<Window> = judgement
            .findings
            .iter()
            .filter(|one| EXPLAINED_BY.contains(&one.id.as_str()))
            .flat_map(|one| one.windows_ns.iter().copied())
            .collect();
        let times = self::ended(evidence, member, "latency_us");
        let windows: Vec<Window> = neighbours_as_one(still)
            .into_iter()
            .map(in_ns)
            .filter(|window| length_s(*window) >= MIN_LENGTH_S - 0.1)
            .filter(|window| !explained.iter().any(|one| overlap(*one, *window)))
            .filter(|window| are_waiting(evidence, member, &times, *window))
            .collect();
        let total_s: f64 = windows.iter().map(|window| length_s(*window)).sum();
        let is_watched = ClientLoads::from_evidence(evidence).is_some();
        let least_s =
            if is_watched { MIN_SHARE_WATCHED * length_s(evidence.window_ns) } else { MIN_LENGTH_S - 0.1 };
        let under_way = OpenOperations::within(evidence, member, &windows);
        (total_s >= least_s && !windows.is_empty()).then_some(OperationStandstill {
            windows,
            usual_per_s,
            under_way,
        })
    }

    fn total_s(&self) -> f64 {
        self.windows.iter().map(|window| length_s(*window)).sum()
    }

    fn finding(&self, evidence: &Evidence, judgement: &Judgement, member: &str) -> Finding {
        let mut causes = self.causes(evidence, member);
        causes.extend(self.transaction(judgement, member));
        let writers = LargestWriters::from_evidence(evidence, member);
        let who = writers.as_ref().and_then(|writers| writers.claim.clone());
        let because: Vec<String> =
            self.under_way.words().into_iter().chain(causes.iter().cloned()).chain(who).collect();
        let begins =
            self.windows.iter().take(MAX_MOMENTS).map(|window| format!("{:.0} s", window.0 as f64 / 1e9));
        let more = if self.windows.len() > MAX_MOMENTS { " and later" } else { "" };
        let mut claim = format!(
            "For {:.0} of {:.0} s (from {}{more} on) server {member} answered and finished no operation",
            self.total_s(),
            length_s(evidence.window_ns),
            begins.collect::<Vec<_>>().join(" and ")
        );
        if !because.is_empty() {
            claim.push_str(&format!(": {}", because.join("; ")));
        }
        let missing = count(self.usual_per_s * self.total_s());
        let mut finding = Finding::new(ID, Severity::Note, claim)
            .confidence(Confidence::Likely)
            .evidence(format!(
                "{} answered each second meanwhile. In the other seconds it ended {} operations a second: at that rate {missing} were not served.",
                name_of(evidence, member),
                count(self.usual_per_s)
            ))
            .evidence("The means of the operations that ended hold none of this wait: a server counts an operation when it ends.")
            .advice(advice(&causes))
            .next_look("Which operations are under way: db.currentOp() with secs_running, while it lasts.")
            .series(["reads.operations", "writes.operations"].map(|tail| format!("server.{member}.{tail}")));
        finding.evidence.extend(writers.map(|writers| writers.words));
        let lengths_s: Vec<f64> = self.windows.iter().map(|window| length_s(*window)).collect();
        finding.gain = gain_of_stops(evidence, judgement, member, &self.windows)
            .or_else(|| gain_without_client(evidence, judgement, member, &lengths_s, 1.0));
        self.windows.iter().copied().fold(finding, Finding::window)
    }

    /// The transaction whose locks operations waited for in that time, as the finding on it says.
    fn transaction(&self, judgement: &Judgement, member: &str) -> Option<String> {
        let of_member = format!("server.{member}.");
        let is_its = |one: &&Finding| {
            let mut meets =
                one.windows_ns.iter().flat_map(|held| self.windows.iter().map(|own| (*held, *own)));
            one.id == long_transaction::ID
                && one.claim.contains(long_transaction::HOLDS_LOCKS)
                && one.series.iter().any(|name| name.starts_with(&of_member))
                && meets.any(|(held, own)| overlap(held, own))
        };
        let claim = &judgement.findings.iter().find(is_its)?.claim;
        Some(claim.strip_prefix("A ").map_or_else(|| claim.clone(), |rest| format!("a {rest}")))
    }

    /// The states of the device and of the engine in that time that may hold the operations up, a part of a sentence each.
    fn causes(&self, evidence: &Evidence, member: &str) -> Vec<String> {
        let gauge = |tail: &str| gauge_within(evidence, &format!("server.{member}.{tail}"), &self.windows);
        let mut causes = Vec::new();
        for device in leaves(evidence, member) {
            let limit = reached_within(evidence, &device, &self.windows);
            causes.extend(limit.or_else(|| written_words(evidence, &device, &self.windows)));
        }
        if gauge("checkpoint.running") >= 0.5 {
            causes.push("a checkpoint ran".to_owned());
        }
        let (used, most) = (gauge("cache.used_bytes"), gauge("cache.most_bytes"));
        if most > 0.0 && used >= MIN_CACHE_FILL * most {
            causes.push(format!(
                "the cache was {:.0} % full, so operations make room in it",
                100.0 * used / most
            ));
        }
        causes
    }
}

/// Whether operations were under way in a time without ends, and waited for something.
fn are_waiting(evidence: &Evidence, member: &str, times_us: &[Point], window: Window) -> bool {
    let under_way = OpenOperations::within(evidence, member, &[window]);
    let waited_through = waited_through(times_us, window);
    if under_way.most() < 1.0 && waited_through < MIN_WAITED_PART {
        return false;
    }
    let held = under_way.most().max(waited_through);
    under_way.queued >= 1.0 || running(evidence, member, &under_way, window) < MIN_RUNNING_PART * held
}

/// The operations that waited through a standstill, by the time of those that ended right behind it.
fn waited_through(times_us: &[Point], window: Window) -> f64 {
    let behind = times_us.iter().find(|point| point.begin_ns + 1_000_000 >= window.1);
    behind.map_or(0.0, |point| point.value / (1e6 * length_s(window)))
}

/// The operations that ran in a window, on average: those that used processors, and those that read pages from a device without a reached limit.
fn running(evidence: &Evidence, member: &str, under_way: &OpenOperations, window: Window) -> f64 {
    let seconds_per_s = |tail: &str| {
        let read = points(evidence, &format!("server.{member}.{tail}"));
        let us = spread_where(read, &[window], MIN_COVERED_PART).first().copied().flatten()?;
        Some(us / 1e6 / length_s(window))
    };
    // Threads of the engine wait for processors too, but hardly work for reads.
    let wanted = seconds_per_s("process.run_wait_us").filter(|_| under_way.are_reads()).unwrap_or(0.0);
    let on_processors = processors_of_connections(evidence, member, window)
        .or_else(|| Some(seconds_per_s("process.cpu_us")? + wanted))
        .or_else(|| busy_processors(evidence, window))
        .unwrap_or(0.0);
    let is_limited =
        leaves(evidence, member).iter().any(|device| reached_within(evidence, device, &[window]).is_some());
    let reading = seconds_per_s("wait.page_read_us").filter(|_| !is_limited).unwrap_or(0.0);
    on_processors + reading
}

/// The connections' threads that were on a processor or waited for one, on average; `None` if no thread was read in the window.
fn processors_of_connections(evidence: &Evidence, member: &str, window: Window) -> Option<f64> {
    let readings = work_readings(&evidence.results, member.parse().ok()?, window);
    let (mut us, mut seconds) = (0.0, 0.0);
    for work in readings.into_iter().filter(|work| work.end_ns > window.0 && !work.threads.is_empty()) {
        seconds += length_s((work.begin_ns, work.end_ns));
        let connections = work.threads.iter().filter(|thread| thread.name.starts_with("conn"));
        us += connections.map(|thread| (thread.processor_us + thread.run_wait_us) as f64).sum::<f64>();
    }
    (seconds > 0.0).then(|| us / 1e6 / seconds)
}

/// The host's processors that were busy, which is the most that the server can have used. A processor that waits for a device is free.
fn busy_processors(evidence: &Evidence, window: Window) -> Option<f64> {
    let mean = |name: &str| read_in(points(evidence, name), &[window]).first().copied().flatten();
    let idle_pct = mean("host.cpu.idle_pct")? + mean("host.cpu.iowait_pct").unwrap_or(0.0);
    Some(mean("host.cpu.count")? * (1.0 - idle_pct / 100.0).max(0.0))
}

/// The bytes that a device without a reached cap wrote a second.
fn written_words(evidence: &Evidence, device: &str, windows: &[Window]) -> Option<String> {
    let name = format!("device.{device}.written_bytes");
    let met = points(evidence, &name)
        .iter()
        .filter(|point| windows.iter().any(|one| overlap(*one, (point.begin_ns, point.end_ns))));
    let (bytes, seconds) = met.fold((0.0, 0.0), |(bytes, seconds), point| {
        (bytes + point.value, seconds + length_s((point.begin_ns, point.end_ns)))
    });
    let per_s = Bytes((bytes / f64::max(seconds, 1e-9)).max(0.0) as u64);
    (seconds > 0.0 && per_s.0 >= 1 << 20).then(|| format!("{device} wrote {per_s} a second"))
}

/// The commands of the log for a kind of change.
const WRITERS: [(&str, &[&str]); 3] = [
    ("inserted", &["insert"]),
    ("updated", &["update", "findAndModify"]),
    ("deleted", &["remove", "delete"]),
];

/// The kind of change that most written documents have, and the collections that the log names for it.
struct LargestWriters {
    claim: Option<String>,
    words: String,
}

impl LargestWriters {
    /// `None` if nothing was written, or if documents were not counted.
    fn from_evidence(evidence: &Evidence, member: &str) -> Option<LargestWriters> {
        let changed = |kind: &str| evidence.sum(&format!("server.{member}.documents.{kind}")).unwrap_or(0.0);
        let (kind, commands) =
            WRITERS.into_iter().max_by(|one, other| changed(one.0).total_cmp(&changed(other.0)))?;
        if changed(kind) < 1.0 {
            return None;
        }
        let all: f64 = WRITERS.iter().map(|(kind, _)| changed(kind)).sum();
        let bytes = evidence.sum(&format!("server.{member}.network.in_bytes")).unwrap_or(0.0);
        let mut namespaces: Vec<String> = logged_operations(evidence, member)
            .filter(|one| commands.contains(&one.operation.as_str()))
            .map(namespace_of)
            .collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces.truncate(MAX_MOMENTS);
        let percent = format!("{:.0} %", 100.0 * changed(kind) / all);
        let named = (!namespaces.is_empty()).then(|| namespaces.join(", "));
        Some(LargestWriters {
            claim: named.as_ref().map(|named| format!("{percent} of what is written is {kind} in {named}")),
            words: format!(
                "Of {} documents that were written {percent} were {kind}; {} came in over the network.",
                count(all),
                Bytes(bytes.max(0.0) as u64)
            ),
        })
    }
}

fn advice(causes: &[String]) -> String {
    if causes.iter().any(|cause| cause.contains(AT_LIMIT)) {
        "Lift the limit of the control group if it is not meant, or write less at a time: what is written exceeds what the limit lets pass.".to_owned()
    } else {
        "Write less at a time, or give the server a device that takes it; see which operations are under way."
            .to_owned()
    }
}

#[cfg(test)]
mod tests;
