//! The shards of the cluster, and its config servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Document, doc};
use fathom_client::AddressList;
use fathom_wire::{Code, Failure};
use parking_lot::RwLock;

use crate::Result;
use crate::backend::Backend;

/// A document of `config.shards`.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) backend: Arc<Backend>,
    pub(crate) draining: bool,
    pub(crate) document: Document,
}

/// Shards by name, and the config servers.
#[derive(Debug)]
pub(crate) struct ClusterMembers {
    config: Arc<Backend>,
    shards: RwLock<BTreeMap<String, Shard>>,
}

impl ClusterMembers {
    pub(crate) fn new(config_db: AddressList) -> ClusterMembers {
        ClusterMembers { config: Arc::new(Backend::new("config", config_db)), shards: RwLock::default() }
    }

    pub(crate) fn config(&self) -> &Arc<Backend> {
        &self.config
    }

    /// Reads `config.shards` again. Connections to shards that remain are kept.
    pub(crate) fn reload(&self) -> Result<()> {
        let documents = self.config.config_find("shards", doc! {}, doc! { "_id": 1 })?;
        let mut known = self.shards.write();
        let mut shards = BTreeMap::new();
        for document in documents {
            let (Ok(id), Ok(host)) = (document.get_str("_id"), document.get_str("host")) else { continue };
            let Ok(hosts) = host.parse::<AddressList>() else { continue };
            let backend = match known.get(id).filter(|shard| *shard.backend.hosts() == hosts) {
                Some(shard) => Arc::clone(&shard.backend),
                None => Arc::new(Backend::new(id, hosts)),
            };
            let draining = document.get_bool("draining").unwrap_or(false);
            shards.insert(id.to_owned(), Shard { backend, draining, document });
        }
        *known = shards;
        Ok(())
    }

    /// All shards in the order of their names.
    pub(crate) fn shards(&self) -> Vec<Shard> {
        self.shards.read().values().cloned().collect()
    }

    /// The shard with this name if it is known, or the config servers.
    pub(crate) fn known_shard(&self, id: &str) -> Option<Arc<Backend>> {
        if id == "config" {
            return Some(Arc::clone(&self.config));
        }
        self.shards.read().get(id).map(|shard| Arc::clone(&shard.backend))
    }

    /// The shard with this name; an unknown name is looked up.
    pub(crate) fn shard(&self, id: &str) -> Result<Arc<Backend>> {
        if let Some(backend) = self.known_shard(id) {
            return Ok(backend);
        }
        self.reload()?;
        let absent = || Failure::new(Code::ShardNotFound, format!("Shard {id} not found"));
        self.known_shard(id).ok_or_else(absent)
    }

    /// Whether every shard recognizes a write that is sent twice, so that the router can offer sessions to drivers.
    pub(crate) fn has_sessions(&self) -> bool {
        let shards = self.shards.read();
        !shards.is_empty() && shards.values().all(|shard| shard.backend.is_set())
    }
}
