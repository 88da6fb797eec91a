//! Means, quantiles, robust slopes and bootstrap intervals of a handful of numbers.
//!
//! For repeats, rounds and per-second values: from a few to some thousand. Latencies of single requests belong in a histogram.
//! Every function returns `None` if its question has no answer (no values, one value for a spread, a value that is not finite), so
//! that a zero on a page is always a measured zero.

use crate::SeededRandom;
use crate::distribution::bootstrap_expansion;

/// Two ends of a range that holds the true value with the confidence stated with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The values, if there are at least `least` and all are finite.
fn usable(values: &[f64], least: usize) -> Option<&[f64]> {
    (values.len() >= least && values.iter().all(|value| value.is_finite())).then_some(values)
}

pub fn mean(values: &[f64]) -> Option<f64> {
    let values = usable(values, 1)?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation (divisor n - 1), in two passes.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let values = usable(values, 2)?;
    let center = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - center).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Standard deviation over mean; `None` if the mean is zero.
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let center = mean(values)?;
    (center != 0.0).then_some(standard_deviation(values)? / center.abs())
}

/// The quantile `q` in [0, 1] by linear interpolation between order statistics: type 7 of Hyndman and Fan (The
/// American Statistician 50, 1996), the default of R and NumPy.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = usable(values, 1)?.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

/// [`quantile`] of values in ascending order.
pub(crate) fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&q) {
        return None;
    }
    let position = q * sorted.len().checked_sub(1)? as f64;
    let below = *sorted.get(position.floor() as usize)?;
    let above = *sorted.get(position.ceil() as usize)?;
    Some(below + (above - below) * position.fract())
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Theil-Sen: the median of the slopes between all pairs of points `(x, y)` with different x, in units of y per
/// unit of x (Sen, JASA 63, 1968). A quarter of wild points does not move it. Takes time and memory in the square
/// of the number of points.
pub fn theil_sen_slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (index, (x0, y0)) in points.iter().enumerate() {
        for (x1, y1) in points.iter().skip(index + 1) {
            if x1 != x0 {
                slopes.push((y1 - y0) / (x1 - x0));
            }
        }
    }
    median(&slopes)
}

/// An interval for the true mean from at least 3 independent values: expanded percentile bootstrap (see
/// `bootstrap_expansion`), `resamples` seeded draws, about 2000 for an interval of 95 %.
pub fn bootstrap_mean(
    values: &[f64],
    confidence: f64,
    resamples: usize,
    stream: &mut SeededRandom,
) -> Option<Interval> {
    let center = mean(usable(values, 3)?)?;
    let expansion = bootstrap_expansion(values.len(), values.len() - 1, confidence);
    let draws = (0..resamples).map(|_| center + expansion * (resampled_mean(values, stream) - center));
    percentile_interval(draws.collect(), confidence)
}

/// An interval for mean(`numerator`) / mean(`denominator`), both of at least 3 independent positive values that
/// are not paired. Works on the logarithm of the ratio, so that swapping the two gives the reciprocal interval.
pub fn bootstrap_ratio(
    numerator: &[f64],
    denominator: &[f64],
    confidence: f64,
    resamples: usize,
    stream: &mut SeededRandom,
) -> Option<Interval> {
    let both = [usable(numerator, 3)?, usable(denominator, 3)?];
    if both.iter().any(|values| values.iter().any(|value| *value <= 0.0)) {
        return None;
    }
    let (top, bottom) = (mean(numerator)?.ln(), mean(denominator)?.ln());
    // Each side loses its own share of spread; the degrees of freedom are those of the smaller side, which errs
    // towards a wider interval.
    let freedom = numerator.len().min(denominator.len()) - 1;
    let expand_top = bootstrap_expansion(numerator.len(), freedom, confidence);
    let expand_bottom = bootstrap_expansion(denominator.len(), freedom, confidence);
    let draws = (0..resamples).map(|_| {
        let top_deviation = resampled_mean(numerator, stream).ln() - top;
        let bottom_deviation = resampled_mean(denominator, stream).ln() - bottom;
        top - bottom + expand_top * top_deviation - expand_bottom * bottom_deviation
    });
    let logs = percentile_interval(draws.collect(), confidence)?;
    Some(Interval { low: logs.low.exp(), high: logs.high.exp() })
}

/// The mean of draws with replacement, as many as there are values.
fn resampled_mean(values: &[f64], stream: &mut SeededRandom) -> f64 {
    let sum: f64 = (0..values.len()).filter_map(|_| stream.pick(values)).sum();
    sum / values.len() as f64
}

/// The middle `confidence` of the draws.
pub(crate) fn percentile_interval(mut draws: Vec<f64>, confidence: f64) -> Option<Interval> {
    usable(&draws, 1)?;
    draws.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    Some(Interval { low: quantile_of_sorted(&draws, tail)?, high: quantile_of_sorted(&draws, 1.0 - tail)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [f64; 10] = [2.1, 7.4, 3.3, 9.9, 4.0, 4.0, 15.2, 1.7, 6.6, 5.5];

    fn near(actual: Option<f64>, expected: f64) -> bool {
        actual.is_some_and(|actual| (actual - expected).abs() < 1e-12 * expected.abs().max(1.0))
    }

    /// numpy.mean, std(ddof=1), quantile (its default method) and scipy.stats.theilslopes over index.
    #[test]
    fn agrees_with_numpy_and_scipy() {
        assert!(near(mean(&VALUES), 5.97));
        assert!(near(standard_deviation(&VALUES), 4.10150378926234));
        assert!(near(coefficient_of_variation(&VALUES), 0.6870190601779465));
        assert!(near(median(&VALUES), 4.75));
        assert!(near(quantile(&VALUES, 0.1), 2.06));
        assert!(near(quantile(&VALUES, 0.93), 11.861000000000006));
        let points: Vec<(f64, f64)> = VALUES.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
        assert!(near(theil_sen_slope(&points), 0.31428571428571433));
    }

    #[test]
    fn questions_without_an_answer_have_none() {
        let mut stream = SeededRandom::from_seed(1);
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[1.0, f64::NAN]), None);
        assert_eq!(standard_deviation(&[1.0]), None);
        assert_eq!(coefficient_of_variation(&[-1.0, 1.0]), None);
        assert_eq!(quantile(&[1.0], 1.1), None);
        assert_eq!(theil_sen_slope(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(bootstrap_mean(&[1.0, 2.0], 0.95, 100, &mut stream), None);
        assert_eq!(bootstrap_ratio(&[1.0, 2.0, 0.0], &[1.0; 3], 0.95, 100, &mut stream), None);
    }

    /// Coverage over 400 experiments of 8 skewed values (uniform plus a little exponential) each; a true 95 %
    /// stays within 365..=394 with probability above 0.999 (binomial), and a percentile bootstrap does not.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut stream = SeededRandom::from_seed(5);
        let (mut mean_hits, mut ratio_hits) = (0, 0);
        for _ in 0..400 {
            let mut draw = |scale: f64| {
                (0..8)
                    .map(|_| scale * (10.0 + stream.normal() + stream.exponential(0.5)))
                    .collect::<Vec<f64>>()
            };
            let (one, two) = (draw(1.0), draw(3.0));
            let interval = bootstrap_mean(&one, 0.95, 300, &mut stream).unwrap();
            mean_hits += i32::from(interval.contains(10.5));
            let interval = bootstrap_ratio(&two, &one, 0.95, 300, &mut stream).unwrap();
            ratio_hits += i32::from(interval.contains(3.0));
        }
        assert!((365..=394).contains(&mean_hits), "{mean_hits} of 400");
        assert!((365..=398).contains(&ratio_hits), "{ratio_hits} of 400");
    }

    #[test]
    fn a_ratio_and_its_reciprocal_agree() {
        let (one, two) = ([5.0, 6.0, 7.0, 5.5], [10.0, 11.0, 9.0, 12.0]);
        let up = bootstrap_ratio(&two, &one, 0.95, 4000, &mut SeededRandom::from_seed(1)).unwrap();
        let down = bootstrap_ratio(&one, &two, 0.95, 4000, &mut SeededRandom::from_seed(2)).unwrap();
        assert!((up.low * down.high - 1.0).abs() < 0.05 && (up.high * down.low - 1.0).abs() < 0.05);
        let constant = bootstrap_mean(&[4.0; 5], 0.95, 100, &mut SeededRandom::from_seed(3)).unwrap();
        assert_eq!(constant, Interval { low: 4.0, high: 4.0 });
    }
}
