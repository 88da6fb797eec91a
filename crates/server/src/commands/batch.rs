//! What `insert`, `update` and `delete` have in common: the limits of a batch, its order, and the failures of its items.

use bson::RawDocument;
use fathom_query::{Code, Failure};
use fathom_wire::limits::MAX_WRITE_BATCH;

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Refuses a batch that is empty or too large.
pub(super) fn check_batch(length: usize) -> Result<()> {
    if (1..=MAX_WRITE_BATCH).contains(&length) {
        return Ok(());
    }
    let what = format!("Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {length} operations.");
    Err(Failure::new(Code::InvalidLength, what))
}

/// Whether the batch stops at the first failure, as it does unless told otherwise.
pub(super) fn is_ordered(request: &Request<'_>) -> Result<bool> {
    match request.field("ordered") {
        None => Ok(true),
        Some(_) => parse::boolean(request.fields, "ordered"),
    }
}

/// Refuses writes to what the server keeps for itself.
pub(super) fn refuse_internal(namespace: &str) -> Result<()> {
    if crate::namespace::is_internal(namespace) {
        return Err(Failure::new(Code::InvalidNamespace, format!("cannot write to '{namespace}'")));
    }
    Ok(())
}

/// Refuses a write to many documents that may be sent again: it would be no single statement.
pub(super) fn refuse_many(op: &Operation<'_>, many: bool) -> Result<()> {
    if many && op.statement.is_some() {
        return Err(Failure::new(
            Code::InvalidOptions,
            "Cannot use (or request) retryable writes with multi=true",
        ));
    }
    Ok(())
}

/// Does one item after the other; the failures, with the places of their items. It stops at the first of them if the batch is
/// `ordered`, and fails as a whole where the operation is to end.
pub(super) fn each(
    op: &mut Operation<'_>,
    items: &[&RawDocument],
    ordered: bool,
    mut work: impl FnMut(&mut Operation<'_>, usize, &RawDocument) -> Result<()>,
) -> Result<Vec<(usize, Failure)>> {
    let mut failures = Vec::new();
    for (place, item) in items.iter().enumerate() {
        if let Err(failure) = work(op, place, item) {
            op.stop_if_interrupted(&failure)?;
            failures.push((place, failure));
            if ordered {
                break;
            }
        }
    }
    Ok(failures)
}

/// Counts the failures and adds `writeErrors`, if there are any.
pub(super) fn write_errors(op: &Operation<'_>, reply: &mut Reply<'_>, failures: &[(usize, Failure)]) {
    op.instance.counters.asserts.users(failures.len());
    if failures.is_empty() {
        return;
    }
    let mut array = reply.begin_array("writeErrors");
    for (place, failure) in failures {
        let mut item = array.begin_document();
        item.i32("index", i32::try_from(*place).unwrap_or(i32::MAX));
        item.i32("code", failure.code().0);
        item.string("errmsg", failure.message());
        item.extend(failure.extra());
    }
}
