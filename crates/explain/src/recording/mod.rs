//! Judges a server's recording of itself: incidents by their difference from its own calm, and the whole by the waits of operations.
//!
//! A recording is days long, so it comes segment by segment. The rules that judge any run judge each segment, and its figures are kept in bins of ten
//! seconds. No client was watched, so times begin at the server.

mod bins;
mod clock_offset;
mod database_disk;
mod detection;
mod file_system;
mod gaps;
mod incident_cause;
mod incident_finder;
mod recorded_facts;
mod recording_verdict;
mod segment_verdict;
mod signals;
mod stretch;
mod timeline;

use fathom_record::SeriesSet;
use fathom_record::incident::Incident;
use fathom_record::verdict::Verdict;
use serde::Serialize;

use bins::Bins;
pub use clock_offset::ClockOffset;
use database_disk::database_disk;
use gaps::GapFinder;
pub use recorded_facts::RecordedFacts;
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
    /// Incidents, the costliest first.
    pub incidents: Vec<Incident>,
    pub verdict: Verdict,
    /// One sentence for each thing that the recording lacks.
    pub missing: Vec<String>,
    /// When other processes of the server began, in milliseconds since 1970.
    pub restarts_ms: Vec<i64>,
    /// Its main figures along its time.
    #[serde(skip)]
    pub timeline: RecordingTimeline,
}

/// Judges the recording of one server.
#[derive(Debug, Default)]
pub struct RecordingJudge {
    member: usize,
    facts: RecordedFacts,
    bins: Bins,
    gaps: GapFinder,
    segments: Vec<SegmentVerdict>,
    window_ns: Option<(u64, u64)>,
    recorded_s: f64,
}

impl RecordingJudge {
    /// A judge of the server with this number.
    pub fn new(member: usize) -> RecordingJudge {
        RecordingJudge { member, ..RecordingJudge::default() }
    }

    /// Adds a segment with the facts that are known by then. Segments come in the order of time, on a clock of nanoseconds since 1970.
    pub fn add_segment(&mut self, facts: RecordedFacts, series: SeriesSet, window_ns: (u64, u64)) {
        self.facts = facts;
        self.gaps.add(&series, self.member);
        let own = format!("server.{}.", self.member);
        self.bins.add(&series, &|name| match name.strip_prefix(&own) {
            Some(rest) => BINNED.contains(&rest),
            None => name.starts_with("device.") || name.starts_with("host."),
        });
        let up = series.get(&format!("{own}up")).map_or(&[][..], |series| &series.points);
        let of_one_process = up.iter().filter(|point| point.value > 0.0);
        self.recorded_s +=
            of_one_process.map(|point| (point.end_ns - point.begin_ns) as f64 / 1e9).sum::<f64>();
        self.segments.extend(SegmentVerdict::from_series(self.member, &self.facts, series, window_ns));
        self.window_ns =
            Some(self.window_ns.map_or(window_ns, |(begin_ns, end_ns)| {
                (begin_ns.min(window_ns.0), end_ns.max(window_ns.1))
            }));
    }

    /// The judgement; `None` if nothing was added.
    pub fn finish(mut self) -> Option<RecordingJudgement> {
        let (begin_ns, end_ns) = self.window_ns?;
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.finish();
        self.recorded_s -= gaps.gaps.iter().map(|gap| gap.extra_s).sum::<f64>();
        let disk = database_disk(&self.bins, self.member);
        let mut incidents = incident_finder::incidents(&self.bins, self.member, &disk, &gaps.gaps);
        for incident in &mut incidents {
            incident.begin_ms = incident.begin_ms.max((begin_ns / 1_000_000) as i64);
            incident.end_ms = incident.end_ms.min((end_ns / 1_000_000) as i64);
        }
        incidents.extend(file_system::full_file_system(&self.bins, self.member));
        if self.facts.is_disaggregated {
            incidents.retain(|incident| !incident.is_storage());
        }
        let whole = recording_verdict::Whole {
            member: self.member,
            facts: &self.facts,
            bins: &self.bins,
            disk: &disk,
            segments: &self.segments,
            incidents: &incidents,
            recorded_s: self.recorded_s,
        };
        let (verdict, missing) = (whole.verdict(), whole.missing());
        let operation_s = self.segments.iter().map(|segment| segment.operation_s).sum();
        let ms = |ns: u64| (ns / 1_000_000) as i64;
        Some(RecordingJudgement {
            member: self.member,
            begin_ms: ms(begin_ns),
            end_ms: ms(end_ns),
            recorded_s: self.recorded_s.max(0.0),
            operations: self.segments.iter().map(|segment| segment.operations).sum(),
            operation_s,
            storage_s: self.segments.iter().map(|segment| segment.storage_s).sum::<f64>().min(operation_s),
            timeline: RecordingTimeline::from_bins(&self.bins, self.member, disk.name()),
            disk: disk.name().map(str::to_owned),
            restarts_ms: gaps.restarts_ns.iter().map(|ns| ms(*ns)).collect(),
            incidents,
            verdict,
            missing,
        })
    }
}

/// The series of a server that are kept in bins, behind `server.{member}.`.
const BINNED: &[&str] = &[
    "reads.operations",
    "reads.latency_us",
    "writes.operations",
    "writes.latency_us",
    "wait.page_read_us",
    "wait.page_write_us",
    "wait.evict_us",
    "wait.cache_us",
    "wait.ticket_us",
    "wait.lock_us",
    "wait.flow_control_us",
    "wait.replication_us",
    "wait.journal_us",
    "pages.read",
    "journal.syncs",
    "journal.sync_us",
    "journal.written_bytes",
    "engine.reads",
    "engine.read_bytes",
    "engine.written_bytes",
    "connections.current",
    "volume.available_bytes",
    "volume.capacity_bytes",
];

#[cfg(test)]
mod tests;
