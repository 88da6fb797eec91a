//! `insert`: documents, in one batch, ordered or not.

use bson::RawDocument;
use fathom_query::Failure;

use super::Reply;
use super::batch::{check_batch, is_ordered, refuse_internal, write_errors};
use crate::Result;
use crate::execution::insert_documents;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Inserts `documents`.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    let documents = request.documents("documents")?;
    check_batch(documents.len())?;
    let ordered = is_ordered(request)?;
    let validate = !parse::boolean(request.fields, "bypassDocumentValidation")?;
    refuse_internal(&namespace)?;
    op.instance.counters.operations.insert(documents.len() as u64);
    let _session = op.begin_retryable(request)?;
    let _ticket = op.write_ticket()?;
    let result = insert(op, &namespace, &documents, ordered, validate);
    op.figures.namespace = namespace;
    let (inserted, failures) = result?;
    reply.i32("n", i32::try_from(inserted).unwrap_or(i32::MAX));
    write_errors(op, reply, &failures);
    Ok(())
}

/// Inserts what is not done yet of a write that may have been sent before.
fn insert(
    op: &mut Operation<'_>,
    namespace: &str,
    documents: &[&RawDocument],
    ordered: bool,
    validate: bool,
) -> Result<(usize, Vec<(usize, Failure)>)> {
    if op.statement.is_none() {
        return insert_documents(op, namespace, documents, ordered, validate);
    }
    let (mut inserted, mut failures) = (0, Vec::new());
    let mut at = 0;
    while at < documents.len() && (failures.is_empty() || !ordered) {
        if op.begin_statement(at)?.is_some() {
            inserted += 1;
            at += 1;
            continue;
        }
        let mut end = at + 1;
        while end < documents.len() && op.begin_statement(end)?.is_none() {
            end += 1;
        }
        op.begin_statement(at)?;
        let rest = documents.get(at..end).unwrap_or_default();
        let (count, failed) = insert_documents(op, namespace, rest, ordered, validate)?;
        inserted += count;
        failures.extend(failed.into_iter().map(|(place, failure)| (at + place, failure)));
        at = end;
    }
    Ok((inserted, failures))
}
