//! The commands that administer the cluster: each turns its fields into a call of [`crate::admin`], and the result into a reply.

use bson::{Bson, Document, RawBsonRef, doc};
use fathom_service::{GENERIC_ARGUMENTS, parse};
use fathom_wire::{Code, Failure};

use super::{Reply, write_number};
use crate::Result;
use crate::admin::{self, Removal, ShardCollection, SplitPoint};
use crate::balancer::{self, BalancerMode};
use crate::instance::RouterOperation;
use crate::request::Request;
use crate::shard_command::fields_of;

/// Refuses unknown fields: the router would silently ignore the request in them.
fn only(request: &Request<'_>, known: &[&str]) -> Result<()> {
    let unknown = fields_of(request.body())
        .skip(1)
        .find(|(name, _)| !known.contains(name) && !GENERIC_ARGUMENTS.contains(name));
    match unknown {
        Some((name, _)) => Err(parse::unknown_field(request.command.name, name)),
        None => Ok(()),
    }
}

fn text<'a>(request: &Request<'a>) -> Result<&'a str> {
    match request.target {
        RawBsonRef::String(text) if !text.is_empty() => Ok(text),
        other => Err(parse::wrong_type(request.command.name, other, "string")),
    }
}

pub(super) fn add_shard(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    only(request, &["name"])?;
    let name = parse::string(request.fields, "name")?;
    reply.string("shardAdded", &admin::add_shard(op.instance, text(request)?, name)?);
    Ok(())
}

pub(super) fn remove_shard(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    only(request, &[])?;
    let shard = text(request)?;
    let (state, message, left) = match admin::remove_shard(op.instance, shard)? {
        Removal::Started(left) => ("started", "draining started successfully", Some(left)),
        Removal::Ongoing(left) => ("ongoing", "draining ongoing", Some(left)),
        Removal::Completed => ("completed", "removeshard completed successfully", None),
    };
    reply.string("msg", message);
    reply.string("state", state);
    match left {
        None => reply.string("shard", shard),
        Some(left) => {
            if state == "started" {
                reply.string("shard", shard);
            } else {
                let remaining = doc! {
                    "chunks": left.chunks,
                    "dbs": i64::try_from(left.databases.len()).unwrap_or(i64::MAX),
                    "jumboChunks": 0_i64,
                };
                reply.bson("remaining", &Bson::Document(remaining));
            }
            reply.string("note", "you need to drop or movePrimary these databases");
            let mut array = reply.begin_array("dbsToMove");
            left.databases.iter().for_each(|database| array.string(database));
        }
    }
    Ok(())
}

pub(super) fn list_shards(op: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    op.instance.cluster.reload()?;
    let mut array = reply.begin_array("shards");
    op.instance.cluster.shards().iter().for_each(|shard| array.bson(&Bson::Document(shard.document.clone())));
    Ok(())
}

/// Serves the command `getShardMap`.
pub(super) fn shard_map(op: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    op.instance.cluster.reload()?;
    let mut map = std::collections::BTreeMap::new();
    let shards = op.instance.cluster.shards().into_iter().map(|shard| shard.backend);
    for backend in shards.chain([std::sync::Arc::clone(op.instance.cluster.config())]) {
        let hosts = backend.hosts().to_string();
        for address in &backend.hosts().addresses {
            map.insert(address.to_string(), hosts.clone());
        }
        map.insert(backend.id().to_owned(), hosts.clone());
        map.insert(hosts.clone(), hosts);
    }
    let mut out = reply.begin_document("map");
    map.iter().for_each(|(name, hosts)| out.string(name, hosts));
    Ok(())
}

/// Serves the command `enableSharding`.
pub(super) fn enable(op: RouterOperation<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    only(request, &["primaryShard"])?;
    let primary = parse::string(request.fields, "primaryShard")?;
    admin::enable_sharding(op.instance, text(request)?, primary)
}

pub(super) fn shard_collection(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    only(request, &["key", "unique", "numInitialChunks", "collation", "presplitHashedZones"])?;
    let namespace = request.named_namespace()?;
    let key = parse::document(request.fields, "key")?.ok_or_else(|| parse::missing("key"))?;
    if let Some(collation) = parse::document(request.fields, "collation")?
        && parse::string(collation, "locale")? != Some("simple")
    {
        return Err(Failure::new(Code::CommandNotSupported, "this router has the simple collation only"));
    }
    if parse::boolean(request.fields, "presplitHashedZones")? {
        return Err(Failure::new(
            Code::CommandNotSupported,
            "presplitHashedZones is not here: this router has no zones",
        ));
    }
    let asked = ShardCollection {
        namespace,
        key,
        unique: parse::boolean(request.fields, "unique")?,
        initial_chunks: parse::natural(request.fields, "numInitialChunks")?,
    };
    let uuid = admin::shard_collection(op.instance, &asked)?;
    reply.string("collectionsharded", namespace);
    if let Some(uuid) = uuid {
        reply.bson("collectionUUID", &uuid);
    }
    Ok(())
}

/// The chunk that the command's fields name.
fn chunk_of(request: &Request<'_>) -> Result<SplitPoint> {
    let bounds = match request.field("bounds") {
        None => None,
        Some(RawBsonRef::Array(items)) => {
            let ends: Vec<Document> = items
                .into_iter()
                .flatten()
                .filter_map(|item| item.as_document())
                .map(parse::owned)
                .collect::<Result<_>>()?;
            match <[Document; 2]>::try_from(ends) {
                Ok([min, max]) => Some(SplitPoint::Bounds(min, max)),
                Err(_) => {
                    return Err(Failure::new(Code::BadValue, "bounds must be an array of two documents"));
                }
            }
        }
        Some(other) => return Err(parse::wrong_type("bounds", other, "array")),
    };
    let find = parse::document(request.fields, "find")?.map(parse::owned).transpose()?.map(SplitPoint::Find);
    let middle =
        parse::document(request.fields, "middle")?.map(parse::owned).transpose()?.map(SplitPoint::Middle);
    let mut given = [bounds, find, middle].into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(one), None) => Ok(one),
        _ => {
            let what = format!("{} takes just one of find, bounds and middle", request.command.name);
            Err(Failure::new(Code::BadValue, what))
        }
    }
}

pub(super) fn split(op: RouterOperation<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    only(request, &["find", "bounds", "middle"])?;
    admin::split(op.instance, request.named_namespace()?, &chunk_of(request)?)
}

pub(super) fn move_chunk(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    only(
        request,
        &[
            "find",
            "bounds",
            "to",
            "_waitForDelete",
            "waitForDelete",
            "_secondaryThrottle",
            "secondaryThrottle",
        ],
    )?;
    let to = parse::required_string(request.fields, "to")?;
    let wait =
        parse::boolean(request.fields, "_waitForDelete")? || parse::boolean(request.fields, "waitForDelete")?;
    let began = std::time::Instant::now();
    let place = chunk_of(request)?;
    if matches!(place, SplitPoint::Middle(_)) {
        return Err(Failure::new(Code::BadValue, "moveChunk takes find or bounds"));
    }
    admin::move_chunk(op.instance, request.named_namespace()?, &place, to, wait)?;
    write_number(reply, "millis", i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX));
    Ok(())
}

pub(super) fn balancer_start(op: RouterOperation<'_>, _: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    balancer::set_mode(op.instance, BalancerMode::Full)
}

/// `balancerStop`: also waits for the move in progress.
pub(super) fn balancer_stop(op: RouterOperation<'_>, _: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    balancer::set_mode(op.instance, BalancerMode::Off)?;
    balancer::wait_for_round(op.instance);
    Ok(())
}

pub(super) fn balancer_status(op: RouterOperation<'_>, _: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let status = balancer::status(op.instance)?;
    reply.string("mode", status.mode.name());
    reply.bool("inBalancerRound", status.in_round);
    reply.i64("numBalancerRounds", i64::try_from(status.rounds).unwrap_or(i64::MAX));
    Ok(())
}

/// `getShardVersion`: the version that the router knows.
pub(super) fn shard_version(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.named_namespace()?;
    let Some(table) = op.instance.catalog.table(&op.instance.cluster, namespace)? else {
        let what = format!("Collection {namespace} is not sharded.");
        return Err(Failure::new(Code::NamespaceNotSharded, what));
    };
    reply.timestamp("version", table.version().timestamp());
    reply.object_id("versionEpoch", table.version().epoch);
    Ok(())
}

/// `flushRouterConfig`: forgets one collection, one database, or all.
pub(super) fn flush(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    match request.target {
        RawBsonRef::String(name) if name.contains('.') => op.instance.catalog.forget(name),
        RawBsonRef::String(name) => op.instance.catalog.forget_all_of(name),
        _ => op.instance.catalog.clear(),
    }
    op.instance.cluster.reload()?;
    reply.bool("flushed", true);
    Ok(())
}
