//! Applies an entry that changes the catalog.
//!
//! The commands are those that `storage::catalog` logs: create, drop, renameCollection, createIndexes, dropIndexes, collMod,
//! dropDatabase. Any other is refused, so that no change is skipped.

use std::sync::Arc;

use bson::Document;
use fathom_engine::{Durability, Key};
use fathom_query::{Code, Failure, IndexKeys};

use super::document::ApplyMode;
use crate::Result;
use crate::execution::build_indexes;
use crate::operation_context::OperationContext;
use crate::replica_set::OplogEntry;
use crate::storage::{Collection, CollectionOptions, CollectionState, Index, IndexSpec};

pub(super) fn apply(op: &mut OperationContext<'_>, entry: &OplogEntry, manner: ApplyMode) -> Result<()> {
    let command = crate::parse::owned(&entry.object)?;
    let Some((name, target)) = command.iter().next() else {
        return Err(unknown("an empty command"));
    };
    let database = entry.namespace.split('.').next().unwrap_or_default();
    let namespace = format!("{database}.{}", target.as_str().unwrap_or_default());
    let catalog = &op.instance.catalog;
    let gone_is_fine = |result: Result<()>| match result {
        Err(failure) if failure.code() == Code::NamespaceNotFound => Ok(()),
        other => other,
    };
    match name.as_str() {
        "create" => create(op, entry, &namespace, &command),
        "drop" => {
            let same = catalog.get(&namespace).is_none_or(|one| Some(one.uuid()) == entry.collection);
            // In a replay the name may already belong to another collection.
            if same { gone_is_fine(catalog.drop_collection(&namespace).map(drop)) } else { Ok(()) }
        }
        "renameCollection" => rename(op, &command, manner),
        "createIndexes" => create_index(op, &namespace, command, manner),
        "dropIndexes" => drop_index(op, &namespace, &command),
        "collMod" => modify(op, &namespace, &command),
        // Each collection of the database has an entry of its own.
        "dropDatabase" => Ok(()),
        other => Err(unknown(other)),
    }
}

fn create(op: &OperationContext<'_>, entry: &OplogEntry, namespace: &str, command: &Document) -> Result<()> {
    let mut options = command.clone();
    options.remove("create");
    options.remove("idIndex");
    let uuid = entry.collection.unwrap_or_default();
    let catalog = &op.instance.catalog;
    if let Some(other) = catalog.get(namespace) {
        if other.uuid() == uuid {
            return Ok(());
        }
        // In a replay: another collection has taken the name since, and will be created again later.
        catalog.drop_collection(namespace)?;
    }
    if let Some(renamed) = catalog.all().into_iter().find(|one| one.uuid() == uuid) {
        // In a replay: the collection already has a later name, which it will get again.
        return catalog.rename(renamed.namespace(), namespace, false);
    }
    catalog.create_as(namespace, CollectionOptions { document: options }, uuid).map(drop)
}

fn rename(op: &OperationContext<'_>, command: &Document, manner: ApplyMode) -> Result<()> {
    let text = |name: &str| command.get_str(name).unwrap_or_default();
    let (from, to) = (text("renameCollection"), text("to"));
    let catalog = &op.instance.catalog;
    if manner == ApplyMode::Relaxed && catalog.get(from).is_none() {
        return Ok(());
    }
    catalog.rename(from, to, true)
}

/// Looks the collection up and locks it exclusively. Does nothing if it was dropped.
fn alone(
    op: &mut OperationContext<'_>,
    namespace: &str,
    work: impl FnOnce(&mut OperationContext<'_>, &Arc<Collection>, &mut CollectionState) -> Result<()>,
) -> Result<()> {
    loop {
        let Some(collection) = op.instance.catalog.get(namespace) else { return Ok(()) };
        let mut state = collection.lock_exclusive();
        if !state.gone {
            return work(op, &collection, &mut state);
        }
    }
}

fn create_index(
    op: &mut OperationContext<'_>,
    namespace: &str,
    mut spec: Document,
    manner: ApplyMode,
) -> Result<()> {
    spec.remove("createIndexes");
    let spec = IndexSpec::new(spec);
    alone(op, namespace, |op, collection, state| {
        if state.indexes.iter().any(|index| index.name() == spec.name()) {
            return Ok(());
        }
        let defaults = state.options.index_defaults();
        let built = match build_indexes(op, collection, vec![spec.clone()], &defaults) {
            Err(failure) if manner == ApplyMode::Relaxed && failure.code() == Code::DuplicateKey => {
                vec![build_relaxed(op, collection, spec, &defaults)?]
            }
            other => other?,
        };
        op.instance.catalog.add_indexes(collection, state, built)
    })
}

/// Builds a unique index over documents that later entries may already have changed: the last document with a key owns it.
pub(in crate::replication) fn build_relaxed(
    op: &OperationContext<'_>,
    collection: &Collection,
    spec: IndexSpec,
    defaults: &Document,
) -> Result<Arc<Index>> {
    let index = op.instance.catalog.new_index(spec, defaults, collection.namespace())?;
    let session = op.session();
    let mut keys = IndexKeys::default();
    let mut cursor = session.cursor(collection.records_table()?)?;
    let mut rows = Vec::new();
    let mut more = cursor.first()?;
    while more {
        let record = cursor.key().number().unwrap_or_default();
        index.keys(crate::storage::document_of(cursor.value())?, &mut keys)?;
        rows.extend(keys.keys.iter().map(|key| index.entry_bytes(key, record)));
        if keys.multikey {
            index.become_multikey();
        }
        more = cursor.next()?;
    }
    drop(cursor);
    session.begin()?;
    for (key, value) in &rows {
        session.put(index.table(), Key::Bytes(key), value)?;
    }
    session.commit(Durability::Buffered)?;
    Ok(Arc::new(index))
}

fn drop_index(op: &mut OperationContext<'_>, namespace: &str, command: &Document) -> Result<()> {
    let name = command.get_str("index").unwrap_or_default().to_owned();
    alone(op, namespace, |op, collection, state| {
        if name == "_id_" || !state.indexes.iter().any(|index| index.name() == name) {
            return Ok(());
        }
        op.instance.catalog.drop_indexes(collection, state, &[name])
    })
}

fn modify(op: &mut OperationContext<'_>, namespace: &str, command: &Document) -> Result<()> {
    let request = crate::parse::raw_of(command)?;
    alone(op, namespace, |op, collection, state| {
        crate::execution::coll_mod::apply_coll_mod(op, &request, collection, state)
    })
}

fn unknown(what: &str) -> Failure {
    Failure::new(Code::CommandNotSupported, format!("this server does not apply {what}"))
}
