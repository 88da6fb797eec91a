//! The lab server: a MongoDB-wire server that gives the same I/O as mongod, on the real WiredTiger and RocksDB.
//!
//! It copies MongoDB's storage policies (record stores and indexes, journal tick, checkpoints, cache and eviction settings,
//! tickets, counters) and speaks its protocol, so that drivers, mongosh and YCSB connect unchanged. What it lacks it refuses
//! by name, never silently. It binds loopback unless told otherwise, and opens only directories that it made.

mod auth;
mod buffers;
mod client;
mod command;
mod commands;
pub mod config;
mod consistency;
mod diagnostics;
mod dispatch;
mod elapsed;
mod engines;
mod execution;
mod executor;
mod fail_points;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod instance;
mod namespace;
mod network;
mod operation;
mod parameters;
mod pid_file;
mod read_concern;
mod replication;
mod request;
mod server;
mod sessions;
mod sharding;
mod startup_warnings;
mod storage;
mod write_concern;
mod write_gate;

pub use config::Config;
pub use server::Server;
pub use sharding::ClusterRole;

use fathom_service::{log, parse, random};

/// What functions that answer a client return: the failure is what the client sees.
pub(crate) type Result<T, E = fathom_wire::Failure> = std::result::Result<T, E>;
