//! The router of a sharded cluster: clients see one MongoDB server, and the router forwards to config servers and shards.
//!
//! It keeps no data. It reads the location of the data from the config servers and sends its version of that routing table to the shards with each
//! command; a shard that has a newer version refuses, and the router reads the table again. Features of a MongoDB router that this one lacks are
//! refused by name.

mod admin;
mod backend;
mod balancer;
mod call;
mod catalog;
mod client;
mod cluster;
mod commands;
mod config;
mod config_server;
mod counters;
mod cursors;
mod dispatch;
mod instance;
mod locks;
mod merge;
mod pipeline;
mod relay;
mod request;
mod route;
mod router;
mod shard_command;
mod upkeep;
mod write;

pub use config::Config;
pub use fathom_service::log::LogRotate;
pub use fathom_service::version::claimed as claimed_version;
pub use router::Router;

/// The result of functions that answer a client; the client sees the failure.
pub(crate) type Result<T, E = fathom_wire::Failure> = std::result::Result<T, E>;
