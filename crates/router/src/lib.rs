//! The router of a sharded cluster: to a client it is one MongoDB, behind it are config servers and shards.
//!
//! It keeps no data. Which shard has what it reads from the config servers and says to the shards with each command; a shard
//! that knows better refuses, and the router reads again. What a router of MongoDB has and this one lacks is refused by name.

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
mod outgoing;
mod pipeline;
mod relay;
mod request;
mod route;
mod router;
mod upkeep;
mod write;

pub use config::Config;
pub use fathom_service::log::LogRotate;
pub use fathom_service::version::claimed as claimed_version;
pub use router::Router;

/// What functions that answer a client return: the failure is what the client sees.
pub(crate) type Result<T, E = fathom_wire::Failure> = std::result::Result<T, E>;
