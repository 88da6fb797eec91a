//! Periodic spikes and their cause (analysis.md A4): at checkpoints, at passes of the TTL monitor, at flushes and compactions, or with a rhythm that
//! nobody counts.
//!
//! The event path comes first, because it sees much more; the blind path is for what is left. It is quiet where nothing
//! stands out of the noise, and says what would tell where too little was seen.
//!
//! A chart of the rhythm is drawn of the latency as it is, with what checkpoints make still in it; the blind path
//! judges what is left without them.

mod blind;
mod checkpoint;
mod events;
mod latency;
mod superposed;
mod syncdelay;

use std::collections::BTreeMap;

use fathom_record::pictures::rhythm::LatencyRhythm;
use fathom_record::{Confidence, Finding};
use fathom_stats::{EventVerdict, Seeded, paired_events, spectrum};

use self::latency::Subject;
use crate::{Evidence, Judgement};

pub(crate) use latency::Latency;
pub(crate) use superposed::superposed_cycles;

/// Work that a server does at times and counts: the windows in which its counter rises are events.
struct Work {
    /// The id of its finding.
    id: &'static str,
    /// The counter, behind `server.{member}.`.
    series: &'static str,
    /// A clause that follows "while".
    words: &'static str,
    next_look: &'static str,
}

const BY_BYTES: &str = "Compare the bytes of each flush or compaction with the rise it made, and look whether writes were slowed or stopped.";

const WORK: [Work; 3] = [
    Work {
        id: "ttl-spikes",
        series: "ttl.deleted",
        words: "the TTL monitor deletes expired documents",
        next_look: "Let fewer documents expire at once (a finer spread of their dates), or delete them in small batches of your own; \
                    ttlMonitorSleepSecs tells how often it runs.",
    },
    Work {
        id: "periodic-spikes",
        series: "flush.written_bytes",
        words: "the engine flushes its memory to disk",
        next_look: BY_BYTES,
    },
    Work {
        id: "periodic-spikes",
        series: "compaction.written_bytes",
        words: "the engine compacts its files",
        next_look: BY_BYTES,
    },
];

/// Judges each server of a run; without one, what the client saw.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let located = checkpoints_of_all(evidence);
    for (member, latency, mut stream) in latencies(evidence) {
        let checkpoints = located.get(&member).map_or(&[][..], Vec::as_slice);
        let subject = Subject { evidence, member: &member, latency: &latency, checkpoints };
        for finding in subject.judge(&mut stream) {
            // That checkpoints run all the time needs no latency, which busy processors would lengthen.
            if finding.id == checkpoint::CONTINUOUS {
                judgement.findings.push(finding);
            } else {
                judgement.add_unless_withheld(finding);
            }
        }
    }
    judgement.checkpoints = located;
}

/// When checkpoints of each server ran.
pub(crate) fn checkpoints_of_all(evidence: &Evidence) -> BTreeMap<String, Vec<(f64, f64)>> {
    let members = evidence.members().into_iter();
    members.map(|member| (member.clone(), events::checkpoints(evidence, &member))).collect()
}

/// The latency of each server, or of the client where none was watched, and a stream of chance for each.
fn latencies(evidence: &Evidence) -> Vec<(String, Latency, Seeded)> {
    let mut members = evidence.members();
    let count = members.len();
    if members.is_empty() {
        members.push(String::new());
    }
    let of = |(index, member): (u64, String)| {
        let latency = Latency::of(evidence, &member, count)?;
        Some((member, latency, Seeded::from_seed(evidence.seed).split(index)))
    };
    (0u64..).zip(members).filter_map(of).collect()
}

impl Subject<'_> {
    fn judge(&self, stream: &mut Seeded) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut explained = Vec::new();
        if let Some(finding) = checkpoint::judge(self, self.checkpoints, stream) {
            findings.push(finding);
            explained.extend(self.checkpoints);
        }
        for work in &WORK {
            let windows = events::busy_windows(self.evidence, &self.name(work.series));
            if let Some(finding) = self.at_work(work, &windows, stream) {
                findings.push(finding);
                explained.extend(windows);
            }
        }
        findings.extend(blind::judge(self, &explained, stream));
        findings
    }

    /// Spikes at the windows in which a server did this work.
    fn at_work(&self, work: &Work, windows: &[(f64, f64)], stream: &mut Seeded) -> Option<Finding> {
        let EventVerdict::Judged(effect) = paired_events(&self.latency.readings, windows, stream) else {
            return None;
        };
        if !checkpoint::is_worth_reporting(&effect) {
            return None;
        }
        let claim = format!(
            "Latency{} rises by {:.0} % while {}, about every {:.0} s.",
            self.at(),
            100.0 * effect.effect,
            work.words,
            effect.period_s
        );
        let mut finding =
            Finding::new(work.id, checkpoint::severity(&effect), claim).confidence(Confidence::Likely);
        for sentence in checkpoint::evidence_of(&effect, self.latency.of, "window of it") {
            finding = finding.evidence(sentence);
        }
        finding = checkpoint::with_gain(finding, &effect, self.latency.of).next_look(work.next_look);
        Some(self.cite(finding, [self.name(work.series)], &effect.cycles))
    }
}

/// At most the last hour: a chart must not take longer than the judging.
const MOST_SECONDS: usize = 3600;

/// The rhythm of each server's latency, or of the client's where none was watched.
pub(crate) fn latency_rhythms(evidence: &Evidence) -> Vec<LatencyRhythm> {
    let rhythm = |(member, latency, mut stream): (String, Latency, Seeded)| {
        let (begin_s, values) = latency.log_seconds(MOST_SECONDS)?;
        let found = spectrum(&values, &mut stream)?;
        Some(LatencyRhythm {
            member,
            of: latency.of,
            seconds: values.len(),
            begin_s,
            by_period: found.by_period,
            band: found.band,
            by_lag: found.by_lag,
            lag_band: found.lag_band,
        })
    };
    latencies(evidence).into_iter().filter_map(rhythm).collect()
}
