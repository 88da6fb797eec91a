//! What is counted, logged and kept when an operation ends.
//!
//! Every operation passes here, so a fast one only adds to counters; what is slow or profiled goes on to `slow`.

use fathom_query::Failure;

use super::usage::Use;
use crate::elapsed::elapsed_micros;
use crate::operation::Operation;
use crate::request::Request;

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
    if let Some(failure) = finished.failure {
        counters.asserts.count(failure.code());
    }
    let Some(request) = finished.request else { return };
    let command = request.command;
    counters.latency(command.kind).record(micros);
    if let Some(counter) = counters.command(command.row) {
        counter.total.add(1);
        counter.failed.add(u64::from(finished.failure.is_some()));
    }
    let figures = &op.figures;
    counters.scanned(figures.keys_examined, figures.docs_examined);
    counters.documents_inserted.add(figures.inserted.unwrap_or(0));
    counters.documents_returned.add(figures.returned.unwrap_or(0));
    counters.documents_updated.add(figures.modified.unwrap_or(0));
    counters.documents_deleted.add(figures.deleted.unwrap_or(0));
    counters.write_conflicts.add(figures.write_conflicts);
    counters.scan_and_order.add(u64::from(figures.has_sort_stage));
    let what = Use::of(command.name);
    if what == Use::Commands {
        counters.operations.commands.add(1);
    }
    if let Some(collection) = &op.collection {
        collection.usage().add(what, command.kind, micros);
    } else if !figures.namespace.is_empty()
        && let Some(collection) = op.instance.catalog.get(&figures.namespace)
    {
        collection.usage().add(what, command.kind, micros);
    }
    if op.instance.profiler.may_care(micros) {
        super::slow::report(op, request, finished, micros);
    }
}
