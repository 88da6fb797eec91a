//! What happened to a server beside slow operations that bears on latency: checkpoints, stalls, changes of a set.

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
