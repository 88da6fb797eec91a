//! The result of a load on a server: what was done, how fast, and how long each operation took by both clocks.

use fathom_stats::Histogram;
use serde::{Deserialize, Serialize};

use crate::disk::Latency;

/// One load, or one run of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// What was loaded: the built-in server's engine, or the deployment's address.
    pub server: String,
    /// `load`, or the workload's name.
    pub workload: String,
    /// Connections, each with one operation under way.
    pub connections: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Operations that ended, and documents of batches.
    pub operations: u64,
    /// Per second.
    pub per_s: f64,
    /// Operations a second that were due; absent where the next began when the last had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<f64>,
    /// Each kind of operation.
    pub by_operation: Vec<LoadOperation>,
    /// Processor time of the client's loops, as a share of what they can have, 0 to 1.
    pub client_cpu_share: f64,
    /// Whether the client itself was busy, so that the server may be able to do more.
    pub client_limited: bool,
}

/// One kind of operation within a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadOperation {
    /// `READ`, `UPDATE`, `INSERT` …
    pub name: String,
    /// How many succeeded.
    pub count: u64,
    /// How many failed.
    pub failed: u64,
    /// From the send; absent where none succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Latency>,
    /// From when it was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Latency>,
}

impl LoadOperation {
    /// An operation with the latencies of those that succeeded.
    pub fn new(name: &str, count: u64, failed: u64, service: &Histogram, response: &Histogram) -> Self {
        LoadOperation {
            name: name.to_owned(),
            count,
            failed,
            service: Latency::of(service),
            response: Latency::of(response),
        }
    }
}
