//! Whether memory would hold the data that clients use, and what keeps it from doing so: a small cache, or a control group's limit.

use crate::Evidence;

/// The data may take this part of the memory that is free for them; the rest is for what grows with it.
const MAX_SHARE_OF_FREE: f64 = 0.5;
/// From this part of a group's limit on the kernel takes pages of files from the group for each new one.
const FULL: f64 = 0.95;

/// The namespace whose size was read must have this part of all operations.
const MIN_SHARE_OF_NAMESPACE: f64 = 0.9;

/// A server's data and the memory around it, in bytes.
pub(crate) struct Memory {
    /// The size of the data as the engine's cache holds them.
    pub(crate) data_bytes: f64,
    /// The memory that the host has free for them, or that a limit leaves which is not reached.
    pub(crate) free_bytes: f64,
    /// The limit of the server's control group, if it is reached.
    pub(crate) reached_limit_bytes: Option<f64>,
}

impl Memory {
    /// `None` if the size of the data or the host's memory was not read, or if operations use other namespaces than the one whose size was read.
    pub(crate) fn of(evidence: &Evidence, member: &str) -> Option<Memory> {
        let operations = |prefix: &str| -> f64 {
            let sum = |kind: &str| evidence.sum(&format!("server.{member}.{prefix}{kind}.operations"));
            ["reads", "writes"].into_iter().filter_map(sum).sum()
        };
        if operations("collection.") < MIN_SHARE_OF_NAMESPACE * operations("") {
            return None;
        }
        let mean = |name: &str| evidence.mean(&format!("server.{member}.{name}"));
        let (data_bytes, free_bytes) =
            (mean("storage.logical_bytes")?, evidence.mean("host.memory.available_bytes")?);
        let memory = Memory { data_bytes, free_bytes, reached_limit_bytes: None };
        Some(match mean("process.memory_limit_bytes").zip(mean("process.memory_used_bytes")) {
            None => memory,
            Some((limit_bytes, used_bytes)) if used_bytes >= FULL * limit_bytes => {
                Memory { reached_limit_bytes: Some(limit_bytes), ..memory }
            }
            Some((limit_bytes, used_bytes)) => {
                Memory { free_bytes: free_bytes.min(limit_bytes - used_bytes), ..memory }
            }
        })
    }

    /// Whether the host could hold all data in memory.
    pub(crate) fn holds_data(&self) -> bool {
        self.data_bytes <= MAX_SHARE_OF_FREE * self.free_bytes
    }

    /// Whether the limit alone keeps the kernel's cache from holding what the engine's does not.
    pub(crate) fn is_held_back_by_limit(&self) -> bool {
        self.reached_limit_bytes.is_some() && self.holds_data()
    }
}
