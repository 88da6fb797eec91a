//! Whether a command that a router sends addresses what this shard owns: the hook in dispatch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{RawBsonRef, RawDocument};
use fathom_query::{Code, Failure};
use fathom_sharding::{ShardVersion, stale_config};

use super::gate::Inside;
use super::known::Collection;
use super::{ClusterRole, Identity};
use crate::Result;
use crate::command::Kind;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// How long a secondary waits to be told which shard it belongs to.
const IDENTITY: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Compares the versions that a command carries, and gives the operation what the shard owns of its collection. A write holds the
/// gate until the guard goes, so that no chunk can leave meanwhile.
pub(crate) fn check(op: &mut Operation<'_>, request: &Request<'_>) -> Result<Option<Inside>> {
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
fn identity(op: &Operation<'_>) -> Result<Arc<Identity>> {
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
