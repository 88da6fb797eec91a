//! The times of log lines: `2024-06-01T13:24:10.034+02:00` since 4.4, `...+0200` before, `...Z` from some tools.

/// Milliseconds since 1970; `None` for anything else, and for years before 1970 or after 9999.
pub(super) fn unix_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let field = |from: usize, to: usize| {
        let digits = bytes.get(from..to)?;
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| digits.iter().fold(0_i64, |number, digit| number * 10 + i64::from(digit - b'0')))
    };
    let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    let separated =
        is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':') && is(19, b'.');
    if !separated {
        return None;
    }
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    let (hour, minute, second, ms) = (field(11, 13)?, field(14, 16)?, field(17, 19)?, field(20, 23)?);
    let in_range = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range {
        return None;
    }
    let offset_minutes = match bytes.get(23)? {
        b'Z' => 0,
        sign @ (b'+' | b'-') => {
            let minutes_at = if is(26, b':') { 27 } else { 26 };
            let minutes = field(24, 26)? * 60 + field(minutes_at, minutes_at + 2)?;
            if *sign == b'+' { minutes } else { -minutes }
        }
        _ => return None,
    };
    let seconds = (days(year, month, day) * 24 + hour) * 3600 + (minute - offset_minutes) * 60 + second;
    Some(seconds * 1000 + ms)
}

/// Days since 1970-01-01 in the Gregorian calendar: years begin in March, so that the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    // 1970-01-01 is day 719468 of that count.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_log_are_read() {
        // By `date -d ... +%s%3N`.
        for (text, expected) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2024-02-29T23:59:59.999+00:00", 1_709_251_199_999),
            ("2024-06-01T13:24:10.034+02:00", 1_717_241_050_034),
            ("2026-11-21T05:35:53.472+0000", 1_795_239_353_472),
            ("2026-11-21T05:35:53.472-0530", 1_795_259_153_472),
            ("2100-03-01T00:00:00.000Z", 4_107_542_400_000),
        ] {
            assert_eq!(unix_ms(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2024-06-01",
            "2024-06-01T13:24:10.034",
            "2024-06-01T13:24:10.034*00:00",
            "2024-13-01T13:24:10.034Z",
        ] {
            assert_eq!(unix_ms(text), None, "{text}");
        }
    }
}
