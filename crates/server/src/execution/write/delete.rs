//! Deletes, of the first match or of all.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use fathom_query::{Code, Failure};

use super::{DocumentMatch, WriteTarget, with_collection};
use crate::Result;
use crate::execution::write_transaction;
use crate::operation_context::OperationContext;
use crate::storage::{Collection, CollectionState};

/// The options of a delete.
#[derive(Debug)]
pub(crate) struct DeleteRequest {
    pub(crate) target: WriteTarget,
    /// All matches, or the first.
    pub(crate) multi: bool,
}

/// Runs a delete; returns the number of deleted documents.
pub(crate) fn delete(op: &mut OperationContext<'_>, namespace: &str, request: &DeleteRequest) -> Result<u64> {
    if !request.multi {
        return Ok(u64::from(delete_one(op, namespace, &request.target)?.is_some()));
    }
    let deleted = with_collection(op, namespace, false, |op, found| {
        let Some((collection, state)) = found else { return Ok(0) };
        refuse_capped(collection)?;
        let records = request.target.all(op, collection, state, usize::MAX)?;
        delete_records(op, collection, state, &request.target, records)
    })?;
    op.figures.deleted = Some(op.figures.deleted.unwrap_or(0) + deleted);
    Ok(deleted)
}

/// Deletes at most `most` matches of the target that `target_of` derives from the collection, if any; returns how many.
pub(crate) fn delete_some(
    op: &mut OperationContext<'_>,
    namespace: &str,
    most: usize,
    target_of: &dyn Fn(&CollectionState) -> Result<Option<WriteTarget>>,
) -> Result<u64> {
    with_collection(op, namespace, false, |op, found| {
        let Some((collection, state)) = found else { return Ok(0) };
        refuse_capped(collection)?;
        let Some(target) = target_of(state)? else { return Ok(0) };
        let records = target.all(op, collection, state, most)?;
        delete_records(op, collection, state, &target, records)
    })
}

fn delete_records(
    op: &mut OperationContext<'_>,
    collection: &Arc<Collection>,
    state: &CollectionState,
    target: &WriteTarget,
    records: Vec<i64>,
) -> Result<u64> {
    let mut deleted = 0;
    for record in records {
        op.check_interrupt()?;
        let gone = write_transaction(op, |op| {
            let located = target.again(op, collection, record)?;
            located.map(|located| remove(op, collection, state, located)).transpose()
        })?;
        if let Some(gone) = gone {
            count(collection, &gone);
            deleted += 1;
        }
    }
    Ok(deleted)
}

/// Deletes the first match and returns it.
pub(crate) fn delete_one(
    op: &mut OperationContext<'_>,
    namespace: &str,
    target: &WriteTarget,
) -> Result<Option<RawDocumentBuf>> {
    let gone = with_collection(op, namespace, false, |op, found| {
        let Some((collection, state)) = found else { return Ok(None) };
        refuse_capped(collection)?;
        let gone = write_transaction(op, |op| {
            let located = target.first(op, collection, state)?;
            located.map(|located| remove(op, collection, state, located)).transpose()
        })?;
        gone.iter().for_each(|gone| count(collection, gone));
        Ok(gone)
    })?;
    op.figures.deleted = Some(op.figures.deleted.unwrap_or(0) + u64::from(gone.is_some()));
    Ok(gone)
}

fn remove(
    op: &mut OperationContext<'_>,
    collection: &Arc<Collection>,
    state: &CollectionState,
    located: DocumentMatch,
) -> Result<RawDocumentBuf> {
    collection.remove(op.session(), state, located.record, &located.document)?;
    op.note_delete(collection, &located.document)?;
    Ok(located.document)
}

/// Refuses deletes in a capped collection, which loses documents only to later inserts.
fn refuse_capped(collection: &Collection) -> Result<()> {
    if collection.limits().is_none() {
        return Ok(());
    }
    let what = format!("cannot remove from a capped collection: {}", collection.namespace());
    Err(Failure::new(Code::IllegalOperation, what))
}

fn count(collection: &Collection, gone: &RawDocument) {
    collection.note(-1, -i64::try_from(gone.as_bytes().len()).unwrap_or(0));
}
