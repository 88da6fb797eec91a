//! Conventional tests for comparison: Welch and Mann-Whitney on the blocks of both sides.
//!
//! They treat both sides as unrelated, which blocks are not: with drift they miss what pairs show, and if one side runs after the
//! other they find false effects (docs/known-truth.md). They are reported for comparison only, and never used to choose. Refuses
//! fewer than two values a side, and two sides without any spread.

use crate::distribution::{student_t_two_sided_p, two_sided_p};
use crate::rank::centered_ranks;
use crate::summary::{mean, standard_deviation};

/// Up to so many values on both sides together all divisions are counted; above, the normal limit.
const MAX_ENUMERATED: usize = 40;

/// Two-sided p-values of the tests for unpaired sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecondaryTests {
    /// Welch's t test (Biometrika 34, 1947).
    pub welch_p: f64,
    /// Mann and Whitney's rank test (Annals of Mathematical Statistics 18, 1947), ties at their mean rank; exact up
    /// to 40 values in all.
    pub mann_whitney_p: f64,
}

/// Both tests on the values (or their logarithms) of the blocks. `None` with fewer than two values on a side, a value that is not
/// finite, or if neither side has any spread.
pub fn secondary(baseline: &[f64], treatment: &[f64]) -> Option<SecondaryTests> {
    Some(SecondaryTests {
        welch_p: welch(baseline, treatment)?,
        mann_whitney_p: mann_whitney(baseline, treatment)?,
    })
}

fn welch(baseline: &[f64], treatment: &[f64]) -> Option<f64> {
    let error = |values: &[f64]| Some(standard_deviation(values)?.powi(2) / values.len() as f64);
    let (one, two) = (error(baseline)?, error(treatment)?);
    let both = one + two;
    if both <= 0.0 {
        return None;
    }
    let freedom = both.powi(2)
        / (one.powi(2) / (baseline.len() - 1) as f64 + two.powi(2) / (treatment.len() - 1) as f64);
    Some(student_t_two_sided_p((mean(treatment)? - mean(baseline)?) / both.sqrt(), freedom))
}

fn mann_whitney(baseline: &[f64], treatment: &[f64]) -> Option<f64> {
    let (fewer, more) =
        if baseline.len() <= treatment.len() { (baseline, treatment) } else { (treatment, baseline) };
    if fewer.is_empty() {
        return None;
    }
    let ranks = centered_ranks(fewer.iter().chain(more).copied());
    let sum: f64 = ranks.iter().take(fewer.len()).sum();
    if ranks.len() <= MAX_ENUMERATED {
        return Some(exact_rank_sum_p(&ranks, fewer.len(), sum));
    }
    // Drawn without replacement from a finite set of ranks, ties and all.
    let (n, m) = (fewer.len() as f64, more.len() as f64);
    let squares: f64 = ranks.iter().map(|rank| rank * rank).sum();
    let variance = n * m * squares / ((n + m) * (n + m - 1.0));
    // Half a rank towards the middle, since sums of ranks are whole.
    let z = (sum.abs() - 0.5).max(0.0) / variance.sqrt();
    Some(if variance > 0.0 { two_sided_p(z) } else { 1.0 })
}

/// The share of all choices of `chosen` of `ranks` (multiples of a half around zero) whose sum is as far from zero,
/// by counting the ways to each sum.
fn exact_rank_sum_p(ranks: &[f64], chosen: usize, sum: f64) -> f64 {
    let doubled: Vec<i64> = ranks.iter().map(|rank| (2.0 * rank).round() as i64).collect();
    let reach: i64 = doubled.iter().map(|rank| rank.abs()).sum();
    let width = 2 * reach as usize + 1;
    let mut ways = vec![vec![0.0f64; width]; chosen + 1];
    if let Some(way) = ways.first_mut().and_then(|none| none.get_mut(reach as usize)) {
        *way = 1.0;
    }
    for rank in doubled {
        // From many chosen to few, so that no rank is taken twice.
        for count in (0..chosen).rev() {
            let (below, above) = ways.split_at_mut(count + 1);
            let (Some(from), Some(to)) = (below.last(), above.first_mut()) else { continue };
            for (place, ways_here) in from.iter().enumerate().filter(|(_, ways)| **ways > 0.0) {
                if let Some(target) = usize::try_from(place as i64 + rank).ok().and_then(|at| to.get_mut(at))
                {
                    *target += ways_here;
                }
            }
        }
    }
    let limit = (2.0 * sum.abs()).round() as i64;
    let last = ways.last().map(Vec::as_slice).unwrap_or_default();
    let far = last.iter().enumerate().filter(|(place, _)| (*place as i64 - reach).abs() >= limit);
    far.map(|(_, ways)| ways).sum::<f64>() / last.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Student's sleep data (R: `sleep`): t.test gives t = -1.8608, df = 17.776, p = 0.07939.
    #[test]
    fn agrees_with_the_sleep_data() {
        let one = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let two = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let tests = secondary(&one, &two).unwrap();
        assert!((tests.welch_p - 0.07939).abs() < 1e-5, "{tests:?}");
    }

    /// The smallest p of 4 and 4 is 2 / 70, of 5 and 5 it is 2 / 252 (docs/methods.md#blocks-and-pairs).
    #[test]
    fn separated_sides_have_the_smallest_p() {
        let ranks = |count: usize| {
            secondary(&[1.0, 2.0, 3.0, 4.0, 5.0][..count], &[6.0, 7.0, 8.0, 9.0, 10.0][..count])
        };
        assert!((ranks(4).unwrap().mann_whitney_p - 2.0 / 70.0).abs() < 1e-12);
        assert!((ranks(5).unwrap().mann_whitney_p - 2.0 / 252.0).abs() < 1e-12);
    }

    /// Every choice of 3 of 7 values with ties, counted by hand of the machine.
    #[test]
    fn ties_are_counted_exactly() {
        let (few, many) = ([1.0, 2.0, 2.0], [2.0, 3.0, 3.0, 4.0]);
        let ranks = centered_ranks(few.iter().chain(&many).copied());
        let observed: f64 = ranks.iter().take(3).sum();
        let (mut far, mut all) = (0, 0);
        for members in 0u32..128 {
            if members.count_ones() == 3 {
                let sum: f64 = (0..7).filter(|bit| members >> bit & 1 == 1).map(|bit| ranks[bit]).sum();
                all += 1;
                far += i32::from(sum.abs() >= observed.abs() - 1e-9);
            }
        }
        let p = mann_whitney(&few, &many).unwrap();
        assert!((p - f64::from(far) / f64::from(all)).abs() < 1e-12 && all == 35, "{p}: {far} of {all}");
        assert!((mann_whitney(&many, &few).unwrap() - p).abs() < 1e-12);
    }

    /// At 41 values the limit takes over; it agrees with the count.
    #[test]
    fn the_normal_limit_agrees_with_the_count() {
        let one: Vec<f64> = (0..20).map(|k| f64::from(k * k % 23)).collect();
        let two: Vec<f64> = (0..22).map(|k| f64::from(k * k % 19) + 4.3).collect();
        let ranks = centered_ranks(one.iter().chain(&two).copied());
        let exact = exact_rank_sum_p(&ranks, 20, ranks.iter().take(20).sum());
        let limit = mann_whitney(&one, &two).unwrap();
        assert!((exact - limit).abs() < 0.005 && exact < 0.5, "{exact} and {limit}");
    }

    #[test]
    fn what_cannot_be_tested_is_not() {
        assert_eq!(secondary(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(secondary(&[1.0, 1.0], &[2.0, 2.0]), None);
        assert_eq!(secondary(&[1.0, f64::NAN], &[2.0, 3.0]), None);
        assert_eq!(secondary(&[1.0, 1.0], &[1.0, 1.5]).map(|tests| tests.mann_whitney_p), Some(1.0));
    }
}
