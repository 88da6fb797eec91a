//! Judges a server's recording of itself: incidents by their difference from its own calm, and the whole by the waits of operations.
//!
//! A recording is days long, so it comes segment by segment. The rules that judge any run judge each segment, and its figures are kept in bins of ten
//! seconds. No client was watched, so times begin at the server.

mod bins;
mod change_points;
mod clock_offset;
mod database_disk;
mod detection;
mod engine_times;
mod era;
mod file_system;
mod gaps;
mod incident_cause;
mod incident_counters;
mod incident_finder;
mod logged_cause;
mod normal;
mod own_share;
mod recorded_facts;
mod recorded_stretch;
mod recording_verdict;
mod segment_verdict;
mod signals;
mod storage_time;
mod stretch;
mod timeline;

use fathom_record::SeriesSet;
use fathom_record::incident::Incident;
use fathom_record::verdict::Verdict;
use serde::Serialize;

use crate::LoggedWork;

pub use clock_offset::ClockOffset;
use database_disk::DatabaseDisk;
pub use era::OmittedTime;
use era::RecordingEra;
use incident_counters::IncidentCounters;
pub use own_share::{DiskOwnership, OwnShare, ShareWindow};
pub use recorded_facts::RecordedFacts;
pub use recorded_stretch::{RecordedStretch, SignalMean, StretchEnd};
use recording_verdict::{VerdictBasis, VerdictInput};
use segment_verdict::SegmentVerdict;
pub use timeline::RecordingTimeline;

/// The recommended length of a segment, in milliseconds.
pub const SEGMENT_MS: i64 = 600_000;

/// The judgement of one server's recording.
#[derive(Clone, Debug, Serialize)]
pub struct RecordingJudgement {
    pub member: usize,
    /// Begin, in milliseconds since 1970 in UTC.
    pub begin_ms: i64,
    pub end_ms: i64,
    /// The time with samples, in seconds.
    pub recorded_s: f64,
    /// Reads and writes that ended.
    pub operations: f64,
    /// Their time within the server, summed over all of them, in seconds.
    pub operation_s: f64,
    /// The part of that time which faster storage could remove at most.
    pub storage_s: f64,
    /// The disk of the database, if it was recorded and is known.
    pub disk: Option<String>,
    /// Each recorded disk with the server's share of its work, the database's first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskOwnership>,
    /// Incidents, the costliest first.
    pub incidents: Vec<Incident>,
    pub verdict: Verdict,
    /// One sentence for each thing that the recording lacks.
    pub missing: Vec<String>,
    /// When other processes of the server began, in milliseconds since 1970.
    pub restarts_ms: Vec<i64>,
    /// The stretches in which the server behaved alike, in the order of time.
    pub stretches: Vec<RecordedStretch>,
    /// Samples that are not judged, because their times are too far from those of the others: the clock was not set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<OmittedTime>,
    /// Its main figures along its time.
    #[serde(skip)]
    pub timeline: RecordingTimeline,
    /// The basis of the verdict, and the counters of each incident, for a log that is read later.
    #[serde(skip)]
    basis: VerdictBasis,
    #[serde(skip)]
    counters: Vec<IncidentCounters>,
}

impl RecordingJudgement {
    /// Names the operations of the server's log behind the incidents, and judges the whole again with them.
    pub fn name_logged_work(&mut self, work: &LoggedWork) {
        logged_cause::name_operations(&mut self.incidents, &std::mem::take(&mut self.counters), work);
        self.incidents.sort_by(|one, other| other.lost_s.total_cmp(&one.lost_s));
        self.verdict = self.basis.verdict(&self.incidents);
    }
}

/// Eras that are kept at a time. Of more, the one with the least samples is left out at once.
const MAX_ERAS: usize = 2;

/// Judges the recording of one server.
#[derive(Debug, Default)]
pub struct RecordingJudge {
    member: usize,
    device: Option<String>,
    facts: RecordedFacts,
    eras: Vec<RecordingEra>,
    left_out: Vec<OmittedTime>,
}

impl RecordingJudge {
    /// A judge of the server with this number.
    pub fn new(member: usize) -> RecordingJudge {
        RecordingJudge { member, ..RecordingJudge::default() }
    }

    /// The same for a server whose database is on this device, by the kernel's name.
    #[must_use]
    pub fn with_device(self, device: Option<&str>) -> RecordingJudge {
        RecordingJudge { device: device.map(str::to_owned), ..self }
    }

    /// Adds a segment with the facts that are known by then, on a clock of nanoseconds since 1970.
    pub fn add_segment(&mut self, facts: RecordedFacts, series: SeriesSet, window_ns: (u64, u64)) {
        self.facts = facts;
        let found = self.eras.iter().rposition(|era| era.may_include(window_ns));
        let number = found.unwrap_or_else(|| {
            let is_full = self.eras.len() >= MAX_ERAS;
            let smallest = self.eras.iter().enumerate().filter(|_| is_full);
            let smallest =
                smallest.min_by(|(_, one), (_, other)| one.recorded_s.total_cmp(&other.recorded_s));
            if let Some(number) = smallest.map(|(number, _)| number) {
                self.left_out.push(self.eras.remove(number).left_out());
            }
            self.eras.push(RecordingEra::new(window_ns));
            self.eras.len() - 1
        });
        if let Some(era) = self.eras.get_mut(number) {
            era.add(self.member, &self.facts, series, window_ns);
        }
    }

    /// The judgement of the era with most samples; `None` if nothing was added.
    pub fn finish(mut self) -> Option<RecordingJudgement> {
        self.eras.sort_by(|one, other| one.recorded_s.total_cmp(&other.recorded_s));
        let mut era = self.eras.pop()?;
        self.left_out.extend(self.eras.iter().map(RecordingEra::left_out));
        self.left_out.sort_by_key(|one| one.begin_ms);
        era.finish(self.member);
        let (begin_ns, end_ns) = era.window_ns;
        let disk = DatabaseDisk::find(&era.bins, self.member, self.device.as_deref());
        let mut incidents = incident_finder::incidents(&era.bins, self.member, &disk, &era.gaps.gaps);
        for incident in &mut incidents {
            incident.begin_ms = incident.begin_ms.max((begin_ns / 1_000_000) as i64);
            incident.end_ms = incident.end_ms.min((end_ns / 1_000_000) as i64);
        }
        incidents.extend(file_system::full_file_system(&era.bins, self.member));
        if self.facts.is_disaggregated {
            incidents.retain(|incident| !incident.is_storage());
        }
        let input = VerdictInput {
            member: self.member,
            facts: &self.facts,
            bins: &era.bins,
            disk: &disk,
            device: self.device.as_deref(),
        };
        // The sum of no figures is -0, and none of these is negative.
        let sum = |figure: fn(&SegmentVerdict) -> f64| era.segments.iter().map(figure).sum::<f64>().abs();
        let (operations, operation_s) =
            (sum(|segment| segment.operations), sum(|segment| segment.operation_s));
        let uncounted_s = storage_time::uncounted_s(&era.bins, self.member, &incidents);
        let storage_s = (sum(|segment| segment.storage_s) + uncounted_s).min(operation_s);
        let basis = VerdictBasis::new(&input, std::mem::take(&mut era.segments), era.recorded_s);
        let ms = |ns: u64| (ns / 1_000_000) as i64;
        Some(RecordingJudgement {
            member: self.member,
            begin_ms: ms(begin_ns),
            end_ms: ms(end_ns),
            recorded_s: era.recorded_s.max(0.0),
            operations,
            operation_s,
            storage_s,
            timeline: RecordingTimeline::from_bins(&era.bins, self.member, disk.name()),
            disk: disk.name().map(str::to_owned),
            disks: DiskOwnership::from_bins(&era.bins, self.member, &disk),
            stretches: RecordedStretch::of_recording(
                &era.bins,
                self.member,
                disk.name(),
                &era.gaps,
                era.window_ns,
            ),
            restarts_ms: era.gaps.restarts_ns.iter().map(|ns| ms(*ns)).collect(),
            left_out: self.left_out,
            verdict: basis.verdict(&incidents),
            missing: input.missing(),
            counters: IncidentCounters::of_incidents(&era.bins, self.member, &incidents),
            incidents,
            basis,
        })
    }
}

#[cfg(test)]
mod tests;
