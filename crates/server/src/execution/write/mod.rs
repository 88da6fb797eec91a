//! Inserts, updates and deletes, each in transactions of the engine that are tried again on a write conflict.

mod delete;
mod insert;
#[cfg(test)]
mod speed;
mod target;
mod update;

pub(crate) use delete::{DeleteRequest, delete, delete_one, delete_some};
pub(crate) use insert::{insert_capped, insert_documents, now, prepare};
pub(crate) use target::Target;
pub(crate) use update::{UpdateRequest, update};

use std::sync::Arc;

use fathom_query::{Code, Failure};

use crate::Result;
use crate::operation::Operation;
use crate::storage::{Collection, State};

/// Looks a collection up for writing and hands it to `work` with its state held; looks again if it went in between.
pub(crate) fn with_collection<T>(
    op: &mut Operation<'_>,
    namespace: &str,
    create: bool,
    mut work: impl FnMut(&mut Operation<'_>, Option<(&Arc<Collection>, &State)>) -> Result<T>,
) -> Result<T> {
    loop {
        let catalog = &op.instance.catalog;
        let found = if create { Some(catalog.get_or_create(namespace)?) } else { catalog.get(namespace) };
        let Some(collection) = found else { return work(op, None) };
        let state = op.lock(&collection)?;
        if state.gone {
            continue;
        }
        if state.options.is_view() {
            return Err(Failure::new(
                Code::CommandNotSupportedOnView,
                format!("Namespace {namespace} is a view, not a collection"),
            ));
        }
        op.instance.catalog.before_write(&collection)?;
        op.collection = Some(Arc::clone(&collection));
        return work(op, Some((&collection, &state)));
    }
}
