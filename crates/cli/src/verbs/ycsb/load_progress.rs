//! The progress of a load on a terminal, unless status lines were asked for.

use std::time::Duration;

use fathom_load::driving::{DrivingPlan, SecondMeasurements};
use fathom_stats::Histogram;
use fathom_units::{Nanos, count};
use indicatif::ProgressBar;

use crate::progress::{progress_bar, time_words};

/// The parts of a whole bar.
const PARTS: u64 = 1000;

/// The bar of one part of a load.
pub(super) struct LoadProgress {
    bar: ProgressBar,
    /// Time and operations after which the part ends, as far as they are limited.
    limits: (Option<Duration>, Option<u64>),
}

impl LoadProgress {
    /// A new bar; hidden if standard error is no terminal.
    pub(super) fn new(plan: &DrivingPlan) -> LoadProgress {
        let limits = (plan.time, plan.operations);
        let bar = match limits {
            (None, None) => progress_bar("{spinner} {wide_msg}", None),
            _ => progress_bar("{bar:20} {wide_msg}", Some(PARTS)),
        };
        LoadProgress { bar, limits }
    }

    /// Shows the figures of a second that has ended.
    pub(super) fn second(&self, interval: &SecondMeasurements<'_>) {
        if self.bar.is_hidden() {
            return;
        }
        let mut latencies = Histogram::new();
        interval.metrics.iter().for_each(|(_, measured)| latencies.merge(&measured.succeeded.response));
        let state = LoadState {
            second: interval.second,
            operations: interval.total_operations,
            per_s: interval.operations,
            p99: latencies.supported_quantile(0.99),
        };
        let share = state.share(self.limits);
        self.bar.set_position((share.unwrap_or(0.0) * PARTS as f64) as u64);
        self.bar.set_message(state.words(self.limits));
        self.bar.tick();
    }
}

impl Drop for LoadProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A load after a second of it.
struct LoadState {
    /// The second since the start of measuring; negative during the warm-up.
    second: i64,
    operations: u64,
    /// Operations of this second.
    per_s: u64,
    /// The percentile of this second; `None` if too few operations ended in it.
    p99: Option<Nanos>,
}

impl LoadState {
    fn elapsed_s(&self) -> u64 {
        u64::try_from(self.second + 1).unwrap_or(0)
    }

    /// The part of the load that is done, by the limit that it will reach first.
    fn share(&self, (time, operations): (Option<Duration>, Option<u64>)) -> Option<f64> {
        let by_time = time.map(|time| self.elapsed_s() as f64 / time.as_secs_f64().max(1e-9));
        let by_operations = operations.map(|all| self.operations as f64 / all.max(1) as f64);
        let shares = by_time.into_iter().chain(by_operations);
        shares.reduce(f64::max).map(|share| share.clamp(0.0, 1.0))
    }

    /// `12 of 30 s, 17,509/s, p99 1.20 ms, 18 s left`.
    fn words(&self, limits: (Option<Duration>, Option<u64>)) -> String {
        if self.second < 0 {
            return format!("warming up, {} s left", self.second.unsigned_abs() - 1);
        }
        let elapsed_s = self.elapsed_s();
        let operations = count(self.operations as f64);
        let mut parts = vec![match limits {
            (Some(time), _) => format!("{elapsed_s} of {:.0} s", time.as_secs_f64()),
            (None, Some(all)) => format!("{operations} of {} operations", count(all as f64)),
            (None, None) => format!("{elapsed_s} s, {operations} operations"),
        }];
        parts.push(format!("{}/s", count(self.per_s as f64)));
        parts.extend(self.p99.map(|p99| format!("p99 {p99}")));
        if let Some(share) = self.share(limits).filter(|share| *share > 0.0) {
            let left_s = elapsed_s as f64 * (1.0 - share) / share;
            parts.push(format!("{} left", time_words(Duration::from_secs_f64(left_s.clamp(0.0, 1e9)))));
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(second: i64, operations: u64) -> LoadState {
        LoadState { second, operations, per_s: 17_509, p99: Some(Nanos(1_200_000)) }
    }

    #[test]
    fn the_limit_that_comes_first_says_how_long_it_still_takes() {
        let time = Some(Duration::from_secs(30));
        assert_eq!(state(11, 210_000).words((time, None)), "12 of 30 s, 17,509/s, p99 1.20 ms, 18 s left");
        assert_eq!(
            state(9, 250).words((None, Some(1000))),
            "250 of 1,000 operations, 17,509/s, p99 1.20 ms, 30 s left"
        );
        assert_eq!(state(9, 500).words((time, Some(1000))), "10 of 30 s, 17,509/s, p99 1.20 ms, 10 s left");
    }

    #[test]
    fn without_a_limit_nothing_is_said_of_the_rest() {
        assert_eq!(state(4, 90).words((None, None)), "5 s, 90 operations, 17,509/s, p99 1.20 ms");
        assert_eq!(state(4, 90).share((None, None)), None);
        let quiet = LoadState { second: 0, operations: 0, per_s: 0, p99: None };
        assert_eq!(quiet.words((None, Some(1000))), "0 of 1,000 operations, 0/s");
        assert_eq!(state(-3, 0).words((Some(Duration::from_secs(9)), None)), "warming up, 2 s left");
    }
}
