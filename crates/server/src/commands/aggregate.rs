//! `aggregate`, and queries on views, which are pipelines.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_query::{Code, Failure};

use super::find::FIRST_BATCH;
use super::{Reply, hint_of, read_let, refuse_collation};
use crate::Result;
use crate::execution::{Aggregation, Batch, Planned, Producer, QueryCursor, time_left};
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Runs a pipeline and writes the first batch.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    read_let(op, request.fields)?;
    let asked = aggregation_of(request.target, request.database, request.body())?;
    op.figures.namespace.clone_from(&asked.namespace);
    if parse::boolean(request.fields, "explain")? {
        return super::explain::aggregate(op, &asked, super::explain::Verbosity::QueryPlanner, reply);
    }
    let batch_size = batch_size_of(request.body())?;
    let ticket = op.read_ticket()?;
    let planned = Planned::new(op, &asked)?;
    let writes = planned.writes();
    write_cursor(op, planned, if writes { FIRST_BATCH } else { batch_size }, false, request.body(), reply)?;
    drop(ticket);
    if !writes {
        return Ok(());
    }
    if let Some(set) = &op.instance.set {
        // `$out` and `$merge` write by operations of their own; this one waits for all of them.
        op.last = Some(crate::replication::newest(set));
    } else if request.write_concern.journal && op.instance.config.storage.journal {
        op.instance.journal.wait_until_durable()?;
    }
    Ok(())
}

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
    // Accepted, and without effect: stages hold at most 100 MB in memory and refuse what needs more.
    parse::boolean(body, "allowDiskUse")?;
    Ok(Aggregation {
        namespace: format!("{database}.{collection}"),
        stages: owned,
        about_collection,
        hint: hint_of(parse::field(body, "hint"))?,
        validate: !parse::boolean(body, "bypassDocumentValidation")?,
    })
}

fn batch_size_of(body: &RawDocument) -> Result<u64> {
    match parse::field(body, "cursor") {
        None => Err(Failure::new(
            Code::FailedToParse,
            "The 'cursor' option is required, except for aggregate with the explain argument",
        )),
        Some(RawBsonRef::Document(cursor)) => {
            for element in cursor {
                let (name, _) = element.map_err(|error| parse::malformed(&error))?;
                if name.as_str() != "batchSize" {
                    let what = format!("cursor object can't contain fields other than batchSize: {name}");
                    return Err(Failure::new(Code::BadValue, what));
                }
            }
            Ok(parse::natural(cursor, "batchSize")?.unwrap_or(FIRST_BATCH))
        }
        Some(_) => Err(Failure::new(Code::TypeMismatch, "cursor field must be missing or an object")),
    }
}

/// Writes the first batch of a pipeline, and keeps its cursor if there is more. The caller holds a ticket.
pub(super) fn write_cursor(
    op: &mut Operation<'_>,
    planned: Planned,
    batch_size: u64,
    single_batch: bool,
    originating: &RawDocument,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let mut producer = Producer::Rows(Box::new(planned.into_rows()));
    let mut cursor = reply.begin_document("cursor");
    let mut first = cursor.begin_array("firstBatch");
    let done = producer.fill(op, &mut Batch::new(&mut first, batch_size))?;
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

/// The pipeline that a `find` on a view is: its filter, sort, skip, limit and projection as stages.
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

/// A stage.
pub(super) fn one(name: &bson::raw::CStr, value: RawBsonRef<'_>) -> RawDocumentBuf {
    let mut stage = RawDocumentBuf::new();
    stage.append(name, value);
    stage
}
