//! The slow operations of a server's log, counted by shape, to show the operations that read the disk.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SlowOperation;

/// The slow operations of one shape in one namespace, summed up. A figure that no line has is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShapeTotals {
    /// The namespace, as `database.collection`.
    pub namespace: String,
    /// The operation's name and its command without values (`find { filter: { user: ? } }`).
    pub shape: String,
    /// Operations that were logged.
    pub count: u64,
    /// Their time on the server, in seconds.
    pub time_s: f64,
    /// The longest, in milliseconds.
    pub max_ms: u64,
    /// Bytes that they read into the engine's cache, from the disk or the page cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// The time of these reads, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_s: Option<f64>,
    /// Processor time, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents_examined: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<u64>,
    /// Their waits, in seconds: `lock`, `ticket`, `flow_control`, `cache`, `replication`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits_s: BTreeMap<String, f64>,
    /// mongod's plan summaries, with the number of operations of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub plans: BTreeMap<String, u64>,
    /// Names of applications, with the number of operations of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub applications: BTreeMap<String, u64>,
    /// Drivers, with the number of operations of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drivers: BTreeMap<String, u64>,
    /// The number of operations that ended during an incident of the recording.
    #[serde(default)]
    pub in_incidents: u64,
    /// The part of the time in which the database's disk had requests, as a mean over the ten seconds in which each operation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_busy_share: Option<f64>,
}

impl ShapeTotals {
    /// Adds one operation to all sums.
    pub fn add(&mut self, operation: &SlowOperation, driver: Option<&str>) {
        self.count += 1;
        self.time_s += operation.duration_ms as f64 / 1e3;
        self.max_ms = self.max_ms.max(operation.duration_ms);
        let add = |sum: &mut Option<u64>, value: Option<u64>| {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0).saturating_add(value));
            }
        };
        let add_s = |sum: &mut Option<f64>, us: Option<u64>| {
            if let Some(us) = us {
                *sum = Some(sum.unwrap_or(0.0) + us as f64 / 1e6);
            }
        };
        add(&mut self.read_bytes, operation.read_bytes);
        add_s(&mut self.read_s, operation.read_us);
        add_s(&mut self.processor_s, operation.processor_us);
        add(&mut self.documents_examined, operation.documents_examined);
        add(&mut self.returned, operation.returned);
        for (name, us) in [
            ("lock", operation.lock_wait_us),
            ("ticket", operation.ticket_wait_us),
            ("flow_control", operation.flow_control_wait_us),
            ("cache", operation.cache_wait_us),
            ("replication", operation.replication_wait_ms.map(|ms| ms.saturating_mul(1000))),
        ] {
            if let Some(us) = us.filter(|us| *us > 0) {
                *self.waits_s.entry(name.to_owned()).or_default() += us as f64 / 1e6;
            }
        }
        for (names, name) in [
            (&mut self.plans, operation.plan.as_deref()),
            (&mut self.applications, operation.application.as_deref()),
            (&mut self.drivers, driver),
        ] {
            add_name(names, name);
        }
    }
}

/// The name of the most operations.
pub fn most_frequent(names: &BTreeMap<String, u64>) -> Option<&str> {
    names.iter().max_by_key(|(_, count)| **count).map(|(name, _)| name.as_str())
}

/// Counts a name. Clients choose names of applications, so their number is bounded.
fn add_name(names: &mut BTreeMap<String, u64>, name: Option<&str>) {
    const MAX_NAMES: usize = 20;
    const OTHERS: &str = "others";
    let Some(name) = name else { return };
    let name = if names.contains_key(name) || names.len() < MAX_NAMES { name } else { OTHERS };
    *names.entry(name.to_owned()).or_default() += 1;
}

/// The slow operations of a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowOperationTable {
    /// The files that were read, in the order of time.
    pub files: Vec<String>,
    /// The first and the last time of a line, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_ms: Option<(i64, i64)>,
    /// Lines with a time.
    pub lines: u64,
    /// The number of slow operations.
    pub count: u64,
    /// Their time on the server, in seconds.
    pub time_s: f64,
    /// Bytes that they read into the engine's cache; absent if lines do not have it (before 4.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes that the engine read in the same time, including those of operations that were not logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_read_bytes: Option<f64>,
    /// Operations below this time are not logged, in milliseconds (`slowms`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ms: Option<i64>,
    /// The part of slow operations that is logged, 0 to 1 (`slowOpSampleRate`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_rate: Option<f64>,
    /// The shapes: those that read most first, or those that took most time if the lines do not have the bytes read.
    pub shapes: Vec<ShapeTotals>,
    /// Operations of shapes beyond those that are counted separately.
    #[serde(default)]
    pub other_shapes: u64,
}
