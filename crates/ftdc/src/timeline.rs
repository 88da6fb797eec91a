//! The times at which a server was recorded: the span, the periods of samples, gaps and restarts.

use serde::Serialize;

/// The number of intervals on either side from which the usual one is computed.
const NEIGHBOURS: usize = 15;
/// An interval is a gap if it is this many times the usual one, and longer than it by [`MIN_GAP_MS`].
const MIN_GAP_RATIO: i64 = 3;
/// mongod's own samples are up to a second late on a busy host.
const MIN_GAP_MS: i64 = 2000;
/// Stretches of fewer samples have no period of their own.
const MIN_PERIOD_SAMPLES: usize = 10;

/// One sample, as far as the timeline is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampleTime {
    /// The start time, in milliseconds since 1970 in UTC.
    pub start_ms: i64,
    /// The server's process, if the sample has it.
    pub pid: Option<i64>,
    /// The uptime of the process.
    pub uptime_ms: Option<i64>,
}

/// A time without samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The last sample before it, milliseconds since 1970 in UTC.
    pub from_ms: i64,
    /// The first sample after it.
    pub to_ms: i64,
}

impl Gap {
    /// Its length in milliseconds.
    pub fn length_ms(&self) -> i64 {
        self.to_ms.saturating_sub(self.from_ms)
    }
}

/// A stretch of samples at equal intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Period {
    /// The usual interval in milliseconds.
    pub period_ms: i64,
    /// Its first sample, milliseconds since 1970 in UTC.
    pub from_ms: i64,
    pub samples: usize,
}

/// The samples of a server in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    samples: Vec<SampleTime>,
    /// The number of samples that began before the one written before them.
    pub steps_back: usize,
}

impl Timeline {
    /// A timeline of the samples of files, each once, in the order in which they were written. Files may come in any order.
    pub fn new(files: Vec<Vec<SampleTime>>) -> Timeline {
        let is_step = |pair: &&[SampleTime]| matches!(pair, [a, b] if b.start_ms < a.start_ms);
        let steps_back = files.iter().map(|samples| samples.windows(2).filter(is_step).count()).sum();
        let mut samples = files.concat();
        samples.sort();
        Timeline { samples, steps_back }
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The first and the last sample, milliseconds since 1970 in UTC.
    pub fn span_ms(&self) -> Option<(i64, i64)> {
        Some((self.samples.first()?.start_ms, self.samples.last()?.start_ms))
    }

    /// Intervals in milliseconds: the one at `n` lies between the samples `n` and `n + 1`.
    fn intervals(&self) -> Vec<i64> {
        let interval = |pair: &[SampleTime]| match pair {
            [before, after] => after.start_ms.saturating_sub(before.start_ms),
            _ => 0,
        };
        self.samples.windows(2).map(interval).collect()
    }

    /// The times without samples, in their order. A change of the period is not a gap.
    pub fn gaps(&self) -> Vec<Gap> {
        let intervals = self.intervals();
        let mut gaps = Vec::new();
        for (at, interval) in intervals.iter().enumerate() {
            let before = median(intervals.get(at.saturating_sub(NEIGHBOURS)..at).unwrap_or_default());
            // Most intervals are as long as those before them, and then no second median is needed.
            if before.is_some_and(|usual| !is_gap(*interval, usual)) {
                continue;
            }
            let end = (at + 1 + NEIGHBOURS).min(intervals.len());
            let after = median(intervals.get(at + 1..end).unwrap_or_default());
            let Some(usual) = before.into_iter().chain(after).max() else { continue };
            if is_gap(*interval, usual)
                && let (Some(from), Some(to)) = (self.samples.get(at), self.samples.get(at + 1))
            {
                gaps.push(Gap { from_ms: from.start_ms, to_ms: to.start_ms });
            }
        }
        gaps
    }

    /// The first sample of each process after the first one, milliseconds since 1970 in UTC.
    pub fn restarts_ms(&self) -> Vec<i64> {
        let mut restarts = Vec::new();
        for pair in self.samples.windows(2) {
            let [before, after] = pair else { continue };
            let other_pid = before.pid.zip(after.pid).is_some_and(|(before, after)| before != after);
            let is_younger =
                before.uptime_ms.zip(after.uptime_ms).is_some_and(|(before, after)| after + 1000 < before);
            if other_pid || is_younger {
                restarts.push(after.start_ms);
            }
        }
        restarts
    }

    /// The stretches of one period each.
    pub fn periods(&self) -> Vec<Period> {
        let intervals = self.intervals();
        let mut periods: Vec<Period> = Vec::new();
        let mut from = 0;
        for part in intervals.chunks(MIN_PERIOD_SAMPLES) {
            let usual = median(part).unwrap_or_default();
            let is_same = |period: &&mut Period| {
                let (low, high) = (usual.min(period.period_ms), usual.max(period.period_ms));
                high < 2 * low.max(1) || part.len() < MIN_PERIOD_SAMPLES
            };
            match periods.last_mut().filter(is_same) {
                Some(period) => period.samples += part.len(),
                None => periods.push(Period {
                    period_ms: usual,
                    from_ms: self.samples.get(from).map_or(0, |sample| sample.start_ms),
                    samples: part.len(),
                }),
            }
            from += part.len();
        }
        periods
    }
}

fn is_gap(interval_ms: i64, usual_ms: i64) -> bool {
    interval_ms > usual_ms.saturating_mul(MIN_GAP_RATIO) && interval_ms - usual_ms >= MIN_GAP_MS
}

fn median(intervals: &[i64]) -> Option<i64> {
    let mut sorted = intervals.to_vec();
    let middle = sorted.len() / 2;
    (!sorted.is_empty()).then(|| *sorted.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of one process, `period_ms` apart.
    fn samples(from_ms: i64, period_ms: i64, count: i64, pid: i64) -> Vec<SampleTime> {
        let sample = |number: i64| SampleTime {
            start_ms: from_ms + number * period_ms,
            pid: Some(pid),
            uptime_ms: Some(number * period_ms),
        };
        (0..count).map(sample).collect()
    }

    #[test]
    fn a_gap_is_longer_than_what_is_usual_around_it() {
        let written = [samples(0, 1000, 60, 1), samples(64_000, 1000, 60, 1)].concat();
        let timeline = Timeline::new(vec![written]);
        assert_eq!(timeline.gaps(), [Gap { from_ms: 59_000, to_ms: 64_000 }]);
        assert_eq!(timeline.gaps()[0].length_ms(), 5000);
        assert_eq!(timeline.span_ms(), Some((0, 123_000)));
        // A sample that is a second late is not a gap.
        let late = [samples(0, 1000, 60, 1), samples(61_000, 1000, 60, 1)].concat();
        assert_eq!(Timeline::new(vec![late]).gaps(), []);
    }

    #[test]
    fn a_new_period_is_no_gap() {
        let written =
            [samples(0, 1000, 60, 1), samples(60_000, 100, 600, 1), samples(130_000, 10_000, 60, 1)].concat();
        let timeline = Timeline::new(vec![written]);
        assert_eq!(timeline.gaps(), []);
        let periods: Vec<i64> = timeline.periods().iter().map(|period| period.period_ms).collect();
        assert_eq!(periods, [1000, 100, 10_000]);
        assert_eq!(timeline.periods().iter().map(|period| period.samples).sum::<usize>(), timeline.len() - 1);
    }

    #[test]
    fn a_restart_is_another_process_or_a_younger_one() {
        let written = [samples(0, 1000, 20, 1), samples(30_000, 1000, 20, 2), samples(60_000, 1000, 20, 2)];
        let timeline = Timeline::new(vec![written.concat()]);
        assert_eq!(timeline.restarts_ms(), [30_000, 60_000]);
    }

    #[test]
    fn a_clock_that_steps_back_is_counted() {
        let written = vec![samples(10_000, 1000, 5, 1), samples(2000, 1000, 5, 1)];
        let timeline = Timeline::new(vec![written.concat()]);
        assert_eq!((timeline.steps_back, timeline.span_ms()), (1, Some((2000, 14_000))));
        // An archive may hold the files of a folder in any order.
        let timeline = Timeline::new(written);
        assert_eq!((timeline.steps_back, timeline.span_ms()), (0, Some((2000, 14_000))));
        assert!(!timeline.is_empty() && Timeline::default().is_empty());
        assert_eq!((Timeline::default().gaps(), Timeline::default().periods()), (vec![], vec![]));
    }
}
