//! Finds the single most likely step in a series of per-second values: an emptied burst bucket, a throttle setting in.
//!
//! Performance series remember themselves from one second to the next, and tests that assume they do not find
//! steps everywhere (docs/methods.md#series-with-memory: up to 84 % false alarms from a published detector). Here the largest
//! difference over all splits is compared with the largest in surrogate series that have the same memory and no
//! step: an autoregressive sieve (Bühlmann, Bernoulli 3, 1997), fitted after the step was taken out, or a true
//! step would pass for memory. It refuses short series, in which the memory looks like a step, and it looks
//! for one step only.

use crate::SeededRandom;
use crate::autoregression::{Autoregression, autocovariances, levinson};
use crate::summary::median;

/// Below this many values the memory cannot be estimated well enough.
pub const MIN_VALUES: usize = 30;
/// A step this close to either end looks like a stall.
const MIN_EDGE_VALUES: usize = 5;
const MAX_ORDER: usize = 3;

/// The most likely step, real or not: look at `p`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The index of the first value after the step.
    pub index: usize,
    /// The median before the change.
    pub before: f64,
    /// Median from it on.
    pub after: f64,
    /// The chance of so large a step in a series with the same memory and no step: (1 + b) / (1 + B), never zero.
    pub p: f64,
}

/// Looks for one step in equally spaced `values` against `surrogates` (B; 999 resolves 0.1 %) drawn from
/// `stream`. `None` under [`MIN_VALUES`] values or if one is not finite; a constant series has p = 1.
pub fn find_step(values: &[f64], surrogates: usize, stream: &mut SeededRandom) -> Option<ChangePoint> {
    if values.len() < MIN_VALUES || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let (index, share) = largest_step(values);
    let (early, late) = values.split_at_checked(index)?;
    let memory = without_steps(&[early, late]);
    let mut surrogate = vec![0.0; values.len()];
    let mut as_large = 0usize;
    for _ in 0..surrogates {
        memory.draw(&mut surrogate, stream);
        as_large += usize::from(largest_step(&surrogate).1 >= share);
    }
    Some(ChangePoint {
        index,
        before: median(early)?,
        after: median(late)?,
        p: (1 + as_large) as f64 / (1 + surrogates) as f64,
    })
}

/// The autocorrelation of a series without the steps between its parts.
pub(crate) fn without_steps(parts: &[&[f64]]) -> Autoregression {
    let residuals: Vec<f64> = parts
        .iter()
        .flat_map(|part| {
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            part.iter().map(move |value| value - mean)
        })
        .collect();
    memory(&residuals)
}

/// The split that explains most of the variance, and which share of it: a monotone function of the largest
/// two-sample t, without its division. The share is zero for a constant series.
pub(crate) fn largest_step(values: &[f64]) -> (usize, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let total: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    // Differences this small against the values are rounding.
    if total <= (1e-12 * mean).powi(2) * n {
        return (values.len() / 2, 0.0);
    }
    let (mut best, mut sum) = ((values.len() / 2, 0.0), 0.0);
    for (position, value) in values.iter().enumerate() {
        sum += value - mean;
        let split = position + 1;
        if split >= MIN_EDGE_VALUES && split + MIN_EDGE_VALUES <= values.len() {
            let before = split as f64;
            let between = sum * sum * n / (before * (n - before));
            if between > best.1 {
                best = (split, between);
            }
        }
    }
    (best.0, best.1 / total)
}

/// The memory of a series without its step. A higher order displaces the first only if the Bayesian criterion
/// prefers it and it remembers more: taking the step out leaves a shadow of negative memory behind, which would
/// pass for evidence that steps are rare.
fn memory(residuals: &[f64]) -> Autoregression {
    let n = residuals.len() as f64;
    let covariances = autocovariances(residuals, MAX_ORDER);
    let (mut chosen, mut lowest) = (Vec::new(), f64::INFINITY);
    let orders = levinson(&covariances, |partial, order| unbiased(partial, n, order));
    for (order, model) in (1usize..).zip(orders) {
        let criterion = n * model.variance.ln() + n.ln() * order as f64;
        let remembers_more = model.coefficients.iter().sum::<f64>() > chosen.iter().sum::<f64>();
        if order == 1 || (criterion < lowest && remembers_more) {
            (lowest, chosen) = (criterion, model.coefficients);
        }
    }
    Autoregression::new(residuals, chosen)
}

/// Takes the bias out of a partial autocorrelation of order `order`, estimated from `n` residuals of two fitted
/// levels.
///
/// Fitting one mean lowers the first autocorrelation by about (1 + 4 rho) / n (Marriott and Pope, Biometrika 41,
/// 1954), two means and a chosen split by more. The constants, and the 0.7 standard errors that are added because
/// too little memory costs false alarms and too much only costs power, were chosen by simulation: at a nominal
/// 1 %, 2000 series of 60 values gave 0.5, 0.9, 1.3 and 3.1 % false alarms at rho 0, 0.3, 0.6 and 0.8, of 30
/// values 0.7, 0.8, 2.2 and 4.8 %, of 120 values 0.7, 0.7, 1.1 and 1.7 %; with a slow second-order memory
/// (0.4, 0.3) 60 values still give 8 %.
fn unbiased(partial: f64, n: f64, order: usize) -> f64 {
    const LIMIT: f64 = 0.97;
    if order > 1 {
        return (partial + 4.0 / n).clamp(-LIMIT, LIMIT);
    }
    let centered = ((partial + 4.0 / n) / (1.0 - 8.0 / n)).clamp(-LIMIT, LIMIT);
    (centered + 0.7 * ((1.0 - centered * centered) / n).sqrt()).min(LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correlated(rho: f64, n: usize, stream: &mut SeededRandom) -> Vec<f64> {
        let mut value = stream.normal();
        let scale = (1.0 - rho * rho).sqrt();
        let mut next = || {
            value = rho * value + scale * stream.normal();
            value
        };
        (0..n).map(|_| next()).collect()
    }

    /// The number of series, of `series` with 60 values, that are reported to have a step at 1 %, after one of `size` standard
    /// deviations was put into each at a random place.
    fn alarms(rho: f64, size: f64, series: u64) -> usize {
        let alarmed = |index: &u64| {
            let mut stream = SeededRandom::from_seed(2024).split(*index);
            let mut values = correlated(rho, 60, &mut stream);
            let place = 15 + stream.below(30) as usize;
            values.iter_mut().skip(place).for_each(|value| *value -= size);
            find_step(&values, 99, &mut stream).unwrap().p <= 0.01
        };
        (0..series).filter(alarmed).count()
    }

    /// A true rate of 2 % gives more than 18 of 400 with probability below 0.001. A published detector
    /// gives 3.5, 26 and 58 % here (docs/methods.md#series-with-memory).
    #[test]
    fn noise_with_memory_is_not_called_a_step() {
        for rho in [0.0, 0.3, 0.6] {
            let false_alarms = alarms(rho, 0.0, 400);
            assert!(false_alarms <= 18, "{false_alarms} of 400 at rho {rho}");
        }
    }

    #[test]
    fn true_steps_are_found() {
        for (rho, size, least) in [(0.0, 2.0, 90), (0.3, 3.0, 85), (0.6, 5.0, 75)] {
            let found = alarms(rho, size, 100);
            assert!(found >= least, "{found} of 100 of {size} standard deviations at rho {rho}");
        }
    }

    /// A gp2 volume out of credits: 3000 to 300 operations per second with 2 % noise, and one stalled second.
    #[test]
    fn an_emptied_burst_bucket_is_located() {
        let mut stream = SeededRandom::from_seed(12);
        let level = |second: usize| if second < 41 { 3000.0 } else { 300.0 };
        let mut values: Vec<f64> = (0..60).map(|s| level(s) * (1.0 + 0.02 * stream.normal())).collect();
        values[20] = 150.0;
        let step = find_step(&values, 999, &mut stream).unwrap();
        assert_eq!(step.index, 41);
        assert!(step.p <= 0.005, "{step:?}");
        assert!((step.before / 3000.0 - 1.0).abs() < 0.02 && (step.after / 300.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_noiseless_step_and_a_constant_are_told_apart() {
        let mut stream = SeededRandom::from_seed(1);
        let mut values = vec![100.0; 40];
        let flat = find_step(&values, 99, &mut stream).unwrap();
        assert_eq!((flat.p, flat.before, flat.after), (1.0, 100.0, 100.0));
        values.iter_mut().skip(25).for_each(|value| *value = 40.0);
        let step = find_step(&values, 99, &mut stream).unwrap();
        assert_eq!((step.index, step.p, step.before, step.after), (25, 0.01, 100.0, 40.0));
        assert_eq!(find_step(&values[..29], 99, &mut stream), None);
        values[3] = f64::NAN;
        assert_eq!(find_step(&values, 99, &mut stream), None);
    }
}
