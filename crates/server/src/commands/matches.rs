//! The commands `count`, which returns the number of matches of a query (without a query, the collection's counter, as in mongod),
//! and `distinct`, which returns the distinct values under a path (the items of arrays count separately).

use bson::{RawBsonRef, RawDocument};
use fathom_query::{Code, Failure, Filter};

use super::pipeline::{count_on_view, distinct_on_view};
use super::{Reply, hint_of, refuse_collation};
use crate::Result;
use crate::cursors::{FindQuery, FindState};
use crate::execution::{Aggregation, BatchEffect, DistinctValues, PipelinePlan, first_values, needed};
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;

/// `count`: the number of matches; without a query, the collection's counter, as in mongod.
pub(super) fn count(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    op.figures.namespace = request.namespace()?;
    let query = query_of_count(op, request.body())?;
    let _ticket = op.read_ticket()?;
    let count = count_of(op, query, request.body())?;
    match i32::try_from(count) {
        Ok(count) => reply.i32("n", count),
        Err(_) => reply.i64("n", i64::try_from(count).unwrap_or(i64::MAX)),
    }
    Ok(())
}

/// The query of a `count` command, also within `explain`.
pub(super) fn query_of_count(op: &mut OperationContext<'_>, body: &RawDocument) -> Result<FindQuery> {
    refuse_collation(parse::field(body, "collation"))?;
    let filter = parse::document(body, "query")?.unwrap_or_else(|| parse::empty());
    let mut query = FindQuery::new(Filter::parse(filter, op.variables())?);
    query.hint = hint_of(parse::field(body, "hint"))?;
    query.skip = match parse::integer(body, "skip")?.unwrap_or(0) {
        skip if skip < 0 => {
            return Err(Failure::new(Code::BadValue, "Skip value is negative in the count query"));
        }
        skip => skip.unsigned_abs(),
    };
    query.limit = parse::integer(body, "limit")?.filter(|limit| *limit != 0).map(i64::unsigned_abs);
    query.count_only = true;
    Ok(query)
}

/// Whether the collection's counter is a sufficient answer.
pub(super) fn is_counter_enough(query: &FindQuery) -> bool {
    query.filter.is_empty() && query.hint.is_none()
}

fn count_of(op: &mut OperationContext<'_>, query: FindQuery, body: &RawDocument) -> Result<u64> {
    let Some(collection) = op.instance.catalog.get(&op.figures.namespace) else {
        op.figures.plan = Some("EOF".into());
        return Ok(0);
    };
    let state = op.lock(&collection)?;
    if state.options.is_view() {
        drop(state);
        let asked = count_on_view(&op.figures.namespace, body)?;
        return count_rows(op, &asked);
    }
    let others =
        op.ownership.is_some() && !op.instance.sharding.known.is_clean(op.instance, &op.figures.namespace);
    if is_counter_enough(&query) && !others {
        op.figures.plan = Some("RECORD_STORE_COUNT".into());
        let count = collection.records().unsigned_abs().saturating_sub(query.skip);
        return Ok(query.limit.map_or(count, |limit| count.min(limit)));
    }
    let mut find = FindState::new(op, &state, query)?;
    let mut count = 0;
    find.fill(op, &collection, &state, &mut |_| {
        count += 1;
        Ok(BatchEffect::More)
    })?;
    Ok(count)
}

fn count_rows(op: &mut OperationContext<'_>, asked: &Aggregation) -> Result<u64> {
    let mut rows = PipelinePlan::new(op, asked)?.into_rows();
    let row = rows.next(op)?;
    let count = row.as_deref().and_then(|row| parse::field(row, "count")).and_then(parse::integer_of);
    Ok(count.unwrap_or(0).unsigned_abs())
}

/// `distinct`: the distinct values under a path; the items of arrays count separately.
///
/// An index that contains the path avoids reading the records. If the path is the index's first field and the query has no
/// other condition, the scan jumps from one value to the next.
pub(super) fn distinct(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    op.figures.namespace = request.namespace()?;
    let (query, key) = query_of_distinct(op, request.body())?;
    let _ticket = op.read_ticket()?;
    let mut values = DistinctValues::new(&key);
    collect(op, query, request.body(), &mut values)?;
    values.write(&mut reply.begin_array("values"));
    Ok(())
}

/// The query of a `distinct` command, also within `explain`, and its path.
pub(super) fn query_of_distinct(
    op: &mut OperationContext<'_>,
    body: &RawDocument,
) -> Result<(FindQuery, String)> {
    refuse_collation(parse::field(body, "collation"))?;
    let key = match parse::field(body, "key") {
        Some(RawBsonRef::String(key)) => key,
        None => return Err(parse::missing("distinct.key")),
        Some(other) => return Err(parse::wrong_type("distinct.key", other, "string")),
    };
    if key.contains('\0') {
        return Err(Failure::new(Code(31032), "Key field cannot contain an embedded null byte"));
    }
    let variables = op.variables().clone();
    let filter = parse::document(body, "query")?.unwrap_or_else(|| parse::empty());
    let mut query = FindQuery::new(Filter::parse(filter, &variables)?);
    query.hint = hint_of(parse::field(body, "hint"))?;
    let top = key.split('.').next().unwrap_or(key).to_owned();
    query.needed = needed(&std::iter::once(top).collect(), &variables)?;
    Ok((query, key.to_owned()))
}

fn collect(
    op: &mut OperationContext<'_>,
    query: FindQuery,
    body: &RawDocument,
    values: &mut DistinctValues,
) -> Result<()> {
    let Some(collection) = op.instance.catalog.get(&op.figures.namespace) else {
        op.figures.plan = Some("EOF".into());
        return Ok(());
    };
    let state = op.lock(&collection)?;
    if state.options.is_view() {
        drop(state);
        let asked = distinct_on_view(&op.figures.namespace, body)?;
        let mut rows = PipelinePlan::new(op, &asked)?.into_rows();
        while let Some(row) = rows.next(op)? {
            values.add(&row)?;
        }
        return Ok(());
    }
    let all_own =
        op.ownership.is_none() || op.instance.sharding.known.is_clean(op.instance, &op.figures.namespace);
    if all_own
        && query.filter.is_empty()
        && query.hint.is_none()
        && first_values(op, &collection, &state, values)?
    {
        return Ok(());
    }
    FindState::new(op, &state, query)?.fill(op, &collection, &state, &mut |document| {
        values.add(document)?;
        Ok(BatchEffect::More)
    })
}
