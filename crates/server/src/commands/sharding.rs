//! The commands that routers and other shards send to a shard, and those that report its state.
//!
//! Names that begin with an underscore are internal, as in MongoDB.

use bson::{Bson, Document, RawBsonRef, Timestamp, oid::ObjectId};
use fathom_query::{Code, Failure};
use fathom_sharding::ShardVersion;

use super::Reply;
use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;
use crate::sharding::{self, Migration};

fn named<'a>(request: &Request<'a>) -> Result<&'a str> {
    match request.target {
        RawBsonRef::String(name) if !name.is_empty() => Ok(name),
        other => Err(parse::wrong_type(request.command.name, other, "string")),
    }
}

fn document(request: &Request<'_>, name: &str) -> Result<Document> {
    parse::document(request.fields, name)?.map(parse::owned).transpose()?.ok_or_else(|| parse::missing(name))
}

fn timestamp(request: &Request<'_>, name: &str) -> Result<Timestamp> {
    match request.field(name) {
        Some(RawBsonRef::Timestamp(value)) => Ok(value),
        Some(other) => Err(parse::wrong_type(name, other, "timestamp")),
        None => Err(parse::missing(name)),
    }
}

fn object_id(request: &Request<'_>, name: &str) -> Result<ObjectId> {
    match request.field(name) {
        Some(RawBsonRef::ObjectId(value)) => Ok(value),
        Some(other) => Err(parse::wrong_type(name, other, "objectId")),
        None => Err(parse::missing(name)),
    }
}

/// `_addShard`: the server becomes a shard.
pub(super) fn add(op: &mut OperationContext<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    sharding::adopt(op, &document(request, "shardIdentity")?)
}

/// `_flushRoutingTableCacheUpdates`: forgets a collection, so that it is read again on its next use.
pub(super) fn flush(op: &mut OperationContext<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    op.instance.sharding.known.forget(named(request)?);
    Ok(())
}

/// `_flushDatabaseCacheUpdates`: the same for a database.
pub(super) fn flush_database(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _: &mut Reply<'_>,
) -> Result<()> {
    op.instance.sharding.known.forget_database(named(request)?);
    Ok(())
}

/// `_shardsvrShardCollection`: the primary shard makes a collection sharded while no write to it is in progress.
pub(super) fn commit(op: &mut OperationContext<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    let must_be_empty = parse::boolean(request.fields, "mustBeEmpty")?;
    sharding::commit_collection(op, named(request)?, document(request, "entry")?, must_be_empty)
}

/// `moveChunk`: moves a chunk to another shard.
pub(super) fn move_chunk(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _: &mut Reply<'_>,
) -> Result<()> {
    let hosts = parse::required_string(request.fields, "toHost")?;
    let migration = Migration {
        namespace: named(request)?.to_owned(),
        to: parse::required_string(request.fields, "toShard")?.to_owned(),
        to_hosts: hosts
            .parse()
            .map_err(|error: fathom_errors::Error| Failure::new(Code::FailedToParse, error.to_string()))?,
        min: document(request, "min")?,
        max: document(request, "max")?,
        epoch: object_id(request, "epoch")?,
        version: timestamp(request, "chunkVersion")?,
        now: timestamp(request, "now")?,
        wait: parse::boolean(request.fields, "waitForDelete")?,
    };
    sharding::move_chunk(op, &migration)
}

/// `_recvChunkStart`: announces an arriving chunk. The remains of an earlier attempt are deleted.
pub(super) fn receive(op: &mut OperationContext<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    let namespace = named(request)?;
    let (min, max) = (document(request, "min")?, document(request, "max")?);
    sharding::expect_range(op, namespace, &min, &max)
}

/// `_recvChunkAbort`: the migration is aborted. The documents that arrived are deleted.
pub(super) fn abort(op: &mut OperationContext<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    let namespace = named(request)?;
    sharding::give_up_range(op, namespace, &document(request, "min")?, &document(request, "max")?)
}

/// `_recvChunkCommit`: the chunk has arrived completely.
pub(super) fn received(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _: &mut Reply<'_>,
) -> Result<()> {
    let namespace = named(request)?;
    sharding::note_received(op, namespace, &document(request, "min")?, &document(request, "max")?)
}

/// `cleanupOrphaned`: deletes the documents of a collection on this server that the shard does not own.
pub(super) fn clean_up(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let deleted = sharding::clean_up(op, named(request)?)?;
    reply.i64("deleted", i64::try_from(deleted).unwrap_or(i64::MAX));
    Ok(())
}

/// `getShardVersion`: the versions of a collection that the shard knows.
pub(super) fn version(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = named(request)?;
    let identity = op.instance.sharding.must_be_shard(op.instance)?;
    reply.string("configServer", &identity.config.hosts().to_string());
    reply.bool("inShardedMode", true);
    let version = match sharding::ownership(op, namespace)? {
        Some(owned) => owned.version().timestamp(),
        None => Timestamp { time: 0, increment: 0 },
    };
    reply.timestamp("mine", Timestamp { time: 0, increment: 0 });
    reply.timestamp("global", version);
    Ok(())
}

/// `shardingState`: the identity of the shard.
pub(super) fn state(op: &mut OperationContext<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let identity = op.instance.sharding.identity(op.instance)?;
    reply.bool("enabled", identity.is_some());
    if let Some(identity) = identity {
        reply.string("configServer", &identity.config.hosts().to_string());
        reply.string("shardName", &identity.shard);
        reply.object_id("clusterId", identity.cluster);
        let versions: Document = op
            .instance
            .sharding
            .known
            .versions()
            .into_iter()
            .map(|(namespace, version)| {
                let timestamp = match version {
                    ShardVersion::Unsharded => Timestamp { time: 0, increment: 0 },
                    ShardVersion::Sharded(version) => version.timestamp(),
                };
                (namespace, timestamp.into())
            })
            .collect();
        reply.bson("versions", &Bson::Document(versions));
    }
    Ok(())
}
