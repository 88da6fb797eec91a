//! The percentiles that are asked for, and how the report names them.
//!
//! A list that cannot be read is worth a warning and YCSB's own three, as there. So is a percentile outside of 0 to 100, which
//! YCSB takes for the nearest end without a word.

use super::java_double;

/// Where no list is given, or none that can be read.
pub(super) const DEFAULT: [f64; 3] = [50.0, 95.0, 99.0];

/// Reads `50,95,99.9`; commas at the end do not count, as in Java.
pub(super) fn parse(list: &str) -> Option<Vec<f64>> {
    let number = |text: &str| text.trim().parse().ok().filter(|number| (0.0..=100.0).contains(number));
    list.trim().trim_end_matches(',').split(',').map(number).collect()
}

/// `50th`, `1st`, `11th`; a fraction has no ending: `99.9`.
pub(super) fn label(percentile: f64) -> String {
    if percentile.fract() != 0.0 {
        return java_double(percentile);
    }
    let whole = percentile as u64;
    let ending = match (whole % 100, whole % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{whole}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_ordinals_or_bare_fractions() {
        let percentiles =
            [0.0, 1.0, 2.0, 3.0, 4.0, 11.0, 12.0, 13.0, 21.0, 22.0, 50.0, 100.0, 99.9, 99.99, 0.0001];
        let labels: Vec<String> = percentiles.into_iter().map(label).collect();
        assert_eq!(
            labels.join(" "),
            "0th 1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 50th 100th 99.9 99.99 1.0E-4"
        );
    }

    #[test]
    fn lists_are_read_or_refused_whole() {
        assert_eq!(parse("50,95, 99.9 "), Some(vec![50.0, 95.0, 99.9]));
        assert_eq!(parse("99,,"), Some(vec![99.0]));
        for wrong in ["", "abc", "50,,99", "50;99", "101", "-1", "NaN", "50,9x"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
