//! Finds times without samples, and the part that stopped in them: the host, the server's process, or its recorder alone.
//!
//! After a stop a client at a fixed rate sends what it owes, so many operations end before the next sample. The time that the sample before
//! the gap took decides: a recorder that waits is within a sample.

use fathom_record::{Point, Series, SeriesSet};
use fathom_stats::median;

/// The number of samples from which the usual length is taken.
const NEIGHBOURS: usize = 15;
/// The least factor by which a gap is longer than usual, and its least additional length, as in `fathom ftdc info`.
const MIN_GAP_RATIO: f64 = 3.0;
const MIN_EXTRA_S: f64 = 2.0;
/// If the host counted less than this share of the gap's time, it stopped too. A running host counts all of it, a stopped one none.
const MIN_COUNTED_SHARE: f64 = 0.5;
/// Operations continued if they reached this share of their usual rate: a stopped process ends none, and the load varies.
const MIN_CONTINUED_RATE: f64 = 0.5;
/// The recorder waited if the sample before the gap took this share of the additional time.
const MIN_SAMPLE_SHARE: f64 = 0.5;
/// A sync of the journal that took this share of it may have held up what the recorder writes.
const MIN_SYNC_SHARE: f64 = 0.5;

/// The kinds of gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapKind {
    /// The host's own counters stopped: it was suspended, or its virtual machine was paused.
    HostSuspended,
    /// The host continued and the process did nothing.
    ProcessStopped,
    /// Operations continued without a sample.
    RecorderStalled,
    /// The activity was too low to tell, or a sync of the journal was as long as the gap.
    Unknown,
}

/// A time without samples of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RecordedGap {
    pub(super) window_ns: (u64, u64),
    /// The time by which it was longer than usual.
    pub(super) extra_s: f64,
    pub(super) length_s: f64,
    pub(super) kind: GapKind,
    /// The usual number of operations a second before it.
    pub(super) per_s: f64,
    /// Clients' connections before it.
    pub(super) connections: Option<f64>,
}

/// Finds gaps from segment to segment.
#[derive(Clone, Debug, Default)]
pub(super) struct GapFinder {
    /// Lengths of the last samples, in seconds.
    lengths_s: Vec<f64>,
    /// Operations a second in the last samples.
    rates: Vec<f64>,
    /// The operations of the last sample, and its length in seconds.
    last: Option<(f64, f64)>,
    pub(super) gaps: Vec<RecordedGap>,
    /// Gaps that may be a new sampling period instead, with the lengths of the samples after them.
    candidates: Vec<(RecordedGap, Vec<f64>)>,
    /// When other processes began, in nanoseconds since 1970.
    pub(super) restarts_ns: Vec<u64>,
}

impl GapFinder {
    /// Adds a segment of a server.
    pub(super) fn add(&mut self, series: &SeriesSet, member: usize) {
        let Some(up) = series.get(&format!("server.{member}.up")) else { return };
        let counters =
            ["reads", "writes"].map(|kind| series.get(&format!("server.{member}.{kind}.operations")));
        for point in &up.points {
            let window_ns = (point.begin_ns, point.end_ns);
            if point.value < 1.0 {
                self.restarts_ns.push(point.end_ns);
                self.rates.clear();
                self.last = None;
                continue;
            }
            let operations = counters
                .iter()
                .filter_map(|counter| value_of((*counter)?, window_ns))
                .reduce(|one, other| one + other);
            let length_s = (point.end_ns - point.begin_ns) as f64 / 1e9;
            self.follow(length_s);
            let usual_s = median(&self.lengths_s).filter(|_| self.lengths_s.len() >= NEIGHBOURS / 3);
            match usual_s
                .filter(|usual_s| length_s > MIN_GAP_RATIO * usual_s && length_s - usual_s >= MIN_EXTRA_S)
            {
                Some(usual_s) => self.add_gap(series, member, window_ns, usual_s, operations),
                None => {
                    let rate = operations.map(|operations| operations / length_s);
                    push_within(&mut self.rates, rate);
                }
            }
            push_within(&mut self.lengths_s, Some(length_s));
            self.last = operations.map(|operations| (operations, length_s));
        }
    }

    /// Ends the recording: keeps the gaps that are not a new sampling period.
    pub(super) fn finish(&mut self) {
        let candidates = std::mem::take(&mut self.candidates);
        self.gaps.extend(candidates.into_iter().filter(is_gap).map(|(gap, _)| gap));
        // Files of an archive may come in any order.
        self.gaps.sort_by_key(|gap| gap.window_ns);
        self.restarts_ns.sort_unstable();
    }

    /// Compares the candidates with the length of a sample after them.
    fn follow(&mut self, length_s: f64) {
        for (_, behind_s) in &mut self.candidates {
            behind_s.push(length_s);
        }
        let is_decided = |(_, behind_s): &(RecordedGap, Vec<f64>)| behind_s.len() >= NEIGHBOURS;
        while self.candidates.first().is_some_and(is_decided) {
            let candidate = self.candidates.remove(0);
            if is_gap(&candidate) {
                self.gaps.push(candidate.0);
            }
        }
    }

    fn add_gap(
        &mut self,
        series: &SeriesSet,
        member: usize,
        window_ns: (u64, u64),
        usual_s: f64,
        operations: Option<f64>,
    ) {
        let length_s = (window_ns.1 - window_ns.0) as f64 / 1e9;
        let per_s = median(&self.rates).unwrap_or(0.0);
        let at = |name: &str| value_at(series, name, window_ns);
        let processors = at("host.cpu.count").unwrap_or(1.0).max(1.0);
        let host_share = at("host.cpu.counted_ms").map(|ms| ms / 1e3 / processors / length_s);
        let extra_s = length_s - usual_s;
        let took = |name: &str, unit: f64, share: f64| {
            at(&format!("server.{member}.{name}")).map(|time| time / unit >= share * extra_s)
        };
        let kind = match (host_share, operations) {
            (Some(share), _) if share < MIN_COUNTED_SHARE => GapKind::HostSuspended,
            // The rate of a few operations is not reliable.
            (_, Some(operations)) if per_s * length_s >= 20.0 => {
                let is_long_sample = took("recorder.sample_ms", 1e3, MIN_SAMPLE_SHARE);
                // A long sample may have read the counters at its end: then operations of the gap are in the interval before it.
                let before = self.last.filter(|_| is_long_sample == Some(true));
                let (operations, before_s) =
                    before.map_or((operations, 0.0), |(more, length_s)| (operations + more, length_s));
                // The samples at both ends include the usual operations of one sample.
                let within = operations - per_s * (usual_s + before_s);
                let went_on = within >= MIN_CONTINUED_RATE * per_s * extra_s;
                match is_long_sample {
                    _ if !went_on => GapKind::ProcessStopped,
                    Some(false) if took("journal.sync_us", 1e6, MIN_SYNC_SHARE) == Some(true) => {
                        GapKind::Unknown
                    }
                    Some(false) => GapKind::ProcessStopped,
                    _ => GapKind::RecorderStalled,
                }
            }
            _ => GapKind::Unknown,
        };
        let connections = at(&format!("server.{member}.connections.current"));
        let gap = RecordedGap { window_ns, extra_s, length_s, kind, per_s, connections };
        self.candidates.push((gap, Vec::new()));
    }
}

/// Whether the samples after a gap are closer together than the gap is long: otherwise the sampling period changed there.
fn is_gap((gap, behind_s): &(RecordedGap, Vec<f64>)) -> bool {
    median(behind_s)
        .is_none_or(|usual_s| gap.length_s > MIN_GAP_RATIO * usual_s && gap.length_s - usual_s >= MIN_EXTRA_S)
}

/// Keeps the last [`NEIGHBOURS`] values.
fn push_within(values: &mut Vec<f64>, value: Option<f64>) {
    let Some(value) = value else { return };
    if values.len() >= NEIGHBOURS {
        values.remove(0);
    }
    values.push(value);
}

/// The value that was read with a window.
fn value_at(series: &SeriesSet, name: &str, window_ns: (u64, u64)) -> Option<f64> {
    value_of(series.get(name)?, window_ns)
}

fn value_of(series: &Series, (begin_ns, end_ns): (u64, u64)) -> Option<f64> {
    let points = &series.points;
    let at = points.partition_point(|point| point.end_ns < end_ns);
    let point: &Point = points.get(at)?;
    (point.begin_ns == begin_ns && point.end_ns == end_ns).then_some(point.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A gap of 5 s, and the times of the sample at its begin and of syncs within it, in milliseconds.
    #[derive(Clone, Copy)]
    struct GapTruth {
        operations: f64,
        /// Operations in the second before it.
        before: f64,
        host_share: f64,
        sample_ms: f64,
        sync_ms: f64,
    }

    const STOP: GapTruth =
        GapTruth { operations: 100.0, before: 100.0, host_share: 1.0, sample_ms: 2.0, sync_ms: 9.0 };

    /// The gaps in a minute of samples with one in its middle.
    fn found(truth: GapTruth) -> Vec<GapKind> {
        let mut series = SeriesSet::default();
        let mut begin_ns = 1000 * SECOND;
        for second in 0..60 {
            let length_s = if second == 30 { 5 } else { 1 };
            let window = (begin_ns, begin_ns + length_s * SECOND);
            let mut put = |name: &str, value: f64| {
                series.extend(name, "1", [Point { begin_ns: window.0, end_ns: window.1, value }]);
            };
            put("server.0.up", 1.0);
            let operations = match second {
                29 => truth.before,
                30 => truth.operations,
                _ => 100.0,
            };
            put("server.0.reads.operations", operations);
            put("server.0.recorder.sample_ms", if second == 30 { truth.sample_ms } else { 2.0 });
            put("server.0.journal.sync_us", 1e3 * if second == 30 { truth.sync_ms } else { 9.0 });
            put("host.cpu.count", 2.0);
            let share = if second == 30 { truth.host_share } else { 1.0 };
            put("host.cpu.counted_ms", 2000.0 * length_s as f64 * share);
            begin_ns = window.1;
        }
        let mut finder = GapFinder::default();
        finder.add(&series, 0);
        finder.finish();
        finder.gaps.iter().map(|gap| gap.kind).collect()
    }

    #[test]
    fn a_stopped_process_a_suspended_host_and_a_late_recorder_differ() {
        assert_eq!(found(STOP), [GapKind::ProcessStopped]);
        let stall = GapTruth { operations: 480.0, sample_ms: 3900.0, ..STOP };
        assert_eq!(found(stall), [GapKind::RecorderStalled]);
        assert_eq!(found(GapTruth { host_share: 0.2, ..STOP }), [GapKind::HostSuspended]);
    }

    #[test]
    fn clients_that_catch_up_do_not_hide_a_stop() {
        // A client at a fixed rate sent two thirds of what it owed before the next sample.
        let caught_up = GapTruth { operations: 370.0, ..STOP };
        assert_eq!(found(caught_up), [GapKind::ProcessStopped]);
        // A sync that took the gap may have held up the recorder instead.
        assert_eq!(found(GapTruth { sync_ms: 3900.0, ..caught_up }), [GapKind::Unknown]);
    }

    #[test]
    fn a_recorder_that_reads_the_counters_after_its_wait_stalled_too() {
        let late = GapTruth { operations: 100.0, before: 480.0, sample_ms: 3900.0, ..STOP };
        assert_eq!(found(late), [GapKind::RecorderStalled]);
        // No operation ran while the sample waited: the whole server waited.
        assert_eq!(found(GapTruth { before: 100.0, ..late }), [GapKind::ProcessStopped]);
    }
}
