//! A part of a recording whose times lie within a hundred days. A clock that is not set yet, or that jumps, makes others.

use fathom_record::SeriesSet;
use serde::Serialize;

use super::bins::{BIN_NS, Bins, MAX_POINT_NS, MAX_SPAN_NS};
use super::gaps::{GapFinder, RecordedGap};
use super::recorded_facts::RecordedFacts;
use super::segment_verdict::SegmentVerdict;

/// The series of a server that are kept in bins, behind `server.{member}.`.
const BINNED: &[&str] = &[
    "up",
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
    "queue.readers",
    "queue.writers",
    "checkpoint.count",
    "checkpoint.total_ms",
    "journal.syncs",
    "journal.sync_us",
    "journal.written_bytes",
    "engine.reads",
    "engine.read_bytes",
    "engine.written_bytes",
    "connections.current",
    "volume.available_bytes",
    "volume.capacity_bytes",
    "documents.inserted",
    "documents.updated",
    "documents.deleted",
    "scan.documents",
];

/// Samples that are not judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OmittedTime {
    /// Begin, in milliseconds since 1970 in UTC.
    pub begin_ms: i64,
    pub end_ms: i64,
    /// The time with samples, in seconds.
    pub recorded_s: f64,
}

/// The series and the gaps of an era of one server.
#[derive(Debug, Default)]
pub(super) struct RecordingEra {
    pub(super) bins: Bins,
    pub(super) gaps: GapFinder,
    pub(super) segments: Vec<SegmentVerdict>,
    pub(super) window_ns: (u64, u64),
    pub(super) recorded_s: f64,
}

impl RecordingEra {
    pub(super) fn new(window_ns: (u64, u64)) -> RecordingEra {
        RecordingEra { window_ns, ..RecordingEra::default() }
    }

    /// The era's window with another one.
    fn joined(&self, (begin_ns, end_ns): (u64, u64)) -> (u64, u64) {
        (self.window_ns.0.min(begin_ns), self.window_ns.1.max(end_ns))
    }

    /// Whether a window is near enough to be part of it.
    pub(super) fn may_include(&self, window_ns: (u64, u64)) -> bool {
        let (begin_ns, end_ns) = self.joined(window_ns);
        // Bins begin and end at whole multiples of their length.
        end_ns - begin_ns <= MAX_SPAN_NS - 2 * BIN_NS
    }

    pub(super) fn add(
        &mut self,
        member: usize,
        facts: &RecordedFacts,
        series: SeriesSet,
        window_ns: (u64, u64),
    ) {
        self.gaps.add(&series, member);
        let own = format!("server.{member}.");
        self.bins.add(&series, &|name| match name.strip_prefix(&own) {
            Some(rest) => {
                BINNED.contains(&rest)
                    || rest.starts_with("engine.read_times.")
                    || rest.starts_with("engine.write_times.")
            }
            None => name.starts_with("device.") || name.starts_with("host."),
        });
        let up = series.get(&format!("{own}up")).map_or(&[][..], |series| &series.points);
        let of_one_process = up.iter().filter(|point| point.value > 0.0);
        self.recorded_s +=
            of_one_process.map(|point| (point.end_ns - point.begin_ns) as f64 / 1e9).sum::<f64>();
        self.segments.extend(SegmentVerdict::from_series(member, facts, series, window_ns));
        self.window_ns = self.joined(window_ns);
    }

    /// Ends the era: only gaps remain in which no other file has samples.
    pub(super) fn finish(&mut self, member: usize) {
        self.gaps.finish();
        let gaps = std::mem::take(&mut self.gaps.gaps);
        let (filled, gaps): (Vec<RecordedGap>, Vec<RecordedGap>) =
            gaps.into_iter().partition(|gap| self.is_filled(member, gap));
        let filled_s: f64 = filled.iter().map(|gap| gap.length_s).sum();
        self.recorded_s -= filled_s + gaps.iter().map(|gap| gap.extra_s).sum::<f64>();
        self.gaps.gaps = gaps;
    }

    /// Whether samples lie within a gap: files of an archive may come in any order.
    fn is_filled(&self, member: usize, gap: &RecordedGap) -> bool {
        let touched = self.bins.bins_of(gap.window_ns);
        let within = touched.start + 1..touched.end.saturating_sub(1);
        if within.is_empty() {
            return false;
        }
        let length_s = within.len() as f64 * BIN_NS as f64 / 1e9;
        // The gap itself is a point of that series, unless it is too long for one.
        let is_point = gap.window_ns.1 - gap.window_ns.0 <= MAX_POINT_NS;
        let own_s = if is_point { length_s } else { 0.0 };
        self.bins.covered_s(&format!("server.{member}.up"), within) - own_s >= 0.5 * length_s
    }

    pub(super) fn left_out(&self) -> OmittedTime {
        let ms = |ns: u64| (ns / 1_000_000) as i64;
        OmittedTime {
            begin_ms: ms(self.window_ns.0),
            end_ms: ms(self.window_ns.1),
            recorded_s: self.recorded_s,
        }
    }
}
