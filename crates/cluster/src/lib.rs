//! Topologies of MongoDB servers on one machine: one server, a replica set, a sharded cluster, real ones or our own.
//!
//! What a cluster is, where its servers are and how each is called is decided by pure code; the rest starts processes and speaks to
//! them. It refuses to touch a process that it did not start, and to leave one behind without an owner.

mod arguments;
mod cluster;
mod contact;
mod description;
mod groups;
mod launch;
mod layout;
mod mlaunch;
mod network;
mod ports;
mod programs;
mod server_process;
mod set_config;
mod setup;
mod state;
mod tags;
mod tls_arguments;
mod topology;
mod version;
mod wait;

pub use arguments::{CommandLine, Given, Maker, Plan, Program, Secrets, split_secrets};
pub use cluster::{Cluster, HeldCluster, Overrides, Stopping, Tools, Wish};
pub use description::ROLES;
pub use launch::{Launch, Launcher, Started, become_server, launch};
pub use layout::{Node, Purpose, layout};
pub use mlaunch::{Environment, MLAUNCH_FILE, quoted, shard_names};
pub use network::{Rules, serve as serve_proxy};
pub use programs::{OWN, Programs};
pub use server_process::signal;
pub use set_config::connection_string;
pub use state::{Phase, STATE_FILE, Server, State};
pub use tags::{Live, Selection, tags_of};
pub use tls_arguments::TlsArguments;
pub use topology::{
    Auth, CONFIG_SET, Limits, Member, ReplicaSet, ServerOptions, Shape, ShardedCollection, Topology,
};
pub use version::Version;

/// Clusters described in files: ours in YAML, mlaunch's in JSON.
pub mod file {
    pub use crate::description::{key, member, parse, read};
    pub use crate::mlaunch::parse as parse_mlaunch;
}
