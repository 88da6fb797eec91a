//! Adjusts the p-values of many tests for the number of tests.

/// p-values adjusted by Holm's method (Scandinavian Journal of Statistics 6, 1979): the chance of even one false alarm among all
/// stays at the level that an adjusted value is compared with. In the order given.
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|one, two| value(ps, *one).total_cmp(&value(ps, *two)));
    let mut adjusted = vec![1.0; ps.len()];
    let mut floor = 0.0f64;
    for (rank, index) in order.into_iter().enumerate() {
        floor = floor.max(value(ps, index) * (ps.len() - rank) as f64).min(1.0);
        if let Some(place) = adjusted.get_mut(index) {
            *place = floor;
        }
    }
    adjusted
}

/// p-values adjusted by the method of Benjamini and Hochberg (Journal of the Royal Statistical Society B 57, 1995): among all that
/// are called true, the share of false ones stays at the level. In the order given.
pub fn benjamini_hochberg(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|one, two| value(ps, *two).total_cmp(&value(ps, *one)));
    let mut adjusted = vec![1.0; ps.len()];
    let mut ceiling = 1.0f64;
    for (above, index) in order.into_iter().enumerate() {
        let rank = (ps.len() - above) as f64;
        ceiling = ceiling.min(value(ps, index) * ps.len() as f64 / rank);
        if let Some(place) = adjusted.get_mut(index) {
            *place = ceiling;
        }
    }
    adjusted
}

fn value(ps: &[f64], index: usize) -> f64 {
    ps.get(index).copied().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R 4.3: p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.5), "holm") and "BH".
    #[test]
    fn agrees_with_r() {
        let ps = [0.01, 0.04, 0.03, 0.005, 0.5];
        let near = |found: Vec<f64>, expected: [f64; 5]| {
            found.iter().zip(expected).all(|(one, two)| (one - two).abs() < 1e-12)
        };
        assert!(near(holm(&ps), [0.04, 0.09, 0.09, 0.025, 0.5]), "{:?}", holm(&ps));
        assert!(near(benjamini_hochberg(&ps), [0.025, 0.05, 0.05, 0.025, 0.5]));
        assert!(holm(&[]).is_empty() && benjamini_hochberg(&[0.2]) == [0.2]);
    }
}
