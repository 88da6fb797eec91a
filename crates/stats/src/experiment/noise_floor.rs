//! The noise floor: the difference between equal runs, and the effects that a number of pairs can detect above it.
//!
//! The floor comes from pairs of equal runs, one pair a block. Users who repeat a run will notice a larger effect; a smaller one
//! may be real and is not worth a verdict. That is a question of size, not of chance: the test's p says how surely the average of n
//! pairs differs from zero, and shrinks with n, while the floor is the difference within one pair and does not. So `floor` is the
//! 95th percentile of |log ratio| of single pairs (docs/methods.md#blocks-and-pairs). The floor of an estimate, smaller by the root
//! of its pairs, is [`NoiseFloor::of_estimate`]: the difference between estimates of equal sides.
//!
//! Eight pairs do not have a 95th percentile: the next pair exceeds the largest of them once in nine. Under [`MIN_PAIRS_FOR_RANK`]
//! pairs the floor is therefore the limit that the next pair stays within in 95 % if the noise is normal (Student's t), or the
//! largest pair seen if that is more; from that number on it is the rank that the next pair stays below in 95 % whatever the noise.

use super::{MIN_PAIRS, POWER, SIGNIFICANCE_LEVEL, smallest_two_sided_p};
use crate::distribution::{normal_quantile, student_t_quantile};

/// From this many pairs on, the next pair exceeds the largest in at most 5 %: 1 / (n + 1).
const MIN_PAIRS_FOR_RANK: usize = 19;

/// The differences between equal runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseFloor {
    /// 95 % of pairs of equal runs differ by less, as a share: 0.03 is 3 %.
    pub floor: f64,
    /// The root mean square of the log ratios. Around zero, since equal runs differ by nothing: what the second run of
    /// a block gains by being second is noise to a comparison in random order.
    pub deviation: f64,
    /// The number of pairs that it was computed from.
    pub pairs: usize,
}

impl NoiseFloor {
    /// The bound that estimates from `pairs` pairs of equal sides keep in 95 %, as a share: the floor of one pair divided by the
    /// root of their number. Infinite without pairs. A contrast of a factorial that averages over several cells has a pair of runs
    /// for each of them in each block.
    pub fn of_estimate(&self, pairs: usize) -> f64 {
        (self.floor.ln_1p() / (pairs as f64).sqrt()).exp_m1()
    }
}

/// The floor from `log_ratios` of pairs of equal runs. `None` with fewer than two or one that is not finite.
pub fn noise_floor(log_ratios: &[f64]) -> Option<NoiseFloor> {
    let pairs = log_ratios.len();
    if pairs < 2 || log_ratios.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sizes: Vec<f64> = log_ratios.iter().map(|value| value.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let deviation = (sizes.iter().map(|size| size * size).sum::<f64>() / pairs as f64).sqrt();
    // Less what rounding adds to a whole number.
    let rank = ((1.0 - SIGNIFICANCE_LEVEL) * (pairs + 1) as f64 - 1e-9).ceil() as usize;
    let seen = *sizes.get(rank.min(pairs) - 1)?;
    let floor = if pairs < MIN_PAIRS_FOR_RANK {
        seen.max(student_t_quantile(1.0 - SIGNIFICANCE_LEVEL / 2.0, pairs as f64) * deviation)
    } else {
        seen
    };
    Some(NoiseFloor { floor: floor.exp_m1(), deviation, pairs })
}

/// The smallest effect, as a share, that `pairs` pairs whose log ratios have the standard deviation `deviation` find
/// with a power of 80 % at 5 %. `None` under six pairs, which find nothing at 5 % however large, and where
/// the deviation is not a number.
///
/// Student's approximation (t of the level plus t of the power) at the level that the sign-flip test of so few pairs
/// really attains, 2 k / 2^n; six pairs reject only if all have one sign, and this is computed.
pub fn minimum_detectable(deviation: f64, pairs: usize) -> Option<f64> {
    if pairs < MIN_PAIRS || !deviation.is_finite() || deviation < 0.0 {
        return None;
    }
    let (n, smallest) = (pairs as f64, smallest_two_sided_p(pairs));
    let rejecting = (SIGNIFICANCE_LEVEL / smallest).floor();
    // Of infinitely many flips the level is attained exactly.
    let attained = if rejecting.is_finite() { rejecting * smallest } else { SIGNIFICANCE_LEVEL };
    let freedom = n - 1.0;
    let student = student_t_quantile(1.0 - attained / 2.0, freedom) + student_t_quantile(POWER, freedom);
    let one_sign = normal_quantile(POWER.powf(1.0 / n));
    let in_deviations = student / n.sqrt();
    Some((deviation * if rejecting < 2.0 { in_deviations.max(one_sign) } else { in_deviations }).exp_m1())
}

/// The number of pairs that detects an effect of `share` (0.03 is 3 %) with a power of 80 % at 5 %: ((1.96 + 0.84) s / delta)^2 +
/// 2, six at least. `usize::MAX` if no number does: a share of zero, a deviation that is not a number.
pub fn needed_pairs(deviation: f64, share: f64) -> usize {
    pairs_for(
        normal_quantile(1.0 - SIGNIFICANCE_LEVEL / 2.0) + normal_quantile(POWER),
        deviation,
        share.abs().ln_1p(),
    )
}

/// Pairs for which `distance`, in logarithms, is `errors` standard errors; two more for not knowing the deviation.
pub(super) fn pairs_for(errors: f64, deviation: f64, distance: f64) -> usize {
    let pairs = (errors * deviation / distance).powi(2) + 2.0;
    if pairs.is_nan() || distance <= 0.0 {
        return usize::MAX;
    }
    // A cast saturates.
    (pairs.ceil() as usize).max(MIN_PAIRS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SeededRandom, sign_flip};

    /// 4000 floors of 8, 12, 19 and 40 pairs each: the next pair stays within as often as the floor says, whatever the noise
    /// where ranks carry it.
    #[test]
    fn the_next_pair_of_equal_runs_stays_below_the_floor() {
        let mut stream = SeededRandom::from_seed(1);
        println!("| pairs | noise | next pair within | mean floor, true 95th percentile 1.96 |");
        println!("| --- | --- | --- | --- |");
        for (pairs, wild) in
            [(3, false), (8, false), (12, false), (19, false), (40, false), (8, true), (40, true)]
        {
            let (mut within, mut sum) = (0, 0.0);
            for _ in 0..4000 {
                let mut draw = || {
                    let wide = if wild && stream.uniform() < 0.1 { 5.0 } else { 1.0 };
                    0.01 * wide * stream.normal()
                };
                let logs: Vec<f64> = (0..pairs).map(|_| draw()).collect();
                let floor = noise_floor(&logs).unwrap().floor.ln_1p();
                within += i32::from(draw().abs() <= floor);
                sum += floor;
            }
            let noise = if wild { "one in ten five times as wide" } else { "normal" };
            let share = f64::from(within) / 4000.0;
            println!("| {pairs} | {noise} | {:.1} % | {:.2} |", 100.0 * share, sum / 40.0);
            let least = if wild && pairs < 19 { 0.9 } else { 0.938 };
            assert!(share >= least && share <= 0.985, "{pairs} {noise}: {share}");
        }
    }

    #[test]
    fn a_floor_needs_pairs_and_shrinks_for_estimates() {
        assert_eq!(noise_floor(&[0.1]), None);
        assert_eq!(noise_floor(&[0.1, f64::NAN]), None);
        assert_eq!(noise_floor(&[0.0; 8]), Some(NoiseFloor { floor: 0.0, deviation: 0.0, pairs: 8 }));
        let floor = NoiseFloor { floor: 0.08, deviation: 0.03, pairs: 8 };
        assert!((floor.of_estimate(4) - (1.08f64.sqrt() - 1.0)).abs() < 1e-12);
        assert_eq!(floor.of_estimate(0), f64::INFINITY);
    }

    /// At the effect that is said to be found in 80 %, the sign-flip test finds it in 80 %.
    #[test]
    fn the_minimum_detectable_effect_is_detected() {
        println!("| pairs | minimum detectable, deviations | found |");
        println!("| --- | --- | --- |");
        for pairs in [6, 7, 8, 10, 12, 16] {
            let delta = minimum_detectable(0.02, pairs).unwrap().ln_1p();
            let mut stream = SeededRandom::from_seed(2).split(pairs as u64);
            let found = (0..2000).filter(|_| {
                let logs: Vec<f64> = (0..pairs).map(|_| delta + 0.02 * stream.normal()).collect();
                sign_flip(&logs, 0, &mut stream).unwrap().p_two_sided <= SIGNIFICANCE_LEVEL
            });
            let share = found.count() as f64 / 2000.0;
            println!("| {pairs} | {:.2} | {:.1} % |", delta / 0.02, 100.0 * share);
            assert!((0.76..=0.84).contains(&share), "{pairs}: {share}");
        }
        assert_eq!(minimum_detectable(0.02, 5), None);
        assert_eq!(minimum_detectable(f64::NAN, 8), None);
        assert_eq!(minimum_detectable(0.0, 8), Some(0.0));
        let many = minimum_detectable(0.02, 5000).unwrap() / (2.8 * 0.02 / 5000f64.sqrt());
        assert!((many - 1.0).abs() < 0.01, "{many}");
    }

    #[test]
    fn needed_pairs_follow_the_formula() {
        assert_eq!(needed_pairs(0.0283, 0.02), 19, "(2.8 x 0.0283 / ln 1.02)^2 + 2 = 18.03");
        assert_eq!(needed_pairs(0.001, 0.1), MIN_PAIRS);
        assert_eq!(needed_pairs(0.02, 0.0), usize::MAX);
        assert_eq!(needed_pairs(f64::NAN, 0.02), usize::MAX);
    }
}
