//! A latency objective, as people write it: `p99<5ms`.

use std::str::FromStr;

use fathom_errors::{Error, Result};
use fathom_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::Histogram;

/// Above this share of its processors a load client may itself be the limit, so that its load says nothing about the server. The rest
/// is what bursts of replies need.
pub const MAX_CLIENT_CPU_SHARE: f64 = 0.7;

/// A quantile of the response time and its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Slo {
    text: String,
    quantile: f64,
    limit: Nanos,
}

impl FromStr for Slo {
    type Err = Error;

    /// `p99<5ms`, `p99.9 < 20ms`, `max<1s`, `p50<500us`.
    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::usage(format!("'{text}' is not a latency objective; write it like 'p99<5ms'"));
        let (left, right) = text.split_once('<').ok_or_else(bad)?;
        let left = left.trim();
        let quantile = match left {
            "max" => 1.0,
            _ => left.strip_prefix('p').and_then(|p| p.parse::<f64>().ok()).ok_or_else(bad)? / 100.0,
        };
        let limit: Nanos = right.trim_start_matches('=').trim().parse().map_err(|_| bad())?;
        if !(0.0..=1.0).contains(&quantile) || limit.get() == 0 {
            return Err(bad());
        }
        Ok(Slo { text: text.trim().to_owned(), quantile, limit })
    }
}

impl TryFrom<String> for Slo {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Slo> for String {
    fn from(slo: Slo) -> String {
        slo.text
    }
}

impl Slo {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a value of the quantile, in nanoseconds, keeps the limit.
    pub fn holds(&self, quantile_ns: u64) -> bool {
        quantile_ns < self.limit.get()
    }

    /// The quantile of a distribution, in nanoseconds; none where it is empty.
    pub fn of(&self, histogram: &Histogram) -> Option<u64> {
        if self.quantile >= 1.0 { histogram.max_ns() } else { histogram.quantile_ns(self.quantile) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_parse() {
        let slo: Slo = "p99<5ms".parse().unwrap();
        assert_eq!((slo.quantile, slo.limit), (0.99, Nanos::millis(5)));
        assert!(("p99.9 < 20ms".parse::<Slo>().unwrap().quantile - 0.999).abs() < 1e-9);
        assert_eq!("max<1s".parse::<Slo>().unwrap().quantile, 1.0);
        for bad in ["", "p99", "p99>5ms", "p101<5ms", "p99<", "p99<0", "pxx<5ms", "p99<5 parsecs"] {
            assert!(bad.parse::<Slo>().is_err(), "{bad}");
        }
    }
}
