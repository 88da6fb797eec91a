//! The pipelines that commands run: that of an `aggregate`, and those equivalent to queries on views; also writes a pipeline's first batch.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use fathom_query::{Code, Failure};

use super::{Reply, hint_of, refuse_collation};
use crate::Result;
use crate::cursors::{Producer, QueryCursor};
use crate::execution::{Aggregation, PipelinePlan, ReplyBatch, time_left};
use crate::operation_context::OperationContext;
use crate::parse;

/// The size of the first batch if the client asks for none.
pub(super) const FIRST_BATCH: u64 = 101;

/// The pipeline of an `aggregate` command, also within `explain`.
pub(super) fn aggregation_of(
    target: RawBsonRef<'_>,
    database: &str,
    body: &RawDocument,
) -> Result<Aggregation> {
    let (collection, about_collection) = match target {
        RawBsonRef::String("") => {
            return Err(Failure::new(
                Code::InvalidNamespace,
                format!("Invalid namespace specified '{database}.'"),
            ));
        }
        RawBsonRef::String(name) => (name, true),
        number if parse::integer_of(number) == Some(1) => ("$cmd.aggregate", false),
        number if parse::integer_of(number).is_some() => {
            return Err(Failure::new(
                Code::FailedToParse,
                "Invalid command format: the 'aggregate' field must specify a collection name or 1",
            ));
        }
        other => {
            return Err(Failure::new(
                Code::TypeMismatch,
                format!("collection name has invalid type {}", parse::type_name(other)),
            ));
        }
    };
    let stages = match parse::field(body, "pipeline") {
        Some(RawBsonRef::Array(stages)) => stages,
        None => return Err(parse::missing("aggregate.pipeline")),
        Some(_) => {
            return Err(Failure::new(Code::TypeMismatch, "'pipeline' option must be specified as an array"));
        }
    };
    let mut owned: Vec<RawDocumentBuf> = Vec::new();
    for stage in stages {
        match stage.map_err(|error| parse::malformed(&error))? {
            RawBsonRef::Document(stage) => owned.push(stage.to_owned()),
            _ => {
                return Err(Failure::new(
                    Code::TypeMismatch,
                    "Each element of the 'pipeline' array must be an object",
                ));
            }
        }
    }
    refuse_collation(parse::field(body, "collation"))?;
    // Accepted without effect: stages hold at most 100 MB in memory and fail if they need more.
    parse::boolean(body, "allowDiskUse")?;
    Ok(Aggregation {
        namespace: format!("{database}.{collection}"),
        stages: owned,
        about_collection,
        hint: hint_of(parse::field(body, "hint"))?,
        validate: !parse::boolean(body, "bypassDocumentValidation")?,
    })
}

/// The pipeline equivalent to a `find` on a view: its filter, sort, skip, limit and projection as stages.
pub(super) fn find_on_view(namespace: &str, body: &RawDocument) -> Result<Aggregation> {
    for name in ["min", "max", "returnKey", "showRecordId", "tailable", "awaitData", "oplogReplay"] {
        let asked = match parse::field(body, name) {
            None | Some(RawBsonRef::Null | RawBsonRef::Boolean(false)) => false,
            Some(RawBsonRef::Document(ends)) => !ends.is_empty(),
            Some(_) => true,
        };
        if asked {
            let what = format!("Option {name} not supported on aggregation");
            return Err(Failure::new(Code::InvalidPipelineOperator, what));
        }
    }
    let mut stages = Vec::new();
    for (field, stage) in [("filter", bson::cstr!("$match")), ("sort", bson::cstr!("$sort"))] {
        if let Some(document) = parse::document(body, field)?.filter(|document| !document.is_empty()) {
            stages.push(one(stage, RawBsonRef::Document(document)));
        }
    }
    if let Some(skip) = parse::natural(body, "skip")?.filter(|skip| *skip > 0) {
        stages.push(one(bson::cstr!("$skip"), RawBsonRef::Int64(i64::try_from(skip).unwrap_or(i64::MAX))));
    }
    if let Some(limit) = parse::integer(body, "limit")?.filter(|limit| *limit != 0) {
        stages.push(one(bson::cstr!("$limit"), RawBsonRef::Int64(limit.saturating_abs())));
    }
    if let Some(fields) = parse::document(body, "projection")?.filter(|document| !document.is_empty()) {
        stages.push(one(bson::cstr!("$project"), RawBsonRef::Document(fields)));
    }
    Ok(Aggregation {
        namespace: namespace.to_owned(),
        stages,
        about_collection: true,
        hint: hint_of(parse::field(body, "hint"))?,
        validate: true,
    })
}

/// The pipeline equivalent to a count on a view.
pub(super) fn count_on_view(namespace: &str, body: &RawDocument) -> Result<Aggregation> {
    let query = rawdoc_of(body, "query")?;
    let mut inner = rawdoc! { "filter": query };
    for name in [bson::cstr!("skip"), bson::cstr!("limit"), bson::cstr!("hint")] {
        if let Some(value) = parse::field(body, name.as_str()) {
            inner.append(name, value);
        }
    }
    let mut asked = find_on_view(namespace, &inner)?;
    asked.stages.push(one(bson::cstr!("$count"), RawBsonRef::String("count")));
    Ok(asked)
}

fn rawdoc_of(body: &RawDocument, name: &str) -> Result<bson::RawDocumentBuf> {
    Ok(parse::document(body, name)?.unwrap_or_else(|| parse::empty()).to_owned())
}

/// The pipeline equivalent to a distinct on a view; array items in its rows count separately, as in those of a collection.
pub(super) fn distinct_on_view(namespace: &str, body: &RawDocument) -> Result<Aggregation> {
    let filter: RawDocumentBuf = parse::document(body, "query")?.unwrap_or_else(|| parse::empty()).to_owned();
    find_on_view(namespace, &rawdoc! { "filter": filter })
}

fn one(name: &bson::raw::CStr, value: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut stage = RawDocumentBuf::new();
    stage.append(name, value);
    stage
}

/// Writes the first batch of a pipeline, and keeps its cursor if more rows remain. The caller holds a ticket.
pub(super) fn write_cursor(
    op: &mut OperationContext<'_>,
    planned: PipelinePlan,
    batch_size: u64,
    single_batch: bool,
    originating: &RawDocument,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let mut producer = Producer::Rows(Box::new(planned.into_rows()));
    let mut cursor = reply.begin_document("cursor");
    let mut first = cursor.begin_array("firstBatch");
    let done = producer.fill(op, &mut ReplyBatch::new(&mut first, batch_size))?;
    op.figures.returned = Some(first.count() as u64);
    first.end();
    let id = if done || single_batch {
        0
    } else {
        op.instance.cursors.add(QueryCursor {
            majority: op.majority,
            namespace: op.figures.namespace.clone(),
            producer,
            no_timeout: false,
            tailable: false,
            await_data: false,
            originating: originating.to_owned(),
            users: op.client.users(),
            time_left: time_left(op),
        })
    };
    op.figures.cursor_id = id;
    op.figures.cursor_exhausted = id == 0;
    cursor.i64("id", id);
    cursor.string("ns", &op.figures.namespace);
    Ok(())
}
