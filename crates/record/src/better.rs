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
