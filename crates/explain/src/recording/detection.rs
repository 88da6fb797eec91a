//! Finds stretches in which a signal is above the recording's own normal (docs/methods.md#incidents-of-a-recording).
//!
//! The normal is taken from the hour around a bin, as far as the server behaves alike there, and from the whole recording. A stretch of 30 s counts if its
//! mean lies far enough above, in units of the normal's spread and as a factor. The limits come from simulations whose truth is known (`tests.rs`): at most one false incident a day, and at most 5 % missed of those
//! that make operations half as slow again for 30 s.

use super::change_points::change_points;
use super::normal::NormalLevel;
use super::signals::Signal;

/// Bins on either side from which the normal is taken: half an hour.
const HALF_WINDOW_BINS: usize = 180;
/// The number of bins for which the normal is computed once.
const STEP_BINS: usize = 6;
/// With fewer bins around, the whole recording is the normal.
const MIN_BINS: usize = 6;
/// The bins of a stretch: 30 s.
const STRETCH_BINS: usize = 3;
/// The fewest spreads by which a stretch exceeds the normal.
const MIN_SPREADS: f64 = 3.5;
/// The fewest spreads by which a single bin exceeds it, and the least factor by which it is slower.
const MIN_SPREADS_ALONE: f64 = 8.0;
const MIN_RATIO_ALONE: f64 = 3.0;
/// The least factor by which a stretch is slower than the normal of the whole recording, because hours of the day differ.
const MIN_RATIO_OF_ALL: f64 = 2.0;
/// The least share of the largest growth in a stretch that a bin has, to be a part of it: else a bin in front of it that is slower by an
/// eighth would belong to a stretch that is slower by a hundred times.
const MIN_GROWTH_SHARE: f64 = 0.05;

/// A bin in which a signal is above normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Excess {
    pub(super) bin: usize,
    /// The normal mean there, in microseconds.
    pub(super) normal_us: f64,
}

/// The bins in which a signal is above its normal. `means_us` holds a mean and its count for each bin.
pub(super) fn excesses(signal: &Signal, means_us: &[Option<(f64, f64)>]) -> Vec<Excess> {
    let logs = logs(means_us);
    let known: Vec<f64> = logs.iter().flatten().copied().collect();
    let Some(all) = NormalLevel::from_logs(&known).filter(|_| known.len() >= MIN_BINS) else {
        return Vec::new();
    };
    let mut ends: Vec<usize> = change_points(&logs).iter().map(|change| change.bin).collect();
    ends.push(logs.len());
    let (mut found, mut begin) = (Vec::new(), 0);
    for end in ends {
        let part = excesses_of_part(signal, logs.get(begin..end).unwrap_or(&[]), all);
        found.extend(part.into_iter().map(|excess| Excess { bin: begin + excess.bin, ..excess }));
        begin = end;
    }
    found
}

/// The logarithm of each mean that is known.
pub(super) fn logs(means_us: &[Option<(f64, f64)>]) -> Vec<Option<f64>> {
    means_us.iter().map(|mean| mean.map(|(us, _)| us).filter(|us| *us > 0.0).map(f64::ln)).collect()
}

/// The same for a part of the recording in which the server behaves alike; bins are numbered from its begin.
fn excesses_of_part(signal: &Signal, logs: &[Option<f64>], all: NormalLevel) -> Vec<Excess> {
    let mut found: Vec<Option<f64>> = vec![None; logs.len()];
    for block in (0..logs.len()).step_by(STEP_BINS) {
        let from = block.saturating_sub(HALF_WINDOW_BINS);
        let to = (block + STEP_BINS + HALF_WINDOW_BINS).min(logs.len());
        let around: Vec<f64> = logs.get(from..to).unwrap_or(&[]).iter().flatten().copied().collect();
        let near = NormalLevel::from_logs(&around).filter(|_| around.len() >= MIN_BINS).unwrap_or(all);
        for first in block..(block + STEP_BINS).min(logs.len()) {
            let stretch: Vec<(usize, f64)> = (first..(first + STRETCH_BINS).min(logs.len()))
                .filter_map(|bin| Some((bin, logs.get(bin).copied().flatten()?)))
                .collect();
            let Some(normal) = normal_if_exceeded(signal, &stretch, near, all) else { continue };
            let growth = |log: f64| log.exp() - normal.log.exp();
            let largest = stretch.iter().map(|(_, log)| growth(*log)).fold(0.0, f64::max);
            for (bin, log) in &stretch {
                if *log - normal.log >= signal.min_ratio.ln() / 2.0
                    && growth(*log) >= MIN_GROWTH_SHARE * largest
                    && let Some(slot) = found.get_mut(*bin)
                {
                    *slot = Some(normal.log.exp());
                }
            }
        }
    }
    found
        .iter()
        .enumerate()
        .filter_map(|(bin, normal_us)| Some(Excess { bin, normal_us: (*normal_us)? }))
        .collect()
}

/// The normal that a stretch exceeds, if any. For an incomplete stretch, or one whose first bin alone exceeds it, that bin counts.
fn normal_if_exceeded(
    signal: &Signal,
    stretch: &[(usize, f64)],
    near: NormalLevel,
    all: NormalLevel,
) -> Option<NormalLevel> {
    let mean = stretch.iter().map(|(_, log)| log).sum::<f64>() / stretch.len().max(1) as f64;
    let exceeds = |log: f64, normal: NormalLevel, spreads: f64, ratio: f64| {
        log - normal.log >= (spreads * normal.spread).max(ratio.ln())
            && log.exp() - normal.log.exp() >= signal.min_growth_us
    };
    let is_whole = stretch.len() == STRETCH_BINS;
    if is_whole && exceeds(mean, near, MIN_SPREADS, signal.min_ratio) {
        return Some(near);
    }
    let (_, first) = stretch.first()?;
    if exceeds(*first, near, MIN_SPREADS_ALONE, MIN_RATIO_ALONE.max(signal.min_ratio)) {
        return Some(near);
    }
    let ratio = MIN_RATIO_OF_ALL.max(signal.min_ratio);
    (is_whole && exceeds(mean, all, MIN_SPREADS, ratio)).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::super::signals::SIGNALS;
    use super::*;

    #[test]
    fn a_bin_that_is_a_little_slow_is_no_part_of_a_long_wait_after_it() {
        // Of reads, alternately 215 and 220 us, then 255 us, 20 ms for 30 s, and as before.
        let mut means_us: Vec<f64> = (0..20).map(|bin| if bin % 2 == 0 { 215.0 } else { 220.0 }).collect();
        means_us[9] = 255.0;
        means_us[10..13].fill(20_000.0);
        let means_us: Vec<Option<(f64, f64)>> = means_us.into_iter().map(|us| Some((us, 3_000.0))).collect();
        let bins: Vec<usize> = excesses(&SIGNALS[0], &means_us).iter().map(|one| one.bin).collect();
        assert_eq!(bins, [10, 11, 12]);
    }
}
