//! Latencies as mongod counts them: a sum, a number, and 51 buckets (mongodb/mongo:src/mongo/db/stats/operation_latency_histogram.cpp).

use std::sync::atomic::{AtomicU64, Ordering};

const BUCKETS: usize = 51;

/// The lower bounds of the buckets in microseconds: powers of two below 2048, then also half steps up to 2^21, then powers
/// of two again.
static LOWER_MICROS: [u64; BUCKETS] = bounds();

const fn bounds() -> [u64; BUCKETS] {
    let mut bounds = [0; BUCKETS];
    let mut at = 1;
    let mut power = 1;
    while at < BUCKETS {
        bounds[at] = 1 << power;
        at += 1;
        if power >= 11 && power < 21 && at < BUCKETS {
            bounds[at] = (1 << power) + (1 << (power - 1));
            at += 1;
        }
        power += 1;
    }
    bounds
}

/// Latencies of one kind of operation.
#[derive(Debug)]
pub(crate) struct LatencyHistogram {
    buckets: [AtomicU64; BUCKETS],
    sum_micros: AtomicU64,
    count: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        LatencyHistogram {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_micros: AtomicU64::new(0),
            count: AtomicU64::new(0),
        }
    }
}

impl LatencyHistogram {
    /// Counts an operation that took `micros`.
    pub(crate) fn record(&self, micros: u64) {
        let bucket = LOWER_MICROS.partition_point(|lower| *lower <= micros).saturating_sub(1);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The sum in microseconds, and the number of operations.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.sum_micros.load(Ordering::Relaxed), self.count.load(Ordering::Relaxed))
    }

    /// The buckets that hold something: lower bound in microseconds, and count.
    pub(crate) fn buckets(&self) -> Vec<(u64, u64)> {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        LOWER_MICROS.iter().copied().zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_mongod() {
        assert_eq!(
            &LOWER_MICROS[..16],
            [0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192]
        );
        assert!(LOWER_MICROS.is_sorted());
        let histogram = LatencyHistogram::default();
        for micros in [0, 3071, 3072, u64::MAX / 2] {
            histogram.record(micros);
        }
        let buckets = histogram.buckets();
        assert_eq!(buckets[..3], [(0, 1), (2048, 1), (3072, 1)]);
        assert_eq!(buckets.len(), 4);
    }
}
