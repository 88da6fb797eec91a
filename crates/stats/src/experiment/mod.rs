//! Designed experiments: which trials run in which order, and what their blocks say about each factor.
//!
//! The unit is the block, never the operation or the second: a block holds every trial once, in random order and
//! close in time, so that drift and slow noise fall on all sides alike. Each block gives one contrast on the
//! logarithmic scale; contrasts are tested by flipping their signs, estimated by Hodges and Lehmann, and told with
//! their interval. A verdict asks for more than significance: an effect larger than the noise of equal runs. "Same"
//! is said only where equivalence is shown. Nothing here chooses between tests after seeing the data.
//!
//! The rates of error are measured on simulated studies (`tests/experiments`; docs/known-truth.md).

mod contrasts;
mod effect;
mod fraction;
mod looks;
mod noise_floor;
mod orders;
mod scaling;
mod secondary;
mod verdict;

pub use contrasts::{interaction_contrasts, main_contrasts};
pub use effect::{Effect, effect};
pub use fraction::{Fraction, MOST_FACTORS, fraction};
pub use looks::{Look, planned_looks};
pub use noise_floor::{NoiseFloor, minimum_detectable, needed_pairs, noise_floor};
pub use orders::block_orders;
pub use scaling::{SpeedUp, levels_that_pay, scaling_laws, speed_ups};
pub use secondary::{SecondaryTests, secondary};
pub use verdict::{Adjusted, Limits, Verdict, verdict};

/// The chance of a false alarm that verdicts allow.
pub const LEVEL: f64 = 0.05;
/// Below so many pairs no outcome is rare enough for [`LEVEL`]: 2 / 2^5 is 6 %.
pub const FEWEST_PAIRS: usize = 6;
/// The power that sample sizes are planned for.
const POWER: f64 = 0.8;

/// The fewest pairs whose smallest p, 2 / 2^n, is below [`LEVEL`] after so many comparisons had their chance.
pub fn fewest_pairs(comparisons: usize) -> usize {
    pairs_that_reach(LEVEL / comparisons.max(1) as f64)
}

/// The fewest pairs whose smallest two-sided p can be below `level`.
fn pairs_that_reach(level: f64) -> usize {
    (1.0 - level.log2()).ceil() as usize
}

/// The smallest two-sided p of a sign-flip test of `pairs` contrasts, all flips tried.
fn smallest_two_sided_p(pairs: usize) -> f64 {
    0.5f64.powi(i32::try_from(pairs).unwrap_or(i32::MAX).saturating_sub(1)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_comparisons_need_more_pairs() {
        assert_eq!([0, 1, 2, 6, 12].map(fewest_pairs), [FEWEST_PAIRS, FEWEST_PAIRS, 7, 8, 9]);
    }
}
