//! `delete`: a list of deletes, each of the first match or of all.

use bson::RawDocument;
use fathom_query::{Code, Failure, Filter};

use super::insert::{check_batch, is_ordered, refuse_internal, write_errors};
use super::{Reply, hint_of, read_let, refuse_collation};
use crate::Result;
use crate::dispatch::Request;
use crate::execution::{DeleteRequest, Target, delete};
use crate::operation::Operation;
use crate::parse;

/// Fields of one item of `deletes`.
const FIELDS: &[&str] = &["q", "limit", "collation", "hint"];

/// Runs `deletes`.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let items = request.documents("deletes")?;
    check_batch(items.len())?;
    let ordered = is_ordered(request)?;
    refuse_internal(&namespace)?;
    read_let(op, request.body)?;
    let _ticket = op.write_ticket()?;
    let mut deleted = 0;
    let mut failures = Vec::new();
    for (place, item) in items.iter().enumerate() {
        op.instance.counters.operations.delete(1);
        match delete_of(op, item).and_then(|delete_request| delete(op, &namespace, &delete_request)) {
            Ok(count) => deleted += count,
            Err(failure) => {
                op.stop_if_interrupted(&failure)?;
                failures.push((place, failure));
                if ordered {
                    break;
                }
            }
        }
    }
    op.figures.namespace = namespace;
    reply.i32("n", i32::try_from(deleted).unwrap_or(i32::MAX));
    op.instance.counters.asserts.users(failures.len());
    write_errors(reply, &failures);
    Ok(())
}

pub(super) fn delete_of(op: &mut Operation<'_>, item: &RawDocument) -> Result<DeleteRequest> {
    for element in item {
        let (name, _) = element.map_err(|error| parse::malformed(&error))?;
        if !FIELDS.contains(&name.as_str()) {
            return Err(Failure::new(
                Code(40415),
                format!("BSON field 'delete.deletes.{}' is an unknown field.", name.as_str()),
            ));
        }
    }
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
