//! `insert`: documents, in one batch, ordered or not.

use fathom_query::{Code, Failure};
use fathom_wire::limits::MAX_WRITE_BATCH;

use super::Reply;
use crate::Result;
use crate::dispatch::Request;
use crate::execution::insert_documents;
use crate::operation::Operation;
use crate::parse;

/// Inserts `documents`.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let documents = request.documents("documents")?;
    check_batch(documents.len())?;
    let ordered = is_ordered(request)?;
    let validate = !parse::boolean(request.body, "bypassDocumentValidation")?;
    refuse_internal(&namespace)?;
    op.instance.counters.operations.insert(documents.len() as u64);
    let _ticket = op.write_ticket()?;
    let result = insert_documents(op, &namespace, &documents, ordered, validate);
    op.figures.namespace = namespace;
    let (inserted, failures) = result?;
    reply.i32("n", i32::try_from(inserted).unwrap_or(i32::MAX));
    op.instance.counters.asserts.users(failures.len());
    write_errors(reply, &failures);
    Ok(())
}

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
        Some(_) => parse::boolean(request.body, "ordered"),
    }
}

/// Refuses writes to what the server keeps for itself.
pub(super) fn refuse_internal(namespace: &str) -> Result<()> {
    if crate::namespace::is_internal(namespace) {
        return Err(Failure::new(Code::InvalidNamespace, format!("cannot write to '{namespace}'")));
    }
    Ok(())
}

/// Adds `writeErrors`, if there are any.
pub(super) fn write_errors(reply: &mut Reply<'_>, failures: &[(usize, Failure)]) {
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
