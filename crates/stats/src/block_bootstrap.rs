//! Computes bootstrap intervals of figures that derive from sums over blocks of time.
//!
//! Seconds that follow one another resemble each other, so single seconds must not be resampled: whole blocks are
//! (Künsch, Annals of Statistics 17, 1989, with blocks that do not overlap). A block is a row of sums; a draw adds up
//! as many rows as there are, and each figure is computed from the added row, so that ratios stay ratios of sums.

use crate::Interval;
use crate::SeededRandom;
use crate::distribution::bootstrap_expansion;
use crate::summary::{percentile_interval, standard_deviation};

/// The least number of blocks for an interval.
const MIN_BLOCKS: usize = 3;

/// The bootstrap result for one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootstrapEstimate {
    pub interval: Interval,
    pub standard_error: f64,
}

/// Intervals of all `figures` of the added rows at once, expanded for few blocks as [`crate::bootstrap_mean`] does.
/// `None` as a whole below 3 blocks; `None` for a figure that more than a tenth of the draws do not support.
pub fn bootstrap_sums(
    blocks: &[Vec<f64>],
    confidence: f64,
    resamples: usize,
    stream: &mut SeededRandom,
    figures: impl Fn(&[f64]) -> Vec<f64>,
) -> Option<Vec<Option<BootstrapEstimate>>> {
    if blocks.len() < MIN_BLOCKS {
        return None;
    }
    let width = blocks.iter().map(Vec::len).max()?;
    let mut row = vec![0.0; width];
    blocks.iter().for_each(|block| add(&mut row, block));
    let centers = figures(&row);
    let mut draws: Vec<Vec<f64>> = vec![Vec::with_capacity(resamples); centers.len()];
    for _ in 0..resamples {
        row.fill(0.0);
        for _ in 0..blocks.len() {
            let drawn = stream.below(blocks.len() as u64) as usize;
            blocks.get(drawn).into_iter().for_each(|block| add(&mut row, block));
        }
        for (kept, value) in draws.iter_mut().zip(figures(&row)) {
            kept.extend(Some(value).filter(|value| value.is_finite()));
        }
    }
    let expansion = bootstrap_expansion(blocks.len(), blocks.len() - 1, confidence);
    let summed = draws.into_iter().zip(centers).map(|(drawn, center)| {
        if drawn.len() * 10 < resamples * 9 || !center.is_finite() {
            return None;
        }
        let wide: Vec<f64> = drawn.iter().map(|value| center + expansion * (value - center)).collect();
        let standard_error = standard_deviation(&wide)?;
        Some(BootstrapEstimate { interval: percentile_interval(wide, confidence)?, standard_error })
    });
    Some(summed.collect())
}

fn add(row: &mut [f64], block: &[f64]) {
    row.iter_mut().zip(block).for_each(|(sum, value)| *sum += value);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Coverage of a ratio of sums over 400 experiments of 12 blocks whose seconds are correlated; a true 95 % stays
    /// within 365..=394 with probability above 0.999 (binomial).
    #[test]
    fn intervals_of_ratios_hold_the_truth_as_often_as_they_say() {
        let mut stream = SeededRandom::from_seed(21);
        let mut hits = 0;
        for _ in 0..400 {
            let blocks: Vec<Vec<f64>> = (0..12)
                .map(|_| {
                    // A block shares its level: all its ten seconds are slow, or fast.
                    let level = 5.0 + stream.normal();
                    let operations = 90.0 + 20.0 * stream.uniform();
                    vec![operations, operations * (level + 0.1 * stream.normal())]
                })
                .collect();
            let ratio = |row: &[f64]| vec![row[1] / row[0], f64::NAN];
            let found = bootstrap_sums(&blocks, 0.95, 300, &mut stream, ratio).unwrap();
            let resampled = found[0].unwrap();
            hits += i32::from(resampled.interval.contains(5.0));
            assert!(resampled.standard_error > 0.1 && found[1].is_none());
        }
        assert!((365..=394).contains(&hits), "{hits} of 400");
    }

    #[test]
    fn two_blocks_bear_nothing() {
        let blocks = [vec![1.0], vec![2.0]];
        assert_eq!(bootstrap_sums(&blocks, 0.95, 10, &mut SeededRandom::from_seed(1), <[f64]>::to_vec), None);
    }
}
