//! Spearman's rank correlation with a permutation test: do two quantities rise together?
//!
//! Ranks, because the relation of backlog to waiting is monotone and far from straight; a permutation test,
//! because the samples are small and full of ties. It refuses fewer than four pairs, where no order of the data
//! could be called surprising.

use crate::Seeded;

/// A rank correlation and the chance of one as strong without any relation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankCorrelation {
    /// Spearman's rho, -1 to 1.
    pub rho: f64,
    /// Two-sided permutation p, (1 + b) / (1 + B), never zero.
    pub p: f64,
}

/// Correlates pairs `(x, y)`; ties share their mean rank. `None` under 4 pairs, where a value is not finite, or
/// where one side is constant. `permutations` is B; 999 resolves 0.1 %.
pub fn spearman(pairs: &[(f64, f64)], permutations: usize, stream: &mut Seeded) -> Option<RankCorrelation> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// scipy.stats.spearmanr, and its p by scipy.stats.permutation_test over all 8! orders (exact).
    #[test]
    fn agrees_with_scipy() {
        let pairs =
            [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (3.0, 3.0), (5.0, 7.0), (6.0, 5.0), (7.0, 5.0), (8.0, 9.0)];
        let found = spearman(&pairs, 20_000, &mut Seeded::from_seed(4)).unwrap();
        assert!((found.rho - 0.8915662650602408).abs() < 1e-12);
        assert!((found.p - 0.004563492063492064).abs() < 0.002, "{}", found.p);
    }

    #[test]
    fn the_error_rate_is_nominal_and_relations_are_found() {
        let mut stream = Seeded::from_seed(6);
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
        let mut stream = Seeded::from_seed(1);
        assert_eq!(spearman(&[(1.0, 1.0); 6], 99, &mut stream), None);
        assert_eq!(spearman(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)], 99, &mut stream), None);
        assert_eq!(spearman(&[(f64::NAN, 1.0); 6], 99, &mut stream), None);
        let perfect: Vec<(f64, f64)> = (0..9).map(|x| (f64::from(x), -f64::from(x))).collect();
        let found = spearman(&perfect, 999, &mut stream).unwrap();
        assert!((found.rho + 1.0).abs() < 1e-12 && found.p < 0.005);
    }
}
