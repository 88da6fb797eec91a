//! The work of a server while something waits or a resource is busy: operations that run, collections that are used, and threads.
//!
//! Operations are recorded by their shapes: no value of a query is in any of these types. A figure that was not read is absent,
//! never zero.

use serde::{Deserialize, Serialize};

/// The work of one server within a window. A part that was not read in it is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerWork {
    /// The number of the server in the run (`server.{member}`).
    pub server: usize,
    /// The window in nanoseconds since the run's start. Operations are those that ran at its end.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// True if the running operations were read; then an empty list means that none ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_read_operations: bool,
    /// The operations that ran, alike ones together, those with the longest time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationGroup>,
    /// The transactions that stay open, those that were opened first at the begin. They are read if `serverStatus` counts open ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transactions: Vec<OpenTransaction>,
    /// The number of further operations that ran, and that no group lists.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unlisted: u64,
    /// The growth of `top` within the window, the longest time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collections: Vec<CollectionUse>,
    /// The use of the server's threads within the window, the busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadUse>,
    /// The use of the whole process within the window, threads that are not listed included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ThreadUse>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Running operations that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationGroup {
    /// The command's name (`find`, `getMore of find`), or `update` and `remove` for a single write.
    pub kind: String,
    /// The namespace, as `database.collection`.
    pub namespace: String,
    /// The command without values: `{ filter: { user: ? } }`; empty if no part of it matters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shape: String,
    /// mongod's `planSummary`: `IXSCAN { a: 1 }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The cause of their wait: `lock Database`, `flow control`, `queue execution`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// The phase of an operation that reports its progress: `Index Build`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The progress within the phase: units that are done, and all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<(u64, u64)>,
    /// `appName` of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Name and version of the client's driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The host or address of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// How many they are.
    pub count: u64,
    /// The time that they have been running, added up.
    pub running_us: u64,
    /// The time of the one that has been running for the longest, and its number for `killOp`.
    pub longest_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_operation: Option<String>,
    /// The numbers of their connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<u64>,
}

/// A transaction that has been open for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTransaction {
    /// A hash of its session's id, which distinguishes it from others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The times since its begin, at work, and between its operations.
    pub open_us: u64,
    pub active_us: u64,
    pub inactive_us: u64,
    /// Whether an operation of it runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_active: bool,
    /// The level of its read concern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_concern: Option<String>,
    /// The namespace of the operation of it that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The locks that it holds, with their modes: `Collection w`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<String>,
    /// The client as [`OperationGroup`] has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The number of the connection that it was used on last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
    /// The number of the operation of it that runs, for `killOp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
}

/// The use of a collection by one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionUse {
    pub namespace: String,
    /// The kind by its name in `top`: `queries`, `getmore`, `insert`, `update`, `remove` or `commands`.
    pub kind: String,
    pub time_us: u64,
    /// The number of operations that ended.
    pub count: u64,
}

/// The use of processors and disk by a thread, or by threads of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// The thread's name: `conn123` serves that connection; others without their numbers.
    pub name: String,
    pub processor_us: u64,
    /// The time in which it waited for a processor.
    pub run_wait_us: u64,
    /// Bytes that it read from a disk, and those that it had written (counted when a page becomes dirty); `None` if these may
    /// not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
}

impl ThreadUse {
    /// The number of the connection that it serves.
    pub fn connection(&self) -> Option<u64> {
        self.name.strip_prefix("conn")?.parse().ok()
    }

    /// Whether it serves many connections in turn, so that its use is no single connection's: a loop of events of the lab server, or a
    /// thread of mongod's adaptive executor (4.0 to 4.4).
    pub fn is_shared(&self) -> bool {
        matches!(self.name.as_str(), "EventLoop" | "worker")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_was_not_read_is_not_written() {
        let work = ServerWork { begin_ns: 1, end_ns: 2, ..ServerWork::default() };
        let text = serde_json::to_string(&work).unwrap();
        assert_eq!(text, r#"{"server":0,"begin_ns":1,"end_ns":2}"#);
        assert_eq!(serde_json::from_str::<ServerWork>(&text).unwrap(), work);
    }

    #[test]
    fn a_thread_serves_the_connection_that_it_is_named_after() {
        let named = |name: &str| ThreadUse { name: name.to_owned(), ..ThreadUse::default() }.connection();
        assert_eq!([named("conn17"), named("connX"), named("WTEvict")], [Some(17), None, None]);
        let shared = |name: &str| ThreadUse { name: name.to_owned(), ..ThreadUse::default() }.is_shared();
        assert_eq!([shared("EventLoop"), shared("worker"), shared("conn17")], [true, true, false]);
    }
}
