//! `collStats` and `dbStats`: sums over the shards, and what each says (server.md, 2.8; collStats-router.json).

use bson::{Bson, Document};
use fathom_wire::{Code, Failure};

use super::everywhere::{ask, number};
use super::{Reply, write_number};
use crate::Result;
use crate::call;
use crate::operation::Operation;
use crate::outgoing::Outgoing;
use crate::request::Request;

/// What is summed of `collStats`.
const OF_COLLECTIONS: &[&str] = &["count", "size", "storageSize", "totalIndexSize"];
/// What is summed of `dbStats`.
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

/// `collStats`.
pub(super) fn collection(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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

/// `dbStats`.
pub(super) fn database(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let command = Outgoing::forwarded(request, &[], |_| {})?;
    let shards = op.instance.cluster.shards();
    let commands: Vec<_> = match request.database {
        "config" | "admin" => vec![(std::sync::Arc::clone(op.instance.cluster.config()), command)],
        _ => shards.into_iter().map(|shard| (shard.backend, command.clone())).collect(),
    };
    let mut replies = Vec::new();
    for (answer, (backend, _)) in
        call::ask_all(request.database, &commands, &request.sending()).into_iter().zip(&commands)
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
