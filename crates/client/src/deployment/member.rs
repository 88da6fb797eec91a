//! What a deployment is, and one of its servers.

use std::time::Duration;

use super::description::Role;
use crate::Address;

/// What kind of deployment it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeploymentKind {
    /// One server.
    Standalone,
    /// A replica set; with `directConnection=true`, one member of it.
    ReplicaSet {
        /// The set's name.
        name: String,
    },
    /// Routers (mongos) in front of shards.
    Sharded,
}

/// A server of the deployment, as it was when it was asked last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name that the replica set has for it, or the connection string.
    pub address: Address,
    /// What it is.
    pub role: Role,
    /// Its tags, name and value.
    pub tags: Vec<(String, String)>,
    /// How long hello took, if it answered.
    pub round_trip: Option<Duration>,
    /// Why it is of no use now.
    pub fault: Option<String>,
    /// Whether this machine knows the name.
    pub is_resolvable: bool,
}
