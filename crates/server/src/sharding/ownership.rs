//! What this shard owns of a collection: read from the config servers where it is not known, held against each command that a router sends (the
//! hook in dispatch), and written when the collection is sharded, which is its primary shard's to do.

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
use crate::request::{Kind, Request};
use crate::sharding_state::{Collection, Identity, Inside, Known};

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

/// How long a secondary waits to be told which shard it belongs to.
const IDENTITY: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Compares the versions that a command carries, and gives the operation what the shard owns of its collection. A write holds the
/// gate until the guard goes, so that no chunk can leave meanwhile.
pub(crate) fn check(op: &mut OperationContext<'_>, request: &Request<'_>) -> Result<Option<Inside>> {
    let Some(received) = request.field("shardVersion") else { return Ok(None) };
    if op.instance.config.cluster_role != ClusterRole::Shard {
        return Ok(None);
    }
    let received = ShardVersion::parse(received)?;
    let namespace = namespace_of(request)?;
    let identity = identity(op)?;
    let inside = match request.command.kind {
        Kind::Write => Some(op.instance.sharding.gates.enter(&namespace, &|| op.check_interrupt())?),
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

/// Which shard this is. A secondary is told by replication, and the router that asks it may be quicker.
fn identity(op: &OperationContext<'_>) -> Result<Arc<Identity>> {
    let instance = op.instance;
    let until = Instant::now() + IDENTITY;
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

/// Whether a router's version is one that the shard has left behind for sure.
fn is_older(received: ShardVersion, owned: ShardVersion) -> bool {
    match (received, owned) {
        (ShardVersion::Sharded(received), ShardVersion::Sharded(owned)) => {
            received.epoch == owned.epoch && received.major < owned.major
        }
        _ => false,
    }
}

/// The collection that a command is about.
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

/// What the shard owns of a collection, read anew; none if it is not sharded.
pub(crate) fn ownership(op: &OperationContext<'_>, namespace: &str) -> Result<Option<Arc<Ownership>>> {
    let identity = op.instance.sharding.must_be_shard(op.instance)?;
    Ok(match op.instance.sharding.known.read(op.instance, &identity, namespace)? {
        Collection::Unsharded => None,
        Collection::Sharded(owned) => Some(owned),
    })
}

/// Writes the collection's entry, which makes it sharded, while the gate is shut. Where chunks lie on other shards there must be
/// no document.
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
    // All that is here is the shard's own.
    op.instance.sharding.known.note_clean(namespace);
    drop(shut);
    written.map(drop)
}
