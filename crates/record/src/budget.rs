//! The layers of the mean time of an operation, which add up to the time that the client saw, or state the difference.

use serde::{Deserialize, Serialize};

/// One layer's part of the mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Its stable name (`schedule`, `network`, `ticket`, `page_read` …; the table is in `docs/explain.md`).
    pub name: String,
    /// Its time in the mean operation, in microseconds.
    pub mean_us: f64,
    /// 95 % interval of it, if there were enough windows to resample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_us: Option<(f64, f64)>,
    /// Its share of the time that the client saw, 0 to 1.
    pub share: f64,
    /// The series that it was computed from.
    #[serde(default)]
    pub series: Vec<String>,
    /// Layers within this one, which are part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<Layer>,
}

/// The layers of one kind of operation, on one server, over one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The server's number in the run.
    pub member: String,
    /// The kind of operations: `reads`, `writes`, or `all`.
    pub operations: String,
    /// The number of operations.
    pub count: f64,
    /// The window, in nanoseconds since the run's start.
    pub window_ns: (u64, u64),
    /// Mean response time that the client saw, in microseconds; absent if only the server was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_mean_us: Option<f64>,
    /// Mean time within the server, in microseconds.
    pub server_mean_us: f64,
    /// The layers, from the client down.
    pub layers: Vec<Layer>,
    /// The time that the layers do not explain, in microseconds. Negative if the layers add up to more than the whole.
    pub unexplained_us: f64,
    /// The sum of the layers divided by the time that they should add up to.
    pub closure: f64,
    /// Whether that is close enough: |1 - closure| at most max(5 %, 3 standard errors).
    pub closes: bool,
    /// The readings that are missing, and the layers that lack them, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl Budget {
    /// The mean of its operation in microseconds: as the client saw it, else within the server.
    pub fn whole_us(&self) -> f64 {
        self.client_mean_us.unwrap_or(self.server_mean_us)
    }
}
