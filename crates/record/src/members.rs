//! A comparison of the servers of a run: the requests of each to its devices for the same load, and the response times of these.

use serde::{Deserialize, Serialize};

/// One server over the window; a figure that is not available is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberRow {
    /// Its number in the run.
    pub member: String,
    /// Its storage engine, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Its state in the set (`primary`, `secondary`), if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The shard, else the set, that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// Its mean lag behind the primary, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_ms: Option<f64>,
    /// The time from the oldest entry of its oplog to the newest, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oplog_s: Option<f64>,
    /// Chunks of the collection watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<f64>,
    /// Entries of the oplog that it applied a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_per_s: Option<f64>,
    /// Operations a second of all members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_per_s: Option<f64>,
    /// Mean time of a device read, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_read_us: Option<f64>,
    /// Mean time of a device write, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_write_us: Option<f64>,
    /// Device reads a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_reads_per_s: Option<f64>,
    /// Device writes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_writes_per_s: Option<f64>,
    /// Bytes that devices read for each operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_per_operation_bytes: Option<f64>,
    /// Bytes that devices wrote for each operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_per_operation_bytes: Option<f64>,
    /// Bytes that the engine wrote for each operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_written_per_operation_bytes: Option<f64>,
    /// Devices that other servers of the run use too: their figures include all of these servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_devices: Vec<String>,
}
