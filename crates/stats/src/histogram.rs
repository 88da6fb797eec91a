//! Latency histograms: whole distributions, so that percentiles are computed once, late, and never averaged.
//!
//! Counts are kept by `hdrhistogram` with two significant digits (a value is off by at most 1/128 = 0.8 %, the
//! same as fio's own bins) from 8 ns to 1100 s; minimum, maximum and sum are exact. A quantile is reported as
//! `min(bucket edge, exact maximum)`: fio prints the edge and so can show a p99.99 above its maximum
//! (axboe/fio#1984). Values beyond the range count as the range's end, and the exact maximum still tells.

use fathom_units::Nanos;
use hdrhistogram::Histogram as Hdr;

/// Below this all values share a bucket of 8 ns: no device and no clock is that fast.
const MIN_NS: u64 = 8;
/// 2^40 ns: longer than any kernel lets a request live before it gives up.
const MAX_NS: u64 = 1 << 40;

/// A distribution of latencies in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Hdr<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty histogram; its memory (32 KiB) is touched only where values fall.
    pub fn new() -> Self {
        #[expect(clippy::expect_used, reason = "constant bounds; the unit tests construct it")]
        let counts = Hdr::new_with_bounds(MIN_NS, MAX_NS, 2).expect("constant bounds are valid");
        Histogram { counts, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Rebuilds one from a log's counts; minimum, maximum and mean are then those of the buckets.
    pub fn from_counts(counts: Hdr<u64>) -> Self {
        let sum_ns = (counts.mean() * counts.len() as f64) as u128;
        let (min_ns, max_ns) = if counts.is_empty() { (u64::MAX, 0) } else { (counts.min(), counts.max()) };
        Histogram { counts, sum_ns, min_ns, max_ns }
    }

    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.counts.saturating_record(latency_ns);
        self.sum_ns += u128::from(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// Adds all of another's values.
    pub fn merge(&mut self, other: &Histogram) {
        if other.is_empty() {
            return;
        }
        // Same bounds on both sides, so nothing can be out of range; a refused merge would lose counts silently.
        let merged = self.counts.add(&other.counts);
        debug_assert!(merged.is_ok(), "histograms of equal bounds merge");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets all values and keeps the memory.
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.counts.reset();
            (self.sum_ns, self.min_ns, self.max_ns) = (0, u64::MAX, 0);
        }
    }

    /// The number of values that it holds.
    pub fn len(&self) -> u64 {
        self.counts.len()
    }

    /// Whether it holds no values.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The exact mean in nanoseconds; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum_ns as f64 / self.len() as f64)
    }

    /// The standard deviation in nanoseconds, from bucket middles.
    pub fn stddev_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.counts.stdev())
    }

    pub fn min_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min_ns)
    }

    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// The latency that a share `q` (0 to 1) of the values does not exceed, never above the exact maximum;
    /// `None` when empty.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        (!self.is_empty()).then(|| self.counts.value_at_quantile(q).clamp(self.min_ns, self.max_ns))
    }

    /// The same as [`Nanos`], and `None` where fewer than 10 values lie beyond it: such a tail is one or two
    /// accidents, not a quantile (docs/methods.md#percentiles).
    pub fn supported_quantile(&self, q: f64) -> Option<Nanos> {
        let beyond = self.len() as f64 * (1.0 - q);
        if beyond + 1e-9 < 10.0 { None } else { self.quantile_ns(q).map(Nanos) }
    }

    /// Every non-empty bucket as (highest value in ns, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
    }

    /// The counts for a log writer.
    pub fn counts(&self) -> &Hdr<u64> {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent_and_never_above_the_maximum() {
        let mut histogram = Histogram::new();
        (1..=100_000u64).for_each(|i| histogram.record(i * 1_003));
        for q in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            let exact = ((q * 100_000.0f64).ceil().max(1.0) * 1_003.0) as u64;
            let got = histogram.quantile_ns(q).unwrap();
            assert!(got.abs_diff(exact) as f64 <= exact as f64 * 0.01, "q {q}: {got} for {exact}");
            assert!(got <= histogram.max_ns().unwrap());
        }
        assert_eq!(histogram.max_ns(), Some(100_300_000));
        assert_eq!(histogram.mean_ns(), Some(1_003.0 * 50_000.5));
    }

    #[test]
    fn a_merge_loses_nothing() {
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for i in 0..1_000u64 {
            let value = i * i * 37;
            if i % 3 == 0 {
                a.record(value)
            } else {
                b.record(value)
            }
            both.record(value);
        }
        a.merge(&b);
        assert_eq!(a.buckets().collect::<Vec<_>>(), both.buckets().collect::<Vec<_>>());
        assert_eq!(a.mean_ns(), both.mean_ns());
        assert_eq!(a.len(), 1_000);
    }

    #[test]
    fn values_out_of_range_are_counted_and_the_maximum_stays_exact() {
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX / 2);
        histogram.record(0);
        assert_eq!(histogram.len(), 2);
        assert_eq!(histogram.max_ns(), Some(u64::MAX / 2));
        assert_eq!(histogram.min_ns(), Some(0));
    }

    #[test]
    fn an_empty_one_has_no_figures() {
        let mut histogram = Histogram::new();
        assert_eq!((histogram.quantile_ns(0.5), histogram.mean_ns(), histogram.max_ns()), (None, None, None));
        histogram.record(5);
        assert_eq!(histogram.supported_quantile(0.99), None);
        histogram.clear();
        assert!(histogram.is_empty());
    }
}
