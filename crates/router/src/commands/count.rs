//! `count`: the sum of what the shards count.

use std::sync::Arc;

use bson::RawDocument;
use fathom_query::Filter;
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use super::{Reply, pass_on, send_to, variables_of, write_number};
use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::operation::Operation;
use crate::outgoing::Outgoing;
use crate::request::Request;
use crate::route::Route;

/// Counts.
pub(super) fn run(op: Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    op.instance.counters.commands.add(1);
    let counted =
        op.instance.with_route(request.database, &namespace, |route| answer(op, request, route, reply))?;
    if counted.is_none() {
        reply.i32("n", 0);
    }
    Ok(())
}

fn answer(op: Operation<'_>, request: &Request<'_>, route: &Route, reply: &mut Reply<'_>) -> Result<()> {
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
    for answer in call::ask_all(request.database, &commands, &request.sending()) {
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
