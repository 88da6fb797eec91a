//! Writes of documents: `insert`, `update` and `delete`, statement by statement, and `findAndModify`, on the single shard that the
//! shard key in its query selects.

use fathom_query::Filter;
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::{Reply, pass_on, send_to, variables_of};
use crate::Result;
use crate::instance::RouterOperation;
use crate::request::Request;
use crate::route::Route;
use crate::write::{self, BatchType};

/// `findAndModify`: runs on the single shard that the shard key in the query selects.
pub(super) fn find_and_modify(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    op.instance.with_new_route(request.database, &namespace, |route| {
        let shard = shard_of(request, route)?;
        send_to(op, request, route, &shard, |_, answer| {
            pass_on(answer, reply);
            Ok(())
        })
    })
}

/// The single shard that the shard key in the query selects.
pub(super) fn shard_of(request: &Request<'_>, route: &Route) -> Result<String> {
    let Some(table) = &route.table else { return Ok(route.primary.id().to_owned()) };
    let query = parse::document(request.fields, "query")?.unwrap_or_else(|| parse::empty());
    let filter = Filter::parse(query, &variables_of(request)?)?;
    let key = table.key().key_of_filter(&filter);
    let shard = key.and_then(|key| table.shard_of(&key).map(str::to_owned));
    shard.ok_or_else(|| {
        Failure::new(Code::ShardKeyNotFound, "Query for sharded findAndModify must contain the shard key")
    })
}

pub(super) fn insert(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    write::run(op, request, BatchType::Insert, reply)
}

pub(super) fn update(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    write::run(op, request, BatchType::Update, reply)
}

pub(super) fn delete(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    write::run(op, request, BatchType::Delete, reply)
}
