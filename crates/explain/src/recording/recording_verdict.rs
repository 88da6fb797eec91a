//! The verdict on a whole recording: held back throughout, held back in incidents, not held back, or unclear.

use fathom_record::Confidence;
use fathom_record::incident::Incident;
use fathom_record::verdict::{Domain, MIN_COST_SHARE, Outcome, Verdict};
use fathom_units::{Bytes, decimal, time_span};

use super::bins::{BIN_NS, Bins};
use super::change_points::{ChangePoint, change_points};
use super::database_disk::{DatabaseDisk, disks};
use super::detection::logs;
use super::file_system::{FULL, nearly_full_words};
use super::logged_cause::{BULK_WRITER, LOCK_HELD, SCAN, is_of_work};
use super::recorded_facts::RecordedFacts;
use super::segment_verdict::SegmentVerdict;
use super::signals::{SIGNALS, Signal};
use crate::queue::time;

/// The fewest operations for a verdict on all of them.
const MIN_OPERATIONS: f64 = 1000.0;
/// Below this many operations a second a server is idle: heartbeats and monitoring alone make about as many.
const MIN_EXAMINED_PER_S: f64 = 1.0;
const BINS_A_MINUTE: usize = 6;
/// A disk is busy in a minute if it has requests for this share of it. If that was not recorded, it is busy if it moves this many bytes a second.
const MIN_BUSY_SHARE: f64 = 0.3;
const MIN_OTHERS_BYTES_PER_S: f64 = 8.0 * 1_048_576.0;
/// An incident matters if operations waited longer in it for this part of its time: one operation at a time, for one second in twenty.
const MIN_LOST_AT_A_TIME: f64 = 0.05;
/// Less is not worth a sentence, in seconds.
const MIN_NAMED_LOST_S: f64 = 0.05;

/// A recording without its incidents.
pub(super) struct VerdictInput<'w> {
    pub(super) member: usize,
    pub(super) facts: &'w RecordedFacts,
    pub(super) bins: &'w Bins,
    pub(super) disk: &'w DatabaseDisk,
    /// The device that the user named.
    pub(super) device: Option<&'w str>,
}

/// What decides on a whole recording next to its incidents. A log may change the causes of these later.
#[derive(Clone, Debug, Default)]
pub(super) struct VerdictBasis {
    segments: Vec<SegmentVerdict>,
    recorded_s: f64,
    is_disaggregated: bool,
    is_router: bool,
    /// Whether the engine counts the syncs of its journal.
    has_syncs: bool,
    /// Whether the times of operations were recorded.
    is_timed: bool,
    /// The sentence on a file system that is nearly full.
    full: Option<String>,
    /// Further facts of the whole recording, a sentence each.
    reasons: Vec<String>,
}

/// The judgement of a recording by its incidents and all else.
struct WholeRecording<'r> {
    basis: &'r VerdictBasis,
    incidents: &'r [Incident],
}

/// From so many stretches of ten minutes on a cause may hold a server back all along, if it does in one of so many.
const MIN_STRETCHES: usize = 6;
/// Causes of stretches that hold no server back all along. Stops are incidents of their own. On a server with one client that scans, no operation ends
/// for seconds, hour after hour.
const STOPS: [&str; 2] = ["server-stood-still", "operations-stand-still"];

impl VerdictBasis {
    pub(super) fn new(
        input: &VerdictInput<'_>,
        segments: Vec<SegmentVerdict>,
        recorded_s: f64,
    ) -> VerdictBasis {
        let is_recorded = |series: &str| {
            let name = format!("server.{}.{series}", input.member);
            input.bins.names().any(|one| one == name)
        };
        let is_disaggregated = input.facts.is_disaggregated;
        let of_operations = SIGNALS.iter().filter(|signal| signal.is_operations);
        let mut reasons = input.busy_with_others();
        reasons.extend(of_operations.filter_map(|signal| input.level_change(signal)));
        VerdictBasis {
            segments,
            recorded_s,
            is_disaggregated,
            is_router: input.facts.is_router,
            has_syncs: is_recorded("journal.sync_us"),
            is_timed: is_recorded("reads.operations"),
            full: nearly_full_words(input.bins, input.member).filter(|_| !is_disaggregated),
            reasons,
        }
    }

    /// The verdict with these incidents, the costliest first.
    pub(super) fn verdict(&self, incidents: &[Incident]) -> Verdict {
        let mut verdict = WholeRecording { basis: self, incidents }.decide();
        verdict.reasons.extend(self.reasons.iter().cloned());
        verdict.reasons.splice(0..0, self.full.clone());
        verdict
    }
}

impl WholeRecording<'_> {
    fn decide(&self) -> Verdict {
        if self.basis.is_disaggregated {
            let reason = "This build keeps its data on other hosts (disaggregated storage).";
            return Verdict {
                reasons: vec![reason.to_owned()],
                ..Verdict::new(Outcome::NotExamined, "Not examined: the data are not on this host.")
            };
        }
        let costly: Vec<&Incident> = self
            .incidents
            .iter()
            .filter(|incident| incident.domain.is_some() && incident.confidence != Confidence::CannotTell)
            .filter(|incident| is_costly(incident))
            .collect();
        let at_times = self.held_back_at_times(&costly);
        // In a short recording an incident is most of it.
        let is_long = self.basis.segments.len() >= MIN_STRETCHES;
        let is_known = at_times.is_some() || self.incidents.iter().any(is_of_work);
        let all_along = self.held_back_all_along().filter(|_| is_long || !is_known);
        let by_waits = all_along.or(at_times);
        self.full(by_waits.as_ref())
            .or(by_waits)
            .or_else(|| self.not_examined())
            .or_else(|| self.unclear())
            .unwrap_or_else(|| self.not_held_back())
    }

    /// The verdict if the file system was full. Writes that failed are in no wait, so it comes before what waits show.
    fn full(&self, by_waits: Option<&Verdict>) -> Option<Verdict> {
        let full: Vec<&Incident> = self.incidents.iter().filter(|incident| incident.cause == FULL).collect();
        let first = full.first()?;
        let all_s: f64 = full.iter().map(|incident| incident.length_s()).sum();
        let sentence = format!(
            "Held back by a full file system of the data for {} of {}.",
            time_span(all_s),
            time_span(self.basis.recorded_s)
        );
        let besides = by_waits.map(|verdict| format!("Besides: {}", verdict.sentence));
        Some(Verdict {
            cause: Some(FULL.to_owned()),
            domain: first.domain,
            confidence: first.confidence,
            reasons: besides.into_iter().chain([self.storage_words(self.storage_share())]).collect(),
            next: first.next.clone(),
            ..Verdict::new(Outcome::HeldBack, sentence)
        })
    }

    /// The verdict if no times of operations were recorded: on storage by the engine alone.
    fn untimed(&self) -> Verdict {
        let untimed = "no times of operations were recorded (mongod does that since 3.4)";
        let slow = self.incidents.iter().filter(|incident| incident.is_storage());
        let slow_s: f64 = slow.map(Incident::length_s).sum();
        if slow_s > 0.0 {
            let sentence = format!(
                "Cannot tell whether operations waited for storage: {untimed}. By the engine's counters storage was slower than usual for {} of {}.",
                time_span(slow_s),
                time_span(self.basis.recorded_s)
            );
            let verdict = Verdict::new(Outcome::CannotTell, sentence);
            return Verdict { confidence: Confidence::CannotTell, ..verdict };
        }
        let usual = "By the engine's counters storage was as fast as usual throughout.";
        Verdict {
            reasons: self.basis.has_syncs.then(|| usual.to_owned()).into_iter().collect(),
            ..Verdict::new(Outcome::NotExamined, format!("Not examined: {untimed}."))
        }
    }

    /// The verdict on a router, on an idle server, or on one whose operations were not timed.
    fn not_examined(&self) -> Option<Verdict> {
        if self.basis.is_router {
            let sentence = "Not examined: a mongos keeps no data, and its operations wait for shards.";
            let next = "Judge the recordings of the shards' members too.";
            return Some(Verdict {
                next: Some(next.to_owned()),
                ..Verdict::new(Outcome::NotExamined, sentence)
            });
        }
        if !self.basis.is_timed {
            return Some(self.untimed());
        }
        let operations: f64 = self.basis.segments.iter().map(|segment| segment.operations).sum();
        // The sum of no figures is -0.
        let per_s = if self.basis.recorded_s > 0.0 { operations.abs() / self.basis.recorded_s } else { 0.0 };
        (per_s < MIN_EXAMINED_PER_S).then(|| {
            let sentence = format!(
                "Not examined: the server was idle, with {} operations a second ({MIN_EXAMINED_PER_S} at least are needed).",
                decimal(per_s)
            );
            let next = "Judge a time in which it was busy: --from and --to choose one.";
            Verdict { next: Some(next.to_owned()), ..Verdict::new(Outcome::NotExamined, sentence) }
        })
    }

    /// The verdict if waits for storage are large but usual, or an incident has no cause.
    fn unclear(&self) -> Option<Verdict> {
        let share = self.storage_share();
        let verdict = |sentence: String, reasons: Vec<String>, next: Option<String>| Verdict {
            confidence: Confidence::CannotTell,
            reasons,
            next,
            ..Verdict::new(Outcome::CannotTell, sentence)
        };
        if share >= MIN_COST_SHARE {
            let sentence = format!(
                "Cannot tell whether faster storage would help: operations waited {:.0} % of their time for it, at its usual speed.",
                100.0 * share
            );
            let next = "Measure the device: 'fathom disk' on a directory of the same file system.";
            return Some(verdict(sentence, vec![self.storage_words(share)], Some(next.to_owned())));
        }
        let is_unexplained = |incident: &&Incident| {
            incident.confidence == Confidence::CannotTell && is_costly(incident) && matters(incident)
        };
        let worst = self.incidents.iter().find(is_unexplained)?;
        let reasons = vec![self.storage_words(share)];
        if is_of_work(worst) {
            let sentence = format!("Cannot tell who loses by it: {}", lower_first(&worst.sentence));
            let verdict = verdict(sentence, reasons, worst.next.clone());
            return Some(Verdict { cause: Some(worst.cause.clone()), domain: worst.domain, ..verdict });
        }
        let sentence =
            "Cannot tell what made operations slow at times; no wait for storage was seen.".to_owned();
        Some(verdict(sentence, reasons, worst.next.clone()))
    }

    fn not_held_back(&self) -> Verdict {
        let share = self.storage_share();
        let part = match share {
            share if share < 0.01 => "less than 1 %".to_owned(),
            share => format!("at most {:.0} %", 100.0 * share),
        };
        let lost_s: f64 = self.incidents.iter().map(|incident| incident.lost_s).sum();
        let in_incidents = (lost_s >= MIN_NAMED_LOST_S)
            .then(|| format!("In incidents operations took {} longer in total.", time_span(lost_s)));
        Verdict {
            reasons: std::iter::once(self.storage_words(share)).chain(in_incidents).collect(),
            ..Verdict::new(
                Outcome::NotHeldBack,
                format!("Not held back: operations waited {part} of their time for storage."),
            )
        }
    }

    /// The part of the operations' time in which they waited for storage.
    fn storage_share(&self) -> f64 {
        let all_s: f64 = self.basis.segments.iter().map(|segment| segment.operation_s).sum();
        let storage_s: f64 = self.basis.segments.iter().map(|segment| segment.storage_s).sum();
        if all_s > 0.0 { (storage_s / all_s).min(1.0) } else { 0.0 }
    }

    fn storage_words(&self, share: f64) -> String {
        let all_s: f64 = self.basis.segments.iter().map(|segment| segment.operation_s).sum();
        format!(
            "All operations together took {} in the server. {} of that{} they waited for page reads and journal syncs.",
            time_span(all_s),
            time_span(all_s * share),
            if share < 0.005 { String::new() } else { format!(" ({:.0} %)", 100.0 * share) }
        )
    }

    /// The cause that the segments name most, if it costs a fifth of all operations' time.
    fn held_back_all_along(&self) -> Option<Verdict> {
        if self.basis.segments.iter().map(|segment| segment.operations).sum::<f64>() < MIN_OPERATIONS {
            return None;
        }
        let all_s: f64 = self.basis.segments.iter().map(|segment| segment.operation_s).sum();
        let mut causes: Vec<(Option<String>, Option<Domain>, f64, &Verdict)> = Vec::new();
        let is_stop =
            |verdict: &Verdict| verdict.cause.as_deref().is_some_and(|cause| STOPS.contains(&cause));
        let named = self.basis.segments.iter().filter_map(|one| one.held_back.as_ref());
        for (domain, lost_s, verdict) in named.filter(|(_, _, verdict)| !is_stop(verdict)) {
            match causes.iter_mut().find(|(cause, ..)| *cause == verdict.cause) {
                Some((_, _, sum_s, _)) => *sum_s += lost_s,
                None => causes.push((verdict.cause.clone(), *domain, *lost_s, verdict)),
            }
        }
        let (cause, domain, lost_s, verdict) =
            causes.into_iter().max_by(|one, other| one.2.total_cmp(&other.2))?;
        let segments = self.basis.segments.iter().filter_map(|one| one.held_back.as_ref());
        let number = segments.filter(|(_, _, one)| one.cause == cause).count();
        if lost_s < MIN_COST_SHARE * all_s || number * MIN_STRETCHES < self.basis.segments.len() {
            return None;
        }
        let noun = verdict.sentence.split_once(" by ").and_then(|(_, rest)| rest.split_once(':'));
        let sentence = format!(
            "Held back by {}: it took {:.0} % of the time of all operations, all of that in {number} of {} stretches of 10 min.",
            noun.map_or("storage", |(noun, _)| noun),
            100.0 * lost_s / all_s,
            self.basis.segments.len()
        );
        Some(Verdict {
            cause,
            domain,
            reasons: verdict.reasons.clone(),
            next: verdict.next.clone(),
            confidence: verdict.confidence,
            ..Verdict::new(Outcome::HeldBack, sentence)
        })
    }

    /// The verdict from incidents with a cause. Storage comes first, because it is the question.
    fn held_back_at_times(&self, costly: &[&Incident]) -> Option<Verdict> {
        let storage: Vec<&&Incident> = costly.iter().filter(|incident| incident.is_storage()).collect();
        let (chosen, noun): (Vec<&&Incident>, &str) = match storage.is_empty() {
            false => (storage, "storage"),
            true => {
                let worst = costly.first()?;
                let same = costly.iter().filter(|incident| incident.cause == worst.cause).collect();
                (same, noun_of(worst))
            }
        };
        let worst = chosen.first()?;
        let all_s: f64 = chosen.iter().map(|incident| incident.length_s()).sum();
        let lost_s: f64 = chosen.iter().map(|incident| incident.lost_s).sum();
        let by = match worst.is_storage() {
            true => noun.to_owned(),
            false => format!("{noun}, not by storage,"),
        };
        let sentence = format!(
            "Held back by {by} for {} of {}: operations took {} longer in total.",
            time_span(all_s),
            time_span(self.basis.recorded_s),
            time_span(lost_s)
        );
        let share = self.storage_share();
        Some(Verdict {
            cause: Some(worst.cause.clone()),
            domain: worst.domain,
            confidence: worst.confidence,
            reasons: vec![self.storage_words(share)],
            next: worst.next.clone(),
            ..Verdict::new(Outcome::HeldBack, sentence)
        })
    }
}

impl VerdictInput<'_> {
    /// The largest change after which operations took longer or shorter for hours.
    fn level_change(&self, signal: &Signal) -> Option<String> {
        let size = |one: &ChangePoint| (one.after_log - one.before_log).abs();
        let changes = change_points(&logs(&signal.means_us(self.bins, self.member)));
        let largest = changes.into_iter().max_by(|one, other| size(one).total_cmp(&size(other)))?;
        let after_s = (largest.bin as u64 * BIN_NS) as f64 / 1e9;
        Some(format!(
            "From {} after the begin of the recording on, {} usually took {} ({} in the two hours before).",
            time_span(after_s),
            signal.words,
            time(largest.after_log.exp()),
            time(largest.before_log.exp())
        ))
    }

    /// The disks that other programs keep busy, a sentence each: the minutes, and the share of the bytes.
    fn busy_with_others(&self) -> Vec<String> {
        let own = ["engine.read_bytes", "engine.written_bytes", "journal.written_bytes"]
            .map(|name| format!("server.{}.{name}", self.member));
        let minutes: Vec<Vec<usize>> = (0..self.bins.len() / BINS_A_MINUTE)
            .map(|minute| (minute * BINS_A_MINUTE..(minute + 1) * BINS_A_MINUTE).collect())
            .collect();
        let words = |disk: String| {
            let names = ["read_bytes", "written_bytes"].map(|name| format!("device.{disk}.{name}"));
            let busy_name = format!("device.{disk}.busy_ms");
            let is_busy = |minute: &&Vec<usize>| {
                let bytes = self.bins.sum_of(&names, minute).unwrap_or(0.0);
                let others = bytes - self.bins.sum_of(&own, minute).unwrap_or(0.0);
                let is_busy = match self.bins.rate(&busy_name, minute) {
                    Some(busy_ms) => busy_ms / 1e3 >= MIN_BUSY_SHARE,
                    None => others / 60.0 >= MIN_OTHERS_BYTES_PER_S,
                };
                is_busy && others >= 0.5 * bytes
            };
            let busy: Vec<usize> = minutes.iter().filter(is_busy).flatten().copied().collect();
            let bytes = |names: &[String]| Bytes(self.bins.sum_of(names, &busy).unwrap_or(0.0) as u64);
            (!busy.is_empty()).then(|| {
                format!(
                    "Another process kept {disk} busy for {}: of {} that were read and written then, at most {} were mongod's.",
                    time_span(busy.len() as f64 * 10.0),
                    bytes(&names),
                    bytes(&own)
                )
            })
        };
        disks(self.bins).into_iter().filter_map(words).collect()
    }

    /// The sentences on what was not recorded.
    pub(super) fn missing(&self) -> Vec<String> {
        let mut missing = vec![
            "No client was watched: times are those in the server, without the network and the waits of clients."
                .to_owned(),
        ];
        missing.extend(match self.disk {
            // It has no disk of a database.
            _ if self.facts.is_router => None,
            DatabaseDisk::NoneRecorded => Some(
                "This recording has no processors and disks of the host (mongod 3.4 and later record them, on Linux and Windows), so storage is judged by the engine's counters alone."
                    .to_owned(),
            ),
            DatabaseDisk::Unlisted => {
                let name = match self.device {
                    Some(device) => format!("{device}, which was named as the database's disk,"),
                    None => "The database's disk".to_owned(),
                };
                Some(format!(
                    "{name} was not recorded (mongod records no device mapper, software RAID or network volume), so storage is judged by what mongod waited for."
                ))
            }
            DatabaseDisk::Unknown => {
                Some("mongod wrote too little to show which disk is the database's.".to_owned())
            }
            DatabaseDisk::Known(_) => None,
        });
        missing.extend(self.unseen());
        missing
    }

    /// The incidents of the host that its recorded figures cannot show.
    fn unseen(&self) -> Option<String> {
        let is_recorded = |name: &str| self.bins.names().any(|one| one == name);
        let free = format!("server.{}.volume.available_bytes", self.member);
        let busy = disks(self.bins).iter().any(|disk| is_recorded(&format!("device.{disk}.busy_ms")));
        let lacks: Vec<&str> = [
            (is_recorded(&free) || self.facts.is_router, "free space of the data's file system"),
            (is_recorded("host.swap.in_pages"), "swapping"),
            (busy, "how long disks had requests"),
        ]
        .into_iter()
        .filter_map(|(is_there, words)| (!is_there).then_some(words))
        .collect();
        let is_host_recorded = *self.disk != DatabaseDisk::NoneRecorded && !lacks.is_empty();
        is_host_recorded.then(|| format!("Not recorded of the host, so not seen here: {}.", lacks.join(", ")))
    }
}

/// Whether an incident cost a fifth of its operations' time.
fn is_costly(incident: &Incident) -> bool {
    incident.lost_share >= MIN_COST_SHARE && incident.lost_s > 0.0
}

/// Whether operations lost so much time in an incident without a cause that no verdict on the whole is possible.
fn matters(incident: &Incident) -> bool {
    incident.lost_s >= MIN_LOST_AT_A_TIME * incident.length_s()
}

fn lower_first(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// The cause of an incident, for "held back by".
fn noun_of(incident: &Incident) -> &'static str {
    match incident.cause.as_str() {
        "process-stopped" => "stops of the mongod process",
        "processors" => "busy processors",
        "client-load" => "the load of its clients",
        "cache" | "more-pages" => "its cache",
        "tickets" => "tickets",
        "locks" => "locks",
        LOCK_HELD => "an operation that held a lock",
        SCAN => "scans without an index",
        BULK_WRITER => "one kind of writes",
        "flow-control" => "flow control",
        "replication" => "other members of its set",
        _ => "what the incidents below name",
    }
}
