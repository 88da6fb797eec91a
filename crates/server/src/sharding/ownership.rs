//! This shard's ownership of a collection: reads it from the config servers if it is not cached, compares it with each command from a router
//! (the hook in dispatch), and writes it when the collection is sharded, which its primary shard does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Document, RawBsonRef, RawDocument, doc};
use fathom_query::{Code, Failure};
use fathom_sharding::{Ownership, ShardVersion, stale_config};

use crate::Result;
use crate::config::ClusterRole;
use crate::instance::Instance;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::{OperationClass, Request};
use crate::sharding_state::{CatalogCache, Collection, ShardIdentity, WritePermit};

impl CatalogCache {
    /// A collection's state, read if it is not cached.
    pub(crate) fn collection(
        &self,
        instance: &Instance,
        identity: &ShardIdentity,
        namespace: &str,
    ) -> Result<Collection> {
        match self.get(namespace) {
            Some(known) => Ok(known),
            None => self.read(instance, identity, namespace),
        }
    }

    /// Reads a collection from the config servers, and again if it is forgotten meanwhile.
    pub(crate) fn read(
        &self,
        instance: &Instance,
        identity: &ShardIdentity,
        namespace: &str,
    ) -> Result<Collection> {
        loop {
            let reading = self.begin(namespace);
            let table = identity.config.table(namespace)?;
            let owned = table.map(|table| table.ownership(&identity.shard));
            let empty = instance.catalog.get(namespace).is_none_or(|found| found.records() == 0);
            if empty && leads(instance) && owned.is_some() {
                self.clean.lock().entry(namespace.to_owned()).or_insert(true);
            }
            if let Some(collection) = self.finish(namespace, reading, owned) {
                return Ok(collection);
            }
        }
    }

    /// Whether the shard certainly has no orphans of a collection. Only the shard's primary learns of migrations.
    pub(crate) fn is_clean(&self, instance: &Instance, namespace: &str) -> bool {
        leads(instance) && self.clean.lock().get(namespace).copied().unwrap_or(false)
    }
}

/// Whether this server accepts the shard's writes.
fn leads(instance: &Instance) -> bool {
    instance.set.as_ref().is_none_or(|set| set.is_writable())
}

/// The time that a secondary waits to learn which shard it belongs to.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Compares the versions that a command carries, and gives the operation the shard's ownership of its collection. A write holds
/// the gate until the guard is dropped, so that no chunk can leave meanwhile.
pub(crate) fn check(op: &mut OperationContext<'_>, request: &Request<'_>) -> Result<Option<WritePermit>> {
    let Some(received) = request.field("shardVersion") else { return Ok(None) };
    if op.instance.config.cluster_role != ClusterRole::Shard {
        return Ok(None);
    }
    let received = ShardVersion::parse(received)?;
    let namespace = namespace_of(request)?;
    let identity = identity(op)?;
    let inside = match request.command.kind {
        OperationClass::Write => {
            Some(op.instance.sharding.gates.enter(&namespace, &|| op.check_interrupt())?)
        }
        _ => None,
    };
    if let Some(version) = parse::document(request.fields, "databaseVersion")? {
        let version = parse::owned(version)?;
        op.instance.sharding.known.check_database(&identity, request.database, &version)?;
    }
    let known = &op.instance.sharding.known;
    let mut collection = known.collection(op.instance, &identity, &namespace)?;
    if !received.is_compatible(collection.version()) && !is_older(received, collection.version()) {
        collection = known.read(op.instance, &identity, &namespace)?;
    }
    if !received.is_compatible(collection.version()) {
        op.instance.sharding.figures.stale.add(1);
        return Err(stale_config(&namespace, received, collection.version()));
    }
    if let Collection::Sharded(owned) = collection {
        op.ownership = Some(owned);
    }
    Ok(inside)
}

/// The identity of the shard. A secondary learns it by replication, and a router's request may arrive earlier.
fn identity(op: &OperationContext<'_>) -> Result<Arc<ShardIdentity>> {
    let instance = op.instance;
    let until = Instant::now() + IDENTITY_TIMEOUT;
    loop {
        let failure = match instance.sharding.must_be_shard(instance) {
            Err(failure) if failure.code() == Code::NoShardingEnabled => failure,
            result => return result,
        };
        let follows = instance.set.as_ref().is_some_and(|set| !set.is_writable());
        if !follows || Instant::now() >= until {
            return Err(failure);
        }
        op.check_interrupt()?;
        std::thread::sleep(PAUSE);
    }
}

/// Whether a router's version is certainly older than the shard's.
fn is_older(received: ShardVersion, owned: ShardVersion) -> bool {
    match (received, owned) {
        (ShardVersion::Sharded(received), ShardVersion::Sharded(owned)) => {
            received.epoch == owned.epoch && received.major < owned.major
        }
        _ => false,
    }
}

/// The collection that a command names.
fn namespace_of(request: &Request<'_>) -> Result<String> {
    if let ("explain", RawBsonRef::Document(inner)) = (request.command.name, request.target) {
        return match first_of(inner) {
            Some(collection) => Ok(format!("{}.{collection}", request.database)),
            None => Err(Failure::new(Code::FailedToParse, "explain takes a command on a collection")),
        };
    }
    match request.target {
        RawBsonRef::String(name) if matches!(request.command.name, "dataSize" | "moveChunk") => {
            Ok(name.to_owned())
        }
        _ => request.namespace(),
    }
}

fn first_of(command: &RawDocument) -> Option<&str> {
    command.iter().next()?.ok()?.1.as_str()
}

/// The shard's ownership of a collection, read again, or `None` if the collection is not sharded.
pub(crate) fn ownership(op: &OperationContext<'_>, namespace: &str) -> Result<Option<Arc<Ownership>>> {
    let identity = op.instance.sharding.must_be_shard(op.instance)?;
    Ok(match op.instance.sharding.known.read(op.instance, &identity, namespace)? {
        Collection::Unsharded => None,
        Collection::Sharded(owned) => Some(owned),
    })
}

/// Writes the collection's entry, which makes it sharded, while the gate is shut. The collection must be empty if some of its
/// chunks belong to other shards.
pub(crate) fn commit_collection(
    op: &mut OperationContext<'_>,
    namespace: &str,
    entry: Document,
    must_be_empty: bool,
) -> Result<()> {
    let identity = op.instance.sharding.must_be_shard(op.instance)?;
    let shut = op.instance.sharding.gates.shut(namespace, &|| op.check_interrupt())?;
    let documents = op.instance.catalog.get(namespace).map_or(0, |collection| collection.records());
    if must_be_empty && documents != 0 {
        let what = format!("{namespace} got documents while it was being sharded; try again");
        return Err(Failure::new(Code::ConflictingOperationInProgress, what));
    }
    let written = identity.config.update("collections", doc! { "_id": namespace }, entry, true);
    op.instance.sharding.known.forget(namespace);
    // The shard owns all documents that are here.
    op.instance.sharding.known.note_clean(namespace);
    drop(shut);
    written.map(drop)
}
