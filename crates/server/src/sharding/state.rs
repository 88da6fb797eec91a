//! What a server knows of the cluster that it belongs to.

use std::sync::Arc;

use fathom_service::Counter;
use parking_lot::Mutex;

use super::coming::Housekeeping;
use super::config_servers::ConfigServers;
use super::gate::Gates;
use super::known::Known;

/// What a server is in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterRole {
    /// Nothing: it stands alone.
    #[default]
    None,
    /// It has the cluster's documents.
    Shard,
    /// It has the cluster's metadata.
    Config,
}

impl ClusterRole {
    /// As `sharding.clusterRole` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            ClusterRole::None => "",
            ClusterRole::Shard => "shardsvr",
            ClusterRole::Config => "configsvr",
        }
    }
}

/// Which shard of which cluster a server is.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) shard: String,
    pub(crate) cluster: bson::oid::ObjectId,
    pub(crate) config: ConfigServers,
}

/// What moving chunks cost, and how often routers knew too little.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) stale: Counter,
    pub(crate) moves: Counter,
    pub(crate) copying_ms: Counter,
    /// While writes were held back, in all, and for the commit alone.
    pub(crate) shut_ms: Counter,
    pub(crate) committing_ms: Counter,
}

/// What a shard knows.
#[derive(Debug, Default)]
pub(crate) struct Sharding {
    pub(super) identity: Mutex<Option<Arc<Identity>>>,
    pub(crate) known: Known,
    pub(crate) figures: Figures,
    pub(super) gates: Gates,
    pub(super) housekeeping: Housekeeping,
    /// Held while a chunk is given away: one at a time.
    pub(super) giving: Mutex<()>,
}

impl Sharding {
    /// Another identity counts from now on.
    pub(super) fn set_identity(&self, identity: Identity) {
        *self.identity.lock() = Some(Arc::new(identity));
    }
}
