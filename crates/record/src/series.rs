//! One reading of a series: name, unit, the window it covers, the value.
//!
//! While a run goes, readings are JSON lines, because a Parquet file without its footer cannot be read at all
//! and a killed run must be. [`crate::seal`] turns them into Parquet files, part by part.

use serde::{Deserialize, Serialize};

/// One value of one series over one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// What was read (`disk.read.per_s`, `device.vda.r_await_ms`).
    pub name: String,
    /// Its unit (`1/s`, `ns`, `MiB/s`, `%`).
    pub unit: String,
    /// Start of the window, nanoseconds since the run's start.
    pub begin_ns: u64,
    /// End of the window.
    pub end_ns: u64,
    /// The value; a reading that is not a number is not written at all.
    pub value: f64,
}

impl Reading {
    /// A reading over a window.
    pub fn new(name: impl Into<String>, unit: &str, window_ns: (u64, u64), value: f64) -> Self {
        Reading {
            name: name.into(),
            unit: unit.to_owned(),
            begin_ns: window_ns.0,
            end_ns: window_ns.1,
            value,
        }
    }
}
