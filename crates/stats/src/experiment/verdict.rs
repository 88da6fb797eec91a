//! The verdict on an effect: better, worse, the same, or undecided.
//!
//! "Better" and "worse" require an effect that chance does not explain and that exceeds the differences between equal runs. "Same"
//! is never the absence of proof: the whole 90 % interval lies within the margin (two one-sided tests at 5 %). Everything else is
//! undecided, with the number of pairs that would decide if the effect is as large as observed.

use super::effect::Effect;
use super::noise_floor::{NoiseFloor, pairs_for};
use super::{POWER, SIGNIFICANCE_LEVEL, pairs_that_reach};
use crate::distribution::normal_quantile;

/// More pairs than this are no plan but a no: at ten minutes a pair, a week.
const MAX_PAIRS: usize = 1_000;

/// If equal runs differ by more than this share, they cannot show that two things are the same: a margin widened further by noise
/// would call everything equal.
const MAX_SAME_NOISE: f64 = 0.10;

/// The p of one of several comparisons that are reported together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdjustedP {
    /// The p after the correction for all of them.
    pub p: f64,
    /// The number of comparisons, this one included.
    pub comparisons: usize,
}

impl AdjustedP {
    /// The p of a single comparison.
    pub fn alone(p: f64) -> AdjustedP {
        AdjustedP { p, comparisons: 1 }
    }

    /// The level that is demanded of a comparison whose own p is `p`. A correction that ended at one no longer tells how much it was;
    /// at most it is the number of comparisons.
    fn level(self, p: f64) -> f64 {
        let corrected = if self.p < 1.0 { p / self.p.max(p) } else { 1.0 / self.comparisons.max(1) as f64 };
        SIGNIFICANCE_LEVEL * corrected.clamp(1e-6, 1.0)
    }
}

/// The verdict on a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectVerdict {
    /// The treatment is better by more than equal runs differ.
    Better,
    /// It is worse by more than that.
    Worse,
    /// It differs by less than the margin.
    Same,
    /// None of these was shown.
    Undecided {
        /// All pairs that would decide, if the effect is as large as it was seen; `None` if no feasible number does, or
        /// if a single pair does not show how much pairs differ.
        needs_pairs: Option<usize>,
    },
}

/// The size that an effect must exceed, and the margin within which it counts as none; shares, 0.02 is 2 %, on the logarithmic scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EffectThresholds {
    /// An effect must exceed it to be better or worse.
    pub differs: f64,
    /// The whole interval must lie within it for two things to be the same.
    pub same: f64,
}

impl EffectThresholds {
    /// One share for both.
    pub fn plain(share: f64) -> EffectThresholds {
        EffectThresholds { differs: share.max(0.0), same: share.max(0.0) }
    }

    /// The limits of a study with a noise floor. What an estimate of `pairs` pairs must exceed is what such estimates of equal
    /// sides differ by, so that pairs buy resolution; what counts as the same is what one pair of equal runs differs by, since
    /// users who run the two once each would not notice it. Neither is below `margin`, and noise widens the second to 10 % at most.
    pub fn new(floor: Option<&NoiseFloor>, pairs: usize, margin: f64) -> EffectThresholds {
        let margin = margin.max(0.0);
        let Some(floor) = floor else { return EffectThresholds::plain(margin) };
        let same = floor.floor.min(MAX_SAME_NOISE).max(margin);
        EffectThresholds { differs: floor.of_estimate(pairs).max(margin), same }
    }
}

/// The verdict on `effect`, whose p is `adjusted` for all comparisons reported with it.
pub fn verdict(
    effect: &Effect,
    adjusted: AdjustedP,
    higher_is_better: bool,
    limits: EffectThresholds,
) -> EffectVerdict {
    let (differs, same) = (limits.differs.ln_1p(), limits.same.ln_1p());
    let size = effect.ratio.ln();
    if adjusted.p < SIGNIFICANCE_LEVEL && size.abs() > differs {
        return if (size > 0.0) == higher_is_better { EffectVerdict::Better } else { EffectVerdict::Worse };
    }
    if effect.interval_90.is_some_and(|interval| -same <= interval.low.ln() && interval.high.ln() <= same) {
        return EffectVerdict::Same;
    }
    // Between the two limits no number of pairs decides: the noise itself must shrink.
    let told = size.abs() > differs || size.abs() < same;
    EffectVerdict::Undecided {
        needs_pairs: told.then(|| needs(effect, adjusted, size.abs(), (differs, same))).flatten(),
    }
}

/// The number of pairs that shows an effect of `size`, if it is beyond what `differs`, or shows that it lies within the `same`.
fn needs(effect: &Effect, adjusted: AdjustedP, size: f64, (differs, same): (f64, f64)) -> Option<usize> {
    let (errors, distance, fewest) = if size > differs {
        // The correction demands as much more of each, and of the smallest p that pairs can give.
        let level = adjusted.level(effect.p);
        (normal_quantile(1.0 - level / 2.0) + normal_quantile(POWER), size, pairs_that_reach(level))
    } else {
        // Both ends must come within: each fails in half of what may fail.
        (normal_quantile(1.0 - SIGNIFICANCE_LEVEL) + normal_quantile((1.0 + POWER) / 2.0), same - size, 0)
    };
    let pairs = pairs_for(errors, effect.deviation, distance).max(effect.pairs + 1).max(fewest);
    (pairs <= MAX_PAIRS).then_some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;
    use crate::experiment::{effect, fewest_pairs};

    /// The verdict on a single comparison, with its p given.
    fn verdict(effect: &Effect, p: f64, higher_is_better: bool, limits: EffectThresholds) -> EffectVerdict {
        super::verdict(effect, AdjustedP::alone(p), higher_is_better, limits)
    }

    /// Eight pairs around `center`, each way in turn.
    fn around(center: f64, spread: f64) -> Effect {
        let logs: Vec<f64> =
            [1.0, -1.2, 0.7, -0.5, 0.3, -0.9, 1.1, -0.4].iter().map(|step| center + spread * step).collect();
        effect(&logs, &mut SeededRandom::from_seed(1)).unwrap()
    }

    #[test]
    fn a_verdict_wants_significance_and_size() {
        let clear = around(0.05, 0.01);
        assert_eq!(verdict(&clear, clear.p, true, EffectThresholds::plain(0.03)), EffectVerdict::Better);
        assert_eq!(verdict(&clear, clear.p, false, EffectThresholds::plain(0.03)), EffectVerdict::Worse);
        assert_eq!(
            verdict(&around(-0.05, 0.01), clear.p, true, EffectThresholds::plain(0.02)),
            EffectVerdict::Worse
        );
        // The same effect below a floor of 8 % is the same; within a floor that its interval straddles, undecided.
        assert_eq!(verdict(&clear, clear.p, true, EffectThresholds::plain(0.08)), EffectVerdict::Same);
        assert!(matches!(
            verdict(&clear, clear.p, true, EffectThresholds::plain(0.055)),
            EffectVerdict::Undecided { .. }
        ));
        // Corrected for many metrics it is no longer significant.
        assert!(matches!(
            verdict(&clear, 0.06, true, EffectThresholds::plain(0.03)),
            EffectVerdict::Undecided { .. }
        ));
    }

    #[test]
    fn same_is_shown_and_never_assumed() {
        assert_eq!(
            verdict(&around(0.0, 0.01), 1.0, true, EffectThresholds::plain(0.02)),
            EffectVerdict::Same
        );
        assert!(matches!(
            verdict(&around(0.0, 0.05), 1.0, true, EffectThresholds::plain(0.02)),
            EffectVerdict::Undecided { .. }
        ));
        let few = effect(&[0.0, 0.001, 0.0], &mut SeededRandom::from_seed(2)).unwrap();
        assert!(matches!(
            verdict(&few, 1.0, true, EffectThresholds::plain(0.02)),
            EffectVerdict::Undecided { .. }
        ));
        let counts = effect(&[0.0; 8], &mut SeededRandom::from_seed(2)).unwrap();
        assert_eq!(
            verdict(&counts, 1.0, true, EffectThresholds::plain(0.0)),
            EffectVerdict::Same,
            "equal to the last count"
        );
    }

    #[test]
    fn a_noisy_machine_does_not_make_things_the_same() {
        let noisy = |floor: f64| {
            EffectThresholds::new(Some(&NoiseFloor { floor, deviation: floor / 2.0, pairs: 8 }), 8, 0.02)
        };
        assert_eq!(noisy(3.0).same, MAX_SAME_NOISE);
        assert!(matches!(
            verdict(&around(0.3, 0.2), 1.0, true, noisy(3.0)),
            EffectVerdict::Undecided { needs_pairs: None }
        ));
        assert_eq!(verdict(&around(0.0, 0.01), 1.0, true, noisy(3.0)), EffectVerdict::Same);
        // Pairs buy resolution: 4 % is found although single runs differ by 6 %.
        let clear = around(0.04, 0.01);
        assert_eq!(verdict(&clear, clear.p, true, noisy(0.06)), EffectVerdict::Better);
        assert_eq!(EffectThresholds::new(None, 8, 0.02), EffectThresholds::plain(0.02));
        // A user who takes a fifth for nothing may say so.
        assert_eq!(EffectThresholds::new(None, 8, 0.2).same, 0.2);
    }

    #[test]
    fn undecided_says_how_many_pairs_would_tell() {
        let needs = |effect: &Effect, p: f64, margin: f64| match verdict(
            effect,
            p,
            true,
            EffectThresholds::plain(margin),
        ) {
            EffectVerdict::Undecided { needs_pairs } => needs_pairs,
            other => panic!("{other:?}"),
        };
        let noisy = around(0.03, 0.06);
        let (alone, corrected) =
            (needs(&noisy, noisy.p, 0.02).unwrap(), needs(&noisy, 3.0 * noisy.p, 0.02).unwrap());
        assert!(alone > 8 && corrected > alone && corrected < 2 * alone, "{alone} and {corrected}");
        assert!(needs(&around(0.0, 0.05), 1.0, 0.02).unwrap() > 8);
        assert_eq!(needs(&around(0.0, 5.0), 1.0, 0.02), None, "nobody runs so many");
        let one = effect(&[0.5], &mut SeededRandom::from_seed(2)).unwrap();
        assert_eq!(needs(&one, 1.0, 0.02), None);
    }

    #[test]
    fn so_many_pairs_are_named_that_all_comparisons_can_be_told() {
        let needs = |effect: &Effect, p: f64, comparisons: usize| match super::verdict(
            effect,
            AdjustedP { p, comparisons },
            true,
            EffectThresholds::plain(0.02),
        ) {
            EffectVerdict::Undecided { needs_pairs } => needs_pairs.unwrap(),
            other => panic!("{other:?}"),
        };
        // Two pairs far from equal and near each other: no p of theirs is small enough, and the corrected one is cut off at one.
        let clear = effect(&[-0.5, -0.51], &mut SeededRandom::from_seed(1)).unwrap();
        assert_eq!(needs(&clear, 0.5, 1), fewest_pairs(1));
        assert_eq!(needs(&clear, 1.0, 24), fewest_pairs(24));
        // The same with pairs that differ: more comparisons want more of them, and as many as where the correction shows.
        let noisy = around(0.03, 0.06);
        let shown = needs(&noisy, 2.0 * noisy.p, 2);
        assert!(noisy.p > 0.05 && 3.0 * noisy.p < 1.0 && needs(&noisy, 1.0, 2) == shown, "{}", noisy.p);
        assert!(needs(&noisy, 1.0, 24) > shown);
    }
}
