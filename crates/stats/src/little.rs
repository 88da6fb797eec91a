//! Checks a measurement by Little's law.
//!
//! The mean number in a system equals throughput times mean time in it, whatever the distributions (Little,
//! Operations Research 9, 1961). Where the three do not agree, something was not counted: time between
//! requests, an operation, or a clock. A step that fails this check says more about the tool than about the
//! disk (docs/methods.md#littles-law), so no verdict may rest on it.

/// The largest relative gap at which a step still counts as measured: 5 %.
pub const MAX_LITTLE_GAP: f64 = 0.05;

/// Three independent measurements of one step that Little's law ties together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LittleCheck {
    /// Mean number of requests in flight, N.
    pub in_flight: f64,
    /// Completions per second, X.
    pub throughput_per_s: f64,
    /// Mean time of a request from submission to completion, R, in nanoseconds.
    pub mean_latency_ns: f64,
}

impl LittleCheck {
    /// X times R: the number in flight that the other two imply.
    pub fn implied_in_flight(&self) -> f64 {
        self.throughput_per_s * self.mean_latency_ns / 1e9
    }

    /// |N - X R| / N; infinite if a value is missing, negative or not a number, so that no unmeasured step passes.
    pub fn relative_gap(&self) -> f64 {
        let values = [self.in_flight, self.throughput_per_s, self.mean_latency_ns];
        if self.in_flight <= 0.0 || values.iter().any(|value| !value.is_finite() || *value < 0.0) {
            return f64::INFINITY;
        }
        (self.in_flight - self.implied_in_flight()).abs() / self.in_flight
    }

    /// Whether the gap is at most [`MAX_LITTLE_GAP`].
    pub fn holds(&self) -> bool {
        self.relative_gap() <= MAX_LITTLE_GAP
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    /// A closed system of `workers`, each of which waits `think_ns` unrecorded between exponential services.
    fn closed_loop(workers: u64, think_ns: f64, drop_every: u64) -> LittleCheck {
        let seconds = 20.0;
        let (mut done, mut total_ns, mut drawn) = (0u64, 0.0, 0u64);
        for worker in 0..workers {
            let mut stream = SeededRandom::from_seed(11).split(worker);
            let mut now_ns = 0.0;
            while now_ns < seconds * 1e9 {
                let service_ns = stream.exponential(1e6);
                now_ns += service_ns + think_ns;
                drawn += 1;
                if drop_every == 0 || !drawn.is_multiple_of(drop_every) {
                    done += 1;
                    total_ns += service_ns;
                }
            }
        }
        LittleCheck {
            in_flight: workers as f64,
            throughput_per_s: done as f64 / seconds,
            mean_latency_ns: total_ns / done as f64,
        }
    }

    #[test]
    fn a_sound_closed_loop_holds() {
        let check = closed_loop(8, 0.0, 0);
        assert!(check.holds() && check.relative_gap() < 0.005, "{check:?}");
    }

    #[test]
    fn think_time_and_lost_samples_are_caught() {
        assert!(!closed_loop(8, 1e5, 0).holds(), "9 % of the time was spent outside of the requests");
        assert!(!closed_loop(8, 0.0, 10).holds(), "one completion in ten was not counted");
    }

    #[test]
    fn nothing_measured_does_not_pass() {
        for (n, x, r) in
            [(0.0, 1.0, 1.0), (1.0, f64::NAN, 1e6), (1.0, 1000.0, f64::INFINITY), (1.0, -1.0, 1e6)]
        {
            let check = LittleCheck { in_flight: n, throughput_per_s: x, mean_latency_ns: r };
            assert!(!check.holds());
        }
        let exact = LittleCheck { in_flight: 1.0, throughput_per_s: 950.0, mean_latency_ns: 1e6 };
        assert!((exact.relative_gap() - 0.05).abs() < 1e-12);
    }
}
