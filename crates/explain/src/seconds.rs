//! Puts series on one grid of seconds, so that samplers of different periods can be compared.
//!
//! A sum is spread over the seconds that its window covers; a gauge counts in the second in which it was read. A second of which a series
//! covers less than half has no value: no value is filled in.

use fathom_record::{Point, Series};

use crate::Evidence;
use crate::windows::{Window, read_in, spread_where};

/// One step of the grid.
pub(crate) const STEP_NS: u64 = 1_000_000_000;
/// The share of a second that readings must cover: samplers' seconds begin at other moments than those of the grid, so one covers half of some
/// second.
const MIN_COVERED_SHARE: f64 = 0.5;
/// The most steps: two days. A longer window is cut at its end.
const MAX_SECONDS: u64 = 172_800;

/// The seconds of a window, from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecondGrid {
    begin_ns: u64,
    count: usize,
}

impl SecondGrid {
    /// The whole seconds of the evidence's window.
    pub(crate) fn from_evidence(evidence: &Evidence) -> SecondGrid {
        let (begin_ns, end_ns) = evidence.window_ns;
        let count = (end_ns.saturating_sub(begin_ns) / STEP_NS).min(MAX_SECONDS) as usize;
        SecondGrid { begin_ns, count }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The second in which `end_ns` lies, if it is within; the end of a second belongs to it.
    pub(crate) fn at(&self, end_ns: u64) -> Option<usize> {
        let offset = end_ns.checked_sub(self.begin_ns)?.checked_sub(1)?;
        let at = (offset / STEP_NS) as usize;
        (at < self.count).then_some(at)
    }

    /// Where the second `at` ends.
    fn end_of(&self, at: usize) -> u64 {
        self.begin_ns.saturating_add((at as u64 + 1).saturating_mul(STEP_NS))
    }

    fn points<'s>(&self, series: &'s Series) -> &'s [Point] {
        series.within(self.begin_ns, self.end_of(self.count))
    }

    fn windows(&self) -> Vec<Window> {
        (0..self.count).map(|at| (self.end_of(at) - STEP_NS, self.end_of(at))).collect()
    }

    /// The sum that was added in each second.
    pub(crate) fn sums(&self, points: &[Point]) -> Vec<Option<f64>> {
        spread_where(points, &self.windows(), MIN_COVERED_SHARE)
    }

    /// The mean of what was read in each second.
    pub(crate) fn means(&self, points: &[Point]) -> Vec<Option<f64>> {
        read_in(points, &self.windows())
    }

    /// [`SecondGrid::sums`] of a series by name; `None` without the series.
    pub(crate) fn sums_of(&self, evidence: &Evidence, name: &str) -> Option<Vec<Option<f64>>> {
        evidence.series.get(name).map(|series| self.sums(self.points(series)))
    }

    /// [`SecondGrid::means`] of a series by name; `None` without the series.
    pub(crate) fn means_of(&self, evidence: &Evidence, name: &str) -> Option<Vec<Option<f64>>> {
        evidence.series.get(name).map(|series| self.means(self.points(series)))
    }
}

/// Applies `f` to two series second by second, in the seconds in which both have a value.
pub(crate) fn zip(
    a: &[Option<f64>],
    b: &[Option<f64>],
    f: impl Fn(f64, f64) -> Option<f64>,
) -> Vec<Option<f64>> {
    a.iter().zip(b).map(|(a, b)| f((*a)?, (*b)?)).collect()
}

/// The sum of the known values, second by second; `None` for no series at all.
pub(crate) fn total(all: impl IntoIterator<Item = Vec<Option<f64>>>) -> Option<Vec<Option<f64>>> {
    all.into_iter().reduce(|a, b| {
        let one = |pair: (&Option<f64>, &Option<f64>)| match pair {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(*b),
        };
        a.iter().zip(&b).map(one).collect()
    })
}

/// The mean of the values; `None` without any.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use fathom_record::SeriesSet;

    use super::*;

    #[test]
    fn sums_are_spread_and_gauges_stay_where_they_were_read() {
        let mut series = SeriesSet::default();
        let half = STEP_NS / 2;
        series.add("sum", "1", Point { begin_ns: half, end_ns: 3 * half, value: 10.0 });
        series.add("sum", "1", Point { begin_ns: 3 * half, end_ns: 5 * half, value: 30.0 });
        series.add("gauge", "1", Point { begin_ns: 0, end_ns: STEP_NS, value: 4.0 });
        series.add("gauge", "1", Point { begin_ns: STEP_NS, end_ns: STEP_NS + 1, value: 8.0 });
        series.add("gauge", "1", Point { begin_ns: STEP_NS, end_ns: 2 * STEP_NS, value: f64::NAN });
        let evidence = Evidence { series, window_ns: (0, 3 * STEP_NS), ..Evidence::default() };
        let grid = SecondGrid::from_evidence(&evidence);
        assert_eq!(grid.sums_of(&evidence, "sum").unwrap(), [Some(5.0), Some(20.0), Some(15.0)]);
        assert_eq!(grid.means_of(&evidence, "gauge").unwrap(), [Some(4.0), Some(8.0), None]);
        assert_eq!(grid.sums_of(&evidence, "none"), None);
        assert_eq!(
            total([vec![Some(1.0), None], vec![Some(2.0), Some(5.0)]]),
            Some(vec![Some(3.0), Some(5.0)])
        );
    }

    #[test]
    fn an_absurd_window_is_cut() {
        let evidence = Evidence { window_ns: (0, u64::MAX), ..Evidence::default() };
        assert_eq!(SecondGrid::from_evidence(&evidence).len(), MAX_SECONDS as usize);
        assert_eq!(SecondGrid::from_evidence(&Evidence { window_ns: (5, 2), ..evidence }).len(), 0);
    }
}
