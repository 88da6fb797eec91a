//! Statistics of collections and databases, combined from those of the shards: `validate`, `dataSize`, `collStats` and `dbStats`
//! (docs/methods.md#commands-and-errors; collStats-router.json).

use std::sync::Arc;

use bson::{Bson, Document, RawDocument};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::{Reply, number_of, pass_on, send_to, write_number};
use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::instance::RouterOperation;
use crate::request::{Request, SendPolicy};
use crate::route::Route;
use crate::shard_command::ShardCommand;

/// `validate`: valid if it is valid on all shards.
pub(super) fn validate(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let found = op.instance.with_route(request.database, &namespace, |route| {
        let replies = match ask(op, request, route, reply)? {
            None => return Ok(()),
            Some(replies) => replies,
        };
        let mut raw = Document::new();
        let mut valid = true;
        for (host, answer) in replies {
            valid &= answer.get_bool("valid").unwrap_or(false);
            raw.insert(host, answer);
        }
        reply.bool("valid", valid);
        reply.bson("raw", &Bson::Document(raw));
        Ok(())
    })?;
    found.ok_or_else(|| {
        Failure::new(Code::NamespaceNotFound, format!("Collection '{namespace}' does not exist to validate."))
    })
}

/// The command `dataSize`, summed over shards.
pub(super) fn data_size(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.named_namespace()?.to_owned();
    let database = namespace.split_once('.').map_or("", |(database, _)| database);
    let found = op.instance.with_route(database, &namespace, |route| {
        let Some(replies) = ask(op, request, route, reply)? else { return Ok(()) };
        for field in ["size", "numObjects", "millis"] {
            reply.f64(field, replies.iter().map(|(_, answer)| number(answer, field)).sum());
        }
        Ok(())
    })?;
    if found.is_none() {
        ["size", "numObjects", "millis"].iter().for_each(|field| reply.f64(field, 0.0));
    }
    Ok(())
}

/// A number of a reply, 0 if it has none.
pub(super) fn number(answer: &Document, field: &str) -> f64 {
    let value = answer.get(field).cloned().and_then(|value| bson::RawBson::try_from(value).ok());
    value.and_then(|value| number_of(value.as_raw_bson_ref())).unwrap_or(0.0)
}

/// The replies of the shards that have a part of the collection; `None` if it is not sharded: the single reply has then been passed on.
pub(super) fn ask(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    route: &Route,
    reply: &mut Reply<'_>,
) -> Result<Option<Vec<(String, Document)>>> {
    if route.table.is_none() {
        let shard = route.primary.id().to_owned();
        send_to(op, request, route, &shard, |_, answer: &RawDocument| {
            pass_on(answer, reply);
            Ok(())
        })?;
        return Ok(None);
    }
    let mut commands: Vec<(Arc<Backend>, ShardCommand<'_>)> = Vec::new();
    for shard in route.shards() {
        let command = ShardCommand::forwarded(request, &[], |_| {})?.with_versions(route.versions(&shard));
        commands.push((op.instance.cluster.shard(&shard)?, command));
    }
    let replies = call::ask_all(request.database, &commands, &SendPolicy::from_request(request));
    let mut all = Vec::with_capacity(replies.len());
    for (answer, (backend, _)) in replies.into_iter().zip(&commands) {
        all.push((backend.id().to_owned(), parse::owned(&answer?)?));
    }
    Ok(Some(all))
}

/// The fields of `collStats` that are summed.
const OF_COLLECTIONS: &[&str] = &["count", "size", "storageSize", "totalIndexSize"];
/// The fields of `dbStats` that are summed.
const OF_DATABASES: &[&str] = &[
    "collections",
    "views",
    "objects",
    "dataSize",
    "storageSize",
    "numExtents",
    "indexes",
    "indexSize",
    "fileSize",
];

pub(super) fn collection(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    let found = op.instance.with_route(request.database, &namespace, |route| {
        let Some(replies) = ask(op, request, route, reply)? else {
            reply.bool("sharded", false);
            reply.string("primary", route.primary.id());
            return Ok(());
        };
        reply.bool("sharded", true);
        reply.bool("capped", false);
        reply.string("ns", &namespace);
        let sum = |field: &str| replies.iter().map(|(_, answer)| number(answer, field)).sum::<f64>();
        for field in OF_COLLECTIONS {
            write_number(reply, field, whole(sum(field)));
        }
        let count = sum("count");
        reply.f64("avgObjSize", if count > 0.0 { sum("size") / count } else { 0.0 });
        let mut sizes = Document::new();
        for (_, answer) in &replies {
            for (name, _) in answer.get_document("indexSizes").into_iter().flatten() {
                let of_one = |answer: &Document| {
                    answer.get_document("indexSizes").map_or(0.0, |sizes| number(sizes, name))
                };
                sizes.insert(name.clone(), whole(replies.iter().map(|(_, answer)| of_one(answer)).sum()));
            }
        }
        reply.bson("indexSizes", &Bson::Document(sizes));
        let most = replies.iter().map(|(_, answer)| number(answer, "nindexes")).fold(0.0, f64::max);
        write_number(reply, "nindexes", whole(most));
        write_number(
            reply,
            "nchunks",
            route.table.as_ref().map_or(0, |table| i64::try_from(table.chunks().len()).unwrap_or(0)),
        );
        let mut shards = reply.begin_document("shards");
        replies.iter().for_each(|(shard, answer)| shards.bson(shard, &Bson::Document(answer.clone())));
        Ok(())
    })?;
    found.ok_or_else(|| {
        Failure::new(Code::NamespaceNotFound, format!("Database [{}] not found.", request.database))
    })
}

pub(super) fn database(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let command = ShardCommand::forwarded(request, &[], |_| {})?;
    let shards = op.instance.cluster.shards();
    let commands: Vec<_> = match request.database {
        "config" | "admin" => vec![(std::sync::Arc::clone(op.instance.cluster.config()), command)],
        _ => shards.into_iter().map(|shard| (shard.backend, command.clone())).collect(),
    };
    let mut replies = Vec::new();
    for (answer, (backend, _)) in
        call::ask_all(request.database, &commands, &SendPolicy::from_request(request))
            .into_iter()
            .zip(&commands)
    {
        replies.push((backend.hosts().to_string(), fathom_service::parse::owned(&answer?)?));
    }
    let sum = |field: &str| replies.iter().map(|(_, answer)| number(answer, field)).sum::<f64>();
    let mut raw = reply.begin_document("raw");
    replies.iter().for_each(|(host, answer)| raw.bson(host, &Bson::Document(answer.clone())));
    raw.end();
    reply.string("db", request.database);
    for field in OF_DATABASES {
        write_number(reply, field, whole(sum(field)));
    }
    let objects = sum("objects");
    reply.f64("avgObjSize", if objects > 0.0 { sum("dataSize") / objects } else { 0.0 });
    Ok(())
}

#[expect(clippy::cast_possible_truncation, reason = "a saturating cast of a sum of counts")]
fn whole(number: f64) -> i64 {
    number as i64
}
