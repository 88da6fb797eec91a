//! Plans interim looks at a running study: the blocks after which it may end, and the p that each look requires.
//!
//! A study tested at 5 % after every block finds an effect sooner or later. The boundary of O'Brien and Fleming (Biometrics 35,
//! 1979) keeps 5 % over all looks together and costs the last look almost nothing: a sum of contrasts that would be significant at
//! the end may end the study earlier, once it is already as large. The constant is computed for the blocks of the actual looks,
//! which are not exact thirds in a study of eight.
//!
//! The few pairs at early looks often cannot give so small a p, whatever they show. Such a look is marked; as it can never end the
//! study it costs nothing, and the others get its share.

use super::{SIGNIFICANCE_LEVEL, smallest_two_sided_p};
use crate::distribution::{normal_quantile, two_sided_p};
use crate::sign_flip::MAX_ENUMERATED_PAIRS;

/// Steps of the grid on which the sum's density is carried from look to look.
const STEPS: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Blocks measured by then.
    pub after_blocks: usize,
    /// The study may end with a two-sided p of at most this. For [`super::verdict()`], which compares with
    /// [`SIGNIFICANCE_LEVEL`], p times the level over this is the p adjusted for looking.
    pub p: f64,
    /// Whether a sign-flip test of this many pairs can reach it.
    pub reachable: bool,
}

/// `looks` looks into a study of `blocks` blocks, evenly spaced, the last one at its end; fewer if there are not
/// enough blocks, one if none is asked for, and an empty list without blocks.
pub fn planned_looks(looks: usize, blocks: usize) -> Vec<Look> {
    let looks = looks.clamp(1, blocks.max(1));
    let mut at: Vec<usize> =
        (1..=looks).map(|look| (look as f64 * blocks as f64 / looks as f64).round() as usize).collect();
    at.retain(|after| *after > 0);
    at.dedup();
    let mut used = at.clone();
    loop {
        let times: Vec<f64> = used.iter().map(|after| *after as f64 / blocks as f64).collect();
        let constant = boundary(&times);
        let p = |after: usize| two_sided_p(constant / (after as f64 / blocks as f64).sqrt());
        let reaches = |after: usize| after > MAX_ENUMERATED_PAIRS || smallest_two_sided_p(after) <= p(after);
        // The earliest first: its share may make the next one reachable.
        if let Some(index) = used.iter().position(|after| !reaches(*after)).filter(|_| used.len() > 1) {
            used.remove(index);
            continue;
        }
        let look = |after: &usize| Look {
            after_blocks: *after,
            p: p(*after),
            reachable: used.contains(after) && reaches(*after),
        };
        return at.iter().map(look).collect();
    }
}

/// The sum (in standard deviations of the last one) that is exceeded at any of `times`, shares of the whole study, with a chance of
/// 5 % without an effect.
fn boundary(times: &[f64]) -> f64 {
    let (mut low, mut high) = (
        normal_quantile(1.0 - SIGNIFICANCE_LEVEL / 2.0) - 1e-6,
        normal_quantile(1.0 - SIGNIFICANCE_LEVEL / 16.0),
    );
    for _ in 0..30 {
        let middle = f64::midpoint(low, high);
        if crossing(times, middle) > SIGNIFICANCE_LEVEL {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The chance that a Brownian motion leaves plus or minus `limit` at one of `times`, by carrying the density of what
/// is still inside from look to look (Armitage, McPherson and Rowe, Journal of the Royal Statistical Society A 132, 1969).
fn crossing(times: &[f64], limit: f64) -> f64 {
    let place = |index: usize| limit * (2.0 * index as f64 / STEPS as f64 - 1.0);
    let weight = |index: usize| match index {
        0 | STEPS => 1.0,
        odd if odd % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let step = 2.0 * limit / STEPS as f64 / 3.0;
    let mut density: Option<Vec<f64>> = None;
    let (mut before, mut outside) = (0.0, 0.0);
    for time in times {
        let spread = (time - before).sqrt();
        before = *time;
        let bell = |distance: f64| {
            (-(distance / spread).powi(2) / 2.0).exp() / (spread * (2.0 * std::f64::consts::PI).sqrt())
        };
        let carried: Vec<f64> = (0..=STEPS)
            .map(|to| match &density {
                None => bell(place(to)),
                Some(density) => density
                    .iter()
                    .enumerate()
                    .map(|(from, inside)| weight(from) * step * inside * bell(place(to) - place(from)))
                    .sum(),
            })
            .collect();
        let inside: f64 = carried.iter().enumerate().map(|(index, value)| weight(index) * step * value).sum();
        outside = 1.0 - inside;
        density = Some(carried);
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables of the boundary (Jennison and Turnbull, Group Sequential Methods, 1999, table 2.3): 1.960, 1.977, 2.004,
    /// 2.024, 2.040 for one to five looks.
    #[test]
    fn constants_are_those_of_the_tables() {
        for (looks, constant) in [(1, 1.960), (2, 1.977), (3, 2.004), (4, 2.024), (5, 2.040), (10, 2.087)] {
            let times: Vec<f64> = (1..=looks).map(|look| f64::from(look) / f64::from(looks)).collect();
            let found = boundary(&times);
            assert!((found - constant).abs() < 0.001, "{looks} looks: {found}");
        }
        // Three looks into 36 blocks: z of 3.471, 2.454 and 2.004.
        let looks = planned_looks(3, 36);
        for (look, (after, z)) in looks.iter().zip([(12, 3.471), (24, 2.454), (36, 2.004)]) {
            assert!(look.after_blocks == after && look.reachable, "{looks:?}");
            assert!((look.p / two_sided_p(z) - 1.0).abs() < 0.01, "{looks:?}");
        }
    }

    /// With eight pairs neither 3 nor 5 can be as clear as an early end demands, so that the last has the whole 5 %.
    #[test]
    fn looks_that_can_never_end_the_study_are_marked_and_cost_nothing() {
        let looks = planned_looks(3, 8);
        assert_eq!(looks.iter().map(|look| look.after_blocks).collect::<Vec<_>>(), [3, 5, 8]);
        assert_eq!(looks.iter().map(|look| look.reachable).collect::<Vec<_>>(), [false, false, true]);
        assert!((looks[2].p - 0.05).abs() < 1e-4, "{looks:?}");
        let looks = planned_looks(3, 12);
        assert_eq!(looks.iter().map(|look| look.reachable).collect::<Vec<_>>(), [false, true, true]);
        assert!(looks[2].p < 0.05 && looks[2].p > 0.044, "{looks:?}");
        for blocks in 1..60 {
            for look in planned_looks(3, blocks) {
                let can = smallest_two_sided_p(look.after_blocks) <= look.p;
                assert_eq!(look.reachable, can, "{blocks} blocks: {look:?}");
            }
        }
    }

    #[test]
    fn odd_plans_are_made_even() {
        assert_eq!(planned_looks(0, 8).len(), 1);
        assert_eq!(planned_looks(9, 4).len(), 4);
        assert!(planned_looks(3, 0).is_empty());
        assert!(!planned_looks(1, 3)[0].reachable, "three pairs never reach 5 %");
    }
}
