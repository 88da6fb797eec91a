//! What a shard knows of collections and databases: read from the config servers when it is wanted, and forgotten when it may have
//! changed.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bson::Document;
use fathom_query::{Code, Failure};
use fathom_sharding::{Ownership, ShardVersion};
use parking_lot::Mutex;

use super::Identity;
use crate::Result;

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

/// A collection, and how often it was forgotten: what was read before it was forgotten is not kept after.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) known: Option<Collection>,
    pub(crate) forgotten: u64,
}

/// What was read of a collection, and may still be read by.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    last: u64,
    alive: Vec<(u64, Weak<Ownership>)>,
}

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) collections: Mutex<HashMap<String, Entry>>,
    pub(crate) databases: Mutex<HashMap<String, Option<Document>>>,
    /// Ownerships that somebody may still read by, for each collection, numbered as they were read.
    pub(crate) issued: Mutex<HashMap<String, Issued>>,
    /// Whether no document that is not the shard's own can be here of a collection; one that is not listed may have any.
    pub(crate) clean: Mutex<HashMap<String, bool>>,
}

impl Known {
    /// Keeps an ownership among those that somebody may read by.
    pub(crate) fn issue(&self, namespace: &str, owned: Ownership) -> Arc<Ownership> {
        let owned = Arc::new(owned);
        let mut issued = self.issued.lock();
        let issued = issued.entry(namespace.to_owned()).or_default();
        issued.alive.retain(|(_, one)| one.strong_count() > 0);
        issued.last += 1;
        issued.alive.push((issued.last, Arc::downgrade(&owned)));
        owned
    }

    /// Forgets a collection.
    pub(crate) fn forget(&self, namespace: &str) {
        let mut collections = self.collections.lock();
        let entry = collections.entry(namespace.to_owned()).or_default();
        entry.known = None;
        entry.forgotten += 1;
    }

    /// Forgets all: what is known may be of a time when this member did not lead, and was told of no migration.
    pub(crate) fn forget_all(&self) {
        for entry in self.collections.lock().values_mut() {
            entry.known = None;
            entry.forgotten += 1;
        }
        self.databases.lock().clear();
        self.clean.lock().clear();
    }

    /// The collections that are known, with their versions.
    pub(crate) fn versions(&self) -> Vec<(String, ShardVersion)> {
        let collections = self.collections.lock();
        let mut all: Vec<_> = collections
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), entry.known.as_ref()?.version())))
            .collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    /// Forgets a database.
    pub(crate) fn forget_database(&self, database: &str) {
        self.databases.lock().remove(database);
    }

    /// There can be such documents from now on.
    pub(crate) fn soil(&self, namespace: &str) {
        self.clean.lock().insert(namespace.to_owned(), false);
    }

    /// There are none.
    pub(crate) fn note_clean(&self, namespace: &str) {
        self.clean.lock().insert(namespace.to_owned(), true);
    }

    /// The number of the newest ownership that was read of a collection: those before it are older.
    pub(crate) fn newest(&self, namespace: &str) -> u64 {
        self.issued.lock().get(namespace).map_or(0, |issued| issued.last)
    }

    /// Whether somebody still reads by an ownership from before a number.
    pub(crate) fn is_read_by_older(&self, namespace: &str, number: u64) -> bool {
        let issued = self.issued.lock();
        let alive = issued.get(namespace).map_or(&[][..], |issued| issued.alive.as_slice());
        alive.iter().any(|(other, one)| *other < number && one.strong_count() > 0)
    }

    /// Compares a router's version of a database with what the config servers say.
    pub(crate) fn check_database(
        &self,
        identity: &Identity,
        database: &str,
        received: &Document,
    ) -> Result<()> {
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
        let mut failure =
            Failure::new(Code::StaleDbVersion, format!("version mismatch for database {database}"))
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
