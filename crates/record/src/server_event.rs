//! Events of a server's log that affect latency: checkpoints, stalls, changes of a set, and slow operations.
//!
//! Of a slow operation the figures and the shape are kept, never a value of its command. A figure that is not in the line is absent, never zero; servers before 8.0 log fewer.

use serde::{Deserialize, Serialize};

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerEventKind {
    /// A checkpoint ended, or reported progress.
    Checkpoint,
    /// The server reports that it stalls, or that it slows its writers.
    Stall,
    /// A member of a set changed its state, or a server became unreachable and came back. The monitor reports it, not a log.
    Member,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerEvent {
    /// The number of the server in the run.
    pub server: usize,
    /// The time in nanoseconds since the run's start: the line's own time, converted to the run's clock.
    pub at_ns: u64,
    /// The kind of event.
    pub kind: ServerEventKind,
    /// The line of the log, or the monitor's observation, without users and passwords of connection strings.
    pub line: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowOperation {
    /// The number of the server in the run (`server.{member}`).
    pub server: usize,
    /// The time of its end in nanoseconds since the run's start: the line's own time, converted to the run's clock.
    pub ended_ns: u64,
    /// The namespace, as `database.collection`.
    pub namespace: String,
    /// The command's name (`find`), or `update` and `remove` for a single write.
    pub operation: String,
    /// Its duration on the server, waits included.
    pub duration_ms: u64,
    /// Its duration without its waits for tickets, locks and flow control (8.0 and later).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_ms: Option<u64>,
    /// Its waits for tickets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket_wait_us: Option<u64>,
    /// Its waits for locks, all kinds and modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_wait_us: Option<u64>,
    /// Its waits for flow control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_control_wait_us: Option<u64>,
    /// Its wait until other members have the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication_wait_ms: Option<u64>,
    /// Its waits for room in the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_wait_us: Option<u64>,
    /// The time in which it read from disk (or the page cache) into the engine's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_us: Option<u64>,
    /// The bytes that it read in this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// The time in which it wrote from the engine's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_us: Option<u64>,
    /// The bytes that it wrote in this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Processor time in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_us: Option<u64>,
    /// mongod's `planSummary`: `IXSCAN { a: 1 }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Index keys that it examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_examined: Option<u64>,
    /// Documents that it examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents_examined: Option<u64>,
    /// Documents that it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<u64>,
    /// `appName` of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The thread, namespace, shape, plan and duration in one line; folders of earlier versions hold the server's own line.
    pub line: String,
}
