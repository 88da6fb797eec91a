//! The direction in which a figure is better.

use serde::{Deserialize, Serialize};

/// The direction in which a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BetterDirection {
    /// More is better, as with throughput.
    Higher,
    /// Less is better, as with latency.
    Lower,
}

impl BetterDirection {
    /// Whether `b` is better than `a`, or `None` if they are equal or one is not finite. The difference decides and not the ratio, so that a
    /// count that was zero has a direction too.
    pub fn is_better(self, a: f64, b: f64) -> Option<bool> {
        match self {
            _ if a == b || !a.is_finite() || !b.is_finite() => None,
            BetterDirection::Higher => Some(b > a),
            BetterDirection::Lower => Some(b < a),
        }
    }
}
