//! Runs topologies of MongoDB servers on one machine: one server, a replica set or a sharded cluster, of MongoDB's programs or the built-in ones.
//!
//! Pure code decides the topology, the addresses and the command lines; the rest starts processes and communicates with them. It
//! never touches a process that it did not start, and never leaves one behind without an owner.

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

pub use arguments::{CommandLine, CommandLinePlan, Maker, Program, Secrets, TypedOption, split_secrets};
pub use cluster::{Cluster, ClusterPlan, HeldCluster, Overrides, StopOptions, Tools};
pub use description::ROLES;
pub use launch::{Launch, Launcher, ServerGuard, become_server, launch};
pub use layout::{Node, Purpose, layout};
pub use mlaunch::{Environment, MLAUNCH_FILE, quoted, shard_names};
pub use network::{Rules, serve as serve_proxy};
pub use programs::{OWN, Programs};
pub use server_process::signal;
pub use set_config::{connection_string, connection_strings};
pub use state::{ClusterState, CreationPhase, STATE_FILE, ServerState};
pub use tags::{ServerCondition, TagSelection, tags_of};
pub use tls_arguments::TlsArguments;
pub use topology::{
    Auth, CONFIG_SET, ClusterShape, Limits, MemberOptions, ReplicaSet, ServerOptions, ShardedCollection,
    Topology,
};
pub use version::Version;

/// Clusters described in files: ours in YAML, mlaunch's in JSON.
pub mod file {
    pub use crate::description::{key, member, parse, read};
    pub use crate::mlaunch::parse as parse_mlaunch;
}
