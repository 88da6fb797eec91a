//! The ladder of queues that an operation passes, from the client down, each with its cap; and what a higher cap would bring.
//!
//! A rung without a cap that could be read is kept, so that a reader sees that it was looked at.

use serde::{Deserialize, Serialize};

/// One queue on the way down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueRung {
    /// Its stable name: `connections`, `read tickets`, `write tickets`, or `device NAME`.
    pub name: String,
    /// How many it lets through at once; absent where that could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<f64>,
    /// How many samples of it there were.
    pub samples: u64,
    /// How many were within it, on average.
    pub mean: f64,
    /// The 95th percentile of that.
    pub p95: f64,
    /// The share of samples at 95 % of the cap or more, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_at_cap: Option<f64>,
    /// How many waited above it while it was at its cap, on average; absent where nothing above could be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_above: Option<f64>,
    /// Spearman's rho of the number waiting and the time they waited, second by second, and its p.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_follows: Option<(f64, f64)>,
    /// Whether it is what holds operations back: full, with more above it, and longer waits the more there are.
    pub limits: bool,
    /// Why it is or is not, as a sentence.
    pub words: String,
}

/// What one other cap would bring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForecastOption {
    /// The cap.
    pub cap: f64,
    /// Mean time of a request, its wait above the queue included, in microseconds.
    pub mean_us: f64,
    /// By how much that is less than with the present cap, as a share of it.
    pub share: f64,
    /// 95 % interval of that.
    pub interval: (f64, f64),
}

/// What other caps would bring: R(q) = E[R_dev(min(N, q)) + max(0, N - q) / X_dev(q)] over the backlog N that was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueForecast {
    /// The present cap.
    pub cap: f64,
    /// Mean time of a request by the same formula, with the present cap, in microseconds.
    pub mean_us: f64,
    /// Other caps, rising, up to where the device gives no more.
    pub options: Vec<ForecastOption>,
    /// The depth from which the device gives no more throughput: a higher cap only moves the wait.
    pub flat_from: f64,
    /// Whether the device's curve really was flat there, or was not measured any deeper.
    pub flat_seen: bool,
    /// What it rests on and what was assumed, a sentence each.
    pub basis: Vec<String>,
}

/// The queues of one server and one of its devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueLadder {
    /// Whose: a server's number in the run.
    pub member: String,
    /// The device at the bottom, if one could be watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The window, in nanoseconds since the run's start.
    pub window_ns: (u64, u64),
    /// From the client down.
    pub rungs: Vec<QueueRung>,
    /// What another cap of the device's queue would bring, where its curve is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<QueueForecast>,
}

impl QueueLadder {
    /// The lowest rung that limits: those above it are full because it is.
    pub fn limiter(&self) -> Option<&QueueRung> {
        self.rungs.iter().rev().find(|rung| rung.limits)
    }
}
