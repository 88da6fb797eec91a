//! The result of a load on a server: the operations, their rate, and the latency of each kind by both clocks.

use fathom_stats::Histogram;
use serde::{Deserialize, Serialize};

use crate::disk::Latency;

/// One load, or one run of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The loaded server: the built-in server's engine, or the deployment's address.
    pub server: String,
    /// `load`, or the workload's name.
    pub workload: String,
    /// Connections, each with one operation under way.
    pub connections: u64,
    /// Its duration in seconds.
    pub seconds: f64,
    /// Operations that ended, and documents of batches.
    pub operations: u64,
    /// Operations completed in a second.
    pub per_s: f64,
    /// Operations a second that were due; absent if each operation began when the last one had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<f64>,
    /// Each kind of operation.
    pub by_operation: Vec<LoadOperation>,
    /// Processor time of the client's loops, as a share of the time available to them, 0 to 1.
    pub client_cpu_share: f64,
    /// Whether the client itself was busy, so that the server may be capable of more.
    pub client_limited: bool,
}

/// One kind of operation within a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadOperation {
    /// `READ`, `UPDATE`, `INSERT` …
    pub name: String,
    pub count: u64,
    pub failed: u64,
    /// Latency from the send. Absent if no operation succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Latency>,
    /// Latency from when it was due.
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
            service: Latency::from_histogram(service),
            response: Latency::from_histogram(response),
        }
    }
}
