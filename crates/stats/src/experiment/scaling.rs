//! The scaling of a counted factor (threads, shards, members): the speed-up of each number, and the number above which more does
//! not pay.
//!
//! Speed-ups are effects like any other, each level against the first, block by block. The point above which more does not pay is
//! given in two ways: by the lowest number above which no other was shown better, which assumes no curve, and by the laws of
//! throughput with their rivals ([`crate::fit`]), which give a peak only if the data support it. For a device with only its latency
//! known, [`crate::knee()`] is the better choice.

use fathom_errors::Result;

use super::verdict::{AdjustedP, EffectThresholds, EffectVerdict, verdict};
use super::{Effect, effect, main_contrasts};
use crate::{Interval, Level, ModelComparison, SeededRandom, fit, holm};

/// The gain of one level of a counted factor over the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedUp {
    /// The level of the factor.
    pub level: usize,
    /// The level's number, in the factor's unit.
    pub count: f64,
    /// Throughput over that of the first level, with its intervals.
    pub effect: Effect,
    /// The speed-up as a share of what proportion would give (count over the first count), 95 %; `None` where the effect has no
    /// interval.
    pub efficiency: Option<Interval>,
}

/// Each level's speed-up against level 0, averaged over the other factors; `counts` says what each level of `factor`
/// counts, the rest is as in [`main_contrasts`]. Levels without a single whole block are left out.
pub fn speed_ups(
    counts: &[f64],
    cells: &[Vec<usize>],
    values: &[Vec<Option<f64>>],
    factor: usize,
    only: &dyn Fn(&[usize]) -> bool,
    stream: &mut SeededRandom,
) -> Vec<SpeedUp> {
    let first = counts.first().copied().unwrap_or(f64::NAN);
    let one = |(level, count): (usize, &f64)| {
        let logs: Vec<f64> =
            main_contrasts(cells, values, factor, level, only).into_iter().map(|(_, log)| log).collect();
        let effect = effect(&logs, stream)?;
        let share = |ratio: f64| ratio * first / count;
        let efficiency = effect.interval.map(|it| Interval { low: share(it.low), high: share(it.high) });
        Some(SpeedUp { level, count: *count, effect, efficiency })
    };
    counts.iter().enumerate().skip(1).filter_map(one).collect()
}

/// The lowest level above which no other was shown to have more throughput by more than `limits` require, with Holm's correction
/// over all levels above. With few blocks this does not prove that more would not pay. `None` if nothing can be compared.
///
/// `by_level[level][block]` holds logarithms of throughput, ascending by what the level counts.
pub fn levels_that_pay(
    by_level: &[Vec<Option<f64>>],
    limits: EffectThresholds,
    stream: &mut SeededRandom,
) -> Option<usize> {
    let mut effect_of = |low: usize, high: usize| {
        let logs: Vec<f64> = by_level
            .get(low)?
            .iter()
            .zip(by_level.get(high)?)
            .filter_map(|(low, high)| Some((*high)? - (*low)?))
            .filter(|log| log.is_finite())
            .collect();
        effect(&logs, stream)
    };
    let mut shown_better = |level: usize| {
        let effects: Option<Vec<Effect>> =
            (level + 1..by_level.len()).map(|above| effect_of(level, above)).collect();
        let effects = effects?;
        let comparisons = effects.len();
        let ps = holm(&effects.iter().map(|effect| effect.p).collect::<Vec<_>>());
        let better = |(effect, p)| {
            verdict(effect, AdjustedP { p, comparisons }, true, limits) == EffectVerdict::Better
        };
        Some(effects.iter().zip(ps).any(better))
    };
    for level in 0..by_level.len() {
        if !shown_better(level)? {
            return Some(level);
        }
    }
    None
}

/// The laws of throughput over what the levels count, each block a replicate: linear, Amdahl, a cap, USL, and the peak or
/// why there is none. Fails as [`fit`] does, where levels or blocks are too few.
///
/// Whatever moves a whole block is taken out first, as in every contrast of blocks.
pub fn scaling_laws(counts: &[f64], by_level: &[Vec<Option<f64>>]) -> Result<ModelComparison> {
    let blocks = by_level.iter().map(Vec::len).max().unwrap_or(0);
    let at = |block: usize| {
        let logs: Option<Vec<f64>> =
            by_level.iter().map(|level| (*level.get(block)?).filter(|log| log.is_finite())).collect();
        logs.and_then(|logs| Some((crate::mean(&logs)?, logs)))
    };
    let whole: Vec<(f64, Vec<f64>)> = (0..blocks).filter_map(at).collect();
    let means: Vec<f64> = whole.iter().map(|(mean, _)| *mean).collect();
    let center = crate::mean(&means).unwrap_or(0.0);
    let levels: Vec<Level> = whole
        .iter()
        .flat_map(|(mean, logs)| {
            let level = move |(count, log): (&f64, &f64)| Level {
                concurrency: *count,
                throughput: (log - mean + center).exp(),
            };
            counts.iter().zip(logs).map(level)
        })
        .collect();
    fit(&levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;

    const COUNTS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    /// Eight blocks of a server that follows `law`, whole blocks 20 % apart and runs 2 %.
    fn blocks(law: impl Fn(f64) -> f64) -> Vec<Vec<Option<f64>>> {
        let mut stream = SeededRandom::from_seed(3);
        let moved: Vec<f64> = (0..8).map(|_| 0.2 * stream.normal()).collect();
        let mut level = |count: &f64| {
            let log = law(*count).ln();
            moved.iter().map(|moved| Some(log + moved + 0.02 * stream.normal())).collect()
        };
        COUNTS.iter().map(&mut level).collect()
    }

    fn capped(count: f64) -> f64 {
        1000.0 * count.min(8.0)
    }

    #[test]
    fn speed_ups_are_those_of_the_server() {
        let cells: Vec<Vec<usize>> = (0..COUNTS.len()).map(|level| vec![level]).collect();
        let mut values = blocks(capped);
        values[2][0] = None;
        let found = speed_ups(&COUNTS, &cells, &values, 0, &|_| true, &mut SeededRandom::from_seed(1));
        assert_eq!(found.len(), 6);
        for speed_up in &found {
            let (truth, interval) = (speed_up.count.min(8.0), speed_up.effect.interval.unwrap());
            assert!((speed_up.effect.ratio / truth - 1.0).abs() < 0.04, "{speed_up:?}");
            assert!(interval.high / interval.low < 1.1, "blocks cancel: {speed_up:?}");
            let efficiency = speed_up.efficiency.unwrap();
            assert!((efficiency.low * speed_up.count / interval.low - 1.0).abs() < 1e-9);
        }
        assert_eq!(
            found.iter().filter(|one| one.effect.interval.unwrap().contains(one.count.min(8.0))).count(),
            6
        );
        assert_eq!((found[1].effect.pairs, found[2].effect.pairs), (7, 8));
    }

    #[test]
    fn more_stops_paying_at_the_cap_and_at_the_peak() {
        let mut stream = SeededRandom::from_seed(2);
        let values = blocks(capped);
        assert_eq!(levels_that_pay(&values, EffectThresholds::plain(0.03), &mut stream), Some(3), "8 of 64");
        let laws = scaling_laws(&COUNTS, &values).unwrap();
        assert_eq!(laws.best, Model::Cap);
        assert!(laws.peak.is_none() && laws.best_fit().unwrap().residual_sd < 0.03, "{laws:?}");
        // Gunther's law with its peak at sqrt((1 - 0.03) / 0.0006) = 40.2.
        let usl = |n: f64| 1000.0 * n / (1.0 + 0.03 * (n - 1.0) + 0.0006 * n * (n - 1.0));
        let values = blocks(usl);
        let peak = scaling_laws(&COUNTS, &values).unwrap().peak.unwrap();
        assert!(peak.interval.contains(40.2) && (peak.concurrency / 40.2 - 1.0).abs() < 0.1, "{peak:?}");
        assert_eq!(levels_that_pay(&values, EffectThresholds::plain(0.03), &mut stream), Some(5), "32 of 64");
        assert_eq!(
            levels_that_pay(&blocks(|n| 1000.0 * n), EffectThresholds::plain(0.02), &mut stream),
            Some(6),
            "all pay"
        );
    }

    #[test]
    fn what_cannot_be_compared_is_not() {
        let mut stream = SeededRandom::from_seed(2);
        assert_eq!(levels_that_pay(&[], EffectThresholds::plain(0.02), &mut stream), None);
        assert_eq!(
            levels_that_pay(&[vec![Some(1.0)], vec![None]], EffectThresholds::plain(0.02), &mut stream),
            None
        );
        assert!(scaling_laws(&COUNTS, &[]).is_err());
        assert!(speed_ups(&[], &[], &[], 0, &|_| true, &mut stream).is_empty());
    }
}
