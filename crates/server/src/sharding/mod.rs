//! A server as a shard: which cluster it belongs to, what it owns of each collection, and how a chunk goes to another shard.
//!
//! What it owns it reads from the config servers, when a router's version does not fit what it knows. Documents that are here and
//! not its own, because their chunk is coming or has gone, are kept out of every answer.

mod check;
mod commit;
mod config_servers;
mod gate;
mod housekeeping;
mod identity;
mod known;
mod migration;
mod ranges;

use std::sync::Arc;

use fathom_query::{Code, Failure};
use fathom_service::Counter;
use parking_lot::Mutex;

use crate::Result;
use crate::instance::Instance;
use config_servers::ConfigServers;
use gate::Gates;
use housekeeping::Housekeeping;
use known::Known;

pub(crate) use check::check;
pub(crate) use commit::{commit_collection, ownership};
pub(crate) use housekeeping::{clean_up, expect_range, give_up_range, note_received};
pub(crate) use identity::adopt;
pub(crate) use migration::{Migration, move_chunk};

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
    identity: Mutex<Option<Arc<Identity>>>,
    pub(crate) known: Known,
    pub(crate) figures: Figures,
    gates: Gates,
    housekeeping: Housekeeping,
    /// Held while a chunk is given away: one at a time.
    giving: Mutex<()>,
}

impl Sharding {
    /// Which shard it is; none if it belongs to no cluster yet.
    pub(crate) fn identity(&self, instance: &Instance) -> Result<Option<Arc<Identity>>> {
        if instance.config.cluster_role != ClusterRole::Shard {
            return Ok(None);
        }
        let mut held = self.identity.lock();
        if held.is_none() {
            *held = identity::read(instance)?.map(Arc::new);
        }
        Ok(held.clone())
    }

    /// The same for what only a shard of a cluster can do.
    pub(crate) fn must_be_shard(&self, instance: &Instance) -> Result<Arc<Identity>> {
        let none = || {
            let what = "Cannot accept sharding commands if not started with --shardsvr, or before it was added to a cluster";
            Failure::new(Code::NoShardingEnabled, what)
        };
        self.identity(instance)?.ok_or_else(none)
    }

    /// Another identity counts from now on.
    fn set_identity(&self, identity: Identity) {
        *self.identity.lock() = Some(Arc::new(identity));
    }
}
