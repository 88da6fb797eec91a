//! Shares of trials, such as the share of operations that failed.

/// The 97.5th percentile of the standard normal distribution.
const Z_95: f64 = 1.959_963_984_540_054;

/// The 95 % interval of the share of `hits` among `trials` by Wilson's score (E. B. Wilson, Journal of the American Statistical Association 22,
/// 1927, doi:10.1080/01621459.1927.10502953); `None` without a trial.
pub fn wilson_interval(hits: u64, trials: u64) -> Option<(f64, f64)> {
    if trials == 0 {
        return None;
    }
    let (n, z2) = (trials as f64, Z_95 * Z_95);
    let share = hits.min(trials) as f64 / n;
    let scale = 1.0 + z2 / n;
    let center = (share + z2 / (2.0 * n)) / scale;
    let half = Z_95 / scale * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    Some(((center - half).max(0.0), (center + half).min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilsons_interval_has_the_values_of_its_tables() {
        let rounded = |hits, trials| {
            let (low, high) = wilson_interval(hits, trials).unwrap();
            ((low * 1e3).round(), (high * 1e3).round())
        };
        // Newcombe 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<857::AID-SIM777>3.0.CO;2-E, table I, method 3.
        assert_eq!((rounded(81, 263), rounded(0, 20)), ((255.0, 366.0), (0.0, 161.0)));
        assert!(wilson_interval(0, 0).is_none());
    }
}
