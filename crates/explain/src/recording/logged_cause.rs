//! Names the operations of the server's log behind an incident, and prices what the others lose by them.
//!
//! A recording counts reads and writes alone. Scans are reads and imports are writes, so the operations of the other kind are those of others:
//! their time in the incident, compared with the calm around it, is the cost (docs/methods.md#the-operations-behind-an-incident).

use fathom_record::Confidence;
use fathom_record::incident::Incident;
use fathom_record::verdict::{Domain, MIN_COST_SHARE};
use fathom_units::{Nanos, count, decimal};

use super::incident_counters::{ComparedFigure, IncidentCounters, KindTimes};
use crate::logged_work::{LoggedUse, LoggedWork};
use crate::queue::time;
use crate::work_users::WorkAction;

pub(super) const SCAN: &str = "collection-scan";
pub(super) const BULK_WRITER: &str = "bulk-writer";
pub(super) const LOCK_HELD: &str = "lock-held-by";

/// Scans explain an incident if they took this part of the time by which operations took longer.
const MIN_SCAN_PART: f64 = 0.5;
/// An import changes this many documents a second, this many times as many as usual, and this part of all that are changed.
const MIN_CHANGED_PER_S: f64 = 1000.0;
const MIN_CHANGED_RATIO: f64 = 4.0;
const MIN_CHANGED_PART: f64 = 0.8;
/// Processors with less idle time are busy, in percent.
const MAX_BUSY_IDLE_PCT: f64 = 10.0;
/// The runs of a command that a sentence lists.
const MAX_RUNS: usize = 3;
/// The causes of incidents that tell a resource, or nothing: operations may be behind them.
const GENERAL: [&str; 6] = ["processors", "client-load", "cache", "more-pages", "tickets", "unknown"];
/// The incidents of a disk that is slow. Operations of the log may fill it, and it may be slow by itself.
const OF_DISK: [&str; 3] = ["storage-reads", "storage-journal", "long-checkpoint"];

/// Whether the cause of an incident is the work of some operations.
pub(super) fn is_of_work(incident: &Incident) -> bool {
    [SCAN, BULK_WRITER].contains(&incident.cause.as_str())
}

/// Names the operations behind each incident, as far as the log and the counters show them.
pub(super) fn name_operations(incidents: &mut [Incident], counters: &[IncidentCounters], work: &LoggedWork) {
    for (number, (incident, counters)) in incidents.iter_mut().zip(counters).enumerate() {
        let uses = work.of_incident(number);
        let named = LoggedCause { incident, counters, uses: &uses }.find();
        if let Some(named) = named {
            named.write(incident);
        }
    }
}

/// An incident with what the log has of it.
struct LoggedCause<'l> {
    incident: &'l Incident,
    counters: &'l IncidentCounters,
    uses: &'l [&'l LoggedUse],
}

/// The operations behind an incident.
struct NamedCause {
    /// The id of the cause; `None` if they use what is short, and nothing shows that they make it so.
    id: Option<&'static str>,
    sentence: String,
    evidence: Vec<String>,
    next: String,
    cost: NamedCost,
}

/// The loss of the others.
enum NamedCost {
    /// It is that of the incident.
    OfIncident,
    /// It is that of the operations of the other kind: `writes` or `reads`.
    OfOtherKind(&'static str, KindTimes),
    Unknown,
}

impl LoggedCause<'_> {
    fn find(&self) -> Option<NamedCause> {
        self.lock_holder().or_else(|| self.scans()).or_else(|| self.writer())
    }

    fn is(&self, causes: &[&str]) -> bool {
        causes.contains(&self.incident.cause.as_str())
    }

    /// The command that held the lock for which operations waited.
    fn lock_holder(&self) -> Option<NamedCause> {
        let holds = |one: &&&LoggedUse| !one.held_ms.is_empty();
        let holder = self.uses.iter().filter(holds).max_by_key(|one| one.held_ms.iter().sum::<u64>())?;
        if !self.is(&["locks"]) {
            return None;
        }
        let times = match holder.held_ms.len() {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            count => format!("{count} times"),
        };
        let lengths =
            holder.held_ms.iter().take(MAX_RUNS).map(|ms| Nanos(ms.saturating_mul(1_000_000)).to_string());
        let more = if holder.held_ms.len() > MAX_RUNS { " and more" } else { "" };
        let subject = match &holder.user.action {
            WorkAction::IndexBuild => format!("An index build ({})", holder.operation),
            _ => format!("The command {}", holder.operation),
        };
        let waited = lower_first(&self.incident.sentence);
        let waited_s: f64 =
            self.uses.iter().filter(|one| one.held_ms.is_empty()).map(|one| one.lock_wait_s).sum();
        Some(NamedCause {
            id: Some(LOCK_HELD),
            sentence: format!(
                "{subject} on {} held a lock {times}, for {}{more}, and {waited}",
                holder.user.namespace,
                lengths.collect::<Vec<_>>().join(" and ")
            ),
            evidence: vec![format!(
                "The slow operations of the log that held no such lock waited {} s for locks.",
                decimal(waited_s)
            )],
            next: "Run such commands while few operations run, or on one member after the other.".to_owned(),
            cost: NamedCost::OfIncident,
        })
    }

    /// Scans without an index, if their own time explains that operations took longer.
    fn scans(&self) -> Option<NamedCause> {
        let is_scan = |one: &&&LoggedUse| one.user.action == WorkAction::Scan;
        let scans = self.uses.iter().find(is_scan)?;
        let is_growth = scans.time_s >= MIN_SCAN_PART * self.incident.lost_s && self.incident.lost_s > 0.0;
        if !is_growth || !self.is(&GENERAL) && !self.is(&OF_DISK) {
            return None;
        }
        let mean_ms = 1e3 * scans.time_s / scans.count.max(1) as f64;
        let each = scans.documents_examined / scans.count.max(1);
        let (used, is_cause) = self.used_words();
        Some(NamedCause {
            id: is_cause.then_some(SCAN),
            sentence: format!(
                "{} {used}: {} slow ones of {mean_ms:.0} ms on average, which examined {} documents each.",
                upper_first(&scans.user.words()),
                count(scans.count as f64),
                count(each as f64)
            ),
            evidence: self.examined_words(each).into_iter().collect(),
            next: "Give these queries an index: the shapes below have the fields.".to_owned(),
            cost: match self.counters.writes {
                Some(writes) => NamedCost::OfOtherKind("Writes", writes),
                None => NamedCost::Unknown,
            },
        })
    }

    /// The documents that the server counted as examined, as so many scans of the logged size.
    fn examined_words(&self, each: u64) -> Option<String> {
        let ComparedFigure { now, usual } = self.counters.examined_per_s?;
        Some(format!(
            "Queries examined {} documents a second (usually {}), as {} such scans a second do.",
            count(now),
            count(usual),
            decimal(now / each.max(1) as f64)
        ))
    }

    /// Writes of one kind into one collection that the log has, if most changed documents are theirs.
    fn writer(&self) -> Option<NamedCause> {
        let all_per_s: f64 = self.counters.changed_per_s.iter().flatten().map(|changed| changed.now).sum();
        let kinds = [
            (WorkAction::Insert, "inserted"),
            (WorkAction::Update, "updated"),
            (WorkAction::Delete, "deleted"),
        ];
        let is_bulk = |changed: &ComparedFigure| {
            changed.now >= MIN_CHANGED_PER_S
                && changed.now >= MIN_CHANGED_RATIO * changed.usual
                && changed.now >= MIN_CHANGED_PART * all_per_s
        };
        let ((action, verb), changed) = kinds
            .into_iter()
            .zip(self.counters.changed_per_s)
            .find_map(|(kind, changed)| Some((kind, changed.filter(is_bulk)?)))?;
        let mut writers = self.uses.iter().filter(|one| one.user.action == action);
        let writer = writers.next()?;
        // The counters are those of all collections.
        if writers.next().is_some() || !self.is(&GENERAL) && !self.is(&OF_DISK) {
            return None;
        }
        let (used, is_cause) = self.used_words();
        Some(NamedCause {
            id: is_cause.then_some(BULK_WRITER),
            sentence: format!(
                "{} {used}: {} documents a second were {verb} (usually {}).",
                upper_first(&writer.user.words()),
                count(changed.now),
                count(changed.usual)
            ),
            evidence: vec![format!(
                "The log has {} slow ones of them, and {} no other collection.",
                count(writer.count as f64),
                if action == WorkAction::Insert { "into" } else { "of" }
            )],
            next: "Let it write less at a time: smaller batches, pauses between them, fewer connections."
                .to_owned(),
            cost: match self.counters.reads {
                Some(reads) => NamedCost::OfOtherKind("Reads", reads),
                None => NamedCost::Unknown,
            },
        })
    }

    /// The resources that the operations used, and whether that makes them the cause. A slow disk may be slow by itself.
    fn used_words(&self) -> (&'static str, bool) {
        let is_uncertain = self.incident.confidence == Confidence::CannotTell;
        let is_busy = self.counters.idle_pct.is_some_and(|idle| idle < MAX_BUSY_IDLE_PCT);
        match self.incident.cause.as_str() {
            "processors" | "client-load" => ("filled the processors", true),
            "cache" | "more-pages" => ("filled the cache", true),
            "tickets" => ("took the tickets", true),
            cause if OF_DISK.contains(&cause) && !is_uncertain => ("used the disk meanwhile", false),
            _ if is_busy => ("filled the processors", true),
            _ => ("ran meanwhile", true),
        }
    }
}

impl NamedCause {
    fn write(self, incident: &mut Incident) {
        let Some(id) = self.id else {
            incident.evidence.push(self.sentence);
            return;
        };
        let before = std::mem::replace(&mut incident.sentence, self.sentence);
        incident.cause = id.to_owned();
        incident.domain = Some(Domain::Server);
        incident.next = Some(self.next);
        let mut evidence = self.evidence;
        match self.cost {
            NamedCost::OfIncident => {}
            NamedCost::OfOtherKind(kind, times) => {
                evidence.push(format!(
                    "{kind}, which are none of them, took {} on average (usually {}).",
                    time(times.mean_us.now),
                    time(times.mean_us.usual)
                ));
                evidence.push(before);
                (incident.lost_s, incident.lost_share) = times.lost();
                incident.lost_range_s = None;
                incident.confidence = Confidence::Likely;
            }
            NamedCost::Unknown => {
                evidence.push(before);
                evidence.push(
                    "What other operations lost by it is not known: the recording does not count them apart."
                        .to_owned(),
                );
                incident.confidence = Confidence::CannotTell;
            }
        }
        incident.evidence.splice(0..0, evidence);
        // A slow resource was the answer before, and is evidence now.
        if incident.lost_share >= MIN_COST_SHARE {
            incident.against.retain(|said| !said.starts_with("Operations did not take longer"));
        }
    }
}

fn upper_first(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn lower_first(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use fathom_record::SlowOperation;

    use super::*;

    fn incident(cause: &str, lost_s: f64, confidence: Confidence) -> Incident {
        Incident {
            member: 0,
            begin_ms: 0,
            end_ms: 60_000,
            cause: cause.to_owned(),
            domain: Some(Domain::Processors),
            confidence,
            sentence: "Operations waited for a lock: 3 ms of the mean one's 3.1 ms (usually 1 µs)."
                .to_owned(),
            lost_s,
            lost_range_s: Some((0.9 * lost_s, 1.1 * lost_s)),
            lost_share: 0.9,
            storage_s: 0.0,
            changes: Vec::new(),
            waits: Vec::new(),
            engine_times: Vec::new(),
            evidence: Vec::new(),
            against: Vec::new(),
            next: None,
        }
    }

    fn logged(operation: &str, namespace: &str, plan: Option<&str>, duration_ms: u64) -> SlowOperation {
        SlowOperation {
            operation: operation.to_owned(),
            namespace: namespace.to_owned(),
            plan: plan.map(str::to_owned),
            duration_ms,
            documents_examined: Some(100_000),
            line: format!("command {namespace} command: {operation} {{ {operation}: \"t\" }}"),
            ..SlowOperation::default()
        }
    }

    fn times(now: f64, usual: f64) -> Option<KindTimes> {
        Some(KindTimes { mean_us: ComparedFigure { now, usual }, count: 10_000.0 })
    }

    fn named(mut incident: Incident, counters: IncidentCounters, logged: &[SlowOperation]) -> Incident {
        let mut work = LoggedWork::new(1);
        logged.iter().for_each(|one| work.add(0, one));
        name_operations(std::slice::from_mut(&mut incident), &[counters], &work);
        incident
    }

    #[test]
    fn scans_are_named_and_cost_what_writes_lose() {
        let scans = vec![logged("find", "a.t", Some("COLLSCAN"), 135); 900];
        let counters = |writes| IncidentCounters { writes, ..IncidentCounters::default() };
        let busy = || incident("processors", 178.0, Confidence::Likely);
        let found = named(busy(), counters(times(201.0, 190.0)), &scans);
        assert_eq!((found.cause.as_str(), found.domain), (SCAN, Some(Domain::Server)), "{found:#?}");
        let expected = "Scans of a.t without an index filled the processors: 900 slow ones of 135 ms on average, which examined 100,000 documents each.";
        assert_eq!(found.sentence, expected);
        // The scans' own time is no loss of others.
        assert!(found.lost_share < 0.06 && (found.lost_s - 0.11).abs() < 1e-6, "{found:#?}");
        let hurt = named(busy(), counters(times(1900.0, 190.0)), &scans);
        assert!((hurt.lost_share - 0.9).abs() < 1e-9 && hurt.confidence == Confidence::Likely, "{hurt:#?}");
        let unknown = named(busy(), counters(None), &scans);
        assert_eq!((unknown.cause.as_str(), unknown.confidence), (SCAN, Confidence::CannotTell));
        // A few scans do not explain what operations lost.
        assert_eq!(named(busy(), counters(None), &scans[..10]).cause, "processors");
        // A slow disk stays the cause, with who used it.
        let disk = incident("storage-reads", 178.0, Confidence::Likely);
        let disk = named(disk, counters(times(201.0, 190.0)), &scans);
        assert_eq!(disk.cause, "storage-reads");
        assert!(disk.evidence[0].starts_with("Scans of a.t without an index used the disk"), "{disk:#?}");
    }

    #[test]
    fn an_import_is_named_by_the_counters_and_the_log_and_costs_what_reads_lose() {
        let counters = |inserted| IncidentCounters {
            reads: times(673.0, 147.0),
            changed_per_s: [Some(inserted), Some(ComparedFigure { now: 120.0, usual: 120.0 }), None],
            idle_pct: Some(3.0),
            ..IncidentCounters::default()
        };
        let import = counters(ComparedFigure { now: 14_800.0, usual: 0.0 });
        let journal = || incident("storage-journal", 45.8, Confidence::CannotTell);
        let inserts = vec![logged("insert", "imports.events", None, 112); 4];
        let found = named(journal(), import.clone(), &inserts);
        assert_eq!((found.cause.as_str(), found.confidence), (BULK_WRITER, Confidence::Likely), "{found:#?}");
        assert_eq!(
            found.sentence,
            "Inserts into imports.events filled the processors: 14,800 documents a second were inserted (usually 0)."
        );
        assert!((found.lost_s - 5.26).abs() < 1e-6 && (found.lost_share - 526.0 / 673.0).abs() < 1e-9);
        // Two collections that documents are inserted into are not told apart; and as many inserts as usual are no import.
        let both = [inserts.clone(), vec![logged("insert", "a.t", None, 112)]].concat();
        assert_eq!(named(journal(), import, &both).cause, "storage-journal");
        let usual = counters(ComparedFigure { now: 14_800.0, usual: 9000.0 });
        assert_eq!(named(journal(), usual, &inserts).cause, "storage-journal");
    }

    #[test]
    fn the_holder_of_a_lock_is_named_with_its_times() {
        let locks = || incident("locks", 30.4, Confidence::Likely);
        let build = |ms| logged("createIndexes", "a.$cmd", None, ms);
        let waits =
            SlowOperation { lock_wait_us: Some(700_000), ..logged("find", "a.t", Some("IDHACK"), 705) };
        let found = named(locks(), IncidentCounters::default(), &[build(705), build(1201), waits.clone()]);
        assert_eq!(found.cause, LOCK_HELD, "{found:#?}");
        assert!(
            found.sentence.starts_with(
                "An index build (createIndexes) on a.t held a lock twice, for 705 ms and 1.20 s, and operations waited for a lock"
            ),
            "{found:#?}"
        );
        assert_eq!((found.lost_s, found.lost_share), (30.4, 0.9));
        assert_eq!(named(locks(), IncidentCounters::default(), &[waits]).cause, "locks");
        let other = incident("processors", 30.4, Confidence::Likely);
        assert_eq!(named(other, IncidentCounters::default(), &[build(705)]).cause, "processors");
    }
}
