//! Moments: at a fixed time, or so long before or behind the time at which they are drawn.

use bson::DateTime;

use super::super::item::Item;
use fathom_errors::Error;

/// A moment in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Moment {
    /// Since 1970.
    At(i64),
    /// Since now.
    FromNow(i64),
}

/// Milliseconds in a unit of time.
const UNITS: [(&str, i64); 6] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];
/// About 10,000 years.
const MOST_MS: i64 = 315_360_000_000_000;

impl Moment {
    /// Reads `now`, `-7d`, `+90s` or `2026-01-31T12:00:00Z`.
    pub(in super::super) fn read(item: &Item<'_>) -> Result<Moment, Error> {
        let text = item.text().unwrap_or_default();
        let found = match text {
            "now" => Some(Moment::FromNow(0)),
            _ => offset(text).map(Moment::FromNow).or_else(|| {
                let time: jiff::Timestamp = text.parse().ok()?;
                Some(Moment::At(time.as_millisecond()))
            }),
        };
        found.ok_or_else(|| {
            item.refuse("a moment is wanted: now, -7d, +90s (ms, s, m, h, d, w) or 2026-01-31T12:00:00Z")
        })
    }

    /// Milliseconds since 1970, if it were drawn now.
    pub(in super::super) fn millis(self) -> i64 {
        match self {
            Moment::At(millis) => millis,
            Moment::FromNow(offset) => DateTime::now().timestamp_millis().saturating_add(offset),
        }
    }
}

fn offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("-", rest) => (-1, rest),
        ("+", rest) => (1, rest),
        _ => return None,
    };
    let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
    let (count, unit) = rest.split_at_checked(digits)?;
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let offset = count.parse::<i64>().ok()?.checked_mul(*millis)?;
    (offset <= MOST_MS).then_some(sign * offset)
}

#[cfg(test)]
mod tests {
    use serde_yaml_ng::Value;

    use super::*;

    #[test]
    fn moments_are_read() {
        for (text, moment) in [
            ("now", Some(Moment::FromNow(0))),
            ("-7d", Some(Moment::FromNow(-604_800_000))),
            ("+90s", Some(Moment::FromNow(90_000))),
            ("-5ms", Some(Moment::FromNow(-5))),
            ("1970-01-02T00:00:00Z", Some(Moment::At(86_400_000))),
            ("7d", None),
            ("-7", None),
            ("-7y", None),
            ("-99999999999999999999d", None),
            ("-999999999999d", None),
            ("", None),
            ("yesterday", None),
        ] {
            let value = Value::String(text.to_owned());
            assert_eq!(Moment::read(&Item::root(&value)).ok(), moment, "{text}");
        }
    }
}
