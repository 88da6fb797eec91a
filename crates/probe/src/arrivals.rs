//! When requests are meant to start under a fixed rate: a Poisson process, whether the disk keeps up or not.
//!
//! Latency counts from these intended starts, so that a stall is felt by every request that should have started
//! during it (coordinated omission: scylladb/seastar#2260). The gaps are exponential, as independent clients'.

use std::sync::Mutex;

use fathom_stats::Seeded;

use crate::tracks::lock;

/// An endless schedule of intended starts, shared by a job's workers.
pub(crate) struct Arrivals {
    gap_ns: f64,
    state: Mutex<(Seeded, f64)>,
}

impl Arrivals {
    /// A schedule of `rate_per_s` that begins at `start_ns`.
    pub(crate) fn new(rate_per_s: f64, start_ns: u64, random: Seeded) -> Self {
        Arrivals { gap_ns: 1e9 / rate_per_s, state: Mutex::new((random, start_ns as f64)) }
    }

    /// The next intended start, on the monotonic clock.
    pub(crate) fn next_ns(&self) -> u64 {
        let mut state = lock(&self.state);
        let (random, next) = &mut *state;
        *next += random.exponential(self.gap_ns);
        *next as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_the_gaps_are_exponential() {
        let arrivals = Arrivals::new(1_000.0, 5_000_000, Seeded::from_seed(1));
        let times: Vec<u64> = (0..100_000).map(|_| arrivals.next_ns()).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let sd = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean / 1e6 - 1.0).abs() < 0.015, "mean gap {mean}");
        assert!((sd / mean - 1.0).abs() < 0.03, "an exponential's deviation is its mean: {sd} {mean}");
    }
}
