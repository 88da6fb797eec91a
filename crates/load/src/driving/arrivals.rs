//! The times at which operations are due.
//!
//! Closed: each connection sends its next request as soon as the last was answered, so a slow server gets fewer requests. At a
//! rate: operations follow a schedule of their own, evenly spaced or at random times (Poisson), whether the server keeps up
//! or not. A late operation is sent as soon as a connection is free, and its response time counts from when it was due. YCSB
//! gives each thread a schedule; here a loop has one for all its connections, so a slow operation delays no other.

use fathom_stats::SeededRandom;

/// The times at which operations are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// One after another on each connection.
    Closed,
    /// This many operations a second over all connections, evenly spaced.
    Uniform(f64),
    /// This many operations a second on average, at random times.
    Poisson(f64),
}

impl Arrivals {
    /// The requested operations a second, if there is a rate.
    pub fn rate_per_s(self) -> Option<f64> {
        match self {
            Arrivals::Closed => None,
            Arrivals::Uniform(rate) | Arrivals::Poisson(rate) => Some(rate),
        }
    }

    /// The schedule of one loop, which takes `share` of the rate; `None` for a closed loop.
    pub(super) fn schedule(self, share: f64, phase: f64, random: SeededRandom) -> Option<ArrivalTimes> {
        let rate = self.rate_per_s()? * share;
        let mean_ns = 1e9 / rate;
        let poisson = matches!(self, Arrivals::Poisson(_));
        // Loops start at different points of the first gap, so that together they are evenly spaced too.
        let mut schedule =
            ArrivalTimes { due_ns: if poisson { 0.0 } else { mean_ns * phase }, mean_ns, poisson, random };
        if poisson {
            schedule.advance();
        }
        Some(schedule)
    }
}

/// A sequence of times at which operations are due.
#[derive(Clone, Debug)]
pub(super) struct ArrivalTimes {
    /// A fraction of a nanosecond is kept, or high rates would drift.
    due_ns: f64,
    mean_ns: f64,
    poisson: bool,
    random: SeededRandom,
}

impl ArrivalTimes {
    /// The time when the next operation is due.
    pub(super) fn due_ns(&self) -> u64 {
        self.due_ns as u64
    }

    /// Moves to the operation after it.
    pub(super) fn advance(&mut self) {
        self.due_ns += if self.poisson { self.random.exponential(self.mean_ns) } else { self.mean_ns };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, share: f64, phase: f64, count: usize) -> Vec<u64> {
        let mut schedule = arrivals.schedule(share, phase, SeededRandom::from_seed(2)).unwrap();
        let next = |_| {
            let due = schedule.due_ns();
            schedule.advance();
            due
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn an_even_schedule_neither_drifts_nor_bursts() {
        // Two loops of 3 operations a microsecond together.
        let one = times(Arrivals::Uniform(3e6), 0.5, 0.0, 1_000_000);
        let other = times(Arrivals::Uniform(3e6), 0.5, 0.5, 3);
        assert_eq!((one[0], one[1], one[3]), (0, 666, 2000));
        assert_eq!(other[0], 333);
        assert!(one[999_999].abs_diff(666_666_000) <= 1, "{}", one[999_999]);
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let times = times(Arrivals::Poisson(1e6), 1.0, 0.0, 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1000.0).abs() < 15.0, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "the spread of an exponential is its mean");
        assert!(Arrivals::Closed.schedule(1.0, 0.0, SeededRandom::from_seed(1)).is_none());
    }
}
