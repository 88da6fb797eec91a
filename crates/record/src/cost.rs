//! What a cause costs, in the terms of who waits.

use fathom_units::{Nanos, count};
use serde::{Deserialize, Serialize};

/// From when a cost counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// From when an operation was due, so that operations that a stall held up count with what they waited.
    Response,
    /// From the send of an operation.
    Service,
    /// From its arrival at the server; the client was not watched.
    Server,
}

/// The cost of a cause in the users' terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// From when the times below count.
    pub clock: Clock,
    /// By how much the mean time of an operation would fall without the cause, as a share of it, 0 to 1.
    pub share: f64,
    /// 95 % interval of that.
    pub interval: (f64, f64),
    /// By how much the mean time would fall, in microseconds.
    pub mean_us: f64,
    /// The 99th percentile of the slowest kind of operation as measured, in microseconds; absent without a client. What it would be
    /// without the cause is not known: percentiles do not add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// Operations a second that would be served besides, where more are asked for than are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unserved_per_s: Option<f64>,
    /// How it was computed, as a sentence.
    pub basis: String,
}

impl Cost {
    /// Whether it is known to within a factor of two.
    pub fn is_known(&self) -> bool {
        let (low, high) = self.interval;
        low > 0.0 && high <= 2.0 * low
    }

    /// The cost with its interval as the end of a sentence.
    pub fn words(&self) -> String {
        let time = |us: f64| Nanos((us.max(0.0) * 1e3).round() as u64);
        let whole_us = if self.share > 0.0 { self.mean_us / self.share } else { 0.0 };
        let clock = match self.clock {
            Clock::Response => "response time",
            Clock::Service => "time from the send",
            Clock::Server => "time within the server",
        };
        let mut words = format!(
            "{} of the mean {clock} of {}, {:.0} % ({:.0} to {:.0} %)",
            time(self.mean_us),
            time(whole_us),
            100.0 * self.share,
            100.0 * self.interval.0,
            100.0 * self.interval.1
        );
        if let Some(unserved) = self.unserved_per_s.filter(|unserved| *unserved >= 1.0) {
            words.push_str(&format!(", and {} operations a second that are not served", count(unserved)));
        }
        words.push('.');
        words
    }
}
