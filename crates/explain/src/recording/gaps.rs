//! Finds times without samples, and the part that stopped in them: the host, the server's process, or its recorder alone.

use fathom_record::{Point, SeriesSet};
use fathom_stats::median;

/// The number of samples from which the usual length is taken.
const NEIGHBOURS: usize = 15;
/// The least factor by which a gap is longer than usual, and its least additional length, as in `fathom ftdc info`.
const GAP_FACTOR: f64 = 3.0;
const MIN_EXTRA_S: f64 = 2.0;
/// If the host counted less than this share of the gap's time, it stopped too.
const HOST_STOOD: f64 = 0.5;
/// Operations continued if they reached this share of their usual rate.
const WENT_ON: f64 = 0.5;

/// The kinds of gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapKind {
    /// The host's own counters stopped: it was suspended, or its virtual machine was paused.
    HostSuspended,
    /// The host continued and the process did nothing.
    ProcessStopped,
    /// Operations continued without a sample.
    RecorderStalled,
    /// The activity was too low to tell.
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
        for point in &up.points {
            let window_ns = (point.begin_ns, point.end_ns);
            if point.value < 1.0 {
                self.restarts_ns.push(point.end_ns);
                self.rates.clear();
                continue;
            }
            let operations = ["reads", "writes"]
                .iter()
                .filter_map(|kind| value_at(series, &format!("server.{member}.{kind}.operations"), window_ns))
                .reduce(|one, other| one + other);
            let length_s = (point.end_ns - point.begin_ns) as f64 / 1e9;
            self.follow(length_s);
            let usual_s = median(&self.lengths_s).filter(|_| self.lengths_s.len() >= NEIGHBOURS / 3);
            match usual_s
                .filter(|usual_s| length_s > GAP_FACTOR * usual_s && length_s - usual_s >= MIN_EXTRA_S)
            {
                Some(usual_s) => self.add_gap(series, member, window_ns, usual_s, operations),
                None => {
                    let rate = operations.map(|operations| operations / length_s);
                    push_within(&mut self.rates, rate);
                }
            }
            push_within(&mut self.lengths_s, Some(length_s));
        }
    }

    /// Ends the recording: keeps the gaps that are not a new sampling period.
    pub(super) fn finish(&mut self) {
        let candidates = std::mem::take(&mut self.candidates);
        self.gaps.extend(candidates.into_iter().filter(is_gap).map(|(gap, _)| gap));
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
        let kind = match (host_share, operations) {
            (Some(share), _) if share < HOST_STOOD => GapKind::HostSuspended,
            // The rate of a few operations is not reliable.
            (_, Some(operations)) if per_s * length_s >= 20.0 => {
                // The samples at both ends include the usual operations of one sample.
                let within = (operations - per_s * usual_s).max(0.0);
                match within < WENT_ON * per_s * (length_s - usual_s) {
                    true => GapKind::ProcessStopped,
                    false => GapKind::RecorderStalled,
                }
            }
            _ => GapKind::Unknown,
        };
        let connections = at(&format!("server.{member}.connections.current"));
        let gap = RecordedGap { window_ns, extra_s: length_s - usual_s, length_s, kind, per_s, connections };
        self.candidates.push((gap, Vec::new()));
    }
}

/// Whether the samples after a gap are closer together than the gap is long: otherwise the sampling period changed there.
fn is_gap((gap, behind_s): &(RecordedGap, Vec<f64>)) -> bool {
    median(behind_s)
        .is_none_or(|usual_s| gap.length_s > GAP_FACTOR * usual_s && gap.length_s - usual_s >= MIN_EXTRA_S)
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
fn value_at(series: &SeriesSet, name: &str, (begin_ns, end_ns): (u64, u64)) -> Option<f64> {
    let points = &series.get(name)?.points;
    let at = points.partition_point(|point| point.end_ns < end_ns);
    let point: &Point = points.get(at)?;
    (point.begin_ns == begin_ns && point.end_ns == end_ns).then_some(point.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A minute of samples with one of 5 s in its middle, in which these operations ended and the host counted this part of the time.
    fn found(operations: f64, host_share: f64) -> Vec<GapKind> {
        let mut series = SeriesSet::default();
        let mut begin_ns = 1000 * SECOND;
        for second in 0..60 {
            let length_s = if second == 30 { 5 } else { 1 };
            let window = (begin_ns, begin_ns + length_s * SECOND);
            let mut put = |name: &str, value: f64| {
                series.extend(name, "1", [Point { begin_ns: window.0, end_ns: window.1, value }]);
            };
            put("server.0.up", 1.0);
            put("server.0.reads.operations", if second == 30 { operations } else { 100.0 });
            put("host.cpu.count", 2.0);
            let share = if second == 30 { host_share } else { 1.0 };
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
        assert_eq!(found(100.0, 1.0), [GapKind::ProcessStopped]);
        assert_eq!(found(480.0, 1.0), [GapKind::RecorderStalled]);
        assert_eq!(found(100.0, 0.2), [GapKind::HostSuspended]);
    }
}
