//! The runs test: do residuals change sign as often as chance would have it?
//!
//! A curve of the wrong shape lies above the data for several levels and below for the next; squares alone do not
//! show this. Wald and Wolfowitz (Ann. Math. Stat. 11, 1940), exact, and one-sided: too many runs is no fault of
//! a curve.

/// The chance of at most the observed number of runs of equal sign, given how many residuals are positive; 1 where
/// all have one sign, of which nothing can be said.
pub(crate) fn too_few_p(residuals: &[f64]) -> f64 {
    let positive = residuals.iter().filter(|residual| **residual >= 0.0).count();
    let negative = residuals.len() - positive;
    if positive == 0 || negative == 0 {
        return 1.0;
    }
    let changes = residuals.windows(2).filter(|pair| matches!(pair, [a, b] if (*a >= 0.0) != (*b >= 0.0)));
    let observed = changes.count() + 1;
    let logs = log_factorials(residuals.len());
    let total = log_choose(&logs, residuals.len(), positive);
    let p: f64 = (2..=observed)
        .map(|runs| {
            let half = runs / 2;
            let ways = |more: usize, fewer: usize| {
                (log_choose(&logs, positive - 1, more) + log_choose(&logs, negative - 1, fewer) - total).exp()
            };
            // An even number has as many runs of either sign; of an odd one, either sign may have one more.
            if runs % 2 == 0 {
                2.0 * ways(half - 1, half - 1)
            } else {
                ways(half, half - 1) + ways(half - 1, half)
            }
        })
        .sum();
    p.min(1.0)
}

/// ln(0!), ln(1!) … ln(n!).
fn log_factorials(n: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let rest = (1..=n).map(|k| {
        sum += (k as f64).ln();
        sum
    });
    std::iter::once(0.0).chain(rest.collect::<Vec<_>>()).collect()
}

/// ln of the number of ways to choose k of n; minus infinity where there is none.
fn log_choose(logs: &[f64], n: usize, k: usize) -> f64 {
    let at = |index: usize| logs.get(index).copied().unwrap_or(f64::INFINITY);
    if k > n { f64::NEG_INFINITY } else { at(n) - at(k) - at(n - k) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact shares from enumerating all orders of the signs in Python (itertools.combinations).
    #[test]
    fn agrees_with_enumeration() {
        let signs =
            |text: &str| text.chars().map(|c| if c == '+' { 1.0 } else { -1.0 }).collect::<Vec<f64>>();
        for (text, expected) in [
            ("++++----", 2.0 / 70.0),
            ("+-+-+-+-+", 126.0 / 126.0),
            ("+++--+++++--++++", 280.0 / 1820.0),
            ("-----++++++----", 15.0 / 5005.0),
        ] {
            let p = too_few_p(&signs(text));
            assert!((p - expected).abs() < 1e-12, "{text}: {p}");
        }
        assert_eq!(too_few_p(&[1.0; 9]), 1.0);
        assert_eq!(too_few_p(&[]), 1.0);
    }
}
