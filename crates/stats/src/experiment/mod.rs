//! Designed experiments: the order of trials, and the conclusions from their blocks about each factor.
//!
//! The unit is the block, never the operation or the second: a block holds every trial once, in random order and close in time, so
//! that drift and slow noise affect all sides alike. Random order turns drift from a bias into noise: two trials run AB or BA by
//! coin and reversed in the next block, so that a steady drift cancels within two blocks. Each block gives one contrast on the
//! logarithmic scale; contrasts are tested by flipping their signs, estimated by Hodges and Lehmann, and reported with their
//! interval. A verdict requires more than significance: an effect larger than the noise of equal runs. The verdict "same" requires
//! proven equivalence. No test is chosen after seeing the data.
//!
//! The rates of error are measured on simulated studies (`tests/experiments`; docs/known-truth.md).

mod contrasts;
mod effect;
mod fraction;
mod looks;
mod noise_floor;
mod scaling;
mod secondary;
mod verdict;

use crate::SeededRandom;

pub use contrasts::{interaction_contrasts, main_contrasts};
pub use effect::{Effect, effect};
pub use fraction::{Fraction, MAX_FACTORS, fraction};
pub use looks::{Look, planned_looks};
pub use noise_floor::{NoiseFloor, minimum_detectable, needed_pairs, noise_floor};
pub use scaling::{SpeedUp, levels_that_pay, scaling_laws, speed_ups};
pub use secondary::{SecondaryTests, secondary};
pub use verdict::{AdjustedP, EffectThresholds, EffectVerdict, verdict};

/// The chance of a false alarm that verdicts allow.
pub const SIGNIFICANCE_LEVEL: f64 = 0.05;
/// Below this many pairs no outcome is rare enough for [`SIGNIFICANCE_LEVEL`]: 2 / 2^5 is 6 %.
pub const MIN_PAIRS: usize = 6;
/// The power that sample sizes are planned for.
const POWER: f64 = 0.8;

/// The fewest pairs whose smallest p, 2 / 2^n, is below [`SIGNIFICANCE_LEVEL`] after correction for this many comparisons.
pub fn fewest_pairs(comparisons: usize) -> usize {
    pairs_that_reach(SIGNIFICANCE_LEVEL / comparisons.max(1) as f64)
}

/// The fewest pairs whose smallest two-sided p can be below `level`.
fn pairs_that_reach(level: f64) -> usize {
    (1.0 - level.log2()).ceil() as usize
}

/// The smallest two-sided p of a sign-flip test of `pairs` contrasts, all flips tried.
fn smallest_two_sided_p(pairs: usize) -> f64 {
    0.5f64.powi(i32::try_from(pairs).unwrap_or(i32::MAX).saturating_sub(1)).min(1.0)
}

/// The order of `trials` trials in each of `blocks` blocks, from `seed`. A block's order does not depend on how many
/// blocks follow, so a study can be made longer.
pub fn block_orders(trials: usize, blocks: usize, seed: u64) -> Vec<Vec<usize>> {
    let stream = SeededRandom::from_seed(seed);
    let order = |block: usize| {
        let mut order: Vec<usize> = (0..trials).collect();
        if trials == 2 {
            stream.split(block as u64 / 2).shuffle(&mut order);
            if block % 2 == 1 {
                order.reverse();
            }
        } else {
            stream.split(block as u64).shuffle(&mut order);
        }
        order
    };
    (0..blocks).map(order).collect()
}

/// Every combination of levels of a factorial with these numbers of levels; the last factor varies fastest.
pub fn combinations(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![Vec::new()], |cells, levels| {
        let more = |cell: Vec<usize>| (0..*levels).map(move |level| [cell.clone(), vec![level]].concat());
        cells.into_iter().flat_map(more).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_comparisons_need_more_pairs() {
        assert_eq!([0, 1, 2, 6, 12].map(fewest_pairs), [MIN_PAIRS, MIN_PAIRS, 7, 8, 9]);
    }

    #[test]
    fn combinations_are_all_of_them_once() {
        assert_eq!(combinations(&[2, 3]).len(), 6);
        assert_eq!(combinations(&[2, 3])[1], [0, 1]);
        assert_eq!(combinations(&[1]), [[0]]);
    }

    #[test]
    fn two_trials_run_both_ways_in_each_two_blocks() {
        let orders = block_orders(2, 400, 7);
        let mut first = 0;
        for two in orders.chunks(2) {
            assert!(two[0] != two[1] && two.iter().all(|order| order.len() == 2), "{two:?}");
            first += two[0][0];
        }
        assert!((70..=130).contains(&first), "a coin decides: {first} of 200");
        assert_eq!(block_orders(2, 3, 7), orders[..3], "longer studies begin alike");
        assert_ne!(block_orders(2, 400, 8), orders);
    }

    #[test]
    fn every_trial_runs_once_a_block_and_everywhere_over_many() {
        let orders = block_orders(6, 600, 1);
        let mut places = [[0u32; 6]; 6];
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
            order.iter().enumerate().for_each(|(place, trial)| places[*trial][place] += 1);
        }
        assert!(places.iter().flatten().all(|count| (60..=145).contains(count)), "{places:?}");
        assert_eq!(block_orders(0, 2, 1), [Vec::<usize>::new(), Vec::new()]);
    }
}
