//! Which law throughput follows as concurrency rises: linear, Amdahl, a hard cap, or Gunther's Universal
//! Scalability Law (USL), and where the last one peaks.
//!
//! Any of these curves can be drawn through any ladder, and a USL fitted to a capped volume invents a peak that is
//! not there (analysis.md A6). So the four are always fitted together, by least squares on the logarithm of
//! throughput (noise is a share of the value), compared by AICc with a preference for fewer parameters, and
//! checked by a runs test on their residuals. The peak is refused, with the reason in words, unless the data can
//! carry it.

mod curve;
mod peak;
mod runs;
mod solve;

use fathom_errors::{Error, Result};

pub use curve::{Curve, Model};
pub use peak::Peak;

/// How much lower the AICc of a model must be to displace one with fewer parameters, and of the USL to displace
/// the cap. Differences of 4 to 7 are "considerably less support" in Burnham and Anderson, Model Selection and
/// Multimodel Inference (2002), 2.6.
pub const AICC_MARGIN: f64 = 4.0;
/// Below this the runs test says that a curve misses the data systematically.
const RUNS_LEVEL: f64 = 0.01;
/// A relative residual below this is arithmetic, not noise; it keeps a noiseless ladder from an AICc of minus
/// infinity.
const RESIDUAL_FLOOR: f64 = 1e-6;
/// A line with one parameter needs this many distinct levels before it can be wrong in a way we would see.
const FEWEST_LEVELS: usize = 3;

/// One measurement. Replicates are several with the same concurrency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Requests in flight, or workers; positive.
    pub concurrency: f64,
    /// Completions per second, or any rate; positive.
    pub throughput: f64,
}

/// One model fitted to the ladder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Which law.
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

/// The rivals side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The law to believe.
    pub best: Model,
    /// All laws that the number of levels allows, fewest parameters first.
    pub fits: Vec<Fit>,
    /// The concurrency of highest throughput, where the data can carry it.
    pub peak: Option<Peak>,
    /// Why there is no peak; set exactly where `peak` is not.
    pub peak_refused: Option<String>,
}

impl Comparison {
    /// The fit of `model`, if the ladder was long enough for it.
    pub fn fit(&self, model: Model) -> Option<&Fit> {
        self.fits.iter().find(|fit| fit.model == model)
    }

    /// The fit of the best model.
    pub fn best_fit(&self) -> Option<&Fit> {
        self.fit(self.best)
    }

    /// Whether even the best curve misses the data systematically (runs test under 1 %), so that its parameters
    /// describe and do not explain.
    pub fn misses_shape(&self) -> bool {
        self.best_fit().is_none_or(|fit| fit.runs_p < RUNS_LEVEL)
    }
}

/// All measurements at one concurrency, on the logarithmic scale.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) concurrency: f64,
    pub(crate) logs: Vec<f64>,
    pub(crate) mean_log: f64,
}

/// Fits and compares the models. Fails with the reason where a value is not a positive number or where there are
/// fewer than 3 distinct levels or 4 measurements.
pub fn fit(levels: &[Level]) -> Result<Comparison> {
    let groups = grouped(levels)?;
    let fits: Vec<Fit> = Model::ALL.into_iter().filter_map(|model| fit_model(model, &groups)).collect();
    let Some(best) = choose(&fits) else {
        return Err(too_few(groups.len(), levels.len()));
    };
    let (peak, peak_refused) = match peak::locate(&groups, &fits, best) {
        Ok(peak) => (Some(peak), None),
        Err(reason) => (None, Some(reason)),
    };
    Ok(Comparison { best, fits, peak, peak_refused })
}

fn too_few(levels: usize, points: usize) -> Error {
    Error::usage(format!(
        "cannot compare scaling models on {levels} levels with {points} measurements in all"
    ))
    .advise("measure at least 3 levels of concurrency and 4 points")
}

/// Measurements gathered by concurrency, ascending.
fn grouped(levels: &[Level]) -> Result<Vec<Group>> {
    let bad = |value: f64| !value.is_finite() || value <= 0.0;
    if let Some(level) = levels.iter().find(|level| bad(level.concurrency) || bad(level.throughput)) {
        return Err(Error::usage(format!(
            "cannot fit scaling models to a throughput of {} at concurrency {}",
            level.throughput, level.concurrency
        ))
        .advise("leave out levels at which nothing completed"));
    }
    let mut sorted = levels.to_vec();
    sorted.sort_by(|one, two| one.concurrency.total_cmp(&two.concurrency));
    let groups: Vec<Group> = sorted
        .chunk_by(|one, two| one.concurrency == two.concurrency)
        .filter_map(|chunk| {
            let logs: Vec<f64> = chunk.iter().map(|level| level.throughput.ln()).collect();
            let mean_log = logs.iter().sum::<f64>() / logs.len() as f64;
            chunk.first().map(|level| Group { concurrency: level.concurrency, logs, mean_log })
        })
        .collect();
    if groups.len() < FEWEST_LEVELS {
        return Err(too_few(groups.len(), levels.len()));
    }
    Ok(groups)
}

/// One model's fit; `None` where it has as many parameters as there are levels, or AICc is undefined.
fn fit_model(model: Model, groups: &[Group]) -> Option<Fit> {
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
    let runs_p = if residual_sd < RESIDUAL_FLOOR { 1.0 } else { runs::too_few_p(&residuals) };
    Some(Fit { model, curve, aicc, residual_sd, runs_p })
}

/// The fewest parameters within [`AICC_MARGIN`] of the lowest AICc. A curve that misses the data systematically
/// stands behind one that does not.
fn choose(fits: &[Fit]) -> Option<Model> {
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

#[cfg(test)]
mod tests;
