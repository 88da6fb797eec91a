//! Follows the rate of a drive second by second, and decides when the drive has shown enough.

use fathom_stats::{MIN_STEPS_AFTER, StepDown, find_step_down, is_still_down, locate_step, median};

use crate::judge::{AllowanceLimit, MAX_BURST_END_SHARE};

/// A lower level is measured for as long as the levels before it lasted, within these bounds, in intervals.
const LOWER_LEVEL_INTERVALS: (usize, usize) = (MIN_STEPS_AFTER, 120);
/// A drive does not end while this many of the latest rates are below their level.
const LATEST_RATES: usize = 3;
/// Without a step a drive has at least this many intervals, whatever the device is.
const MIN_STEADY_INTERVALS: usize = 30;

/// The rates of a drive, one for each interval.
#[derive(Debug)]
pub(crate) struct RateWatch {
    /// The highest rate of the steps before the drive.
    earlier_per_s: f64,
    limit: AllowanceLimit,
    interval_s: f64,
    steps: Vec<StepDown>,
    is_lower: bool,
}

impl RateWatch {
    /// `earlier_per_s` is the highest rate of the steps before the drive; each rate is the mean of `interval_s` seconds.
    pub(crate) fn new(earlier_per_s: f64, limit: AllowanceLimit, interval_s: f64) -> RateWatch {
        RateWatch { earlier_per_s, limit, interval_s, steps: Vec::new(), is_lower: false }
    }

    /// Evaluates the rates of all intervals so far, the last of which is new; returns true if the drive can end.
    pub(crate) fn is_over(&mut self, rates: &[f64]) -> bool {
        let is_over = |step: &mut StepDown| {
            rates
                .get(step.index..)
                .is_some_and(|level| !is_still_down(level, step.before, MAX_BURST_END_SHARE))
        };
        // An outage that is over was not a step.
        while self.steps.pop_if(is_over).is_some() {}
        let level = self.level();
        if let Some(step) = rates.get(level..).and_then(|level| find_step_down(level, MAX_BURST_END_SHARE)) {
            self.steps.push(StepDown { index: level + step.index, ..step });
        } else if self.steps.is_empty() && rates.len() == MIN_STEPS_AFTER {
            // The steps before it emptied the bucket.
            let highest = rates.iter().copied().fold(0.0, f64::max);
            self.is_lower = highest <= MAX_BURST_END_SHARE * self.earlier_per_s;
        }
        let level = self.level();
        if is_falling(rates.get(level..).unwrap_or_default()) {
            return false;
        }
        if self.fell() {
            return rates.len() - level >= level.clamp(LOWER_LEVEL_INTERVALS.0, LOWER_LEVEL_INTERVALS.1);
        }
        let requests = rates.iter().sum::<f64>() * self.interval_s;
        let highest = rates.iter().copied().fold(0.0, f64::max);
        rates.len() >= MIN_STEADY_INTERVALS && self.limit.is_exceeded(requests, highest)
    }

    /// The index at which the last level begins.
    fn level(&self) -> usize {
        self.steps.last().map_or(0, |step| step.index)
    }

    /// Whether the rate fell, within the drive or before it.
    pub(crate) fn fell(&self) -> bool {
        self.is_lower || !self.steps.is_empty()
    }

    /// The first intervals of the lower levels, located again with all rates of the drive.
    pub(crate) fn steps(&self, rates: &[f64]) -> Vec<usize> {
        let mut begin = 0;
        let ends = self.steps.iter().skip(1).map(|step| step.index).chain([rates.len()]);
        let located = self.steps.iter().zip(ends).map(|(step, end)| {
            let both = rates.get(begin..end).unwrap_or_default();
            begin += locate_step(both, step.index.saturating_sub(begin));
            begin
        });
        located.collect()
    }
}

/// Whether the latest rates of a level are so low that another step may have begun.
fn is_falling(level: &[f64]) -> bool {
    let latest = level.get(level.len().saturating_sub(LATEST_RATES)..).unwrap_or_default();
    median(latest).zip(median(level)).is_some_and(|(latest, all)| latest <= MAX_BURST_END_SHARE * all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of seconds after which the drive ends.
    fn length(watch: &mut RateWatch, rates: &[f64]) -> Option<usize> {
        (1..=rates.len()).find(|seen| watch.is_over(&rates[..*seen]))
    }

    fn levels(levels: &[(f64, usize)]) -> Vec<f64> {
        let wave = |(second, rate): (usize, f64)| rate * (1.0 + 0.01 * ((second * 7 % 5) as f64 - 2.0));
        let flat = levels.iter().flat_map(|(rate, seconds)| vec![*rate; *seconds]);
        flat.enumerate().map(wave).collect()
    }

    #[test]
    fn a_drive_ends_when_the_lower_level_lasted_as_long() {
        let watch = || RateWatch::new(2000.0, AllowanceLimit::Unknown, 1.0);
        let mut short = watch();
        let rates = levels(&[(2000.0, 4), (500.0, 100)]);
        assert_eq!(length(&mut short, &rates), Some(14));
        assert_eq!(short.steps(&rates[..14]), [4]);
        let mut long = watch();
        assert_eq!(length(&mut long, &levels(&[(2000.0, 40), (500.0, 100)])), Some(80));
        let mut three = watch();
        let rates = levels(&[(2000.0, 20), (1200.0, 15), (300.0, 100)]);
        assert_eq!((length(&mut three, &rates), three.steps(&rates[..70])), (Some(70), vec![20, 35]));
    }

    #[test]
    fn an_outage_is_no_step_when_it_is_over() {
        let mut watch = RateWatch::new(2000.0, AllowanceLimit::Unknown, 1.0);
        let rates = levels(&[(2000.0, 40), (100.0, 15), (2000.0, 200)]);
        assert_eq!((length(&mut watch, &rates), watch.steps(&rates)), (None, Vec::new()));
    }

    #[test]
    fn a_bucket_that_was_emptied_before_is_noticed() {
        let mut watch = RateWatch::new(2000.0, AllowanceLimit::Unknown, 1.0);
        assert_eq!(length(&mut watch, &levels(&[(500.0, 60)])), Some(10));
        assert!(watch.fell() && watch.steps(&[500.0; 10]).is_empty());
    }

    #[test]
    fn without_a_step_the_class_decides() {
        let flat = levels(&[(2000.0, 2000)]);
        let end = |limit| length(&mut RateWatch::new(2100.0, limit, 1.0), &flat);
        assert_eq!(end(AllowanceLimit::Unknown), None);
        assert_eq!(end(AllowanceLimit::None), Some(30));
        let seconds = end(AllowanceLimit::Bucket { requests: 0.0, seconds: 600.0 }).unwrap();
        assert!((600..620).contains(&seconds), "{seconds}");
        let requests = end(AllowanceLimit::Bucket { requests: 40_000.0, seconds: 0.0 }).unwrap();
        assert!((100..103).contains(&requests), "a fifth counts: {requests}");
    }
}
