//! Times in UTC for lists of runs: the start of a run, and the time back to which a filter reaches.

use std::fmt;
use std::time::SystemTime;

use fathom_errors::{Error, Result};
use fathom_units::Nanos;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

const DAY_NS: f64 = 86_400e9;

/// A moment in UTC. Displays to the minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcTime(Timestamp);

impl UtcTime {
    pub fn now() -> UtcTime {
        UtcTime(Timestamp::now())
    }

    /// Parses the time of a manifest.
    pub fn parse(text: &str) -> Option<UtcTime> {
        text.parse().ok().map(UtcTime)
    }

    /// The time that lies a span earlier, or the earliest time if that underflows.
    #[must_use]
    pub fn before(self, span: Nanos) -> UtcTime {
        UtcTime(self.0.checked_sub(std::time::Duration::from(span)).unwrap_or(Timestamp::MIN))
    }

    /// Seconds from `earlier` to this one.
    pub fn seconds_since(self, earlier: UtcTime) -> f64 {
        self.0.duration_since(earlier.0).as_secs_f64()
    }

    /// The time back to which a filter reaches: a time until now (`7d`, `36h`), or a day (`2026-11-21`, its beginning in UTC).
    ///
    /// # Errors
    /// When it is neither.
    pub fn back_to(text: &str) -> Result<UtcTime> {
        if let Ok(day) = text.parse::<Date>() {
            let begin = day.to_zoned(TimeZone::UTC).map_err(|_| bad(text))?;
            return Ok(UtcTime(begin.timestamp()));
        }
        Ok(UtcTime::now().before(days(text).map_err(|_| bad(text))?))
    }

    /// `Nov 21 09:30`: without the year, which the folder's name has.
    pub fn short(self) -> String {
        self.0.strftime("%b %d %H:%M").to_string()
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.strftime("%Y-%m-%d %H:%M"))
    }
}

impl From<SystemTime> for UtcTime {
    fn from(time: SystemTime) -> UtcTime {
        UtcTime(Timestamp::try_from(time).unwrap_or(Timestamp::MIN))
    }
}

fn bad(text: &str) -> Error {
    Error::usage(format!("'{text}' is neither a time nor a day; write it like 7d, 36h or 2026-11-21"))
}

/// A length of time in days, weeks, or the units of [`Nanos`]; a bare number is refused.
///
/// # Errors
/// When it is not a length of time.
pub fn days(text: &str) -> Result<Nanos> {
    let bad = || Error::usage(format!("'{text}' is not a length of time; write it like 30d, 2w or 36h"));
    let text = text.trim();
    let (number, scale) = match (text.strip_suffix('d'), text.strip_suffix('w')) {
        (Some(number), _) => (number, DAY_NS),
        (_, Some(number)) => (number, 7.0 * DAY_NS),
        _ if text.ends_with(|c: char| c.is_ascii_digit()) => return Err(bad()),
        _ => return text.parse().map_err(|_| bad()),
    };
    let digits = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let ns = number.parse::<f64>().ok().filter(|_| digits).ok_or_else(bad)? * scale;
    // A century: a longer time is a mistake.
    (ns.is_finite() && ns <= 36_525.0 * DAY_NS).then_some(Nanos(ns.round() as u64)).ok_or_else(bad)
}
