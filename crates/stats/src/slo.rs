//! A latency objective as users write it: `p99<5ms`.

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

/// The objective where the user states none.
impl Default for Slo {
    fn default() -> Slo {
        Slo { text: "p99<10ms".to_owned(), quantile: 0.99, limit: Nanos::millis(10) }
    }
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
    /// The text as the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// In words: `p99 below 10 ms`.
    pub fn words(&self) -> String {
        let (quantile, limit) = self.text.split_once('<').unwrap_or((&self.text, ""));
        let limit = limit.trim_start_matches('=').trim();
        let unit_at = limit.find(|c: char| c.is_alphabetic()).unwrap_or(limit.len());
        let (number, unit) = limit.split_at(unit_at);
        format!("{} below {} {unit}", quantile.trim(), number.trim())
    }

    /// Whether a value of the quantile, in nanoseconds, keeps the limit.
    pub fn holds(&self, quantile_ns: u64) -> bool {
        quantile_ns < self.limit.get()
    }

    /// Whether a value of the quantile, in nanoseconds, differs from the limit by less than a share of it.
    pub fn is_close(&self, quantile_ns: u64, share: f64) -> bool {
        (quantile_ns as f64 / self.limit.get() as f64 - 1.0).abs() < share
    }

    /// Whether the quantile of so many operations is above the limit by more than a share of it, however fast those are that the distribution lacks.
    pub fn is_missed(&self, histogram: &Histogram, operations: f64, share: f64) -> bool {
        let limit_ns = self.limit.get() as f64 * (1.0 + share);
        let slow = histogram.buckets().filter(|(latency_ns, _)| *latency_ns as f64 >= limit_ns);
        slow.map(|(_, count)| count as f64).sum::<f64>() > (1.0 - self.quantile) * operations
    }

    /// The share of operations that may be slower than the limit.
    pub fn allowed_share(&self) -> f64 {
        1.0 - self.quantile
    }

    /// The share of a distribution that is not below the limit; `None` if it is empty.
    pub fn slow_share(&self, histogram: &Histogram) -> Option<f64> {
        let slow = histogram.buckets().filter(|(latency_ns, _)| !self.holds(*latency_ns));
        let count = slow.map(|(_, count)| count as f64).sum::<f64>();
        (!histogram.is_empty()).then(|| count / histogram.len() as f64)
    }

    /// The quantile of a distribution, in nanoseconds; `None` if it is empty.
    pub fn quantile_ns(&self, histogram: &Histogram) -> Option<u64> {
        if self.quantile >= 1.0 { histogram.max_ns() } else { histogram.quantile_ns(self.quantile) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_is_missed_once_enough_operations_were_slow() {
        let slo: Slo = "p99<10ms".parse().unwrap();
        let mut histogram = Histogram::new();
        (0..20).for_each(|_| histogram.record(11_000_000));
        (0..500).for_each(|_| histogram.record(1_000_000));
        assert!(slo.is_missed(&histogram, 1900.0, 0.0));
        assert!(!slo.is_missed(&histogram, 2100.0, 0.0) && !slo.is_missed(&histogram, 1900.0, 0.2));
        assert_eq!(slo.slow_share(&histogram), Some(20.0 / 520.0));
        assert_eq!(slo.slow_share(&Histogram::new()), None);
        let max: Slo = "max<10ms".parse().unwrap();
        assert!(max.is_missed(&histogram, 1e9, 0.0) && !max.is_missed(&Histogram::new(), 1.0, 0.0));
    }

    #[test]
    fn objectives_parse() {
        let slo: Slo = "p99<5ms".parse().unwrap();
        assert_eq!((slo.quantile, slo.limit), (0.99, Nanos::millis(5)));
        assert_eq!(Slo::default(), "p99<10ms".parse().unwrap());
        assert!(("p99.9 < 20ms".parse::<Slo>().unwrap().quantile - 0.999).abs() < 1e-9);
        assert_eq!("max<1s".parse::<Slo>().unwrap().quantile, 1.0);
        assert_eq!("p99 <= 10ms".parse::<Slo>().unwrap().words(), "p99 below 10 ms");
        for bad in ["", "p99", "p99>5ms", "p101<5ms", "p99<", "p99<0", "pxx<5ms", "p99<5 parsecs"] {
            assert!(bad.parse::<Slo>().is_err(), "{bad}");
        }
    }
}
