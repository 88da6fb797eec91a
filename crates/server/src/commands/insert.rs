//! `insert`: documents, in one batch, ordered or not.

use super::Reply;
use super::batch::{check_batch, is_ordered, refuse_internal, write_errors};
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
    let validate = !parse::boolean(request.fields, "bypassDocumentValidation")?;
    refuse_internal(&namespace)?;
    op.instance.counters.operations.insert(documents.len() as u64);
    let _ticket = op.write_ticket()?;
    let result = insert_documents(op, &namespace, &documents, ordered, validate);
    op.figures.namespace = namespace;
    let (inserted, failures) = result?;
    reply.i32("n", i32::try_from(inserted).unwrap_or(i32::MAX));
    write_errors(op, reply, &failures);
    Ok(())
}
