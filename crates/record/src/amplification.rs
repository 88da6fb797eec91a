//! The bytes written and read for each byte of a user, step by step from the client to the device, and the space that they take.
//!
//! A step is the bytes that the level below wrote divided by those of the level above, so the product of the steps is the whole.

use serde::{Deserialize, Serialize};

/// One level of the way down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WrittenLevel {
    /// `user`, `journal`, `engine`, `volume`, `device`, or `process` in place of the last two.
    pub name: String,
    /// Bytes written within the window.
    pub bytes: f64,
    /// Bytes for each byte of the user.
    pub per_user_byte: f64,
    /// Bytes divided by those of the level above.
    pub step: f64,
    /// Bytes for each write operation of the user, if those were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_operation_bytes: Option<f64>,
    /// Parts of it by name (`checkpoint`, `flush`, `compaction`, a device), in bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<(String, f64)>,
}

/// The amplification of one server over one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Amplification {
    /// The server's number in the run.
    pub member: String,
    /// The window, in nanoseconds since the run's start: from the end of one checkpoint to the end of another, if there were two.
    pub window_ns: (u64, u64),
    /// Whether the window lies between ends of checkpoints, so that about as many bytes were dirty at its start as at its end.
    pub between_checkpoints: bool,
    /// Bytes written at each level, from the user down.
    pub written: Vec<WrittenLevel>,
    /// The slope of device bytes over user bytes through the windows within: the amplification that a longer run tends to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope: Option<f64>,
    /// The number of windows that the slope is from.
    pub windows: u64,
    /// Their coefficient of variation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation: Option<f64>,
    /// Whether it has settled: at least 5 windows that vary by less than 5 %.
    pub settled: bool,
    /// Bytes that devices read for each byte returned to users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_per_returned_byte: Option<f64>,
    /// Bytes that devices read for each read operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_per_operation_bytes: Option<f64>,
    /// Device reads for each read operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_per_operation: Option<f64>,
    /// Bytes allocated for each logical byte; below 1 if compression saves more than indexes and free space take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<f64>,
    /// Estimates and figures that could not be read, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Amplification {
    /// One level by name.
    pub fn level(&self, name: &str) -> Option<&WrittenLevel> {
        self.written.iter().find(|level| level.name == name)
    }

    /// Bytes that the lowest visible level wrote for each byte of the user.
    pub fn whole(&self) -> Option<f64> {
        self.written.last().map(|level| level.per_user_byte)
    }
}
