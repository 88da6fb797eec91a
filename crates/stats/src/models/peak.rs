//! Where a USL peaks, with an interval, or why that must not be said.
//!
//! N* = sqrt((1 - s) / k) exists for any k above zero, also for one that noise put there. The conditions under
//! which it means something come from simulation (analysis.md A6): measured to N = 32 a true peak of 49 was
//! placed between 34 and 119, measured past it between 48 and 50, and a capped system was given a peak at 52.

use super::{AICC_MARGIN, Curve, Fit, Group, Model, RUNS_LEVEL, solve};
use crate::Seeded;
use crate::distribution::bootstrap_expansion;
use crate::summary::{Interval, percentile_interval};

const LEAST_LEVELS: usize = 6;
const LEAST_REPLICATES: usize = 3;
const CONFIDENCE: f64 = 0.95;
const RESAMPLES: usize = 400;
/// The same data must give the same interval on every reading of a run folder.
const SEED: u64 = 0x5ca1_ab1e;

/// The concurrency at which throughput is highest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// N*.
    pub concurrency: f64,
    /// Its 95 % interval, by resampling replicates.
    pub interval: Interval,
}

/// The peak, or the first reason against it.
pub(super) fn locate(groups: &[Group], fits: &[Fit], best: Model) -> Result<Peak, String> {
    if best != Model::Usl {
        return Err(format!("the {} model describes the ladder best, and it has no peak", best.name()));
    }
    let of = |model: Model| fits.iter().find(|fit| fit.model == model);
    let usl = of(Model::Usl).ok_or("the USL was not fitted")?;
    let concurrency = usl.curve.peak_concurrency().ok_or("the fitted throughput never stops rising")?;
    let replicates = groups.iter().map(|group| group.logs.len()).min().unwrap_or(0);
    if groups.len() < LEAST_LEVELS {
        return Err(format!(
            "{} levels were measured, and a peak needs at least {LEAST_LEVELS}",
            groups.len()
        ));
    }
    if replicates < LEAST_REPLICATES {
        return Err(format!(
            "a level was measured {replicates} times, and a peak needs {LEAST_REPLICATES} repeats of each"
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
fn interval(groups: &[Group], usl: &Fit) -> Option<Interval> {
    let Curve::Usl { contention, coherency, .. } = usl.curve else { return None };
    let fitted = [contention.max(1e-9).ln(), coherency.max(1e-14).ln()];
    // From a contention of zero the slope is flat: a second start lets a resample leave it.
    let starts = [fitted, [contention.max(0.01).ln(), coherency.max(1e-14).ln()]];
    let freedom: usize = groups.iter().map(|group| group.logs.len() - 1).sum();
    let expansions: Vec<f64> =
        groups.iter().map(|group| bootstrap_expansion(group.logs.len(), freedom, CONFIDENCE)).collect();
    let mut stream = Seeded::from_seed(SEED);
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
