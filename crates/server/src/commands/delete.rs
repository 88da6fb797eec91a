//! `delete`: a list of deletes, each of the first match or of all.

use bson::RawDocument;
use fathom_query::{Code, Failure, Filter};

use super::batch::{check_batch, each, is_ordered, refuse_internal, refuse_many, write_errors};
use super::{Reply, hint_of, read_let, refuse_collation};
use crate::Result;
use crate::execution::{DeleteRequest, Target, delete};
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Fields of one item of `deletes`.
const FIELDS: &[&str] = &["q", "limit", "collation", "hint"];

/// Runs `deletes`.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let items = request.documents("deletes")?;
    check_batch(items.len())?;
    let ordered = is_ordered(request)?;
    refuse_internal(&namespace)?;
    read_let(op, request.body())?;
    let _session = op.begin_retryable(request)?;
    let _ticket = op.write_ticket()?;
    let mut deleted = 0;
    let failures = each(op, &items, ordered, |op, place, item| {
        op.instance.counters.operations.delete(1);
        let wanted = delete_of(op, item)?;
        refuse_many(op, wanted.multi)?;
        if let Some(again) = op.begin_statement(place)? {
            deleted += again.deleted;
            return Ok(());
        }
        deleted += delete(op, &namespace, &wanted)?;
        Ok(())
    })?;
    op.figures.namespace = namespace;
    reply.i32("n", i32::try_from(deleted).unwrap_or(i32::MAX));
    write_errors(op, reply, &failures);
    Ok(())
}

pub(super) fn delete_of(op: &mut Operation<'_>, item: &RawDocument) -> Result<DeleteRequest> {
    parse::only_fields(item, FIELDS, "delete.deletes")?;
    let filter = parse::document(item, "q")?.ok_or_else(|| parse::missing("delete.deletes.q"))?;
    refuse_collation(parse::field(item, "collation"))?;
    let hint = hint_of(parse::field(item, "hint"))?;
    let multi = match parse::integer(item, "limit")? {
        Some(0) => true,
        Some(1) => false,
        Some(other) => {
            let what = format!("The limit field in delete objects must be 0 or 1. Got {other}");
            return Err(Failure::new(Code::FailedToParse, what));
        }
        None => return Err(parse::missing("delete.deletes.limit")),
    };
    let filter = Filter::parse(filter, op.variables())?;
    Ok(DeleteRequest { target: Target { filter, hint, sort: None }, multi })
}
