//! Formats numbers as Java does: `Double.toString` in reports, `DecimalFormat("#.##")` in status lines.
//!
//! Scripts compare reports as text and expect `605.0` and `1.2345E7`. The decimal separator is always a point, whereas Java's
//! second form follows the locale of the machine.

/// `Double.toString`: the shortest digits that read back as the same number, plain from 1e-3 up to 1e7, with an exponent beyond.
///
/// The digits are those of Java 19 and later, the nearest of the shortest. Older versions sometimes print another last digit or
/// one more (9891.196834817013 for 9891.196834817012), which read back as the same number.
pub fn java_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return with_point(&format!("{value}"));
    }
    let shortest = format!("{value:e}");
    // If one digit would be enough, Java takes the nearest number of two digits: 4.9E-324, not 5.0E-324.
    let text = if shortest.contains('.') { shortest } else { format!("{value:.1e}") };
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}E{exponent}", with_point(digits))
}

fn with_point(digits: &str) -> String {
    if digits.contains('.') { digits.to_owned() } else { format!("{digits}.0") }
}

/// `DecimalFormat("#.##")`: at most two decimals and none that are zero, halves to the even neighbour.
pub(super) fn two_decimals(value: f64) -> String {
    if !value.is_finite() {
        return java_double(value);
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn doubles_as_in_java() {
        for (value, text) in [
            (605.0, "605.0"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.29, "0.29"),
            (9891.196834817013, "9891.196834817012"),
            (1e-3, "0.001"),
            (1e-4, "1.0E-4"),
            (9.999e-4, "9.999E-4"),
            (9_999_999.0, "9999999.0"),
            (9_999_999.999, "9999999.999"),
            (1e7, "1.0E7"),
            (12_345_000.0, "1.2345E7"),
            (-12_345_678.5, "-1.23456785E7"),
            (1.0 / 3.0, "0.3333333333333333"),
            (1e23, "1.0E23"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (5e-324, "4.9E-324"),
            (2e-323, "2.0E-323"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(java_double(value), text);
        }
    }

    #[test]
    fn two_decimals_at_most() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (724.979, "724.98"),
            (100.0, "100"),
            (1e6, "1000000"),
            (0.125, "0.12"),
            (0.375, "0.38"),
            (0.004, "0"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(two_decimals(value), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            let text = java_double(value);
            if value.is_nan() {
                prop_assert_eq!(text, "NaN");
            } else if value.is_finite() {
                prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
                prop_assert!(text.contains('.'));
            }
        }
    }
}
