//! Estimates the effect of a treatment from one log ratio per block: its size, its significance, and its interval.
//!
//! The test is the exact sign-flip, its interval the same test inverted, the estimate that of Hodges and Lehmann: one block with an
//! error moves them little. It is accompanied by a studentised bootstrap of the blocks, which assumes no symmetry; if the two
//! intervals disagree, a few wild blocks dominate the result. Fewer than six blocks get an estimate and no interval: none of their
//! outcomes is rare enough.

use super::MIN_PAIRS;
use crate::sign_flip::MAX_ENUMERATED_PAIRS;
use crate::summary::{mean, percentile_interval, standard_deviation};
use crate::{Interval, SeededRandom, hodges_lehmann, sign_flip};

/// Random flips and subsets if there are too many to enumerate: resolves 0.01 %.
const FLIPS: usize = 9_999;
/// Draws of the bootstrap.
const RESAMPLES: usize = 1_999;

/// The effect of a treatment, as a ratio to the baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Treatment over baseline; 1 is no effect. The exponential of the Hodges-Lehmann estimate.
    pub ratio: f64,
    /// 95 % interval of the ratio: all ratios that the sign-flip test does not reject. `None` under six pairs.
    pub interval: Option<Interval>,
    /// 90 % interval of the same kind. Equivalence at 5 % is this one within the margin on both sides (two one-sided
    /// tests; Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987). `None` under five pairs.
    pub interval_90: Option<Interval>,
    /// 95 % interval of the geometric mean ratio by a studentised bootstrap of pairs. `None` under six pairs.
    pub bootstrap: Option<Interval>,
    /// Two-sided p of the sign-flip test; exact up to 16 pairs.
    pub p: f64,
    /// The smallest p that this many pairs can give, whatever they show.
    pub smallest_p: f64,
    /// Blocks that gave a log ratio.
    pub pairs: usize,
    /// Sample standard deviation of the log ratios; not a number with a single pair.
    pub deviation: f64,
}

/// The effect behind `log_ratios`, ln(treatment / baseline) or a contrast of logarithms, one per block. `None` if there are none or
/// one is not finite.
pub fn effect(log_ratios: &[f64], stream: &mut SeededRandom) -> Option<Effect> {
    let test = sign_flip(log_ratios, FLIPS, stream)?;
    // The same random subsets for both, so that the narrower interval lies within the wider.
    let mut again = stream.clone();
    let shift = hodges_lehmann(log_ratios, 0.95, FLIPS, stream)?;
    let shift_90 = hodges_lehmann(log_ratios, 0.90, FLIPS, &mut again)?;
    let ratios = |logs: Interval| Interval { low: logs.low.exp(), high: logs.high.exp() };
    Some(Effect {
        ratio: shift.estimate.exp(),
        interval: shift.interval.map(ratios),
        interval_90: shift_90.interval.map(ratios),
        bootstrap: studentised_bootstrap(log_ratios, stream).map(ratios),
        p: test.p_two_sided,
        // All flips come in mirrored pairs; random ones do not.
        smallest_p: if test.exact { (2.0 * test.smallest_p).min(1.0) } else { test.smallest_p },
        pairs: log_ratios.len(),
        deviation: standard_deviation(log_ratios).unwrap_or(f64::NAN),
    })
}

/// The bootstrap-t interval of the mean (Efron, SIAM CBMS 38, 1982, 10.10): each draw's distance from the mean in
/// its own standard errors, so that few and skewed values keep the confidence that they claim.
fn studentised_bootstrap(values: &[f64], stream: &mut SeededRandom) -> Option<Interval> {
    if values.len() < MIN_PAIRS {
        return None;
    }
    let (center, n) = (mean(values)?, values.len() as f64);
    let error = standard_deviation(values)? / n.sqrt();
    if error <= 1e-12 * center.abs() {
        return Some(Interval { low: center, high: center });
    }
    let mut draws = Vec::with_capacity(RESAMPLES);
    // A draw of one value only has no standard error and is drawn again: with six values one in 7776.
    while draws.len() < RESAMPLES {
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in values {
            let distance = stream.pick(values)? - center;
            sum += distance;
            squares += distance * distance;
        }
        let variance = (squares - sum * sum / n) / (n - 1.0);
        if variance > 1e-12 * squares {
            draws.push(sum / n / (variance / n).sqrt());
        }
    }
    let students = percentile_interval(draws, 0.95)?;
    Some(Interval { low: center - students.high * error, high: center - students.low * error })
}

const _: () = assert!(MAX_ENUMERATED_PAIRS >= MIN_PAIRS, "the test of the fewest pairs is exact");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_pairs_of_about_four_percent() {
        let logs = [0.03, 0.05, 0.041, 0.038, 0.06, 0.02, 0.045, 0.036];
        let effect = effect(&logs, &mut SeededRandom::from_seed(1)).unwrap();
        assert!((effect.ratio - 1.0408).abs() < 0.002, "{effect:?}");
        assert_eq!((effect.p, effect.smallest_p, effect.pairs), (2.0 / 256.0, 2.0 / 256.0, 8));
        let (wide, narrow) = (effect.interval.unwrap(), effect.interval_90.unwrap());
        assert!(1.0 < wide.low && wide.low <= narrow.low && narrow.high <= wide.high && wide.high < 1.07);
        let bootstrap = effect.bootstrap.unwrap();
        assert!(bootstrap.contains(effect.ratio) && (bootstrap.low / wide.low - 1.0).abs() < 0.01);
        assert!((effect.deviation - 0.012224).abs() < 1e-4, "{effect:?}");
    }

    #[test]
    fn swapping_the_sides_gives_the_reciprocal() {
        let logs = [0.03, -0.05, 0.041, 0.038, 0.06, -0.02, 0.045];
        let there = effect(&logs, &mut SeededRandom::from_seed(2)).unwrap();
        let back = effect(&logs.map(|log| -log), &mut SeededRandom::from_seed(2)).unwrap();
        assert!((there.ratio * back.ratio - 1.0).abs() < 1e-12 && there.p == back.p);
        let (one, two) = (there.interval.unwrap(), back.interval.unwrap());
        assert!((one.low * two.high - 1.0).abs() < 1e-12 && (one.high * two.low - 1.0).abs() < 1e-12);
    }

    #[test]
    fn few_pairs_have_an_estimate_and_no_interval() {
        let mut stream = SeededRandom::from_seed(3);
        let five = effect(&[0.1, 0.2, 0.1, 0.15, 0.12], &mut stream).unwrap();
        assert!(five.interval.is_none() && five.bootstrap.is_none() && five.smallest_p == 0.0625);
        assert!(five.interval_90.is_some(), "one side at 5 % is reached by five pairs: 1 / 2^5");
        let one = effect(&[0.1], &mut stream).unwrap();
        assert!(one.deviation.is_nan() && one.p == 1.0 && one.smallest_p == 1.0 && one.pairs == 1);
        assert_eq!(effect(&[], &mut stream), None);
        assert_eq!(effect(&[0.1, f64::INFINITY], &mut stream), None);
    }

    /// Counts often agree to the last: the same ratio in each block.
    #[test]
    fn equal_ratios_have_an_interval_without_width() {
        let effect = effect(&[2f64.ln(); 8], &mut SeededRandom::from_seed(4)).unwrap();
        for interval in [effect.interval, effect.interval_90, effect.bootstrap] {
            let interval = interval.unwrap();
            assert!((interval.low - 2.0).abs() < 1e-9 && (interval.high - 2.0).abs() < 1e-9, "{effect:?}");
        }
        assert_eq!(effect.p, 2.0 / 256.0);
    }

    #[test]
    fn many_pairs_are_flipped_at_random() {
        let mut stream = SeededRandom::from_seed(5);
        let logs: Vec<f64> = (0..30).map(|_| 0.05 + 0.01 * stream.normal()).collect();
        let effect = effect(&logs, &mut stream).unwrap();
        assert!((effect.p - 1e-4).abs() < 1e-12 && effect.smallest_p == effect.p);
        let (wide, narrow) = (effect.interval.unwrap(), effect.interval_90.unwrap());
        assert!(wide.contains(0.05f64.exp()) && wide.low <= narrow.low && narrow.high <= wide.high);
    }
}
