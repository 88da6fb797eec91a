//! Fits one law to a ladder, compares the fits of several laws (by AICc, with a preference for fewer parameters, after a runs test
//! on the residuals), and locates the peak of a fitted USL, with an interval, or gives the reason for its refusal.
//!
//! N* = sqrt((1 - s) / k) exists for any k above zero, also for one that noise put there. The conditions under
//! which it means something come from simulation (docs/methods.md#scaling-laws): measured to N = 32 a true peak of 49 was
//! placed between 34 and 119, measured past it between 48 and 50, and a capped system was given a peak at 52.

use super::curve::{Curve, Model};
use super::solve::{self, ConcurrencyGroup};
use crate::SeededRandom;
use crate::distribution::bootstrap_expansion;
use crate::summary::{Interval, percentile_interval};

/// How much lower the AICc of a model must be to displace one with fewer parameters, and of the USL to displace
/// the cap. Differences of 4 to 7 are "considerably less support" in Burnham and Anderson, Model Selection and
/// Multimodel Inference (2002), 2.6.
pub const AICC_MARGIN: f64 = 4.0;
/// Below this the runs test says that a curve misses the data systematically.
pub(super) const RUNS_LEVEL: f64 = 0.01;
/// A relative residual below this is arithmetic, not noise; it keeps a noiseless ladder from an AICc of minus
/// infinity.
const RESIDUAL_FLOOR: f64 = 1e-6;

/// One model fitted to the ladder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub model: Model,
    /// The law with its fitted parameters.
    pub curve: Curve,
    /// Akaike's criterion, corrected for few points (Hurvich and Tsai, Biometrika 76, 1989); lower is better,
    /// only differences mean something.
    pub aicc: f64,
    /// Residual standard deviation of ln(throughput): about the relative error of one measurement.
    pub residual_sd: f64,
    /// The chance of so few runs of equal residual sign if the curve had the right shape.
    pub runs_p: f64,
}

/// One model's fit; `None` if it has as many parameters as there are levels, or AICc is undefined.
pub(super) fn fit_model(model: Model, groups: &[ConcurrencyGroup]) -> Option<Fit> {
    let points: usize = groups.iter().map(|group| group.logs.len()).sum();
    // One more for the residual variance, which is estimated too.
    let estimated = model.parameters() + 1;
    if groups.len() <= model.parameters() || points <= estimated + 1 {
        return None;
    }
    let solution = solve::from_many_starts(model, groups);
    let curve = Curve::new(model, solution.intercept, solution.shape);
    let residuals: Vec<f64> = groups
        .iter()
        .flat_map(|group| {
            let expected = curve.throughput_at(group.concurrency).ln();
            group.logs.iter().map(move |log| log - expected)
        })
        .collect();
    let n = points as f64;
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let k = estimated as f64;
    let aicc = n * (squares / n).max(RESIDUAL_FLOOR * RESIDUAL_FLOOR).ln()
        + 2.0 * k
        + 2.0 * k * (k + 1.0) / (n - k - 1.0);
    let residual_sd = (squares / (points - model.parameters()) as f64).sqrt();
    // Residuals that are rounding errors have no shape to speak of.
    let runs_p = if residual_sd < RESIDUAL_FLOOR { 1.0 } else { too_few_runs_p(&residuals) };
    Some(Fit { model, curve, aicc, residual_sd, runs_p })
}

/// The model with the fewest parameters within [`AICC_MARGIN`] of the lowest AICc. A curve that misses the data systematically
/// ranks behind one that does not.
pub(super) fn choose(fits: &[Fit]) -> Option<Model> {
    let lowest = fits.iter().map(|fit| fit.aicc).min_by(f64::total_cmp)?;
    let simplest = |least_runs_p: f64| {
        fits.iter()
            .filter(|fit| fit.aicc <= lowest + AICC_MARGIN && fit.runs_p >= least_runs_p)
            .min_by(|one, two| {
                let fewer = one.model.parameters().cmp(&two.model.parameters());
                fewer.then(one.aicc.total_cmp(&two.aicc))
            })
            .map(|fit| fit.model)
    };
    simplest(RUNS_LEVEL).or_else(|| simplest(0.0))
}

/// The chance of at most the observed number of runs of equal sign, given how many residuals are positive; 1 if all have one sign,
/// a case that allows no conclusion.
///
/// This is the runs test: do residuals change sign as often as chance would have it? A curve of the wrong shape lies above the data for
/// several levels and below for the next; squares alone do not show this. Wald and Wolfowitz (Ann. Math. Stat. 11, 1940), exact, and
/// one-sided: too many runs is no fault of a curve.
fn too_few_runs_p(residuals: &[f64]) -> f64 {
    let positive = residuals.iter().filter(|residual| **residual >= 0.0).count();
    let negative = residuals.len() - positive;
    if positive == 0 || negative == 0 {
        return 1.0;
    }
    let changes = residuals.windows(2).filter(|pair| matches!(pair, [a, b] if (*a >= 0.0) != (*b >= 0.0)));
    let observed = changes.count() + 1;
    let logs = log_factorials(residuals.len());
    let total = log_choose(&logs, residuals.len(), positive);
    let p: f64 = (2..=observed)
        .map(|runs| {
            let half = runs / 2;
            let ways = |more: usize, fewer: usize| {
                (log_choose(&logs, positive - 1, more) + log_choose(&logs, negative - 1, fewer) - total).exp()
            };
            // An even number has as many runs of either sign; of an odd one, either sign may have one more.
            if runs % 2 == 0 {
                2.0 * ways(half - 1, half - 1)
            } else {
                ways(half, half - 1) + ways(half - 1, half)
            }
        })
        .sum();
    p.min(1.0)
}

/// ln(0!), ln(1!) … ln(n!).
fn log_factorials(n: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let rest = (1..=n).map(|k| {
        sum += (k as f64).ln();
        sum
    });
    std::iter::once(0.0).chain(rest.collect::<Vec<_>>()).collect()
}

/// ln of the number of ways to choose k of n; minus infinity if there is none.
fn log_choose(logs: &[f64], n: usize, k: usize) -> f64 {
    let at = |index: usize| logs.get(index).copied().unwrap_or(f64::INFINITY);
    if k > n { f64::NEG_INFINITY } else { at(n) - at(k) - at(n - k) }
}

/// The fewest levels for which a peak is reported.
const MIN_LEVELS: usize = 6;
/// The fewest repeats of each level for which a peak is reported.
const MIN_REPLICATES: usize = 3;
/// The confidence of the interval around a peak.
const CONFIDENCE: f64 = 0.95;
const RESAMPLES: usize = 400;
/// The same data must give the same interval on every reading of a run folder.
const SEED: u64 = 0x5ca1_ab1e;

/// The concurrency at which throughput is highest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// N*, the concurrency of the peak.
    pub concurrency: f64,
    /// Its 95 % interval, by resampling replicates.
    pub interval: Interval,
}

/// The peak, or the first reason against reporting one.
pub(super) fn locate(groups: &[ConcurrencyGroup], fits: &[Fit], best: Model) -> Result<Peak, String> {
    if best != Model::Usl {
        return Err(format!("the {} model describes the ladder best, and it has no peak", best.name()));
    }
    let of = |model: Model| fits.iter().find(|fit| fit.model == model);
    let usl = of(Model::Usl).ok_or("the USL was not fitted")?;
    let concurrency = usl.curve.peak_concurrency().ok_or("the fitted throughput never stops rising")?;
    let replicates = groups.iter().map(|group| group.logs.len()).min().unwrap_or(0);
    if groups.len() < MIN_LEVELS {
        return Err(format!("{} levels were measured, and a peak needs at least {MIN_LEVELS}", groups.len()));
    }
    if replicates < MIN_REPLICATES {
        return Err(format!(
            "a level was measured {replicates} times, and a peak needs {MIN_REPLICATES} repeats of each"
        ));
    }
    let highest = groups.last().map_or(0.0, |group| group.concurrency);
    if highest <= concurrency {
        return Err(format!(
            "the peak would lie at {concurrency:.0}, beyond the highest measured concurrency of {highest}"
        ));
    }
    if usl.runs_p < RUNS_LEVEL {
        return Err(format!(
            "the fitted USL misses the data systematically (runs test p = {:.4})",
            usl.runs_p
        ));
    }
    if let Some(cap) = of(Model::Cap).filter(|cap| cap.aicc - usl.aicc <= AICC_MARGIN) {
        return Err(format!(
            "a plain cap describes the ladder about as well (AICc larger by {:.1}, and a peak needs more than \
             {AICC_MARGIN})",
            cap.aicc - usl.aicc
        ));
    }
    let interval = interval(groups, usl).ok_or("no interval could be placed around the peak")?;
    Ok(Peak { concurrency, interval })
}

/// Refits after redrawing each level's replicates around its mean. The draws are expanded because three
/// replicates resampled show only two thirds of their variance.
fn interval(groups: &[ConcurrencyGroup], usl: &Fit) -> Option<Interval> {
    let Curve::Usl { contention, coherency, .. } = usl.curve else { return None };
    let fitted = [contention.max(1e-9).ln(), coherency.max(1e-14).ln()];
    // From a contention of zero the slope is flat: a second start lets a resample leave it.
    let starts = [fitted, [contention.max(0.01).ln(), coherency.max(1e-14).ln()]];
    let freedom: usize = groups.iter().map(|group| group.logs.len() - 1).sum();
    let expansions: Vec<f64> =
        groups.iter().map(|group| bootstrap_expansion(group.logs.len(), freedom, CONFIDENCE)).collect();
    let mut stream = SeededRandom::from_seed(SEED);
    let mut resampled = groups.to_vec();
    let mut peaks = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for ((target, group), expansion) in resampled.iter_mut().zip(groups).zip(&expansions) {
            let n = group.logs.len();
            let drawn: f64 = (0..n).filter_map(|_| stream.pick(&group.logs)).sum();
            target.mean_log = group.mean_log + expansion * (drawn / n as f64 - group.mean_log);
        }
        let solution = solve::best_of(Model::Usl, &resampled, &starts);
        let curve = Curve::new(Model::Usl, solution.intercept, solution.shape);
        // A resample that never stops rising has its peak beyond everything.
        peaks.push(curve.peak_concurrency().unwrap_or(f64::MAX));
    }
    percentile_interval(peaks, CONFIDENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact shares from enumerating all orders of the signs in Python (itertools.combinations).
    #[test]
    fn agrees_with_enumeration() {
        let signs =
            |text: &str| text.chars().map(|c| if c == '+' { 1.0 } else { -1.0 }).collect::<Vec<f64>>();
        for (text, expected) in [
            ("++++----", 2.0 / 70.0),
            ("+-+-+-+-+", 126.0 / 126.0),
            ("+++--+++++--++++", 280.0 / 1820.0),
            ("-----++++++----", 15.0 / 5005.0),
        ] {
            let p = too_few_runs_p(&signs(text));
            assert!((p - expected).abs() < 1e-12, "{text}: {p}");
        }
        assert_eq!(too_few_runs_p(&[1.0; 9]), 1.0);
        assert_eq!(too_few_runs_p(&[]), 1.0);
    }
}
