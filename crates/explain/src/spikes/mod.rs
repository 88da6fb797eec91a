//! Periodic spikes and their cause (docs/methods.md#periodic-spikes): checkpoints, passes of the TTL monitor, flushes and
//! compactions, or a rhythm that no counter has.
//!
//! The event path comes first, because it is much more sensitive; the blind path is for the rest. It reports nothing if no
//! rhythm exceeds the noise, and names the data that would help if there was too little.
//!
//! The chart of the rhythm shows the latency as it is, including the effect of checkpoints; the blind path
//! judges the latency without that effect.

mod blind;
mod checkpoint;
mod events;
mod latency;
mod superposed;
mod syncdelay;

use std::collections::BTreeMap;

use fathom_record::pictures::rhythm::LatencyRhythm;
use fathom_record::{Confidence, Finding};
use fathom_stats::{EventVerdict, SeededRandom, paired_events, spectrum};

use self::latency::SpikeSubject;
use crate::{Evidence, Judgement};

pub(crate) use latency::LatencySeries;
pub(crate) use superposed::superposed_cycles;

/// Work that a server does at times and counts: each window in which its counter rises is an event.
struct PeriodicWork {
    /// The id of its finding.
    id: &'static str,
    /// The counter, after `server.{member}.`.
    series: &'static str,
    /// A clause that follows "while".
    words: &'static str,
    next_look: &'static str,
}

const BY_BYTES: &str = "Compare the bytes of each flush or compaction with the rise it made, and look whether writes were slowed or stopped.";

const WORK: [PeriodicWork; 3] = [
    PeriodicWork {
        id: "ttl-spikes",
        series: "ttl.deleted",
        words: "the TTL monitor deletes expired documents",
        next_look: "Let fewer documents expire at once (a finer spread of their dates), or delete them in small batches of your own; \
                    ttlMonitorSleepSecs tells how often it runs.",
    },
    PeriodicWork {
        id: "periodic-spikes",
        series: "flush.written_bytes",
        words: "the engine flushes its memory to disk",
        next_look: BY_BYTES,
    },
    PeriodicWork {
        id: "periodic-spikes",
        series: "compaction.written_bytes",
        words: "the engine compacts its files",
        next_look: BY_BYTES,
    },
];

/// Judges each server of a run; without a server, the client's latency.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let located = checkpoints_of_all(evidence);
    for (member, latency, mut stream) in latencies(evidence) {
        let checkpoints = located.get(&member).map_or(&[][..], Vec::as_slice);
        let subject = SpikeSubject { evidence, member: &member, latency: &latency, checkpoints };
        for finding in subject.judge(&mut stream) {
            // Latency, which busy processors lengthen, is not needed to show that checkpoints run all the time.
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

/// The latency of each server, or of the client if none was watched, and a random stream for each.
fn latencies(evidence: &Evidence) -> Vec<(String, LatencySeries, SeededRandom)> {
    let mut members = evidence.members();
    let count = members.len();
    if members.is_empty() {
        members.push(String::new());
    }
    let of = |(index, member): (u64, String)| {
        let latency = LatencySeries::from_evidence(evidence, &member, count)?;
        Some((member, latency, SeededRandom::from_seed(evidence.seed).split(index)))
    };
    (0u64..).zip(members).filter_map(of).collect()
}

impl SpikeSubject<'_> {
    fn judge(&self, stream: &mut SeededRandom) -> Vec<Finding> {
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

    /// Finds spikes at the windows in which a server did this work.
    fn at_work(
        &self,
        work: &PeriodicWork,
        windows: &[(f64, f64)],
        stream: &mut SeededRandom,
    ) -> Option<Finding> {
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
const MAX_SECONDS: usize = 3600;

/// The rhythm of each server's latency, or of the client's if none was watched.
pub(crate) fn latency_rhythms(evidence: &Evidence) -> Vec<LatencyRhythm> {
    let rhythm = |(member, latency, mut stream): (String, LatencySeries, SeededRandom)| {
        let (begin_s, values) = latency.log_seconds(MAX_SECONDS)?;
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
