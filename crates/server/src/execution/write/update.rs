//! Updates, of one document or many, and upserts.

use std::sync::Arc;

use bson::{Bson, RawDocument, RawDocumentBuf};
use fathom_query::{Code, DocumentUpdate, Failure, FilterMatch, Update, UpdateMoment};

use super::insert::{insert_documents, now};
use super::{DocumentMatch, WriteTarget, with_collection};
use crate::Result;
use crate::execution::write_transaction;
use crate::operation_context::OperationContext;
use crate::storage::{Collection, CollectionState};

/// The options of an update.
#[derive(Debug)]
pub(crate) struct UpdateRequest {
    pub(crate) target: WriteTarget,
    pub(crate) update: Update,
    pub(crate) multi: bool,
    pub(crate) upsert: bool,
    pub(crate) validate: bool,
}

/// The result of an update.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UpdateOutcome {
    pub(crate) matched: u64,
    pub(crate) modified: u64,
    /// The `_id` of the document that an upsert inserted.
    pub(crate) upserted: Option<Bson>,
    /// The document before the change, for an update of a single document.
    pub(crate) before: Option<RawDocumentBuf>,
    /// The document after the change.
    pub(crate) after: Option<RawDocumentBuf>,
}

impl UpdateOutcome {
    /// Releases the memory of the documents, for a caller that does not need them.
    pub(crate) fn recycle(self) {
        for document in [self.before, self.after].into_iter().flatten() {
            crate::buffers::give(document.into_bytes());
        }
    }
}

pub(crate) fn update(
    op: &mut OperationContext<'_>,
    namespace: &str,
    request: &UpdateRequest,
) -> Result<UpdateOutcome> {
    let mut outcome = update_or_insert(op, namespace, request);
    // Another connection may have inserted the document that this upsert did not find; then it can be updated now.
    if request.upsert && outcome.as_ref().is_err_and(|failure| failure.code() == Code::DuplicateKey) {
        outcome = update_or_insert(op, namespace, request);
    }
    let outcome = outcome?;
    let figures = &mut op.figures;
    figures.matched = Some(figures.matched.unwrap_or(0) + outcome.matched);
    figures.modified = Some(figures.modified.unwrap_or(0) + outcome.modified);
    figures.upserted |= outcome.upserted.is_some();
    Ok(outcome)
}

fn update_or_insert(
    op: &mut OperationContext<'_>,
    namespace: &str,
    request: &UpdateRequest,
) -> Result<UpdateOutcome> {
    let outcome = with_collection(op, namespace, request.upsert, |op, found| match found {
        None => Ok(UpdateOutcome::default()),
        Some((collection, state)) if request.multi => update_many(op, collection, state, request),
        Some((collection, state)) => update_one(op, collection, state, request),
    })?;
    if outcome.matched == 0 && request.upsert { upsert(op, namespace, request) } else { Ok(outcome) }
}

fn update_one(
    op: &mut OperationContext<'_>,
    collection: &Arc<Collection>,
    state: &CollectionState,
    request: &UpdateRequest,
) -> Result<UpdateOutcome> {
    let (outcome, growth) = write_transaction(op, |op| {
        let Some(located) = request.target.first(op, collection, state)? else {
            return Ok((UpdateOutcome::default(), 0));
        };
        let after = change(op, collection, state, request, &located)?;
        let growth = after.as_ref().map_or(0, |after| growth(&located.document, after));
        let modified = u64::from(after.is_some());
        let after = after.or_else(|| Some(located.document.clone()));
        Ok((
            UpdateOutcome { matched: 1, modified, upserted: None, before: Some(located.document), after },
            growth,
        ))
    })?;
    collection.note(0, growth);
    Ok(outcome)
}

fn update_many(
    op: &mut OperationContext<'_>,
    collection: &Arc<Collection>,
    state: &CollectionState,
    request: &UpdateRequest,
) -> Result<UpdateOutcome> {
    let mut outcome = UpdateOutcome::default();
    for record in request.target.all(op, collection, state, usize::MAX)? {
        op.check_interrupt()?;
        let (matched, modified, growth) = write_transaction(op, |op| {
            let Some(located) = request.target.again(op, collection, record)? else { return Ok((0, 0, 0)) };
            Ok(match change(op, collection, state, request, &located)? {
                None => (1, 0, 0),
                Some(after) => (1, 1, growth(&located.document, &after)),
            })
        })?;
        collection.note(0, growth);
        outcome.matched += matched;
        outcome.modified += modified;
    }
    Ok(outcome)
}

/// Applies the update to a located document and writes it, or returns `None` if nothing changes.
fn change(
    op: &mut OperationContext<'_>,
    collection: &Arc<Collection>,
    state: &CollectionState,
    request: &UpdateRequest,
    located: &DocumentMatch,
) -> Result<Option<RawDocumentBuf>> {
    let before: &RawDocument = &located.document;
    let moment = UpdateMoment {
        matched: located.matched,
        inserting: false,
        timestamp: now(),
        variables: op.variables(),
    };
    let DocumentUpdate::Changed(after) = request.update.apply(before, &moment)? else { return Ok(None) };
    if let Some(owned) = &op.ownership {
        owned.check_change(before, &after)?;
    }
    if let (true, Some(validator)) = (request.validate, &state.validator) {
        validator.check((&op.instance.log, op.client.id), collection.namespace(), &after, Some(before))?;
    }
    if collection.limits().is_some() && after.as_bytes().len() != before.as_bytes().len() {
        return Err(Failure::new(
            Code(10003),
            format!(
                "Cannot change the size of a document in a capped collection: {} != {}",
                before.as_bytes().len(),
                after.as_bytes().len()
            ),
        ));
    }
    op.note_update(collection, before, &after)?;
    let multikey =
        collection.replace(op.session(), state, located.record, before, &after, Some(&request.update))?;
    if !multikey.is_empty() {
        op.instance.catalog.note_multikey(collection, state, &multikey)?;
    }
    Ok(Some(after))
}

fn growth(before: &RawDocument, after: &RawDocument) -> i64 {
    let length = |document: &RawDocument| i64::try_from(document.as_bytes().len()).unwrap_or(i64::MAX);
    length(after) - length(before)
}

fn upsert(op: &mut OperationContext<'_>, namespace: &str, request: &UpdateRequest) -> Result<UpdateOutcome> {
    let moment = UpdateMoment {
        matched: FilterMatch::default(),
        inserting: true,
        timestamp: now(),
        variables: op.variables(),
    };
    let document = request.update.upsert(&request.target.filter, &moment)?;
    let document = super::prepare(&document)?.into_owned();
    if op.ownership.as_ref().is_some_and(|owned| !owned.owns(&document)) {
        let what = "an upsert would insert a document whose shard key is another shard's";
        return Err(Failure::new(Code::ShardKeyNotFound, what));
    }
    let (_, failures) = insert_documents(op, namespace, &[&document], true, request.validate)?;
    op.figures.inserted = None;
    if let Some((_, failure)) = failures.into_iter().next() {
        return Err(failure);
    }
    let id = crate::parse::field(document.as_ref(), "_id").map(crate::parse::owned_value).transpose()?;
    Ok(UpdateOutcome { upserted: id, after: Some(document), ..UpdateOutcome::default() })
}
