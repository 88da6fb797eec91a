//! What is counted, logged and kept when an operation ends.

use fathom_query::Failure;

use super::usage::Use;
use crate::dispatch::{Request, elapsed_micros};
use crate::operation::Operation;

/// An operation that ended.
#[derive(Debug)]
pub(crate) struct Finished<'a> {
    /// None if it was not even a command.
    pub(crate) request: Option<&'a Request<'a>>,
    pub(crate) failure: Option<&'a Failure>,
    pub(crate) reply_bytes: usize,
}

/// Counts it everywhere, and logs it if it was slow.
pub(crate) fn finish(op: &mut Operation<'_>, finished: &Finished<'_>) {
    let micros = elapsed_micros(op.begun);
    let counters = &op.instance.counters;
    if finished.failure.is_some() {
        counters.user_asserts.add(1);
    }
    let Some(request) = finished.request else { return };
    let command = request.command;
    counters.latency(command.kind).record(micros);
    if let Some(counter) = counters.command(command.row()) {
        counter.total.add(1);
        if finished.failure.is_some() {
            counter.failed.add(1);
        }
    }
    let figures = &op.figures;
    counters.scanned(figures.keys_examined, figures.docs_examined);
    counters.documents_inserted.add(figures.inserted.unwrap_or(0));
    counters.documents_returned.add(figures.returned.unwrap_or(0));
    counters.documents_updated.add(figures.modified.unwrap_or(0));
    counters.documents_deleted.add(figures.deleted.unwrap_or(0));
    counters.write_conflicts.add(figures.write_conflicts);
    counters.scan_and_order.add(u64::from(figures.has_sort_stage));
    let what = match command.name {
        "find" => Use::Queries,
        "getMore" => Use::Getmore,
        "insert" => Use::Insert,
        "update" => Use::Update,
        "delete" => Use::Remove,
        _ => {
            counters.operations.commands.add(1);
            Use::Commands
        }
    };
    if !figures.namespace.is_empty()
        && let Some(collection) = op.instance.catalog.get(&figures.namespace)
    {
        collection.usage().add(what, command.kind, micros);
    }
}
