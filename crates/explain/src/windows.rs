//! Puts series of different samplers on the same windows.
//!
//! The client, the server and the devices are read at their own moments. Sums are spread over the windows in proportion to
//! the time they share; gauges count where they were read. A window that a sum does not cover is a gap and stays one.

use fathom_record::Point;

/// A window in nanoseconds since the run's start.
pub(crate) type Window = (u64, u64);

/// The share of a window that readings must cover for it to count as read, if shares of a mean are computed from it.
const MIN_COVERED_SHARE: f64 = 0.95;

/// The part in each window of sums whose own windows overlap it; `None` if a window is not covered.
pub(crate) fn spread(points: &[Point], windows: &[Window]) -> Vec<Option<f64>> {
    spread_where(points, windows, MIN_COVERED_SHARE)
}

/// The same, for windows of which at least this share is covered.
pub(crate) fn spread_where(points: &[Point], windows: &[Window], covered: f64) -> Vec<Option<f64>> {
    let mut first = 0;
    windows
        .iter()
        .map(|(begin_ns, end_ns)| {
            while points.get(first).is_some_and(|point| point.end_ns <= *begin_ns) {
                first += 1;
            }
            let (mut sum, mut covered_ns) = (0.0, 0);
            for point in points.get(first..)?.iter().take_while(|point| point.begin_ns < *end_ns) {
                let shared_ns = point.end_ns.min(*end_ns).saturating_sub(point.begin_ns.max(*begin_ns));
                if point.value.is_finite() && point.end_ns > point.begin_ns {
                    covered_ns += shared_ns;
                    sum += point.value * shared_ns as f64 / (point.end_ns - point.begin_ns) as f64;
                }
            }
            (covered_ns as f64 >= covered * (end_ns - begin_ns) as f64).then_some(sum)
        })
        .collect()
}

/// The mean of the readings in each window; `None` without readings.
pub(crate) fn read_in(points: &[Point], windows: &[Window]) -> Vec<Option<f64>> {
    let mut first = 0;
    windows
        .iter()
        .map(|(begin_ns, end_ns)| {
            while points.get(first).is_some_and(|point| point.end_ns <= *begin_ns) {
                first += 1;
            }
            let read = points.get(first..)?.iter().take_while(|point| point.end_ns <= *end_ns);
            let (mut sum, mut count) = (0.0, 0u32);
            for point in read.filter(|point| point.value.is_finite()) {
                sum += point.value;
                count += 1;
            }
            (count > 0).then(|| sum / f64::from(count))
        })
        .collect()
}

/// The windows that do not overlap, the earliest first.
pub(crate) fn apart(mut windows: Vec<Window>) -> Vec<Window> {
    windows.sort_unstable();
    let mut end_ns = 0;
    windows.retain(|(begin, end)| {
        let kept = *begin >= end_ns && end > begin;
        end_ns = if kept { *end } else { end_ns };
        kept
    });
    windows
}

/// Joins neighbouring stretches, given in seconds with the earliest begin first; a tenth of a second between two is no gap.
pub(crate) fn neighbours_as_one(stretches: impl IntoIterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for (begin_s, end_s) in stretches {
        match joined.last_mut() {
            Some(last) if begin_s <= last.1 + 0.1 => last.1 = last.1.max(end_s),
            _ => joined.push((begin_s, end_s)),
        }
    }
    joined
}

/// A stretch in seconds since the run's start as a window.
pub(crate) fn in_ns((begin_s, end_s): (f64, f64)) -> Window {
    let ns = |at_s: f64| (at_s.max(0.0) * 1e9) as u64;
    (ns(begin_s), ns(end_s))
}

/// Whether two windows have any time in common.
pub(crate) fn overlap(one: Window, other: Window) -> bool {
    one.0 < other.1 && other.0 < one.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(begin_ns: u64, end_ns: u64, value: f64) -> Point {
        Point { begin_ns, end_ns, value }
    }

    #[test]
    fn sums_are_shared_out_by_time_and_gaps_stay() {
        // Nothing was read between 30 and 40: the counter was set back.
        let points = [point(0, 10, 5.0), point(10, 30, 8.0), point(40, 60, 2.0)];
        let windows = [(0, 20), (20, 30), (25, 45), (40, 50), (50, 60), (60, 70)];
        let expected = [Some(9.0), Some(4.0), None, Some(1.0), Some(1.0), None];
        assert_eq!(spread(&points, &windows), expected);
        assert_eq!(read_in(&points, &windows), [Some(5.0), Some(8.0), Some(8.0), None, Some(2.0), None]);
        assert_eq!(spread(&[point(0, 10, f64::NAN)], &[(0, 10)]), [None]);
    }

    #[test]
    fn stretches_that_touch_or_overlap_are_one() {
        let stretches = [(0.0, 4.0), (1.0, 2.0), (4.05, 5.0), (5.2, 6.0)];
        assert_eq!(neighbours_as_one(stretches), [(0.0, 5.0), (5.2, 6.0)]);
    }

    #[test]
    fn windows_that_overlap_count_once() {
        assert_eq!(
            apart(vec![(5, 15), (0, 10), (10, 20), (20, 20), (20, 30)]),
            [(0, 10), (10, 20), (20, 30)]
        );
    }
}
