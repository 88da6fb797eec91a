//! Normal and Student's t distributions, as far as the tests and intervals of this crate need them.
//!
//! Kept inside the crate: three functions do not justify a statistics library on floor 0. They are accurate to
//! about 1e-12 (normal) and 1 % (t from 2 degrees of freedom), far finer than any p-value we print.

use std::f64::consts::PI;

/// The probability that a standard normal deviate is at most `z`.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    if z.is_nan() {
        return f64::NAN;
    }
    let upper = upper_tail(z.abs());
    if z > 0.0 { 1.0 - upper } else { upper }
}

/// P(Z > z) for z >= 0: the power series of erf near zero, Laplace's continued fraction further out
/// (Abramowitz and Stegun 7.1.6 and 26.2.14).
fn upper_tail(z: f64) -> f64 {
    if z > 38.0 {
        return 0.0;
    }
    let density = (-z * z / 2.0).exp() / (2.0 * PI).sqrt();
    if z < 3.0 {
        let (mut term, mut sum) = (z, z);
        for n in 1..100u32 {
            term *= z * z / f64::from(2 * n + 1);
            sum += term;
            if term < 1e-17 * sum {
                break;
            }
        }
        return 0.5 - density * sum;
    }
    let fraction = (1..=60u32).rev().fold(z, |below, n| z + f64::from(n) / below);
    density / fraction
}

/// The value that a standard normal deviate stays below with probability `p`, for p in (0, 1): bisection of
/// [`normal_cdf`], which is slow and exact and called a handful of times.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    let (mut low, mut high) = (-40.0, 0.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if normal_cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Student's t quantile by the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5), for two or more degrees
/// of freedom.
pub(crate) fn student_t_quantile(p: f64, degrees_of_freedom: f64) -> f64 {
    let z = normal_quantile(p);
    let square = z * z;
    let terms = [
        z * (square + 1.0) / 4.0,
        z * ((5.0 * square + 16.0) * square + 3.0) / 96.0,
        z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0,
        z * ((((79.0 * square + 776.0) * square + 1482.0) * square - 1920.0) * square - 945.0) / 92160.0,
    ];
    let nu = degrees_of_freedom.max(1.0);
    z + terms.iter().rev().fold(0.0, |sum, term| (sum + term) / nu)
}

/// What to multiply the spread of a bootstrap by so that its percentile interval has the width of Student's:
/// resampling `n` values around their mean loses a factor sqrt((n-1)/n) of spread and the normal's quantile is
/// shorter than t's (Hesterberg, The American Statistician 69, 2015, "expanded percentile").
pub(crate) fn bootstrap_expansion(n: usize, degrees_of_freedom: usize, confidence: f64) -> f64 {
    if n < 2 || degrees_of_freedom == 0 {
        return 1.0;
    }
    let tail = (1.0 + confidence.clamp(0.01, 0.9999)) / 2.0;
    let n = n as f64;
    (n / (n - 1.0)).sqrt() * student_t_quantile(tail, degrees_of_freedom as f64) / normal_quantile(tail)
}

/// The standard normal's two-sided p-value of `z`.
pub(crate) fn two_sided_p(z: f64) -> f64 {
    (2.0 * normal_cdf(-z.abs())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden values from scipy.stats.norm.cdf, norm.ppf and t.ppf.
    #[test]
    fn agrees_with_scipy() {
        for (z, cdf) in [
            (-8.0, 6.22096057427174e-16),
            (-3.5, 0.00023262907903552502),
            (-1.96, 0.024997895148220435),
            (-0.3, 0.3820885778110474),
            (0.0, 0.5),
            (0.7, 0.758036347776927),
            (2.9, 0.998134186699616),
            (3.1, 0.9990323967867817),
            (5.0, 0.9999997133484281),
        ] {
            assert!((normal_cdf(z) - cdf).abs() < 1e-13 && (normal_cdf(z) / cdf - 1.0).abs() < 1e-9, "{z}");
        }
        for (p, z) in [
            (1e-06, -4.753424308822899),
            (0.025, -1.9599639845400545),
            (0.3, -0.5244005127080409),
            (0.5, 0.0),
            (0.975, 1.959963984540054),
        ] {
            assert!((normal_quantile(p) - z).abs() < 1e-9, "{p}");
        }
        for (df, t) in [
            (2.0, 4.302652729749462),
            (3.0, 3.1824463052837078),
            (7.0, 2.364624251592784),
            (22.0, 2.0738730679040254),
            (200.0, 1.9718962236339088),
        ] {
            assert!((student_t_quantile(0.975, df) / t - 1.0).abs() < 0.01, "{df}");
        }
        assert!((two_sided_p(1.959963984540054) - 0.05).abs() < 1e-12);
        assert_eq!(two_sided_p(0.0), 1.0);
    }
}
