//! Formats counts and rates for sentences and tables: `89,300`, `1.2 million`, `24 h`.

/// `n` rounded to whole, with thousands separators.
pub fn count(n: f64) -> String {
    if !n.is_finite() {
        return "?".into();
    }
    let digits = format!("{:.0}", n.abs());
    let mut out = String::from(if n < 0.0 && digits != "0" { "-" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A rate with as many decimals as are meaningful: `0.42`, `97.5`, `12,345`.
pub fn decimal(n: f64) -> String {
    match n.abs() {
        a if !a.is_finite() => "?".into(),
        a if a < 10.0 => format!("{n:.2}"),
        a if a < 100.0 => format!("{n:.1}"),
        _ => count(n),
    }
}

/// A duration in seconds, in the unit in common use: `40 s`, `12 min`, `24 h`, `3.2 days`.
pub fn hours(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "?".into(),
        s if s < 100.0 => format!("{} s", decimal(s)),
        s if s < 6_000.0 => format!("{:.0} min", s / 60.0),
        s if s < 180_000.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// A duration in seconds, in whole seconds up to ten minutes: `0.50 s`, `100 s`, `12 min`, `24.0 h`.
pub fn time_span(seconds: f64) -> String {
    match seconds {
        s if s.is_finite() && (100.0..600.0).contains(&s) => format!("{s:.0} s"),
        s => hours(s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_in_seconds_up_to_ten_minutes() {
        assert_eq!(
            [0.5, 42.0, 100.4, 599.0, 720.0].map(time_span),
            ["0.50 s", "42.0 s", "100 s", "599 s", "12 min"]
        );
        assert_eq!(time_span(f64::NAN), "?");
    }

    #[test]
    fn reads_as_people_write() {
        assert_eq!(count(89_300.4), "89,300");
        assert_eq!(count(-1234.0), "-1,234");
        assert_eq!(count(f64::NAN), "?");
        assert_eq!(decimal(0.423), "0.42");
        assert_eq!(decimal(97.52), "97.5");
        assert_eq!(hours(86_400.0), "24.0 h");
        assert_eq!(hours(42.0), "42.0 s");
    }
}
