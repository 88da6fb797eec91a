//! What a shard knows of collections and databases: read from the config servers when it is wanted, and forgotten when it may have
//! changed.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bson::Document;
use fathom_query::{Code, Failure};
use fathom_sharding::{Ownership, RoutingTable, ShardVersion};
use parking_lot::Mutex;

use super::Identity;
use crate::Result;
use crate::instance::Instance;

/// A collection as the shard knows it.
#[derive(Clone, Debug)]
pub(crate) enum Collection {
    Unsharded,
    Sharded(Arc<Ownership>),
}

impl Collection {
    /// The version that a router must have.
    pub(crate) fn version(&self) -> ShardVersion {
        match self {
            Collection::Unsharded => ShardVersion::Unsharded,
            Collection::Sharded(owned) => owned.shard_version(),
        }
    }
}

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Known {
    collections: Mutex<HashMap<String, Collection>>,
    databases: Mutex<HashMap<String, Option<Document>>>,
    /// Ownerships that somebody may still read by, for each collection.
    issued: Mutex<HashMap<String, Vec<Weak<Ownership>>>>,
    /// Whether no document that is not the shard's own can be here of a collection; one that is not listed may have any.
    clean: Mutex<HashMap<String, bool>>,
}

impl Known {
    /// A collection, read if it is not known.
    pub(crate) fn collection(&self, instance: &Instance, identity: &Identity, namespace: &str) -> Result<Collection> {
        if let Some(known) = self.collections.lock().get(namespace) {
            return Ok(known.clone());
        }
        self.read(instance, identity, namespace)
    }

    /// Reads a collection again.
    pub(crate) fn read(&self, instance: &Instance, identity: &Identity, namespace: &str) -> Result<Collection> {
        let table = identity.config.table(namespace)?;
        Ok(self.keep(instance, identity, namespace, table.as_ref()))
    }

    fn keep(
        &self,
        instance: &Instance,
        identity: &Identity,
        namespace: &str,
        table: Option<&RoutingTable>,
    ) -> Collection {
        let collection = match table {
            None => Collection::Unsharded,
            Some(table) => {
                let owned = Arc::new(table.ownership(&identity.shard));
                let mut issued = self.issued.lock();
                let issued = issued.entry(namespace.to_owned()).or_default();
                issued.retain(|one| one.strong_count() > 0);
                issued.push(Arc::downgrade(&owned));
                Collection::Sharded(owned)
            }
        };
        let empty = instance.catalog.get(namespace).is_none_or(|found| found.records() == 0);
        if empty && matches!(collection, Collection::Sharded(_)) {
            self.clean.lock().entry(namespace.to_owned()).or_insert(true);
        }
        self.collections.lock().insert(namespace.to_owned(), collection.clone());
        collection
    }

    /// Forgets a collection.
    pub(crate) fn forget(&self, namespace: &str) {
        self.collections.lock().remove(namespace);
    }

    /// The collections that are known, with their versions.
    pub(crate) fn versions(&self) -> Vec<(String, ShardVersion)> {
        let collections = self.collections.lock();
        let mut all: Vec<_> = collections.iter().map(|(name, known)| (name.clone(), known.version())).collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    /// Forgets a database.
    pub(crate) fn forget_database(&self, database: &str) {
        self.databases.lock().remove(database);
    }

    /// Whether there can be documents of a collection that are not the shard's own.
    pub(crate) fn is_clean(&self, namespace: &str) -> bool {
        self.clean.lock().get(namespace).copied().unwrap_or(false)
    }

    /// There can be such documents from now on.
    pub(crate) fn soil(&self, namespace: &str) {
        self.clean.lock().insert(namespace.to_owned(), false);
    }

    /// There are none.
    pub(crate) fn note_clean(&self, namespace: &str) {
        self.clean.lock().insert(namespace.to_owned(), true);
    }

    /// Whether somebody still reads by an ownership that is older than `now`.
    pub(crate) fn is_read_by_older(&self, namespace: &str, now: &Arc<Ownership>) -> bool {
        let issued = self.issued.lock();
        let older = issued.get(namespace).into_iter().flatten().filter_map(Weak::upgrade);
        older.filter(|one| !Arc::ptr_eq(one, now)).count() > 0
    }

    /// Compares a router's version of a database with what the config servers say.
    pub(crate) fn check_database(&self, identity: &Identity, database: &str, received: &Document) -> Result<()> {
        let known = self.databases.lock().get(database).cloned();
        let is_ours = |entry: Option<&Document>| {
            entry.is_some_and(|entry| {
                entry.get_str("primary").is_ok_and(|primary| primary == identity.shard)
                    && entry.get_document("version").is_ok_and(|version| same_version(version, received))
            })
        };
        if known.as_ref().is_some_and(|entry| is_ours(entry.as_ref())) {
            return Ok(());
        }
        let entry = identity.config.database(database)?;
        let ours = is_ours(entry.as_ref());
        let wanted = entry.as_ref().and_then(|entry| entry.get_document("version").ok().cloned());
        self.databases.lock().insert(database.to_owned(), entry);
        if ours {
            return Ok(());
        }
        let mut failure = Failure::new(Code::StaleDbVersion, format!("version mismatch for database {database}"))
            .with("db", database)
            .with("vReceived", received.clone());
        if let Some(wanted) = wanted {
            failure = failure.with("vWanted", wanted);
        }
        Err(failure)
    }
}

/// Whether two `{uuid, lastMod}` are the same.
fn same_version(one: &Document, other: &Document) -> bool {
    let number = |version: &Document| {
        version.get_i32("lastMod").map(i64::from).or_else(|_| version.get_i64("lastMod")).unwrap_or(0)
    };
    one.get("uuid") == other.get("uuid") && number(one) == number(other)
}
