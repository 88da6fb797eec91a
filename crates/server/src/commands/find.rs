//! The command `find`: runs a query and returns its first batch.

use std::sync::Arc;

use bson::{Bson, RawBsonRef, RawDocument};
use fathom_query::{Code, Dialect, Failure, Filter, Projection, Sort};

use super::pipeline::{FIRST_BATCH, find_on_view, write_cursor};
use super::{Reply, hint_of, read_let, refuse_collation};
use crate::Result;
use crate::buffers;
use crate::cursors::{FindQuery, FindState, Producer, QueryCursor};
use crate::execution::{PipelinePlan, ReplyBatch, time_left};
use crate::operation_context::OperationContext;
use crate::parse::{self, Fields};
use crate::request::Request;
use crate::storage::{Collection, SharedState, document_of};

/// The options of a `find` apart from the query itself.
#[derive(Debug)]
struct CursorOptions {
    batch_size: u64,
    single_batch: bool,
    no_timeout: bool,
    tailable: bool,
    await_data: bool,
}

/// Runs the query and writes the first batch.
pub(super) fn run(op: &mut OperationContext<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    op.instance.counters.operations.query(1);
    op.figures.namespace = namespace;
    read_let(op, request.fields)?;
    let (query, options) = parse_find(op, request)?;
    let _ticket = op.read_ticket()?;
    loop {
        let Some(collection) = op.instance.catalog.get(&op.figures.namespace) else {
            op.figures.plan = Some("EOF".into());
            return write_empty(op, reply);
        };
        let state = op.lock(&collection)?;
        // The collection was dropped, renamed or recreated since it was looked up.
        if !state.gone {
            op.collection = Some(Arc::clone(&collection));
            return answer(op, request, &collection, state, (query, &options), reply);
        }
    }
}

/// Runs the query over a collection or view that the caller holds.
fn answer(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    collection: &Arc<Collection>,
    state: SharedState<'_>,
    (query, options): (FindQuery, &CursorOptions),
    reply: &mut Reply<'_>,
) -> Result<()> {
    if state.options.is_view() {
        drop(state);
        let asked = find_on_view(&op.figures.namespace, request.body())?;
        let planned = PipelinePlan::new(op, &asked)?;
        let CursorOptions { batch_size, single_batch, .. } = *options;
        return write_cursor(op, planned, batch_size, single_batch, request.body(), reply);
    }
    if is_point_read(&query) && query.filter.only_id().and_then(|id| op.owns_id(id)) == Some(true) {
        return point_read(op, collection, &query, reply);
    }
    if options.tailable && !state.options.is_capped() {
        let what = format!(
            "error processing query: ns={} tailable cursor requested on non capped collection",
            collection.namespace()
        );
        return Err(Failure::new(Code::BadValue, what));
    }
    let find = FindState::new(op, &state, query)?;
    if options.tailable {
        op.instance.counters.tailable_scans.add(1);
    }
    drop(state);
    let mut producer = Producer::Find(Box::new(find), Arc::clone(collection));
    let mut cursor = reply.begin_document("cursor");
    let mut first = cursor.begin_array("firstBatch");
    let done = producer.fill(op, &mut ReplyBatch::new(&mut first, options.batch_size))?;
    op.figures.returned = Some(first.count() as u64);
    first.end();
    let keep = !options.single_batch && (!done || options.tailable);
    let id = if keep {
        op.instance.cursors.add(QueryCursor {
            majority: op.majority,
            namespace: op.figures.namespace.clone(),
            producer,
            no_timeout: options.no_timeout,
            tailable: options.tailable,
            await_data: options.await_data,
            originating: request.body().to_owned(),
            users: op.client.users(),
            time_left: time_left(op),
        })
    } else {
        0
    };
    op.figures.cursor_id = id;
    op.figures.cursor_exhausted = id == 0;
    cursor.i64("id", id);
    cursor.string("ns", &op.figures.namespace);
    Ok(())
}

/// Whether a query asks for one `_id` without any option that needs a plan: then the document is copied from the table
/// into the reply without a cursor.
fn is_point_read(query: &FindQuery) -> bool {
    query.filter.only_id().is_some()
        && !query.projection.as_ref().is_some_and(Projection::is_positional)
        && query.hint.is_none()
        && query.skip == 0
        && !query.show_record_id
        && !query.return_key
        && query.min.is_none()
        && query.max.is_none()
}

fn point_read(
    op: &mut OperationContext<'_>,
    collection: &Collection,
    query: &FindQuery,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let Some(id) = query.filter.only_id() else { return Ok(()) };
    op.figures.plan = Some("IDHACK".into());
    if let Some(index) = collection.id_index() {
        index.count_access();
    }
    let mut cursor = reply.begin_document("cursor");
    let mut first = cursor.begin_array("firstBatch");
    op.session().begin()?;
    let mark = first.mark();
    first.begin_item(bson::spec::ElementType::EmbeddedDocument);
    let found = match &query.projection {
        None => whole_document(op, collection, id, first.buffer()),
        Some(projection) => projected_document(op, collection, id, projection, first.buffer()),
    };
    op.session().rollback();
    if !found? {
        first.back_to(mark);
    }
    op.figures.returned = Some(first.count() as u64);
    op.figures.cursor_exhausted = true;
    first.end();
    cursor.i64("id", 0);
    cursor.string("ns", &op.figures.namespace);
    Ok(())
}

/// Appends the document with an `_id`; returns whether it exists.
fn whole_document(
    op: &mut OperationContext<'_>,
    collection: &Collection,
    id: &Bson,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let at = out.len();
    if op.document_by_id(collection, id, out)?.is_none() {
        return Ok(false);
    }
    // Bytes from a table are sent unchanged, but only if they are a valid document.
    document_of(out.get(at..).unwrap_or_default()).map(|_| true)
}

/// The same with a projection.
fn projected_document(
    op: &mut OperationContext<'_>,
    collection: &Collection,
    id: &Bson,
    projection: &Projection,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let mut whole = buffers::take();
    let found = whole_document(op, collection, id, &mut whole);
    if let Ok(true) = found {
        projection.append(document_of(&whole)?, fathom_query::FilterMatch::default(), op.variables(), out)?;
    }
    buffers::give(whole);
    found
}

fn write_empty(op: &mut OperationContext<'_>, reply: &mut Reply<'_>) -> Result<()> {
    op.figures.returned = Some(0);
    op.figures.cursor_exhausted = true;
    let mut cursor = reply.begin_document("cursor");
    cursor.begin_array("firstBatch").end();
    cursor.i64("id", 0);
    cursor.string("ns", &op.figures.namespace);
    Ok(())
}

fn parse_find(op: &mut OperationContext<'_>, request: &Request<'_>) -> Result<(FindQuery, CursorOptions)> {
    let body = request.fields;
    let mut query = query_of(op, body)?;
    let batch_size = parse::natural(body, "batchSize")?;
    let single_batch =
        parse::boolean(body, "singleBatch")? || parse::integer(body, "limit")?.is_some_and(|limit| limit < 0);
    let options = CursorOptions {
        batch_size: batch_size.or(parse::natural(body, "ntoreturn")?).unwrap_or(FIRST_BATCH),
        single_batch,
        no_timeout: parse::boolean(body, "noCursorTimeout")?,
        tailable: parse::boolean(body, "tailable")?,
        await_data: parse::boolean(body, "awaitData")?,
    };
    if options.await_data && !options.tailable {
        return Err(Failure::new(
            Code::FailedToParse,
            "Cannot set 'awaitData' without also setting 'tailable'",
        ));
    }
    // A tailable cursor needs the records' own order: only that order has an end to wait at.
    if options.tailable && query.hint.is_none() {
        query.hint = Some(fathom_query::Hint::Natural { backwards: false });
    }
    Ok((query, options))
}

/// The query of a `find` command, also within `explain`.
pub(super) fn query_of<'d>(op: &mut OperationContext<'_>, body: impl Fields<'d>) -> Result<FindQuery> {
    refuse_collation(parse::field(body, "collation"))?;
    let variables = op.variables();
    let filter = parse::document(body, "filter")?.unwrap_or_else(|| parse::empty());
    let filter = Filter::parse(filter, variables)?;
    let projection = match parse::document(body, "projection")? {
        Some(projection) => Projection::parse(projection, Dialect::Find, variables)?,
        None => None,
    };
    let mut sort_document = parse::document(body, "sort")?;
    let mut hint = hint_of(parse::field(body, "hint"))?;
    // A sort by $natural is a hint.
    if let Some(natural) = sort_document.and_then(|sort| parse::field(sort, "$natural")) {
        hint = Some(fathom_query::Hint::Natural {
            backwards: parse::integer_of(natural).is_some_and(|way| way < 0),
        });
        sort_document = None;
    }
    let sort = sort_document.map(Sort::parse).transpose()?.flatten();
    let limit = match body_integer(body, "limit")? {
        0 => None,
        limit => Some(limit.unsigned_abs()),
    };
    Ok(FindQuery {
        filter,
        sort,
        projection,
        hint,
        skip: parse::natural(body, "skip")?.unwrap_or(0),
        limit,
        show_record_id: parse::boolean(body, "showRecordId")?,
        return_key: parse::boolean(body, "returnKey")?,
        count_only: false,
        min: parse::document(body, "min")?.filter(|end| !end.is_empty()).map(RawDocument::to_owned),
        max: parse::document(body, "max")?.filter(|end| !end.is_empty()).map(RawDocument::to_owned),
        needed: None,
    })
}

fn body_integer<'d>(body: impl Fields<'d>, name: &str) -> Result<i64> {
    match parse::field(body, name) {
        Some(RawBsonRef::Null) | None => Ok(0),
        Some(_) => Ok(parse::integer(body, name)?.unwrap_or(0)),
    }
}
