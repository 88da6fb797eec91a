//! `metrics`: commands by name, documents, cursors, scans, expired documents.

use bson::RawBsonRef;
use fathom_wire::DocumentWriter;

use super::Context;
use crate::Result;
use crate::commands::COMMANDS;
use crate::diagnostics::build::{counter, length, number};
use crate::instance::Instance;
use crate::replication::{Figures, Timed};

/// A part of the section: its name, and what writes it under that name.
type Part = (&'static str, fn(&Instance, &mut DocumentWriter<'_>));

/// The parts in the order of mongod's reply.
static PARTS: &[Part] = &[
    ("commands", commands),
    ("cursor", cursors),
    ("document", documents),
    ("getLastError", last_errors),
    ("operation", operations),
    ("queryExecutor", executor),
    ("record", records),
    ("repl", replication),
    ("ttl", expiry),
];

/// `metrics`. A document as the section's option leaves out the parts that it says false of, as mongod's does since 5.2.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn metrics(context: &Context<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let parts = crate::parse::field(context.options, name).and_then(RawBsonRef::as_document);
    let is_wanted = |part: &str| {
        parts.and_then(|parts| crate::parse::field(parts, part)).is_none_or(crate::parse::truth_of)
    };
    let mut section = writer.begin_document(name);
    for (part, write) in PARTS.iter().filter(|(part, _)| is_wanted(part)) {
        write(context.instance, &mut section.begin_document(part));
    }
    Ok(())
}

fn documents(instance: &Instance, document: &mut DocumentWriter<'_>) {
    let counters = &instance.counters;
    counter(document, "deleted", counters.documents_deleted.get());
    counter(document, "inserted", counters.documents_inserted.get());
    counter(document, "returned", counters.documents_returned.get());
    counter(document, "updated", counters.documents_updated.get());
}

/// Who waited for other members, and gave up; nobody where there are none.
fn last_errors(instance: &Instance, get_last_error: &mut DocumentWriter<'_>) {
    let none = Figures::default();
    let figures = instance.set.as_ref().map_or(&none, |set| set.figures());
    timed(get_last_error, "wtime", &figures.waits);
    counter(get_last_error, "wtimeouts", figures.timeouts.get());
}

fn operations(instance: &Instance, operation: &mut DocumentWriter<'_>) {
    counter(operation, "scanAndOrder", instance.counters.scan_and_order.get());
    counter(operation, "writeConflicts", instance.counters.write_conflicts.get());
}

fn executor(instance: &Instance, executor: &mut DocumentWriter<'_>) {
    counter(executor, "scanned", instance.counters.keys_scanned.get());
    counter(executor, "scannedObjects", instance.counters.documents_scanned.get());
}

/// Records stay where they are in both engines.
fn records(_: &Instance, record: &mut DocumentWriter<'_>) {
    counter(record, "moves", 0);
}

fn expiry(instance: &Instance, ttl: &mut DocumentWriter<'_>) {
    counter(ttl, "deletedDocuments", instance.counters.ttl_deleted.get());
    counter(ttl, "passes", instance.counters.ttl_passes.get());
}

fn commands(instance: &Instance, commands: &mut DocumentWriter<'_>) {
    let counters = &instance.counters;
    counter(commands, "<UNKNOWN>", counters.unknown_commands.get());
    for command in COMMANDS.iter() {
        let Some(counts) = counters.command(command.row) else { continue };
        let mut one = commands.begin_document(command.name);
        counter(&mut one, "failed", counts.failed.get());
        counter(&mut one, "total", counts.total.get());
    }
}

fn cursors(instance: &Instance, cursor: &mut DocumentWriter<'_>) {
    let (open, never, timed_out) = instance.cursors.counts();
    counter(cursor, "timedOut", timed_out);
    let mut now = cursor.begin_document("open");
    number(&mut now, "noTimeout", length(never));
    number(&mut now, "pinned", length(instance.cursors.in_use()));
    number(&mut now, "total", length(open));
}

/// What was fetched and applied; zeros of a server that is no member of a set.
fn replication(instance: &Instance, repl: &mut DocumentWriter<'_>) {
    let none = Figures::default();
    let figures = instance.set.as_ref().map_or(&none, |set| set.figures());
    let mut apply = repl.begin_document("apply");
    counter(&mut apply, "attemptsToBecomeSecondary", 0);
    timed(&mut apply, "batches", &figures.batches);
    counter(&mut apply, "ops", figures.applied.get());
    apply.end();
    let mut buffer = repl.begin_document("buffer");
    ["count", "maxSizeBytes", "sizeBytes"].iter().for_each(|name| counter(&mut buffer, name, 0));
    buffer.end();
    let mut initial = repl.begin_document("initialSync");
    counter(&mut initial, "completed", figures.copies.get());
    ["failedAttempts", "failures"].iter().for_each(|name| counter(&mut initial, name, 0));
    initial.end();
    let mut network = repl.begin_document("network");
    counter(&mut network, "bytes", figures.fetched_bytes.get());
    timed(&mut network, "getmores", &figures.get_mores);
    counter(&mut network, "ops", figures.fetched.get());
    counter(&mut network, "readersCreated", 0);
    network.end();
    let mut preload = repl.begin_document("preload");
    timed(&mut preload, "docs", &Timed::default());
    timed(&mut preload, "indexes", &Timed::default());
}

fn timed(writer: &mut DocumentWriter<'_>, name: &str, figures: &Timed) {
    let mut one = writer.begin_document(name);
    counter(&mut one, "num", figures.count.get());
    counter(&mut one, "totalMillis", figures.total_ms());
}
