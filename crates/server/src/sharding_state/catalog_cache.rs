//! A shard's cache of collections and databases: entries are read from the config servers on demand, and forgotten when
//! they may have changed.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bson::Document;
use fathom_query::{Code, Failure};
use fathom_sharding::{Ownership, ShardVersion};
use parking_lot::Mutex;

use super::ShardIdentity;
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

/// The cached state of one collection.
#[derive(Debug, Default)]
struct CatalogCacheEntry {
    /// Together with the number of the reading that found it.
    known: Option<(u64, Collection)>,
    /// The number of times it was forgotten.
    forgotten: u64,
    /// The number of readings begun.
    readings: u64,
    /// The number of the newest reading that found an ownership.
    newest: u64,
    /// Ownerships that an operation may still use, with the numbers of their readings.
    alive: Vec<(u64, Weak<Ownership>)>,
}

impl CatalogCacheEntry {
    fn forget(&mut self) {
        self.known = None;
        self.forgotten += 1;
    }
}

/// A reading of a collection from the config servers that has begun.
///
/// Readings are numbered when they begin. Of two concurrent readings the one that began later stays known, whichever ends first, so
/// the known ownership is never older than the newest one. If it were, a migration that waits until no older ownership is in use would wait
/// until the collection is forgotten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CatalogReading {
    number: u64,
    forgotten: u64,
}

#[derive(Debug, Default)]
pub(crate) struct CatalogCache {
    collections: Mutex<HashMap<String, CatalogCacheEntry>>,
    pub(crate) databases: Mutex<HashMap<String, Option<Document>>>,
    /// Whether a collection certainly has no orphans here; a collection that is not listed may have any.
    pub(crate) clean: Mutex<HashMap<String, bool>>,
}

impl CatalogCache {
    /// The cached state of a collection.
    pub(crate) fn get(&self, namespace: &str) -> Option<Collection> {
        let collections = self.collections.lock();
        collections.get(namespace)?.known.as_ref().map(|(_, collection)| collection.clone())
    }

    /// Begins to read a collection.
    pub(crate) fn begin(&self, namespace: &str) -> CatalogReading {
        let mut collections = self.collections.lock();
        let entry = collections.entry(namespace.to_owned()).or_default();
        entry.readings += 1;
        CatalogReading { number: entry.readings, forgotten: entry.forgotten }
    }

    /// Records the result of a reading: the shard's ownership, or `None` if the collection is not sharded. It stays known unless a
    /// later reading ended first. Returns `None` if the collection was forgotten since the reading began: the result may be stale,
    /// and the migration that waits until no older ownership is in use did not see this one.
    pub(crate) fn finish(
        &self,
        namespace: &str,
        reading: CatalogReading,
        owned: Option<Ownership>,
    ) -> Option<Collection> {
        let mut collections = self.collections.lock();
        let entry = collections.entry(namespace.to_owned()).or_default();
        if entry.forgotten != reading.forgotten {
            return None;
        }
        let collection = match owned {
            None => Collection::Unsharded,
            Some(owned) => {
                let owned = Arc::new(owned);
                entry.alive.retain(|(_, one)| one.strong_count() > 0);
                entry.alive.push((reading.number, Arc::downgrade(&owned)));
                entry.newest = entry.newest.max(reading.number);
                Collection::Sharded(owned)
            }
        };
        if entry.known.as_ref().is_none_or(|(number, _)| *number < reading.number) {
            entry.known = Some((reading.number, collection.clone()));
        }
        Some(collection)
    }

    pub(crate) fn forget(&self, namespace: &str) {
        let mut collections = self.collections.lock();
        collections.entry(namespace.to_owned()).or_default().forget();
    }

    /// Forgets everything: the cache may date from a time when this member was not primary, and learned of no migration.
    pub(crate) fn forget_all(&self) {
        self.collections.lock().values_mut().for_each(CatalogCacheEntry::forget);
        self.databases.lock().clear();
        self.clean.lock().clear();
    }

    /// The cached collections, with their versions.
    pub(crate) fn versions(&self) -> Vec<(String, ShardVersion)> {
        let collections = self.collections.lock();
        let mut all: Vec<_> = collections
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), entry.known.as_ref()?.1.version())))
            .collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    pub(crate) fn forget_database(&self, database: &str) {
        self.databases.lock().remove(database);
    }

    /// Records that a collection may have orphans from now on.
    pub(crate) fn soil(&self, namespace: &str) {
        self.clean.lock().insert(namespace.to_owned(), false);
    }

    /// Notes that a collection has no orphans.
    pub(crate) fn note_clean(&self, namespace: &str) {
        self.clean.lock().insert(namespace.to_owned(), true);
    }

    /// The number of the newest ownership of a collection: lower numbers are older.
    pub(crate) fn newest(&self, namespace: &str) -> u64 {
        self.collections.lock().get(namespace).map_or(0, |entry| entry.newest)
    }

    /// Whether an operation still uses an ownership older than a number.
    pub(crate) fn is_read_by_older(&self, namespace: &str, number: u64) -> bool {
        let collections = self.collections.lock();
        let alive = collections.get(namespace).map_or(&[][..], |entry| entry.alive.as_slice());
        alive.iter().any(|(other, one)| *other < number && one.strong_count() > 0)
    }

    /// Compares a router's version of a database with the config servers' version.
    pub(crate) fn check_database(
        &self,
        identity: &ShardIdentity,
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

/// Whether two values of `{uuid, lastMod}` are equal.
fn same_version(one: &Document, other: &Document) -> bool {
    let number = |version: &Document| {
        version.get_i32("lastMod").map(i64::from).or_else(|_| version.get_i64("lastMod")).unwrap_or(0)
    };
    one.get("uuid") == other.get("uuid") && number(one) == number(other)
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Timestamp, doc, oid::ObjectId};
    use fathom_sharding::{Chunk, ChunkRange, ChunkVersion, CollectionEntry, RoutingTable};
    use fathom_testkit::test;

    use super::*;

    const NAME: &str = "a.b";

    fn ownership() -> Option<Ownership> {
        let epoch = ObjectId::from_bytes([7; 12]);
        let entry = doc! { "_id": NAME, "key": { "x": 1 }, "lastmodEpoch": epoch };
        let entry = CollectionEntry::parse(&entry).unwrap().unwrap();
        let range = ChunkRange { min: doc! { "x": Bson::MinKey }, max: doc! { "x": Bson::MaxKey } };
        let now = Timestamp { time: 1, increment: 1 };
        let chunk = Chunk::new(range, "s1", ChunkVersion::new(1, 0, epoch), now);
        Some(RoutingTable::new(entry, vec![chunk]).unwrap().ownership("s1"))
    }

    #[test]
    fn of_two_concurrent_readings_the_later_one_stays_known_and_blocks_nobody() {
        for earlier_ends_last in [false, true] {
            let known = CatalogCache::default();
            let (earlier, later) = (known.begin(NAME), known.begin(NAME));
            let order = if earlier_ends_last { [later, earlier] } else { [earlier, later] };
            let used = order.map(|reading| known.finish(NAME, reading, ownership()).unwrap());
            assert!(known.is_read_by_older(NAME, known.newest(NAME)));
            drop(used);
            assert!(!known.is_read_by_older(NAME, known.newest(NAME)));
        }
    }

    #[test]
    fn what_was_read_before_a_collection_was_forgotten_is_not_used() {
        let known = CatalogCache::default();
        let reading = known.begin(NAME);
        known.forget(NAME);
        assert!(known.finish(NAME, reading, ownership()).is_none());
        assert!(known.get(NAME).is_none());
        assert!(known.finish(NAME, known.begin(NAME), None).is_some());
        assert!(matches!(known.get(NAME), Some(Collection::Unsharded)));
    }
}
