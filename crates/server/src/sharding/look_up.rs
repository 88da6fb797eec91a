//! Collections as a shard knows them, read from the config servers where they are not known.

use super::Identity;
use super::known::{Collection, Known};
use crate::Result;
use crate::instance::Instance;

impl Known {
    /// A collection, read if it is not known.
    pub(crate) fn collection(
        &self,
        instance: &Instance,
        identity: &Identity,
        namespace: &str,
    ) -> Result<Collection> {
        if let Some(known) = self.collections.lock().get(namespace).and_then(|entry| entry.known.clone()) {
            return Ok(known);
        }
        self.read(instance, identity, namespace)
    }

    /// Reads a collection again.
    pub(crate) fn read(
        &self,
        instance: &Instance,
        identity: &Identity,
        namespace: &str,
    ) -> Result<Collection> {
        let forgotten = self.collections.lock().get(namespace).map_or(0, |entry| entry.forgotten);
        let table = identity.config.table(namespace)?;
        let collection = match table {
            None => Collection::Unsharded,
            Some(table) => Collection::Sharded(self.issue(namespace, table.ownership(&identity.shard))),
        };
        let empty = instance.catalog.get(namespace).is_none_or(|found| found.records() == 0);
        if empty && leads(instance) && matches!(collection, Collection::Sharded(_)) {
            self.clean.lock().entry(namespace.to_owned()).or_insert(true);
        }
        let mut collections = self.collections.lock();
        let entry = collections.entry(namespace.to_owned()).or_default();
        if entry.forgotten == forgotten {
            entry.known = Some(collection.clone());
        }
        Ok(collection)
    }

    /// Whether there cannot be documents of a collection that are not the shard's own. Only who leads the shard is told of migrations.
    pub(crate) fn is_clean(&self, instance: &Instance, namespace: &str) -> bool {
        leads(instance) && self.clean.lock().get(namespace).copied().unwrap_or(false)
    }
}

/// Whether this server takes the shard's writes.
fn leads(instance: &Instance) -> bool {
    instance.set.as_ref().is_none_or(|set| set.is_writable())
}
