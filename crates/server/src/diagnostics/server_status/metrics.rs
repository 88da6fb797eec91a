//! `metrics`: commands by name, documents, cursors, scans, expired documents.

use fathom_wire::DocumentWriter;

use super::Context;
use crate::Result;
use crate::commands::COMMANDS;
use crate::diagnostics::Counters;
use crate::diagnostics::build::{counter, length, number};
use crate::instance::Instance;

/// `metrics`.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn metrics(context: &Context<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let instance = context.instance;
    let counters = &instance.counters;
    let mut section = writer.begin_document(name);
    commands(counters, &mut section);
    cursors(instance, &mut section);
    let mut document = section.begin_document("document");
    counter(&mut document, "deleted", counters.documents_deleted.get());
    counter(&mut document, "inserted", counters.documents_inserted.get());
    counter(&mut document, "returned", counters.documents_returned.get());
    counter(&mut document, "updated", counters.documents_updated.get());
    document.end();
    // Nobody waits for other members where there are none.
    let mut get_last_error = section.begin_document("getLastError");
    let mut waited = get_last_error.begin_document("wtime");
    waited.i32("num", 0);
    waited.i32("totalMillis", 0);
    waited.end();
    counter(&mut get_last_error, "wtimeouts", 0);
    get_last_error.end();
    let mut operation = section.begin_document("operation");
    counter(&mut operation, "scanAndOrder", counters.scan_and_order.get());
    counter(&mut operation, "writeConflicts", counters.write_conflicts.get());
    operation.end();
    let mut executor = section.begin_document("queryExecutor");
    counter(&mut executor, "scanned", counters.keys_scanned.get());
    counter(&mut executor, "scannedObjects", counters.documents_scanned.get());
    executor.end();
    // Records stay where they are in both engines.
    let mut record = section.begin_document("record");
    counter(&mut record, "moves", 0);
    record.end();
    replication(&mut section);
    let mut ttl = section.begin_document("ttl");
    counter(&mut ttl, "deletedDocuments", counters.ttl_deleted.get());
    counter(&mut ttl, "passes", counters.ttl_passes.get());
    Ok(())
}

fn commands(counters: &Counters, section: &mut DocumentWriter<'_>) {
    let mut commands = section.begin_document("commands");
    counter(&mut commands, "<UNKNOWN>", counters.unknown_commands.get());
    for command in COMMANDS.iter() {
        let Some(counts) = counters.command(command.row()) else { continue };
        let mut one = commands.begin_document(command.name);
        counter(&mut one, "failed", counts.failed.get());
        counter(&mut one, "total", counts.total.get());
    }
}

fn cursors(instance: &Instance, section: &mut DocumentWriter<'_>) {
    let (open, never, timed_out) = instance.cursors.counts();
    let mut cursor = section.begin_document("cursor");
    counter(&mut cursor, "timedOut", timed_out);
    let mut now = cursor.begin_document("open");
    number(&mut now, "noTimeout", length(never));
    number(&mut now, "pinned", length(instance.cursors.in_use()));
    number(&mut now, "total", length(open));
}

/// Zeros, since a server that is no member of a set fetches and applies nothing.
fn replication(section: &mut DocumentWriter<'_>) {
    let mut repl = section.begin_document("repl");
    let mut apply = repl.begin_document("apply");
    counter(&mut apply, "attemptsToBecomeSecondary", 0);
    timed(&mut apply, "batches");
    counter(&mut apply, "ops", 0);
    apply.end();
    let mut buffer = repl.begin_document("buffer");
    ["count", "maxSizeBytes", "sizeBytes"].iter().for_each(|name| counter(&mut buffer, name, 0));
    buffer.end();
    let mut initial = repl.begin_document("initialSync");
    ["completed", "failedAttempts", "failures"].iter().for_each(|name| counter(&mut initial, name, 0));
    initial.end();
    let mut network = repl.begin_document("network");
    counter(&mut network, "bytes", 0);
    timed(&mut network, "getmores");
    counter(&mut network, "ops", 0);
    counter(&mut network, "readersCreated", 0);
    network.end();
    let mut preload = repl.begin_document("preload");
    timed(&mut preload, "docs");
    timed(&mut preload, "indexes");
}

fn timed(writer: &mut DocumentWriter<'_>, name: &str) {
    let mut one = writer.begin_document(name);
    one.i32("num", 0);
    one.i32("totalMillis", 0);
}
