//! Determines the law that throughput follows as concurrency rises: linear, Amdahl, a hard cap, or Gunther's Universal Scalability
//! Law (USL), and the peak of the last one.
//!
//! Any of these curves can be drawn through any ladder, and a USL fitted to a capped volume invents a peak that does not exist
//! (docs/methods.md#scaling-laws). So the four are always fitted together, by least squares on the logarithm of throughput (noise
//! is a share of the value), compared by AICc with a preference for fewer parameters, and checked by a runs test on their
//! residuals. The peak is refused, with the reason in words, unless the data support it.

mod curve;
mod fit;
mod solve;

use fathom_errors::{Error, Result};

pub use curve::{Curve, Model};
pub use fit::{AICC_MARGIN, Fit, Peak};

use fit::{RUNS_LEVEL, choose, fit_model};
use solve::ConcurrencyGroup;

/// A line with one parameter needs this many distinct levels before it can be wrong in a way we would see.
const MIN_LEVELS: usize = 3;

/// One measurement. Replicates are several with the same concurrency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Requests in flight, or workers; positive.
    pub concurrency: f64,
    /// Completions per second, or any rate; positive.
    pub throughput: f64,
}

/// The competing laws, compared with each other.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelComparison {
    /// The law that fits best.
    pub best: Model,
    /// All laws that the number of levels allows, fewest parameters first.
    pub fits: Vec<Fit>,
    /// The concurrency of highest throughput, if the data support it.
    pub peak: Option<Peak>,
    /// The reason why there is no peak; set exactly if `peak` is not.
    pub peak_refused: Option<String>,
}

impl ModelComparison {
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

/// Fits and compares the models. Fails with the reason if a value is not a positive number or if there are
/// fewer than 3 distinct levels or 4 measurements.
pub fn fit(levels: &[Level]) -> Result<ModelComparison> {
    let groups = grouped(levels)?;
    let fits: Vec<Fit> = Model::ALL.into_iter().filter_map(|model| fit_model(model, &groups)).collect();
    let Some(best) = choose(&fits) else {
        return Err(too_few(groups.len(), levels.len()));
    };
    let (peak, peak_refused) = match fit::locate(&groups, &fits, best) {
        Ok(peak) => (Some(peak), None),
        Err(reason) => (None, Some(reason)),
    };
    Ok(ModelComparison { best, fits, peak, peak_refused })
}

fn too_few(levels: usize, points: usize) -> Error {
    Error::usage(format!(
        "cannot compare scaling models on {levels} levels with {points} measurements in all"
    ))
    .advise("measure at least 3 levels of concurrency and 4 points")
}

/// Measurements gathered by concurrency, ascending.
fn grouped(levels: &[Level]) -> Result<Vec<ConcurrencyGroup>> {
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
    let groups: Vec<ConcurrencyGroup> = sorted
        .chunk_by(|one, two| one.concurrency == two.concurrency)
        .filter_map(|chunk| {
            let logs: Vec<f64> = chunk.iter().map(|level| level.throughput.ln()).collect();
            let mean_log = logs.iter().sum::<f64>() / logs.len() as f64;
            chunk.first().map(|level| ConcurrencyGroup { concurrency: level.concurrency, logs, mean_log })
        })
        .collect();
    if groups.len() < MIN_LEVELS {
        return Err(too_few(groups.len(), levels.len()));
    }
    Ok(groups)
}

#[cfg(test)]
mod tests;
