//! The series of a long recording on one grid of ten seconds. Days of it fit into memory, and every figure of a stretch is a sum over bins.

use std::collections::BTreeMap;
use std::ops::Range;

use fathom_record::catalog::{Additivity, kind_of};
use fathom_record::{Point, SeriesSet};

/// The length of a bin. The shortest incident that must be found has three bins (docs/methods.md#incidents-of-a-recording).
pub(super) const BIN_NS: u64 = 10_000_000_000;
/// A point that is longer than this is a gap of the recording. The time at which its sum grew is not known, so it is left out.
pub(super) const MAX_POINT_NS: u64 = 120_000_000_000;
/// The longest time that one grid covers, in nanoseconds: a hundred days. A clock that was not set gives times that are decades away.
pub(super) const MAX_SPAN_NS: u64 = 100 * 86_400 * 1_000_000_000;
const MAX_BINS: u64 = MAX_SPAN_NS / BIN_NS;

/// One series in one bin.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// For a counter, its growth; for a gauge, its value times the seconds.
    sum: f32,
    /// The seconds that were read.
    covered_s: f32,
}

/// One series on the grid.
#[derive(Clone, Debug)]
struct BinColumn {
    /// Whether it is a counter, and not a gauge.
    is_sum: bool,
    bins: Vec<Bin>,
}

impl BinColumn {
    fn new(name: &str) -> BinColumn {
        let is_sum = kind_of(name).is_some_and(|kind| kind.kind == Additivity::Sum);
        BinColumn { is_sum, bins: Vec::new() }
    }

    /// Adds a point to the bins that it touches; the grid begins with the bin `first`.
    fn add(&mut self, first: u64, point: &Point) {
        let length_ns = (point.end_ns - point.begin_ns) as f64;
        let mut at_ns = point.begin_ns;
        while at_ns < point.end_ns {
            let number = at_ns / BIN_NS;
            let end_ns = (number + 1).saturating_mul(BIN_NS).min(point.end_ns);
            let part_ns = (end_ns - at_ns) as f64;
            at_ns = end_ns;
            let at = number.checked_sub(first).filter(|at| *at < MAX_BINS);
            let Some(at) = at.map(|at| at as usize) else { continue };
            if self.bins.len() <= at {
                self.bins.resize(at + 1, Bin::default());
            }
            if let Some(bin) = self.bins.get_mut(at) {
                let seconds = part_ns / 1e9;
                let added =
                    if self.is_sum { point.value * part_ns / length_ns } else { point.value * seconds };
                bin.sum += added as f32;
                bin.covered_s += seconds as f32;
            }
        }
    }
}

/// Returns whether bins take a point: it has a length and a value, and is not a gap.
fn is_binned(point: &&Point) -> bool {
    let length_ns = point.end_ns.saturating_sub(point.begin_ns);
    length_ns > 0 && length_ns <= MAX_POINT_NS && point.value.is_finite()
}

/// Series by name on one grid.
#[derive(Clone, Debug, Default)]
pub(super) struct Bins {
    /// The number of the first bin since 1970.
    first: Option<u64>,
    count: usize,
    columns: BTreeMap<String, BinColumn>,
}

impl Bins {
    /// Adds the series of a segment that `is_used` chooses. Segments come in any order. Data that would make the grid longer than
    /// [`MAX_SPAN_NS`] is left out.
    pub(super) fn add(&mut self, series: &SeriesSet, is_used: &dyn Fn(&str) -> bool) {
        for (name, one) in series.iter().filter(|(name, _)| is_used(name)) {
            let points = || one.points.iter().filter(is_binned);
            for number in points().map(|point| point.begin_ns / BIN_NS) {
                if self.first.is_none_or(|first| number < first) {
                    self.begin_at(number);
                }
            }
            let Some(first) = self.first.filter(|_| points().next().is_some()) else { continue };
            let column = self.columns.entry(name.to_owned()).or_insert_with(|| BinColumn::new(name));
            points().for_each(|point| column.add(first, point));
            self.count = self.count.max(column.bins.len());
        }
    }

    /// Moves the begin of the grid to an earlier bin, unless the grid would become too long.
    fn begin_at(&mut self, number: u64) {
        let more = self.first.map_or(0, |first| first - number);
        if more + self.count as u64 > MAX_BINS {
            return;
        }
        for column in self.columns.values_mut() {
            drop(column.bins.splice(0..0, std::iter::repeat_n(Bin::default(), more as usize)));
        }
        self.first = Some(number);
        self.count += if self.count > 0 { more as usize } else { 0 };
    }

    /// The number of bins.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The names of series.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    /// When a bin begins, in nanoseconds since 1970.
    pub(super) fn begin_ns(&self, bin: usize) -> u64 {
        (self.first.unwrap_or(0) + bin as u64) * BIN_NS
    }

    /// The bins that a stretch of time touches.
    pub(super) fn bins_of(&self, (begin_ns, end_ns): (u64, u64)) -> Range<usize> {
        let first = self.first.unwrap_or(0);
        let at = |number: u64| number.saturating_sub(first).min(self.count as u64) as usize;
        at(begin_ns / BIN_NS)..at(end_ns.div_ceil(BIN_NS))
    }

    /// The sum of a counter over bins, or the area under a gauge; `None` if nothing was read.
    pub(super) fn sum(&self, name: &str, bins: &[usize]) -> Option<f64> {
        self.total(name, bins).map(|(sum, _)| sum)
    }

    /// The growth of a counter a second, or the mean of a gauge.
    pub(super) fn rate(&self, name: &str, bins: &[usize]) -> Option<f64> {
        self.total(name, bins).map(|(sum, covered_s)| sum / covered_s)
    }

    fn total(&self, name: &str, bins: &[usize]) -> Option<(f64, f64)> {
        let column = &self.columns.get(name)?.bins;
        let read = bins.iter().filter_map(|bin| column.get(*bin));
        let (sum, covered_s) = read.fold((0.0, 0.0), |(sum, covered_s), bin| {
            (sum + f64::from(bin.sum), covered_s + f64::from(bin.covered_s))
        });
        (covered_s > 0.0).then_some((sum, covered_s))
    }

    /// The seconds in bins that were read of a series.
    pub(super) fn covered_s(&self, name: &str, bins: Range<usize>) -> f64 {
        let column = self.columns.get(name).map_or(&[][..], |column| column.bins.as_slice());
        let column = column.get(bins.start..bins.end.min(column.len()));
        column.unwrap_or_default().iter().map(|bin| f64::from(bin.covered_s)).sum()
    }

    /// The sum of several counters; `None` if none was read.
    pub(super) fn sum_of(&self, names: &[String], bins: &[usize]) -> Option<f64> {
        let mut sums = names.iter().filter_map(|name| self.sum(name, bins)).peekable();
        sums.peek().is_some().then(|| sums.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_spread_over_bins_and_gauges_are_means() {
        let mut series = SeriesSet::default();
        let second = BIN_NS / 10;
        let mut add = |name: &str, begin: u64, end: u64, value: f64| {
            let point = Point { begin_ns: begin * second, end_ns: end * second, value };
            series.extend(name, "1", [point]);
        };
        add("server.0.journal.syncs", 1005, 1015, 20.0);
        add("server.0.journal.syncs", 1015, 1020, 5.0);
        add("host.runnable", 1000, 1001, 4.0);
        add("host.runnable", 1001, 1002, 8.0);
        add("device.sda.reads", 1000, 1001, 3.0);
        let mut bins = Bins::default();
        bins.add(&series, &|name| name != "device.sda.reads");
        // The first name in the alphabet came first; all lie in the same bins.
        assert_eq!((bins.len(), bins.begin_ns(0)), (2, 1000 * second));
        assert_eq!(bins.sum("server.0.journal.syncs", &[0, 1]), Some(25.0));
        assert_eq!(bins.rate("server.0.journal.syncs", &[1]), Some(1.5));
        assert_eq!(bins.rate("host.runnable", &[0]), Some(6.0));
        assert_eq!(bins.sum("device.sda.reads", &[0]), None);
        assert_eq!(bins.bins_of((1009 * second, 1011 * second)), 0..2);
    }

    #[test]
    fn the_grid_grows_to_both_sides_and_not_beyond_its_limit() {
        let mut bins = Bins::default();
        let mut add = |number: u64, value: f64| {
            let point = Point { begin_ns: number * BIN_NS, end_ns: (number + 1) * BIN_NS, value };
            let mut series = SeriesSet::default();
            series.extend("host.swap.in_pages", "1", [point]);
            bins.add(&series, &|_| true);
        };
        let now = 170_000_000;
        add(now, 1.0);
        add(now + 5, 2.0);
        // An archive file that was read later.
        add(now - 3, 4.0);
        // 1970 and 2100.
        add(0, 8.0);
        add(411_000_000, 16.0);
        let all: Vec<usize> = (0..bins.len()).collect();
        assert_eq!((bins.len(), bins.begin_ns(0)), (9, (now - 3) * BIN_NS));
        assert_eq!(bins.sum("host.swap.in_pages", &all), Some(7.0));
        assert_eq!(bins.sum("host.swap.in_pages", &[3]), Some(1.0));
    }

    #[test]
    fn what_a_gap_holds_is_in_no_bin() {
        let mut series = SeriesSet::default();
        series.extend("host.swap.in_pages", "1", [Point { begin_ns: 0, end_ns: 100 * BIN_NS, value: 7.0 }]);
        let mut bins = Bins::default();
        bins.add(&series, &|_| true);
        assert_eq!((bins.len(), bins.sum("host.swap.in_pages", &[0])), (0, None));
    }
}
