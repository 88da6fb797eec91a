//! Servers of a run side by side: what each asks of its devices for the same load, and how fast those answer.

use serde::{Deserialize, Serialize};

/// One server over the window; a figure that could not be had is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberRow {
    /// Its number in the run.
    pub member: String,
    /// Its storage engine, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// What it is: `primary`, `secondary`; the set's word where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The shard, else the set, that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// How far it was behind the primary on average, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_ms: Option<f64>,
    /// From the oldest entry of its oplog to the newest, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oplog_s: Option<f64>,
    /// Chunks of the collection watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<f64>,
    /// Entries of the oplog that it applied a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_per_s: Option<f64>,
    /// Operations a second.
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
    /// Devices that other servers of the run use too: their figures are those of all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_devices: Vec<String>,
}
