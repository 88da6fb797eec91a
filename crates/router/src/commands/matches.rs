//! What the matches of a query amount to over all shards: their number (`count`), and the different values of a field (`distinct`).

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
use crate::instance::Operation;
use crate::outgoing::Outgoing;
use crate::request::{Request, Sending};
use crate::route::Route;

/// `count`: the sum of what the shards count.
pub(super) fn count(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    op.instance.counters.commands.add(1);
    let counted = op
        .instance
        .with_route(request.database, &namespace, |route| answer_count(op, request, route, reply))?;
    if counted.is_none() {
        reply.i32("n", 0);
    }
    Ok(())
}

fn answer_count(
    op: Operation<'_>,
    request: &Request<'_>,
    route: &Route,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let shards = shards_of(request, route)?;
    if let [only] = shards.as_slice() {
        return send_to(op, request, route, only, |_, answer| {
            pass_on(answer, reply);
            Ok(())
        });
    }
    let skip = parse::integer(request.fields, "skip")?.unwrap_or(0);
    if skip < 0 {
        return Err(Failure::new(Code::BadValue, "Skip value is negative in the count query"));
    }
    let limit = parse::integer(request.fields, "limit")?.unwrap_or(0).saturating_abs();
    let mut commands: Vec<(Arc<Backend>, Outgoing<'_>)> = Vec::with_capacity(shards.len());
    for shard in &shards {
        let command = Outgoing::forwarded(request, &["skip", "limit"], |body| {
            if limit != 0 {
                body.i64("limit", limit.saturating_add(skip));
            }
        })?;
        commands.push((op.instance.cluster.shard(shard)?, command.with_versions(route.versions(shard))));
    }
    let mut sum = 0_i64;
    for answer in call::ask_all(request.database, &commands, &Sending::of(request)) {
        let answer = answer?;
        let answer: &RawDocument = &answer;
        sum = sum.saturating_add(parse::integer(answer, "n")?.unwrap_or(0));
    }
    let rest = sum.saturating_sub(skip).max(0);
    write_number(reply, "n", if limit == 0 { rest } else { rest.min(limit) });
    Ok(())
}

/// The shards of the matches of `query`.
pub(super) fn shards_of(request: &Request<'_>, route: &Route) -> Result<Vec<String>> {
    if route.table.is_none() {
        return Ok(vec![route.primary.id().to_owned()]);
    }
    let query = parse::document(request.fields, "query")?.unwrap_or_else(|| parse::empty());
    Ok(route.target(&Filter::parse(query, &variables_of(request)?)?)?.shards)
}

/// What all values together may take, as in mongod.
const MOST_BYTES: usize = 16 << 20;

/// `distinct`: the values of all shards, each once, in their order.
pub(super) fn distinct(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    op.instance.counters.commands.add(1);
    let found = op
        .instance
        .with_route(request.database, &namespace, |route| answer_distinct(op, request, route, reply))?;
    if found.is_none() {
        reply.begin_array("values").end();
    }
    Ok(())
}

fn answer_distinct(
    op: Operation<'_>,
    request: &Request<'_>,
    route: &Route,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let shards = shards_of(request, route)?;
    if let [only] = shards.as_slice() {
        return send_to(op, request, route, only, |_, answer| {
            pass_on(answer, reply);
            Ok(())
        });
    }
    let mut commands: Vec<(Arc<Backend>, Outgoing<'_>)> = Vec::with_capacity(shards.len());
    for shard in &shards {
        let command = Outgoing::forwarded(request, &[], |_| {})?.with_versions(route.versions(shard));
        commands.push((op.instance.cluster.shard(shard)?, command));
    }
    let mut values: BTreeMap<Vec<u8>, RawBson> = BTreeMap::new();
    let mut bytes = 0;
    for answer in call::ask_all(request.database, &commands, &Sending::of(request)) {
        let answer = answer?;
        let found = answer.get_array("values").map_err(|error| parse::malformed(&error))?;
        for value in found {
            let value = value.map_err(|error| parse::malformed(&error))?;
            let mut key = KeyBuilder::new();
            key.append(value, false);
            let key = key.finish(Bound::Exact).bytes;
            bytes += key.len() + 8;
            if bytes > MOST_BYTES {
                return Err(Failure::new(Code(17217), "distinct too big, 16mb cap"));
            }
            values.entry(key).or_insert_with(|| value.into());
        }
    }
    let mut array = reply.begin_array("values");
    values.values().for_each(|value| array.value(value.as_raw_bson_ref()));
    Ok(())
}
