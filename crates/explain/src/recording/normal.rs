//! The normal of a figure: the median and the spread of its logarithms, computed from lower quantiles, so that incidents may fill half of the time.

use fathom_stats::quantile;

/// The least spread, as a logarithm: if a mean hardly varies, a rise of a hundredth is no incident.
const MIN_SPREAD: f64 = 0.03;
/// The quantiles from which the normal is computed, and their distance below the median of a normal distribution, in standard deviations.
const UPPER: (f64, f64) = (0.3, 0.5244);
const LOWER: (f64, f64) = (0.05, 1.6449);

/// The normal of a figure in some bins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NormalLevel {
    /// The logarithm of the median.
    pub(super) log: f64,
    pub(super) spread: f64,
}

impl NormalLevel {
    /// The normal of these logarithms; `None` if there are none.
    pub(super) fn from_logs(logs: &[f64]) -> Option<NormalLevel> {
        let (upper, lower) = (quantile(logs, UPPER.0)?, quantile(logs, LOWER.0)?);
        let spread = (upper - lower) / (LOWER.1 - UPPER.1);
        Some(NormalLevel { log: upper + UPPER.1 * spread, spread: spread.max(MIN_SPREAD) })
    }
}
