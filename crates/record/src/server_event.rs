//! What a server logged that bears on latency: checkpoints, stalls, changes of a set, and operations that it found slow.
//!
//! The line of a slow operation is kept whole but for what stands as user and password in connection strings, with what it says in
//! figures. A figure that the line does not have is absent, never zero; servers before 8.0 tell fewer.

use serde::{Deserialize, Serialize};

/// What kind of event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerEventKind {
    /// A checkpoint wrote its end, or said that it goes on.
    Checkpoint,
    /// The server says that it stands still, or that it slows its writers.
    Stall,
    /// A member of a set took another state, or a server went out of reach and came back: said by who watches, not by a log.
    Member,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerEvent {
    /// The number of the server in the run.
    pub server: usize,
    /// When, nanoseconds since the run's start: the line's own time, carried over to the run's clock.
    pub at_ns: u64,
    /// What it is.
    pub kind: ServerEventKind,
    /// The line of the log, or what was seen, without users and passwords of connection strings.
    pub line: String,
}

/// One slow operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowOperation {
    /// The number of the server in the run (`server.{member}`).
    pub server: usize,
    /// When it ended, nanoseconds since the run's start: the line's own time, carried over to the run's clock.
    pub ended_ns: u64,
    /// Database and collection.
    pub namespace: String,
    /// The command's name (`find`), or `update` and `remove` for a single write.
    pub operation: String,
    /// How long it took on the server, waits included.
    pub duration_ms: u64,
    /// How long it took without its waits for tickets, locks and flow control (8.0 and later).
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
    /// Its wait for other members to have the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication_wait_ms: Option<u64>,
    /// Its waits for room in the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_wait_us: Option<u64>,
    /// Time it read from disk (or the page cache) into the engine's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_us: Option<u64>,
    /// Bytes it read so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Time it wrote from the engine's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_us: Option<u64>,
    /// Bytes it wrote so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_us: Option<u64>,
    /// `planSummary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Index keys it looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_examined: Option<u64>,
    /// Documents it looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents_examined: Option<u64>,
    /// Documents it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<u64>,
    /// `appName` of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The line.
    pub line: String,
}
