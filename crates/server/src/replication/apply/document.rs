//! Applies an entry that inserts, changes or removes one document.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use fathom_engine::Durability;
use fathom_query::{Code, DocumentUpdate, Failure, FilterMatch, Update, UpdateMoment};

use crate::Result;
use crate::execution::now;
use crate::operation_context::OperationContext;
use crate::replica_set::{ChangeKind, OplogEntry};
use crate::storage::{Collection, CollectionState, WriteEffects, document_of};

/// The assumption about the state of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyMode {
    /// The data is exactly as before the batch.
    Exact,
    /// The data may already contain some of the entries, or later ones.
    Relaxed,
}

/// The number of retries of a write conflict before it counts as a fault: no other thread writes these documents.
const MAX_TRIES: u32 = 1000;

pub(super) fn apply(op: &mut OperationContext<'_>, entry: &OplogEntry, manner: ApplyMode) -> Result<()> {
    loop {
        let Some(collection) = find(op, entry) else {
            // The collection or its database was dropped later.
            return if manner == ApplyMode::Relaxed { Ok(()) } else { Err(missing(&entry.namespace)) };
        };
        let state = collection.lock();
        if state.gone {
            continue;
        }
        op.instance.catalog.before_write(&collection)?;
        if collection.limits().is_some() && entry.kind == ChangeKind::Insert {
            return insert_capped(op, &collection, &state, entry);
        }
        return write(op, &collection, &state, entry, manner);
    }
}

/// Finds the collection by its UUID, which survives a rename.
fn find(op: &OperationContext<'_>, entry: &OplogEntry) -> Option<Arc<Collection>> {
    let named = op.instance.catalog.get(&entry.namespace);
    match (named, entry.collection) {
        (Some(named), None) => Some(named),
        (Some(named), Some(uuid)) if named.uuid() == uuid => Some(named),
        (_, Some(uuid)) => op.instance.catalog.all().into_iter().find(|one| one.uuid() == uuid),
        (None, None) => None,
    }
}

fn write(
    op: &mut OperationContext<'_>,
    collection: &Arc<Collection>,
    state: &CollectionState,
    entry: &OplogEntry,
    manner: ApplyMode,
) -> Result<()> {
    for _ in 0..MAX_TRIES {
        op.session().begin()?;
        let written = change(op, collection, state, entry, manner).and_then(|effect| {
            if !effect.multikey.is_empty() {
                op.instance.catalog.note_multikey(collection, state, &effect.multikey)?;
            }
            op.session().commit(Durability::Buffered)?;
            Ok(effect)
        });
        match written {
            Ok(effect) => {
                collection.note(effect.records, effect.bytes);
                op.session().end_operation();
                return Ok(());
            }
            Err(failure) => {
                op.session().rollback();
                if failure.code() != Code::WriteConflict {
                    return Err(failure);
                }
                std::thread::yield_now();
            }
        }
    }
    Err(Failure::new(Code::WriteConflict, "an entry meets another writer again and again"))
}

fn change(
    op: &mut OperationContext<'_>,
    collection: &Collection,
    state: &CollectionState,
    entry: &OplogEntry,
    manner: ApplyMode,
) -> Result<WriteEffects> {
    let session = op.session();
    let id = entry.id().ok_or_else(|| Failure::new(Code::NoSuchKey, "the entry names no _id"))?;
    match entry.kind {
        ChangeKind::Insert => collection.put_relaxed(session, state, &entry.object),
        ChangeKind::Delete => collection.remove_relaxed(session, state, id, &mut Vec::new()),
        ChangeKind::Update => {
            let mut before = Vec::new();
            let found = collection.find_by_id(session, id, &mut before)?;
            if is_replacement(&entry.object) {
                return collection.put_relaxed(session, state, &entry.object);
            }
            let Some(record) = found else {
                return if manner == ApplyMode::Relaxed {
                    Ok(WriteEffects::default())
                } else {
                    Err(missing(&entry.namespace))
                };
            };
            let before = document_of(&before)?;
            let update = modifiers(op, &entry.object)?;
            let moment = UpdateMoment {
                matched: FilterMatch::default(),
                inserting: false,
                timestamp: now(),
                variables: op.variables(),
            };
            match update.apply(before, &moment)? {
                DocumentUpdate::Changed(after) => {
                    collection.replace_relaxed(session, state, record, before, &after)
                }
                // In a replay, its index entries may still belong to another document.
                _ if manner == ApplyMode::Relaxed => {
                    collection.replace_relaxed(session, state, record, before, before)
                }
                _ => Ok(WriteEffects::default()),
            }
        }
        ChangeKind::Command | ChangeKind::Noop => Ok(WriteEffects::default()),
    }
}

fn is_replacement(object: &RawDocument) -> bool {
    object.iter().flatten().next().is_none_or(|(name, _)| !name.as_str().starts_with('$'))
}

/// The operators of an entry, without the version of their language.
fn modifiers(op: &mut OperationContext<'_>, object: &RawDocument) -> Result<Update> {
    let mut bytes = Vec::with_capacity(object.as_bytes().len());
    let mut writer = fathom_wire::DocumentWriter::new(&mut bytes);
    for (name, value) in object.iter().flatten().filter(|(name, _)| name.as_str() != "$v") {
        writer.value(name.as_str(), value);
    }
    writer.end();
    Update::parse(RawBsonRef::Document(document_of(&bytes)?), &[], op.variables())
}

/// A document inserted into a capped collection removes the oldest ones, as on the primary.
fn insert_capped(
    op: &mut OperationContext<'_>,
    collection: &Arc<Collection>,
    state: &CollectionState,
    entry: &OplogEntry,
) -> Result<()> {
    let id = entry.id().unwrap_or(RawBsonRef::Null);
    op.session().begin()?;
    let found = collection.find_by_id(op.session(), id, &mut Vec::new());
    op.session().rollback();
    if found?.is_some() {
        return Ok(());
    }
    crate::execution::insert_capped(op, collection, state, &entry.object)
}

fn missing(namespace: &str) -> Failure {
    Failure::new(Code::NamespaceNotFound, format!("{namespace} lacks what the entry is about"))
}
