//! Finds a rate that falls to a lower level and stays there, during the measurement.
//!
//! [`crate::find_step`] judges a finished series of half a minute or more. This looks again after every value, so that a measurement can
//! end when it has seen enough, and it finds a level that lasted only a few values. Medians on both sides of each split within the last
//! half a minute are compared on a log scale, against noise from the median absolute deviation around them, widened for the memory that one
//! value has of the last. Only the values next to the split count, so a slow trend is no step, and a stall of a few values moves no
//! median. The threshold was chosen by simulation: see the tests for the false alarms of series of ten minutes.

use crate::summary::{median, quantile};

/// The number of values that a level must have lasted before it can end.
pub const MIN_STEPS_BEFORE: usize = 3;
/// The number of values that must have followed: a stall is over by then.
pub const MIN_STEPS_AFTER: usize = 10;
/// The most values on each side of a split that count. Splits further back were judged when the values behind them came.
const MAX_VALUES_PER_SIDE: usize = 30;
/// The least relative noise: a series that hardly varies would make a step of any size certain.
const MIN_NOISE: f64 = 0.005;
/// The median absolute deviation of normal values, times this, is their standard deviation.
const MAD_TO_DEVIATION: f64 = 1.4826;
/// A median of normal values varies more than their mean, by the square root of pi / 2.
const MEDIAN_LOSS: f64 = 1.2533;
/// Residuals count for the memory up to so many deviations.
const MAX_RESIDUAL_DEVIATIONS: f64 = 3.0;
/// The most memory that is taken into account.
const MAX_MEMORY: f64 = 0.9;
/// A level of zero has no logarithm: it counts as this share of the level before it.
const MIN_LEVEL: f64 = 1e-3;
/// The largest distance of a step from its first location, in values.
const MAX_LOCATION_SHIFT: usize = 5;
/// The share of the values behind a step that are clearly below the level before it.
const MIN_STAYING_SHARE: f64 = 0.8;
/// The ratio of a step to its standard error from which on it counts.
const MIN_STEP_ERRORS: f64 = 6.5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepDown {
    /// The index of the first value of the lower level. A value in which the level changed may be on either side.
    pub index: usize,
    /// The median of the values before it.
    pub before: f64,
    /// The median of the values from it on.
    pub after: f64,
}

/// Looks for a step down to `share` of the level before it, or lower, within the last 30 of equally spaced values. To be called
/// after each value. `None` if there is none, or a value is not finite or negative.
pub fn find_step_down(values: &[f64], share: f64) -> Option<StepDown> {
    if values.iter().any(|value| !value.is_finite() || *value < 0.0) {
        return None;
    }
    let last = values.len().checked_sub(MIN_STEPS_AFTER)?;
    let first = MIN_STEPS_BEFORE.max(values.len().saturating_sub(MAX_VALUES_PER_SIDE));
    let recent = values.len().saturating_sub(2 * MAX_VALUES_PER_SIDE);
    let steps = (first..=last).filter_map(|index| judge_split(values, index, share));
    // Splits next to the right one pass too. The right one has the least absolute deviations.
    let found = steps.map(|step| (step, deviations(values, recent, &step)));
    found.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(step, _)| step)
}

/// The step down at a split, if there is one.
fn judge_split(values: &[f64], index: usize, share: f64) -> Option<StepDown> {
    let (before, after) = values.split_at_checked(index)?;
    let before = before.get(before.len().saturating_sub(MAX_VALUES_PER_SIDE)..)?;
    let after = after.get(..after.len().min(MAX_VALUES_PER_SIDE))?;
    let (high, low) = (median(before)?, median(after)?);
    // Several stalls may move the median. Between them the rate is unchanged.
    let most = high * (1.0 + share) / 2.0;
    let begins = after.iter().take(2).all(|value| *value <= most);
    let is_down = begins && low <= share * high && quantile(after, MIN_STAYING_SHARE)? <= most;
    if high <= 0.0 || !is_down {
        return None;
    }
    let floor = low.max(MIN_LEVEL * high);
    let early: Vec<f64> = before.iter().map(|value| (value - high) / high).collect();
    let late: Vec<f64> = after.iter().map(|value| (value - low) / floor).collect();
    let noise = deviation(&early)?.max(deviation(&late)?).max(MIN_NOISE);
    let memory = memory(&early, &late, noise);
    let widening = MEDIAN_LOSS * ((1.0 + memory) / (1.0 - memory)).sqrt();
    let error = noise * widening * (1.0 / early.len() as f64 + 1.0 / late.len() as f64).sqrt();
    ((high / floor).ln() >= MIN_STEP_ERRORS * error).then_some(StepDown { index, before: high, after: low })
}

/// Whether the latest values of a lower level are still below the level before it. An outage of many seconds passes for a step until
/// it is over.
pub fn is_still_down(values: &[f64], before: f64, share: f64) -> bool {
    let latest = values.get(values.len().saturating_sub(MIN_STEPS_AFTER)..).unwrap_or_default();
    median(latest).is_none_or(|rate| rate <= before * (1.0 + share) / 2.0)
}

/// The split near an index with the least absolute deviations from the medians on both sides: where a step is, once more of the lower
/// level is known.
pub fn locate_step(values: &[f64], near: usize) -> usize {
    let spread = |side: &[f64]| {
        let middle = median(side)?;
        Some(side.iter().map(|value| (value - middle).abs()).sum::<f64>())
    };
    let cost = |index: usize| {
        let (before, after) = values.split_at_checked(index)?;
        Some((index, spread(before)? + spread(after)?))
    };
    let splits = near.saturating_sub(MAX_LOCATION_SHIFT)..=near.saturating_add(MAX_LOCATION_SHIFT);
    splits.filter_map(cost).min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(near, |(index, _)| index)
}

/// The distances of values from `recent` on from the levels of a step.
fn deviations(values: &[f64], recent: usize, step: &StepDown) -> f64 {
    let deviation = |(index, value): (usize, &f64)| {
        (value - if index < step.index { step.before } else { step.after }).abs()
    };
    values.iter().enumerate().skip(recent).map(deviation).sum()
}

/// The standard deviation of residuals around zero, unmoved by outliers.
fn deviation(residuals: &[f64]) -> Option<f64> {
    let sizes: Vec<f64> = residuals.iter().map(|value| value.abs()).collect();
    Some(MAD_TO_DEVIATION * median(&sizes)?)
}

/// The correlation of a residual with the next one, both sides together. Too little memory costs false alarms, so what few values leave
/// open is added: one standard error, and the bias of a mean that was taken out.
fn memory(early: &[f64], late: &[f64], noise: f64) -> f64 {
    let clip = |value: &f64| value.clamp(-MAX_RESIDUAL_DEVIATIONS * noise, MAX_RESIDUAL_DEVIATIONS * noise);
    let (mut products, mut squares, mut count) = (0.0, 0.0, 0.0);
    for side in [early, late] {
        squares += side.iter().map(|value| clip(value).powi(2)).sum::<f64>();
        products +=
            side.iter().zip(side.iter().skip(1)).map(|(one, next)| clip(one) * clip(next)).sum::<f64>();
        count += side.len() as f64;
    }
    let measured = if squares > 0.0 { products / squares } else { 0.0 };
    (measured + 2.0 / count + 1.0 / count.sqrt()).clamp(0.0, MAX_MEMORY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    const SHARE: f64 = 0.8;

    /// Ten minutes of a rate around 1,000 with noise that remembers itself, a slow fall by `trend`, and `stalls` stalls of up to four seconds.
    fn rates(spread: f64, memory: f64, trend: f64, stalls: u64, stream: &mut SeededRandom) -> Vec<f64> {
        const SECONDS: usize = 600;
        let scale = (1.0 - memory * memory).sqrt();
        let mut noise = stream.normal();
        let mut values: Vec<f64> = (0..SECONDS)
            .map(|second| {
                noise = memory * noise + scale * stream.normal();
                let level = 1000.0 * (1.0 - trend * second as f64 / SECONDS as f64);
                (level * (1.0 + spread * noise)).max(0.0)
            })
            .collect();
        for _ in 0..stalls {
            let begin = stream.below(SECONDS as u64 - 4) as usize;
            let length = 1 + stream.below(4) as usize;
            values.iter_mut().skip(begin).take(length).for_each(|value| *value *= 0.05);
        }
        values
    }

    /// The first look after which a step is seen; one look a second.
    fn first_alarm(values: &[f64]) -> Option<usize> {
        (1..=values.len()).find(|seen| find_step_down(&values[..*seen], SHARE).is_some())
    }

    /// Looks after every second of ten minutes: at most 2 of 100 series may raise an alarm.
    #[test]
    fn noise_memory_trends_and_stalls_are_no_steps() {
        let mut alarms = Vec::new();
        for (spread, memory, trend, stalls) in [
            (0.01, 0.0, 0.0, 0),
            (0.05, 0.0, 0.0, 3),
            (0.05, 0.6, 0.4, 3),
            (0.1, 0.0, 0.4, 0),
            (0.1, 0.6, 0.0, 3),
            (0.1, 0.8, 0.0, 0),
            (0.2, 0.0, 0.0, 3),
            (0.2, 0.6, 0.0, 0),
        ] {
            let alarmed = |seed: &u64| {
                let mut stream = SeededRandom::from_seed(77).split(*seed);
                first_alarm(&rates(spread, memory, trend, stalls, &mut stream)).is_some()
            };
            alarms.push((0..100).filter(alarmed).count());
        }
        assert!(alarms.iter().all(|count| *count <= 2), "{alarms:?} of 100 each");
    }

    #[test]
    fn a_step_is_seen_soon_and_where_it_is() {
        for (spread, memory, share, longest) in
            [(0.01, 0.3, 0.75, 15), (0.03, 0.3, 0.5, 16), (0.1, 0.3, 0.3, 30)]
        {
            let mut late = 0;
            for seed in 0..50 {
                let mut stream = SeededRandom::from_seed(78).split(seed);
                let at = 6 + stream.below(100) as usize;
                let mut values = rates(spread, memory, 0.0, 0, &mut stream);
                values.iter_mut().skip(at).for_each(|value| *value *= share);
                let seen = first_alarm(&values).unwrap();
                let step = find_step_down(&values[..seen], SHARE).unwrap();
                let is_right = seen.abs_diff(at) <= longest && step.index.abs_diff(at) <= 2;
                late += usize::from(!is_right);
            }
            assert!(late <= 4, "{late} of 50 at {spread} {memory} {share}");
        }
    }

    #[test]
    fn a_level_of_three_values_and_a_fall_to_nothing_are_steps() {
        let values: Vec<f64> = [2000.0, 2010.0, 1990.0].into_iter().chain([500.0; 10]).collect();
        let step = find_step_down(&values, SHARE).unwrap();
        assert_eq!((step.index, step.before, step.after), (3, 2000.0, 500.0));
        assert!(!is_still_down(&[1900.0; 4], 2000.0, SHARE) && is_still_down(&[900.0; 4], 2000.0, SHARE));
        let more: Vec<f64> = values.iter().copied().chain([500.0; 20]).collect();
        assert_eq!([1, 3, 6].map(|near| locate_step(&more, near)), [3, 3, 3]);
        assert_eq!(locate_step(&[], 2), 2);
        let stopped: Vec<f64> = [100.0; 5].into_iter().chain([0.0; 10]).collect();
        assert_eq!(find_step_down(&stopped, SHARE).unwrap().index, 5);
        assert_eq!(find_step_down(&values[..12], SHARE), None, "too few values follow");
        assert_eq!(find_step_down(&[0.0; 40], SHARE), None);
        assert_eq!(find_step_down(&[f64::NAN; 40], SHARE), None);
    }
}
