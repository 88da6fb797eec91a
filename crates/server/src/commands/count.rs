//! `count`: how many documents match; without a query, what the collection's counter says, as in mongod.

use bson::{RawBsonRef, RawDocument, rawdoc};
use fathom_query::{Code, Failure, Filter};

use super::aggregate::one;
use super::{Reply, hint_of, refuse_collation};
use crate::Result;
use crate::execution::{Aggregation, FindQuery, FindState, Planned, Taken};
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Counts.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    op.figures.namespace = request.namespace()?;
    let query = query_of(op, request.body())?;
    let _ticket = op.read_ticket()?;
    let count = count(op, query, request.body())?;
    match i32::try_from(count) {
        Ok(count) => reply.i32("n", count),
        Err(_) => reply.i64("n", i64::try_from(count).unwrap_or(i64::MAX)),
    }
    Ok(())
}

/// The query of a `count` command, also within `explain`.
pub(super) fn query_of(op: &mut Operation<'_>, body: &RawDocument) -> Result<FindQuery> {
    refuse_collation(parse::field(body, "collation"))?;
    let filter = parse::document(body, "query")?.unwrap_or_else(|| parse::empty());
    let mut query = FindQuery::of(Filter::parse(filter, op.variables())?);
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

/// Whether the collection's own counter answers.
pub(super) fn is_counter_enough(query: &FindQuery) -> bool {
    query.filter.is_empty() && query.hint.is_none()
}

fn count(op: &mut Operation<'_>, query: FindQuery, body: &RawDocument) -> Result<u64> {
    let Some(collection) = op.instance.catalog.get(&op.figures.namespace) else {
        op.figures.plan = Some("EOF".into());
        return Ok(0);
    };
    let state = collection.lock();
    if state.options.is_view() {
        drop(state);
        let asked = on_view(&op.figures.namespace, body)?;
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
        Ok(Taken::More)
    })?;
    Ok(count)
}

/// The pipeline that a count on a view is.
pub(super) fn on_view(namespace: &str, body: &RawDocument) -> Result<Aggregation> {
    let query = rawdoc_of(body, "query")?;
    let mut inner = rawdoc! { "filter": query };
    for name in [bson::cstr!("skip"), bson::cstr!("limit"), bson::cstr!("hint")] {
        if let Some(value) = parse::field(body, name.as_str()) {
            inner.append(name, value);
        }
    }
    let mut asked = super::aggregate::find_on_view(namespace, &inner)?;
    asked.stages.push(one(bson::cstr!("$count"), RawBsonRef::String("count")));
    Ok(asked)
}

fn rawdoc_of(body: &RawDocument, name: &str) -> Result<bson::RawDocumentBuf> {
    Ok(parse::document(body, name)?.unwrap_or_else(|| parse::empty()).to_owned())
}

fn count_rows(op: &mut Operation<'_>, asked: &Aggregation) -> Result<u64> {
    let mut rows = Planned::new(op, asked)?.into_rows();
    let row = rows.next(op)?;
    let count = row.as_deref().and_then(|row| parse::field(row, "count")).and_then(parse::integer_of);
    Ok(count.unwrap_or(0).unsigned_abs())
}
