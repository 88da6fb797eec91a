//! Formats ratios and their targets.

/// The least and the most of some ratios.
pub(crate) fn span(ratios: &[f64]) -> String {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:.2}-{most:.2}")
}

/// A word for a target that was met or missed.
pub(crate) fn verdict(ok: bool) -> &'static str {
    if ok { "ok" } else { "missed" }
}
