//! The ladder of queues that an operation passes, from the client down, each with its cap; and the gain of a higher cap.
//!
//! A rung whose cap could not be read is kept, so that a reader sees that it was examined.

use serde::{Deserialize, Serialize};

/// One queue on the way down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueRung {
    /// Its stable name: `connections`, `read tickets`, `write tickets`, or `device NAME`.
    pub name: String,
    /// The number that it admits at once, if that could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<f64>,
    /// The number of its samples.
    pub samples: u64,
    /// The mean number within it.
    pub mean: f64,
    /// The 95th percentile of the number within it.
    pub p95: f64,
    /// The share of samples at 95 % of the cap or more, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_at_cap: Option<f64>,
    /// The mean number that waited above it while it was at its cap. Absent if no queue above is visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_above: Option<f64>,
    /// Spearman's rho between the number waiting and the time that they waited, second by second, and its p-value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_follows: Option<(f64, f64)>,
    /// Whether it holds operations back: it is full, more wait above it, and waits are longer the more there are.
    pub limits: bool,
    /// The reason why it does or does not limit, as a sentence.
    pub words: String,
}

/// The effect of one other cap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForecastOption {
    pub cap: f64,
    /// Mean time of a request, including its wait above the queue, in microseconds.
    pub mean_us: f64,
    /// The decrease compared with the present cap, as a share of its mean time.
    pub share: f64,
    /// 95 % interval of that.
    pub interval: (f64, f64),
}

/// The effects of other caps: R(q) = E[R_dev(min(N, q)) + max(0, N - q) / X_dev(q)] over the backlog N that was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueForecast {
    /// The present limit of requests.
    pub cap: f64,
    /// Mean time of a request by the same formula, with the present cap, in microseconds.
    pub mean_us: f64,
    /// Other caps, rising, up to the one at which the device gives no more throughput.
    pub options: Vec<ForecastOption>,
    /// The depth from which the device gives no more throughput: a higher cap only moves the wait.
    pub flat_from: f64,
    /// Whether the device's curve was measured to be flat there, rather than not measured any deeper.
    pub flat_seen: bool,
    /// Evidence and assumptions, a sentence each.
    pub basis: Vec<String>,
}

/// The queues of one server and one of its devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueLadder {
    /// The server's number in the run.
    pub member: String,
    /// The device at the bottom, if one could be watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The window, in nanoseconds since the run's start.
    pub window_ns: (u64, u64),
    /// The rungs from the client down.
    pub rungs: Vec<QueueRung>,
    /// The forecast for other caps of the device's queue, if its curve is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<QueueForecast>,
}

impl QueueLadder {
    /// The lowest rung that limits: those above it are full because of it.
    pub fn limiter(&self) -> Option<&QueueRung> {
        self.rungs.iter().rev().find(|rung| rung.limits)
    }
}
