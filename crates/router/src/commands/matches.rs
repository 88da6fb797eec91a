//! The commands `count`, the number of matches of a query on all shards, and `distinct`, the different values of a field in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::RawDocument;
use bson::raw::RawBson;
use fathom_query::{Bound, Filter, KeyBuilder};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::{Reply, pass_on, send_to, variables_of, write_number};
use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::instance::RouterOperation;
use crate::request::{Request, SendPolicy};
use crate::route::Route;
use crate::shard_command::ShardCommand;

/// `count`: the sum of the shards' counts.
pub(super) fn count(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    run(op, request, reply, sum_counts, |reply| reply.i32("n", 0))
}

/// Runs a command on the shards that can hold matches: the reply of one shard is passed on, the replies of several are combined by
/// `join`. If the collection does not exist, `write_empty` writes the reply.
fn run(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
    join: impl Fn(RouterOperation<'_>, &Request<'_>, &Route, &[String], &mut Reply<'_>) -> Result<()>,
    write_empty: impl FnOnce(&mut Reply<'_>),
) -> Result<()> {
    let namespace = request.namespace()?;
    op.instance.counters.commands.add(1);
    let answered = op.instance.with_route(request.database, &namespace, |route| {
        match shards_of(request, route)?.as_slice() {
            [only] => send_to(op, request, route, only, |_, answer| {
                pass_on(answer, reply);
                Ok(())
            }),
            shards => join(op, request, route, shards, reply),
        }
    })?;
    if answered.is_none() {
        write_empty(reply);
    }
    Ok(())
}

fn sum_counts(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    route: &Route,
    shards: &[String],
    reply: &mut Reply<'_>,
) -> Result<()> {
    let skip = parse::integer(request.fields, "skip")?.unwrap_or(0);
    if skip < 0 {
        return Err(Failure::new(Code::BadValue, "Skip value is negative in the count query"));
    }
    let limit = parse::integer(request.fields, "limit")?.unwrap_or(0).saturating_abs();
    let mut commands: Vec<(Arc<Backend>, ShardCommand<'_>)> = Vec::with_capacity(shards.len());
    for shard in shards {
        let command = ShardCommand::forwarded(request, &["skip", "limit"], |body| {
            if limit != 0 {
                body.i64("limit", limit.saturating_add(skip));
            }
        })?;
        commands.push((op.instance.cluster.shard(shard)?, command.with_versions(route.versions(shard))));
    }
    let mut sum = 0_i64;
    for answer in call::ask_all(request.database, &commands, &SendPolicy::from_request(request)) {
        let answer = answer?;
        let answer: &RawDocument = &answer;
        sum = sum.saturating_add(parse::integer(answer, "n")?.unwrap_or(0));
    }
    let rest = sum.saturating_sub(skip).max(0);
    write_number(reply, "n", if limit == 0 { rest } else { rest.min(limit) });
    Ok(())
}

/// The shards that can hold matches of `query`.
pub(super) fn shards_of(request: &Request<'_>, route: &Route) -> Result<Vec<String>> {
    if route.table.is_none() {
        return Ok(vec![route.primary.id().to_owned()]);
    }
    let query = parse::document(request.fields, "query")?.unwrap_or_else(|| parse::empty());
    Ok(route.target(&Filter::parse(query, &variables_of(request)?)?)?.shards)
}

/// The largest total size of all values, as in mongod.
const MAX_BYTES: usize = 16 << 20;

/// `distinct`: the values of all shards, each once, in order.
pub(super) fn distinct(op: RouterOperation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    run(op, request, reply, join_values, |reply| reply.begin_array("values").end())
}

fn join_values(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    route: &Route,
    shards: &[String],
    reply: &mut Reply<'_>,
) -> Result<()> {
    let mut commands: Vec<(Arc<Backend>, ShardCommand<'_>)> = Vec::with_capacity(shards.len());
    for shard in shards {
        let command = ShardCommand::forwarded(request, &[], |_| {})?.with_versions(route.versions(shard));
        commands.push((op.instance.cluster.shard(shard)?, command));
    }
    let mut values: BTreeMap<Vec<u8>, RawBson> = BTreeMap::new();
    let mut bytes = 0;
    for answer in call::ask_all(request.database, &commands, &SendPolicy::from_request(request)) {
        let answer = answer?;
        let found = answer.get_array("values").map_err(|error| parse::malformed(&error))?;
        for value in found {
            let value = value.map_err(|error| parse::malformed(&error))?;
            let mut key = KeyBuilder::new();
            key.append(value, false);
            let key = key.finish(Bound::Exact).bytes;
            bytes += key.len() + 8;
            if bytes > MAX_BYTES {
                return Err(Failure::new(Code(17217), "distinct too big, 16mb cap"));
            }
            values.entry(key).or_insert_with(|| value.into());
        }
    }
    let mut array = reply.begin_array("values");
    values.values().for_each(|value| array.value(value.as_raw_bson_ref()));
    Ok(())
}
