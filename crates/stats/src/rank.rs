//! Tests by rank for two quantities that rise together (Spearman's correlation), and for an upward or downward drift of a series
//! (Mann-Kendall, with the slope of Theil-Sen).
//!
//! Ranks are used because the relation of backlog to waiting is monotone and far from straight, and so that one stall is not a trend.
//!
//! The correlation has a permutation test, because the samples are small and full of ties. It refuses fewer than four pairs, for
//! which no order of the data is surprising.
//!
//! An open-loop step is sustainable only if its schedule lag does not grow (docs/methods.md#the-highest-rate-that-holds). The
//! p-value of a trend assumes independent values: it is not corrected for autocorrelation, under which it is too small, which for
//! this use errs towards calling a step unsustainable.

use crate::SeededRandom;
use crate::distribution::{normal_cdf, two_sided_p};
use crate::summary::theil_sen_slope;

/// A rank correlation and the chance of one as strong without any relation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankCorrelation {
    /// Spearman's rho, -1 to 1.
    pub rho: f64,
    /// Two-sided permutation p, (1 + b) / (1 + B), never zero.
    pub p: f64,
}

/// Correlates pairs `(x, y)`; ties share their mean rank. `None` under 4 pairs, if a value is not finite, or
/// if one side is constant. `permutations` is B; 999 resolves 0.1 %.
pub fn spearman(
    pairs: &[(f64, f64)],
    permutations: usize,
    stream: &mut SeededRandom,
) -> Option<RankCorrelation> {
    if pairs.len() < 4 || pairs.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return None;
    }
    let x = centered_ranks(pairs.iter().map(|pair| pair.0));
    let mut y = centered_ranks(pairs.iter().map(|pair| pair.1));
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let scale = (product(&x, &x) * product(&y, &y)).sqrt();
    if scale == 0.0 {
        return None;
    }
    let rho = product(&x, &y) / scale;
    // Sums of the same terms in another order differ in the last bits and must still count as equal.
    let threshold = rho.abs() - 1e-9;
    let mut as_strong = 0usize;
    for _ in 0..permutations {
        stream.shuffle(&mut y);
        as_strong += usize::from((product(&x, &y) / scale).abs() >= threshold);
    }
    Some(RankCorrelation { rho, p: (1 + as_strong) as f64 / (1 + permutations) as f64 })
}

/// Ranks with ties at their mean, less the mean rank.
pub(crate) fn centered_ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut ordered: Vec<(f64, usize)> = values.enumerate().map(|(index, value)| (value, index)).collect();
    ordered.sort_by(|one, two| one.0.total_cmp(&two.0));
    let middle = (ordered.len() as f64 - 1.0) / 2.0;
    let mut ranked: Vec<(usize, f64)> = Vec::with_capacity(ordered.len());
    for group in ordered.chunk_by(|one, two| one.0 == two.0) {
        let rank = ranked.len() as f64 + (group.len() as f64 - 1.0) / 2.0;
        ranked.extend(group.iter().map(|(_, index)| (*index, rank - middle)));
    }
    ranked.sort_by_key(|(index, _)| *index);
    ranked.into_iter().map(|(_, rank)| rank).collect()
}

/// The fewest points whose normal approximation is usable (Kendall, Rank Correlation Methods: n >= 10).
const MIN_POINTS: usize = 10;

/// The outcome of a trend test over equally or unequally spaced points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Pairs in ascending minus pairs in descending order.
    pub score: i64,
    /// The score in standard deviations, with continuity correction.
    pub z: f64,
    /// The chance of a score this far from zero, either way, without a trend.
    pub p_two_sided: f64,
    /// The chance of a score this high without a trend.
    pub p_upward: f64,
    /// Theil-Sen slope, in units of y per unit of x.
    pub slope: f64,
}

/// Tests points `(x, y)` in order of x. `None` under 10 points or if one is not finite.
///
/// Mann (Econometrica 13, 1945), Kendall (1975), variance with ties as in Gilbert, Statistical Methods for
/// Environmental Pollution Monitoring (1987), 16.4.2. Constant values give p = 1.
pub fn mann_kendall(points: &[(f64, f64)]) -> Option<Trend> {
    if points.len() < MIN_POINTS || points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return None;
    }
    let mut ordered = points.to_vec();
    ordered.sort_by(|one, two| one.0.total_cmp(&two.0));
    let mut score = 0i64;
    for (index, (_, early)) in ordered.iter().enumerate() {
        for (_, late) in ordered.iter().skip(index + 1) {
            score += i64::from(late > early) - i64::from(late < early);
        }
    }
    let variance = score_variance(&ordered);
    let corrected = (score - score.signum()) as f64;
    let z = if variance > 0.0 { corrected / variance.sqrt() } else { 0.0 };
    let slope = theil_sen_slope(&ordered)?;
    Some(Trend { score, z, p_two_sided: two_sided_p(z), p_upward: normal_cdf(-z), slope })
}

/// The variance of the score without a trend, less what groups of equal y take away.
fn score_variance(points: &[(f64, f64)]) -> f64 {
    let share = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let mut values: Vec<f64> = points.iter().map(|point| point.1).collect();
    values.sort_by(f64::total_cmp);
    let ties: f64 = values.chunk_by(|a, b| a == b).map(|group| share(group.len() as f64)).sum();
    (share(points.len() as f64) - ties) / 18.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    /// scipy.stats.spearmanr, and its p by scipy.stats.permutation_test over all 8! orders (exact).
    #[test]
    fn agrees_with_scipy() {
        let pairs =
            [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (3.0, 3.0), (5.0, 7.0), (6.0, 5.0), (7.0, 5.0), (8.0, 9.0)];
        let found = spearman(&pairs, 20_000, &mut SeededRandom::from_seed(4)).unwrap();
        assert!((found.rho - 0.8915662650602408).abs() < 1e-12);
        assert!((found.p - 0.004563492063492064).abs() < 0.002, "{}", found.p);
    }

    #[test]
    fn the_error_rate_is_nominal_and_relations_are_found() {
        let mut stream = SeededRandom::from_seed(6);
        let (mut false_alarms, mut found) = (0, 0);
        for _ in 0..500 {
            let free: Vec<(f64, f64)> =
                (0..12).map(|_| (stream.normal(), stream.exponential(1.0).round())).collect();
            false_alarms += u32::from(spearman(&free, 99, &mut stream).is_some_and(|found| found.p <= 0.05));
            let tied: Vec<(f64, f64)> = free.iter().map(|(x, y)| (*x, (2.0 * x).exp() + y)).collect();
            found += u32::from(spearman(&tied, 99, &mut stream).is_some_and(|found| found.p <= 0.05));
        }
        // 5 % of 500 within four binomial standard errors.
        assert!((5..=45).contains(&false_alarms), "{false_alarms} of 500");
        assert!(found > 300, "{found} of 500");
    }

    #[test]
    fn degenerate_pairs_have_no_answer() {
        let mut stream = SeededRandom::from_seed(1);
        assert_eq!(spearman(&[(1.0, 1.0); 6], 99, &mut stream), None);
        assert_eq!(spearman(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)], 99, &mut stream), None);
        assert_eq!(spearman(&[(f64::NAN, 1.0); 6], 99, &mut stream), None);
        let perfect: Vec<(f64, f64)> = (0..9).map(|x| (f64::from(x), -f64::from(x))).collect();
        let found = spearman(&perfect, 999, &mut stream).unwrap();
        assert!((found.rho + 1.0).abs() < 1e-12 && found.p < 0.005);
    }

    fn indexed(values: &[f64]) -> Vec<(f64, f64)> {
        values.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect()
    }

    /// The score and its tie-corrected variance written out in Python after Gilbert 16.4.2, p from
    /// scipy.stats.norm.sf, the slope from scipy.stats.theilslopes.
    #[test]
    fn agrees_with_the_formula_in_scipy() {
        let values = [3.0, 1.0, 4.0, 4.0, 5.0, 9.0, 2.0, 6.0, 5.0, 7.0, 8.0, 5.0];
        let trend = mann_kendall(&indexed(&values)).unwrap();
        assert_eq!(trend.score, 32);
        assert!((trend.z - 2.149463260372763).abs() < 1e-12);
        assert!((trend.p_two_sided - 0.03159769543571631).abs() < 1e-12);
        assert!((trend.p_upward - 0.015798847717858156).abs() < 1e-12);
        assert!((trend.slope - 0.4365079365079365).abs() < 1e-12);
    }

    /// 2000 series of 20 values in steps, hence with ties: 5 % nominal is within 3.4..6.6 % (four binomial
    /// standard errors). A slope of half a standard deviation per ten points is found in most.
    #[test]
    fn the_error_rate_is_nominal_and_trends_are_found() {
        let mut stream = SeededRandom::from_seed(9);
        let (mut false_alarms, mut found) = (0, 0);
        for _ in 0..2000 {
            let flat: Vec<f64> = (0..20).map(|_| (stream.normal() * 2.0).round()).collect();
            false_alarms += u32::from(mann_kendall(&indexed(&flat)).unwrap().p_two_sided < 0.05);
            let rising: Vec<f64> = (0..20).map(|x| f64::from(x) * 0.15 + stream.normal()).collect();
            found += u32::from(mann_kendall(&indexed(&rising)).unwrap().p_upward < 0.05);
        }
        assert!((61..=139).contains(&false_alarms), "{false_alarms} of 2000");
        assert!(found > 1800, "{found} of 2000");
    }

    #[test]
    fn constants_have_no_trend_and_short_series_no_answer() {
        let flat = mann_kendall(&indexed(&[2.0; 15])).unwrap();
        assert_eq!((flat.score, flat.p_two_sided, flat.slope), (0, 1.0, 0.0));
        assert_eq!(mann_kendall(&indexed(&[1.0; 9])), None);
        assert_eq!(mann_kendall(&indexed(&[f64::NAN; 12])), None);
    }
}
