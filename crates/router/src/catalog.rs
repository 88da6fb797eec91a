//! A cache of the locations of databases and collections, read from the config servers and kept until a shard says that it is stale.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bson::{Bson, Document, Uuid, doc};
use fathom_sharding::{Chunk, CollectionEntry, RoutingTable};
use fathom_wire::{Code, Failure};
use parking_lot::{Mutex, RwLock};

use crate::Result;
use crate::cluster::ClusterMembers;
use crate::request::SendPolicy;

/// The number of attempts to read the chunks of a collection that changes during the read.
const MAX_READS: u32 = 20;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(25);

/// A document of `config.databases`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DatabaseEntry {
    pub(crate) name: String,
    /// The shard that holds the unsharded collections.
    pub(crate) primary: String,
    /// Whether sharding was enabled.
    pub(crate) partitioned: bool,
    /// The collection's `{uuid, lastMod}`.
    pub(crate) version: Option<Document>,
}

impl DatabaseEntry {
    fn parse(document: &Document) -> Option<DatabaseEntry> {
        Some(DatabaseEntry {
            name: document.get_str("_id").ok()?.to_owned(),
            primary: document.get_str("primary").ok()?.to_owned(),
            partitioned: document.get_bool("partitioned").unwrap_or(false),
            version: document.get_document("version").ok().cloned(),
        })
    }
}

/// The counters of `shardingStatistics.catalogCache`.
#[derive(Debug, Default)]
pub(crate) struct CatalogCounters {
    pub(crate) stale_errors: AtomicU64,
    pub(crate) refresh_micros: AtomicU64,
    pub(crate) refreshes: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// The cached entries; a collection without a table is not sharded.
#[derive(Debug, Default)]
pub(crate) struct RoutingCatalog {
    databases: RwLock<HashMap<String, Arc<DatabaseEntry>>>,
    collections: RwLock<HashMap<String, Option<Arc<RoutingTable>>>>,
    /// Held by the one thread that reads: many connections notice at once that an entry is stale.
    reading: Mutex<()>,
    pub(crate) counters: CatalogCounters,
}

impl RoutingCatalog {
    /// The numbers of cached databases and collections.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let sharded = self.collections.read().values().flatten().count();
        (self.databases.read().len(), sharded)
    }

    /// A database that is known.
    pub(crate) fn known_database(&self, name: &str) -> Option<Arc<DatabaseEntry>> {
        self.databases.read().get(name).map(Arc::clone)
    }

    /// The chunks of a cached collection; the inner `None` if it is not sharded.
    pub(crate) fn known_table(&self, namespace: &str) -> Option<Option<Arc<RoutingTable>>> {
        self.collections.read().get(namespace).cloned()
    }

    /// A database, or `None` if it does not exist.
    pub(crate) fn database(
        &self,
        cluster: &ClusterMembers,
        name: &str,
    ) -> Result<Option<Arc<DatabaseEntry>>> {
        if let Some(known) = self.known_database(name) {
            return Ok(Some(known));
        }
        let found = cluster.config().config_get("databases", name)?;
        let Some(entry) = found.as_ref().and_then(DatabaseEntry::parse).map(Arc::new) else {
            return Ok(None);
        };
        self.databases.write().insert(name.to_owned(), Arc::clone(&entry));
        Ok(Some(entry))
    }

    /// A database; a new one is created on the shard with the least data.
    pub(crate) fn database_or_new(&self, cluster: &ClusterMembers, name: &str) -> Result<Arc<DatabaseEntry>> {
        if let Some(known) = self.database(cluster, name)? {
            return Ok(known);
        }
        let primary = least_loaded(cluster).map_err(|failure| {
            Failure::new(
                failure.code(),
                format!("Database {name} could not be created :: caused by :: {failure}"),
            )
        })?;
        self.create(cluster, name, &primary, false)
    }

    /// Creates a database's entry; an entry that another router created earlier takes precedence.
    pub(crate) fn create(
        &self,
        cluster: &ClusterMembers,
        name: &str,
        primary: &str,
        partitioned: bool,
    ) -> Result<Arc<DatabaseEntry>> {
        let version = doc! { "uuid": Uuid::new(), "lastMod": 1 };
        let document =
            doc! { "_id": name, "primary": primary, "partitioned": partitioned, "version": version };
        match cluster.config().config_insert("databases", vec![document]) {
            Err(failure) if failure.code() != Code::DuplicateKey => return Err(failure),
            _ => {}
        }
        self.forget_database(name);
        self.database(cluster, name)?.ok_or_else(|| {
            Failure::new(Code::NamespaceNotFound, format!("database {name} was dropped while it was created"))
        })
    }

    /// The chunks of a collection, or `None` if it is not sharded.
    pub(crate) fn table(
        &self,
        cluster: &ClusterMembers,
        namespace: &str,
    ) -> Result<Option<Arc<RoutingTable>>> {
        if let Some(known) = self.known_table(namespace) {
            return Ok(known);
        }
        let _one = self.reading.lock();
        if let Some(known) = self.known_table(namespace) {
            return Ok(known);
        }
        let began = Instant::now();
        let read = read_table(cluster, namespace);
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counters.refresh_micros.fetch_add(micros, Ordering::Relaxed);
        self.counters.refreshes.fetch_add(1, Ordering::Relaxed);
        let table = read
            .inspect_err(|_| {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
            })?
            .map(Arc::new);
        self.collections.write().insert(namespace.to_owned(), table.clone());
        Ok(table)
    }

    /// Forgets a collection, if its cached table is still `used`.
    pub(crate) fn forget_stale(&self, namespace: &str, used: Option<&Arc<RoutingTable>>) {
        self.counters.stale_errors.fetch_add(1, Ordering::Relaxed);
        let mut collections = self.collections.write();
        let same = match (collections.get(namespace), used) {
            (Some(Some(known)), Some(used)) => Arc::ptr_eq(known, used),
            (Some(None), None) => true,
            _ => false,
        };
        if same {
            collections.remove(namespace);
        }
    }

    pub(crate) fn forget(&self, namespace: &str) {
        self.collections.write().remove(namespace);
    }

    /// Forgets where a database lives.
    pub(crate) fn forget_database(&self, name: &str) {
        self.databases.write().remove(name);
    }

    /// Forgets a database and all its collections.
    pub(crate) fn forget_all_of(&self, name: &str) {
        self.forget_database(name);
        self.collections
            .write()
            .retain(|namespace, _| namespace.split_once('.').is_none_or(|(database, _)| database != name));
    }

    pub(crate) fn clear(&self) {
        self.databases.write().clear();
        self.collections.write().clear();
    }
}

/// Reads a collection's entry and chunks.
pub(crate) fn read_table(cluster: &ClusterMembers, namespace: &str) -> Result<Option<RoutingTable>> {
    let mut reads = 0;
    loop {
        let Some(document) = cluster.config().config_get("collections", namespace)? else { return Ok(None) };
        let Some(entry) = CollectionEntry::parse(&document)? else { return Ok(None) };
        let documents =
            cluster.config().config_find("chunks", doc! { "ns": namespace }, doc! { "lastmod": 1 })?;
        let epoch = entry.epoch;
        let chunks = documents.iter().map(|document| Chunk::parse(document, epoch)).collect::<Result<_>>()?;
        match RoutingTable::new(entry, chunks) {
            Err(failure) if failure.code() == Code::ConflictingOperationInProgress && reads < MAX_READS => {
                reads += 1;
                std::thread::sleep(PAUSE);
            }
            result => return result.map(Some),
        }
    }
}

/// The shard that holds the fewest bytes, except shards that are being removed.
pub(crate) fn least_loaded(cluster: &ClusterMembers) -> Result<String> {
    cluster.reload()?;
    let mut best: Option<(f64, String)> = None;
    for shard in cluster.shards().iter().filter(|shard| !shard.draining) {
        let command = doc! { "listDatabases": 1 };
        let reply = shard.backend.command("admin", &command, &SendPolicy::read())?;
        let bytes = match reply.get("totalSize") {
            Some(Bson::Double(bytes)) => *bytes,
            #[expect(clippy::cast_precision_loss, reason = "bytes are compared, not counted")]
            Some(Bson::Int64(bytes)) => *bytes as f64,
            Some(Bson::Int32(bytes)) => f64::from(*bytes),
            _ => 0.0,
        };
        if best.as_ref().is_none_or(|(least, _)| bytes < *least) {
            best = Some((bytes, shard.backend.id().to_owned()));
        }
    }
    best.map(|(_, id)| id).ok_or_else(|| Failure::new(Code::ShardNotFound, "No shards found"))
}
