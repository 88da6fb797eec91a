//! The lab server: a server for MongoDB's wire protocol that causes the same I/O as mongod, on the real WiredTiger and RocksDB.
//!
//! It copies MongoDB's storage policies (record stores and indexes, journal tick, checkpoints, cache and eviction settings,
//! tickets, counters) and speaks its protocol, so that drivers, mongosh and YCSB connect unchanged. Missing features are
//! refused by name, never silently. By default it listens only on loopback, and it opens only directories that it made.

mod auth;
mod background;
mod buffers;
mod checkpoint;
mod client;
mod command_line;
mod commands;
mod completion;
pub mod config;
mod consistency;
mod cursors;
mod diagnostics;
mod dispatch;
mod engines;
mod event_loops;
mod execution;
mod executor;
mod fail_points;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod instance;
mod namespace;
mod network;
mod operation_context;
mod parameters;
mod replica_set;
mod replication;
mod request;
mod server;
mod server_parameters;
mod sessions;
mod sharding;
mod sharding_state;
mod stats;
mod storage;
mod users;
mod write_gate;

pub use config::{ClusterRole, Config};
pub use server::Server;

use fathom_service::{log, parse, random};

/// The result of functions that answer a client; the client sees the failure.
pub(crate) type Result<T, E = fathom_wire::Failure> = std::result::Result<T, E>;
