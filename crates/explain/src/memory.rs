//! Judges whether memory could hold the data that clients use, and what prevents it: a small cache, or a control group's limit.

use crate::Evidence;

/// The largest share of free memory that the data may take; the rest is for memory use that grows with them.
const MAX_SHARE_OF_FREE: f64 = 0.5;
/// At this share of a group's limit the kernel evicts a page of files of the group for each new one.
const MIN_FULL_SHARE: f64 = 0.95;

/// The least share of all operations that the namespace whose size was read must have.
const MIN_SHARE_OF_NAMESPACE: f64 = 0.9;

/// A server's data and the memory around it, in bytes.
pub(crate) struct ServerMemory {
    /// The size of the data as the engine's cache holds them.
    pub(crate) data_bytes: f64,
    /// The memory that the host has free for them, or that a limit leaves which is not reached.
    pub(crate) free_bytes: f64,
    /// The limit of the server's control group, if it is reached.
    pub(crate) reached_limit_bytes: Option<f64>,
}

impl ServerMemory {
    /// `None` if the size of the data or the host's memory was not read, or if operations use other namespaces than the one whose size was read.
    pub(crate) fn from_evidence(evidence: &Evidence, member: &str) -> Option<ServerMemory> {
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
        let memory = ServerMemory { data_bytes, free_bytes, reached_limit_bytes: None };
        Some(match mean("process.memory_limit_bytes").zip(mean("process.memory_used_bytes")) {
            None => memory,
            Some((limit_bytes, used_bytes)) if used_bytes >= MIN_FULL_SHARE * limit_bytes => {
                ServerMemory { reached_limit_bytes: Some(limit_bytes), ..memory }
            }
            Some((limit_bytes, used_bytes)) => {
                ServerMemory { free_bytes: free_bytes.min(limit_bytes - used_bytes), ..memory }
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
