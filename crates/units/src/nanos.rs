//! Durations in nanoseconds: `30s`, `2m`, `5ms`, `1.5h`; a bare number means seconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fathom_errors::Error;
use serde::{Deserialize, Serialize};

/// A duration, or a latency, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

impl Nanos {
    pub const fn secs(n: u64) -> Self {
        Nanos(n * 1_000_000_000)
    }

    pub const fn millis(n: u64) -> Self {
        Nanos(n * 1_000_000)
    }

    /// The number of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The duration in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Duration::from_nanos(nanos.0)
    }
}

impl FromStr for Nanos {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad =
            || Error::usage(format!("'{text}' is not a duration; write it like 30s, 2m, 500ms or 1.5h"));
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let unit = unit.trim();
        let scale =
            if unit.is_empty() { 1e9 } else { UNITS.iter().find(|(u, _)| *u == unit).ok_or_else(bad)?.1 };
        let value = number.parse::<f64>().map_err(|_| bad())? * scale;
        if !value.is_finite() || value > 1e18 {
            return Err(Error::usage(format!("'{text}' is longer than 31 years")));
        }
        Ok(Nanos(value.round() as u64))
    }
}

impl fmt::Display for Nanos {
    /// Formats three significant digits in a suitable unit: `950 ns`, `12.3 µs`, `4.56 ms`, `1.23 s`; from 2 minutes
    /// on, minutes or hours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            1_000..1_000_000 => (ns / 1e3, "µs"),
            1_000_000..1_000_000_000 => (ns / 1e6, "ms"),
            1_000_000_000..120_000_000_000 => (ns / 1e9, "s"),
            120_000_000_000..7_200_000_000_000 => (ns / 60e9, "min"),
            _ => (ns / 3600e9, "h"),
        };
        let decimals = if value >= 99.95 {
            0
        } else if value >= 9.995 {
            1
        } else {
            2
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_bare_seconds() {
        for (text, ns) in
            [("30", 30e9), ("30s", 30e9), ("5ms", 5e6), ("2m", 120e9), ("1.5h", 5400e9), ("7us", 7e3)]
        {
            assert_eq!(text.parse::<Nanos>().unwrap(), Nanos(ns as u64), "{text}");
        }
        for text in ["", "s", "5 parsecs", "-1s", "NaN", "9999999999999h"] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

    #[test]
    fn three_significant_digits() {
        assert_eq!(Nanos(950).to_string(), "950 ns");
        assert_eq!(Nanos(12_340).to_string(), "12.3 µs");
        assert_eq!(Nanos(4_560_000).to_string(), "4.56 ms");
        assert_eq!(Nanos(999_600).to_string(), "1000 µs");
        assert_eq!(Nanos::secs(90).to_string(), "90.0 s");
        assert_eq!(Nanos::secs(600).to_string(), "10.0 min");
    }
}
