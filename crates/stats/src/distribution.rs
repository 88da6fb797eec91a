//! Normal and Student's t distributions, as far as the tests and intervals of this crate need them.
//!
//! Kept inside the crate: a few functions do not justify a statistics library on floor 0. They are accurate to
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

/// The two-sided p-value of Student's `t`, for one or more degrees of freedom, whole or not.
///
/// With t = sqrt(nu) cot(phi) the density becomes sin(phi)^(nu - 1), so that p is the share of its integral below phi; no
/// gamma function is needed. Accurate to about 1e-8 up to a hundred degrees of freedom and 1e-5 up to some thousand; above,
/// the normal's.
pub(crate) fn student_t_two_sided_p(t: f64, degrees_of_freedom: f64) -> f64 {
    const MAX_STUDENT_DEGREES: f64 = 5000.0;
    if t.is_nan() || degrees_of_freedom.is_nan() {
        return f64::NAN;
    }
    if degrees_of_freedom > MAX_STUDENT_DEGREES {
        return two_sided_p(t);
    }
    let power = degrees_of_freedom.max(1.0) - 1.0;
    let angle = (degrees_of_freedom.max(1.0).sqrt() / t.abs()).atan();
    // phi = end s^2: fractional powers are smooth at zero then.
    // Many degrees of freedom gather the density near one end.
    let pairs = if degrees_of_freedom > 100.0 { 1000 } else { 200 };
    let below = |end: f64| simpson(pairs, |s| 2.0 * end * s * (end * s * s).sin().powf(power));
    (below(angle) / below(PI / 2.0)).min(1.0)
}

/// The integral of `value` over 0 to 1 by Simpson's rule with twice `pairs` steps.
fn simpson(pairs: u32, value: impl Fn(f64) -> f64) -> f64 {
    let step = 0.5 / f64::from(pairs);
    let at = |index: u32| value(f64::from(index) * step);
    let inner: f64 = (1..2 * pairs).map(|index| if index % 2 == 1 { 4.0 } else { 2.0 } * at(index)).sum();
    (at(0) + inner + at(2 * pairs)) * step / 3.0
}

/// The factor by which the spread of a bootstrap is multiplied so that its percentile interval has the width of Student's:
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
    /// Closed forms exist for 1, 2 and 4 degrees of freedom; for many it is the normal's.
    #[test]
    fn students_tail_agrees_with_its_closed_forms() {
        for t in [0.0f64, 0.1, 1.0, 2.3, 4.6, 12.0, 90.0] {
            let four = {
                let x = t / (4.0 + t * t).sqrt();
                1.0 - x * (1.5 - 0.5 * x * x)
            };
            for (freedom, expected) in
                [(1.0, 1.0 - 2.0 / PI * t.atan()), (2.0, 1.0 - t / (2.0 + t * t).sqrt()), (4.0, four)]
            {
                let p = student_t_two_sided_p(-t, freedom);
                assert!((p - expected).abs() < 1e-8, "{t} with {freedom}: {p} for {expected}");
            }
        }
        assert!((student_t_two_sided_p(2.0, 4999.0) - two_sided_p(2.0)).abs() < 1e-4);
        assert!((student_t_two_sided_p(2.0, 9999.0) - two_sided_p(2.0)).abs() < 1e-12);
        let between = [3.0, 3.4, 4.0].map(|freedom| student_t_two_sided_p(3.0, freedom));
        assert!(between[0] > between[1] && between[1] > between[2], "{between:?}");
    }
}
