//! The command `aggregate`: runs a pipeline and returns its first batch.

use bson::{RawBsonRef, RawDocument};
use fathom_query::{Code, Failure};

use super::pipeline::{FIRST_BATCH, aggregation_of, write_cursor};
use super::{Reply, read_let};
use crate::Result;
use crate::execution::PipelinePlan;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;

/// Runs a pipeline and writes the first batch.
pub(super) fn run(op: &mut OperationContext<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    read_let(op, request.fields)?;
    let asked = aggregation_of(request.target, request.database, request.body())?;
    op.figures.namespace.clone_from(&asked.namespace);
    if parse::boolean(request.fields, "explain")? {
        return super::explain::aggregate(op, &asked, super::explain::Verbosity::QueryPlanner, reply);
    }
    let batch_size = batch_size_of(request.body())?;
    let ticket = op.read_ticket()?;
    let planned = PipelinePlan::new(op, &asked)?;
    let writes = planned.writes();
    write_cursor(op, planned, if writes { FIRST_BATCH } else { batch_size }, false, request.body(), reply)?;
    drop(ticket);
    if !writes {
        return Ok(());
    }
    if let Some(set) = &op.instance.set {
        // `$out` and `$merge` write through operations of their own; this operation waits for all of them.
        op.last = Some(crate::replication::newest(set));
    } else if request.generic.write_concern.journal && op.instance.config.storage.journal {
        op.instance.journal.wait_until_durable()?;
    }
    Ok(())
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
