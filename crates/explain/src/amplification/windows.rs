//! From when to when bytes are compared: between ends of checkpoints, when little is dirty, so that what one window owes is not
//! paid in the next.
//!
//! An engine without checkpoints is compared over even parts of the run; what it has yet to compact is then a debt, and said.

use crate::Evidence;

/// Even parts for an engine without checkpoints, and the shortest such part in nanoseconds.
const PARTS: u64 = 10;
const SHORTEST_PART_NS: u64 = 10_000_000_000;

/// The windows within a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Windows {
    /// The whole: from the first bound to the last.
    pub(super) whole_ns: (u64, u64),
    /// Whether the bounds are ends of checkpoints.
    pub(super) between_checkpoints: bool,
    /// The parts, one after the other.
    pub(super) parts_ns: Vec<(u64, u64)>,
}

/// The windows of a server.
pub(super) fn of(evidence: &Evidence, member: &str) -> Windows {
    let (begin_ns, end_ns) = evidence.window_ns;
    let ended = evidence.series.get(&format!("server.{member}.checkpoint.count"));
    let bounds: Vec<u64> = ended.map_or_else(Vec::new, |series| {
        let points = series.within(begin_ns, end_ns).iter();
        points.filter(|point| point.value > 0.0).map(|point| point.end_ns).collect()
    });
    let pairs = |bounds: &[u64]| -> Vec<(u64, u64)> {
        bounds.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect()
    };
    if let (Some(first), Some(last)) = (bounds.first(), bounds.last())
        && first < last
    {
        return Windows { whole_ns: (*first, *last), between_checkpoints: true, parts_ns: pairs(&bounds) };
    }
    let length = end_ns.saturating_sub(begin_ns);
    let compacts = evidence.series.get(&format!("server.{member}.flush.written_bytes")).is_some();
    let parts_ns = if compacts && length >= PARTS * SHORTEST_PART_NS {
        pairs(&(0..=PARTS).map(|part| begin_ns + length / PARTS * part).collect::<Vec<u64>>())
    } else {
        Vec::new()
    };
    Windows { whole_ns: (begin_ns, end_ns), between_checkpoints: false, parts_ns }
}

/// What a counter added within a window; a reading across its edge counts by the part that lies within. `None` where there is no
/// such series.
pub(super) fn sum(evidence: &Evidence, name: &str, (begin_ns, end_ns): (u64, u64)) -> Option<f64> {
    let points = &evidence.series.get(name)?.points;
    let from = points.partition_point(|point| point.end_ns <= begin_ns);
    let within =
        points.get(from..)?.iter().take_while(|point| point.begin_ns < end_ns || point.end_ns <= end_ns);
    Some(
        within
            .filter(|point| point.value.is_finite())
            .map(|point| {
                let length = point.end_ns.saturating_sub(point.begin_ns);
                let inside = point.end_ns.min(end_ns).saturating_sub(point.begin_ns.max(begin_ns));
                if length == 0 { point.value } else { point.value * inside as f64 / length as f64 }
            })
            .sum(),
    )
}

/// The sum of several counters; `None` where none was read.
pub(super) fn sums<'n>(
    evidence: &Evidence,
    names: impl IntoIterator<Item = &'n String>,
    window_ns: (u64, u64),
) -> Option<f64> {
    names.into_iter().filter_map(|name| sum(evidence, name, window_ns)).reduce(|a, b| a + b)
}
