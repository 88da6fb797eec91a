//! Tests paired differences: whether their mean is above zero, its size, and its interval.
//!
//! Without an effect each difference is as likely to be positive as negative, so the signs are flipped in every
//! way and the observed mean is compared with the others (Fisher, The Design of Experiments, 1935, section 21).
//! It assumes that the differences are independent and symmetric, and neither normal nor alike. The smallest p
//! that n pairs can give accompanies each answer: few pairs cannot say much, however large the difference.

use crate::summary::{mean, median};
use crate::{Interval, SeededRandom};

/// Up to this many pairs all 2^n flips are tried; above, random ones.
pub const MAX_ENUMERATED_PAIRS: usize = 16;
/// The fewest random flips that are drawn, whatever is asked for: verdicts need a resolution of 0.1 %.
const MIN_FLIPS: usize = 999;

/// The outcome of a sign-flip test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignFlip {
    pub mean: f64,
    /// The chance of a mean this high without an effect.
    pub p_upward: f64,
    /// The chance of a mean this far from zero, either way, without an effect.
    pub p_two_sided: f64,
    /// The smallest `p_upward` that this many pairs, or this many flips, can give; the two-sided one is twice as
    /// large where all flips were tried.
    pub smallest_p: f64,
    /// Whether all 2^n flips were tried.
    pub exact: bool,
}

/// Tests `differences` by all flips of up to 16, else by `flips` random ones (B, at least 999) and
/// (1 + b) / (1 + B). `None` if there are none or one is not finite.
pub fn sign_flip(differences: &[f64], flips: usize, stream: &mut SeededRandom) -> Option<SignFlip> {
    let mean = mean(differences)?;
    let sum: f64 = differences.iter().sum();
    // Sums of the same terms in another order differ in the last bits and must still count as equal.
    let tolerance = 1e-9 * differences.iter().map(|value| value.abs()).sum::<f64>();
    let (mut as_high, mut as_far) = (0usize, 0usize);
    let mut count = |flipped: f64| {
        as_high += usize::from(flipped >= sum - tolerance);
        as_far += usize::from(flipped.abs() >= sum.abs() - tolerance);
    };
    let exact = differences.len() <= MAX_ENUMERATED_PAIRS;
    let total = if exact {
        // The flip that changes nothing is among them.
        subset_sums(differences, |taken, _| count(sum - 2.0 * taken));
        count(sum);
        1usize << differences.len()
    } else {
        let flips = flips.max(MIN_FLIPS);
        (0..flips).for_each(|_| count(sum - 2.0 * random_subset(differences, stream).0));
        count(sum);
        flips + 1
    };
    let share = |count: usize| count as f64 / total as f64;
    Some(SignFlip { mean, p_upward: share(as_high), p_two_sided: share(as_far), smallest_p: share(1), exact })
}

/// The typical difference, robust against outliers, and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The median of the means of all pairs of differences (Hodges and Lehmann, Annals of Mathematical
    /// Statistics 34, 1963).
    pub estimate: f64,
    /// All shifts that the two-sided sign-flip test does not reject; `None` where so few pairs reject nothing at
    /// that confidence.
    pub interval: Option<Interval>,
}

/// The shift of `differences` and its interval of `confidence`, by all subsets of up to 16 pairs, else by
/// `subsets` random ones (at least 999). `None` if there are none or one is not finite.
///
/// The test rejects a shift from below where few subsets have a smaller mean, so that its limits are order
/// statistics of the subsets' means (Hartigan, JASA 64, 1969).
pub fn hodges_lehmann(
    differences: &[f64],
    confidence: f64,
    subsets: usize,
    stream: &mut SeededRandom,
) -> Option<Shift> {
    mean(differences)?;
    let pairs = differences.iter().enumerate();
    let walsh: Vec<f64> = pairs
        .flat_map(|(index, one)| differences.iter().skip(index).map(move |two| (one + two) / 2.0))
        .collect();
    let mut means = Vec::new();
    if differences.len() <= MAX_ENUMERATED_PAIRS {
        subset_sums(differences, |sum, size| means.push(sum / size as f64));
    } else {
        while means.len() < subsets.max(MIN_FLIPS) {
            let (sum, size) = random_subset(differences, stream);
            if size > 0 {
                means.push(sum / size as f64);
            }
        }
    }
    means.sort_by(f64::total_cmp);
    let rejected = ((1.0 - confidence) / 2.0 * (means.len() + 1) as f64 + 1e-9).floor() as usize;
    let limits = || {
        let low = *means.get(rejected.checked_sub(1)?)?;
        Some(Interval { low, high: *means.get(means.len().checked_sub(rejected)?)? })
    };
    Some(Shift { estimate: median(&walsh)?, interval: limits() })
}

/// Calls `each` with the sum and the size of every subset but the empty one, by changing one member at a time
/// (the reflected code of Gray).
fn subset_sums(values: &[f64], mut each: impl FnMut(f64, usize)) {
    let (mut sum, mut members) = (0.0, 0u32);
    for step in 1u32..1 << values.len() {
        let bit = step.trailing_zeros();
        let value = values.get(bit as usize).copied().unwrap_or(0.0);
        members ^= 1 << bit;
        sum += if members & (1 << bit) == 0 { -value } else { value };
        each(sum, members.count_ones() as usize);
    }
}

/// The sum and the size of a random subset.
fn random_subset(values: &[f64], stream: &mut SeededRandom) -> (f64, usize) {
    let (mut sum, mut size) = (0.0, 0);
    for chunk in values.chunks(64) {
        let bits = stream.bits();
        for (position, value) in chunk.iter().enumerate() {
            // Without a branch: half of them would be guessed wrong.
            let taken = bits >> position & 1;
            sum += value * taken as f64;
            size += taken as usize;
        }
    }
    (sum, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Darwin's plants, the example of the book: 15 pairs, sum 314, 863 of 32768 sums as high, hence
    /// 1726 / 32768 = 5.267 % two-sided.
    const PLANTS: [f64; 15] =
        [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];

    #[test]
    fn agrees_with_fishers_example() {
        let test = sign_flip(&PLANTS, 0, &mut SeededRandom::from_seed(1)).unwrap();
        assert!(test.exact && (test.mean - 314.0 / 15.0).abs() < 1e-12);
        assert!((test.p_two_sided - 1726.0 / 32768.0).abs() < 1e-12, "{test:?}");
        assert!((test.p_upward - 863.0 / 32768.0).abs() < 1e-12);
        assert!((test.smallest_p - 1.0 / 32768.0).abs() < 1e-15);
    }

    /// Twice the plants have too many pairs to enumerate; p is then that of a normal with the same variance.
    #[test]
    fn random_flips_agree_with_the_normal_limit() {
        let twice = [PLANTS, PLANTS].concat();
        let test = sign_flip(&twice, 20_000, &mut SeededRandom::from_seed(2)).unwrap();
        let z = 628.0 / twice.iter().map(|value| value * value).sum::<f64>().sqrt();
        assert!(
            !test.exact && (test.p_upward - crate::distribution::normal_cdf(-z)).abs() < 0.004,
            "{test:?}"
        );
        let all_up = sign_flip(&[1.0; 30], 999, &mut SeededRandom::from_seed(2)).unwrap();
        assert!((all_up.p_upward - 0.001).abs() < 1e-12 && (all_up.smallest_p - 0.001).abs() < 1e-12);
    }

    /// A shift inside the interval is not rejected, one outside is; either end.
    #[test]
    fn the_interval_is_the_test_inverted() {
        let mut stream = SeededRandom::from_seed(3);
        let shift = hodges_lehmann(&PLANTS, 0.95, 0, &mut stream).unwrap();
        let interval = shift.interval.unwrap();
        assert!((shift.estimate - 24.5).abs() < 4.0 && interval.contains(shift.estimate), "{shift:?}");
        let mut rejects = |by: f64, upward: bool| {
            let sign = if upward { 1.0 } else { -1.0 };
            let moved: Vec<f64> = PLANTS.iter().map(|value| sign * (value - by)).collect();
            sign_flip(&moved, 0, &mut stream).unwrap().p_upward <= 0.025
        };
        assert!(rejects(interval.low - 0.01, true) && !rejects(interval.low + 0.01, true));
        assert!(rejects(interval.high + 0.01, false) && !rejects(interval.high - 0.01, false));
    }

    /// 8 skewless pairs: 95 % of 400 within four binomial standard errors; the error rate of the test likewise.
    #[test]
    fn coverage_and_error_rate_are_nominal() {
        let (mut stream, mut covered, mut alarms) = (SeededRandom::from_seed(4), 0, 0);
        for _ in 0..400 {
            let values: Vec<f64> = (0..8).map(|_| stream.normal()).collect();
            let shift = hodges_lehmann(&values, 0.95, 0, &mut stream).unwrap();
            covered += i32::from(shift.interval.unwrap().contains(0.0));
            alarms += i32::from(sign_flip(&values, 0, &mut stream).unwrap().p_upward <= 0.05);
        }
        assert!((362..=397).contains(&covered), "{covered} of 400");
        assert!((3..=38).contains(&alarms), "{alarms} of 400");
    }

    #[test]
    fn few_pairs_say_what_they_cannot_say() {
        let mut stream = SeededRandom::from_seed(5);
        let test = sign_flip(&[3.0, 4.0, 5.0], 0, &mut stream).unwrap();
        assert_eq!((test.p_upward, test.smallest_p, test.p_two_sided), (0.125, 0.125, 0.25));
        assert_eq!(hodges_lehmann(&[3.0, 4.0, 5.0], 0.95, 0, &mut stream).unwrap().interval, None);
        assert_eq!(sign_flip(&[], 0, &mut stream), None);
        assert_eq!(sign_flip(&[1.0, f64::NAN], 0, &mut stream), None);
        assert_eq!(sign_flip(&[0.0; 4], 0, &mut stream).unwrap().p_upward, 1.0);
    }
}
