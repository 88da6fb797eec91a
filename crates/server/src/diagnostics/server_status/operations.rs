//! The sections on operations: their numbers, latencies and waits (`opcounters`, `opLatencies`, `globalLock`, `locks`,
//! `asserts`), and `metrics`, which counts them by command, with documents, cursors, scans and expired documents.

use bson::RawBsonRef;
use fathom_replication::timestamp_to_bson;
use fathom_wire::DocumentWriter;

use super::process::SectionSources;
use crate::Result;
use crate::instance::Instance;
use crate::replica_set::{Oplog, ReplicationFigures, TimedCounter, majority_of};
use crate::request::OperationClass;
use crate::stats::LatencyHistogram;
use crate::stats::output::{counter, length, number};
use crate::storage::LockKind;
use crate::storage::collection_stats::write_latency;

/// `asserts`, by kind. All kinds roll over together, as in mongod.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn asserts(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut section = writer.begin_document(name);
    context
        .instance
        .counters
        .asserts
        .all()
        .iter()
        .for_each(|(name, value)| counter(&mut section, name, *value));
    Ok(())
}

/// Writes the section `opcounters`.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn counters(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let counters = &context.instance.counters.operations;
    let mut section = writer.begin_document(name);
    let all = [
        ("insert", &counters.inserts),
        ("query", &counters.queries),
        ("update", &counters.updates),
        ("delete", &counters.deletes),
        ("getmore", &counters.getmores),
        ("command", &counters.commands),
    ];
    all.iter().for_each(|(name, value)| counter(&mut section, name, value.get()));
    Ok(())
}

/// `opcountersRepl`: the operations applied from other members' oplogs; zeros if the server is not a member of a set.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn replicated(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let figures = context.instance.set.as_ref().map(|set| set.figures());
    let of = |count: fn(&ReplicationFigures) -> u64| figures.map_or(0, count);
    let mut section = writer.begin_document(name);
    counter(&mut section, "insert", of(|figures| figures.inserts.get()));
    counter(&mut section, "query", 0);
    counter(&mut section, "update", of(|figures| figures.updates.get()));
    counter(&mut section, "delete", of(|figures| figures.deletes.get()));
    counter(&mut section, "getmore", 0);
    counter(&mut section, "command", of(|figures| figures.commands.get()));
    Ok(())
}

/// `repl`: the fields of hello on the set, and the rollback id.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn set(context: &SectionSources<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let Some(set) = &context.instance.set else { return Ok(()) };
    let mut section = writer.begin_document(name);
    section.extend(&set.ask(|one| one.hello_fields("ismaster", majority_of(one))));
    // A number above zero requests it, as in mongod.
    if crate::parse::field(context.options, name).is_some_and(crate::parse::truth_of) {
        let mut progress = section.begin_array("replicationProgress");
        let members = set.ask(|one| one.replication_progress());
        members.into_iter().for_each(|member| progress.bson(&member.into()));
    }
    counter(&mut section, "rbid", u64::try_from(set.rollback_id()).unwrap_or(0));
    Ok(())
}

/// `oplog`: its oldest and newest entries; read only on request.
pub(super) fn oplog(context: &SectionSources<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let instance = context.instance;
    let Some(oplog) = instance.set.as_ref().and_then(|set| set.oplog().collection()) else { return Ok(()) };
    let session = instance.engine.session()?;
    let Some((earliest, latest)) = Oplog::ends(session.as_ref(), oplog)? else { return Ok(()) };
    let mut section = writer.begin_document(name);
    section.timestamp("latestOptime", timestamp_to_bson(latest.timestamp));
    section.timestamp("earliestOptime", timestamp_to_bson(earliest.timestamp));
    Ok(())
}

/// `opLatencies`, with buckets if `{opLatencies: {histograms: true}}` requests them.
pub(super) fn latencies(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let histograms = match crate::parse::field(context.options, name) {
        Some(bson::RawBsonRef::Document(options)) => crate::parse::boolean(options, "histograms")?,
        _ => false,
    };
    let counters = &context.instance.counters;
    let mut section = writer.begin_document(name);
    for (name, kind) in [
        ("reads", OperationClass::Read),
        ("writes", OperationClass::Write),
        ("commands", OperationClass::Command),
    ] {
        write_latency(counters.latency(kind), name, histograms, &mut section);
    }
    write_latency(&LatencyHistogram::default(), "transactions", histograms, &mut section);
    Ok(())
}

/// `globalLock`: the operations that wait for a ticket or for a lock, and those that hold a ticket and wait for nothing, as in mongod.
pub(super) fn global_lock(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let instance = context.instance;
    let (read, write) = (instance.read_tickets.counts(), instance.write_tickets.counts());
    let waits = instance.catalog.lock_waits();
    let waiting = |kind| i64::try_from(waits.figures(kind).waiting).unwrap_or(i64::MAX);
    // The end of an `fsync` lock is waited for without a ticket, a collection with one.
    let readers_inside = waiting(LockKind::CollectionRead);
    let writers_inside = waiting(LockKind::CollectionWrite) + waiting(LockKind::CollectionExclusive);
    let readers = read.queued + readers_inside;
    let writers = write.queued + waiting(LockKind::GlobalWrite) + writers_inside;
    let mut section = writer.begin_document(name);
    section.i64("totalTime", i64::try_from(instance.started.elapsed().as_micros()).unwrap_or(i64::MAX));
    let mut queue = section.begin_document("currentQueue");
    number(&mut queue, "total", readers.saturating_add(writers));
    number(&mut queue, "readers", readers);
    number(&mut queue, "writers", writers);
    queue.end();
    let mut active = section.begin_document("activeClients");
    number(&mut active, "total", length(instance.clients.counts().0));
    number(&mut active, "readers", (read.out - readers_inside).max(0));
    number(&mut active, "writers", (write.out - writers_inside).max(0));
    Ok(())
}

/// `locks`: an operation takes the whole server in shared intent with a read ticket and in exclusive intent with a write ticket, then its
/// collections. The waits for tickets are not among the waits for locks, as in mongod.
pub(super) fn locks(context: &SectionSources<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let instance = context.instance;
    let waits = instance.catalog.lock_waits();
    let acquired = |kind| match kind {
        LockKind::GlobalRead => instance.read_tickets.history().taken,
        LockKind::GlobalWrite => instance.write_tickets.history().taken,
        kind => waits.acquired(kind),
    };
    let figures: [(&str, &dyn Fn(LockKind) -> u64); 3] = [
        ("acquireCount", &acquired),
        ("acquireWaitCount", &|kind| waits.figures(kind).count),
        ("timeAcquiringMicros", &|kind| waits.figures(kind).total_us),
    ];
    let mut section = writer.begin_document(name);
    for resource in LockKind::RESOURCES {
        let mut of_resource = section.begin_document(resource);
        for (name, figure) in figures {
            let mut one = of_resource.begin_document(name);
            let modes = LockKind::ALL.into_iter().filter(|kind| kind.resource() == resource);
            modes.for_each(|kind| counter(&mut one, kind.mode(), figure(kind)));
        }
    }
    Ok(())
}

/// `transactions`: this server has no multi-document transactions, so all are those that a fail point holds open.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn transactions(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
    let held = context.instance.fail_points.idle_transactions();
    let (open, started) = (held.open(), held.started());
    let mut section = writer.begin_document(name);
    for (name, count) in [
        ("retriedCommandsCount", 0),
        ("retriedStatementsCount", 0),
        ("transactionsCollectionWriteCount", 0),
        ("currentActive", 0),
        ("currentInactive", open),
        ("currentOpen", open),
        ("totalAborted", 0),
        ("totalCommitted", started.saturating_sub(open)),
        ("totalStarted", started),
    ] {
        counter(&mut section, name, count);
    }
    Ok(())
}

/// A part of the section: its name, and the function that writes it under that name.
type SectionPart = (&'static str, fn(&Instance, &mut DocumentWriter<'_>));

/// The parts in the order of mongod's reply.
static PARTS: &[SectionPart] = &[
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

/// `metrics`. A document as the section's option excludes the parts that it sets to false, as in mongod since 5.2.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn metrics(
    context: &SectionSources<'_>,
    name: &str,
    writer: &mut DocumentWriter<'_>,
) -> Result<()> {
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

/// Waits for other members that ended without success; zero on a standalone server.
fn last_errors(instance: &Instance, get_last_error: &mut DocumentWriter<'_>) {
    let none = ReplicationFigures::default();
    let figures = instance.set.as_ref().map_or(&none, |set| set.figures());
    timed(get_last_error, "wtime", &figures.waits);
    counter(get_last_error, "wtimeouts", figures.timeouts.get());
}

fn operations(instance: &Instance, operation: &mut DocumentWriter<'_>) {
    counter(operation, "scanAndOrder", instance.counters.scan_and_order.get());
    counter(operation, "writeConflicts", instance.counters.write_conflicts.get());
}

fn executor(instance: &Instance, executor: &mut DocumentWriter<'_>) {
    let mut scans = executor.begin_document("collectionScans");
    let scanned = instance.counters.collection_scans.get();
    counter(&mut scans, "nonTailable", scanned.saturating_sub(instance.counters.tailable_scans.get()));
    counter(&mut scans, "total", scanned);
    scans.end();
    counter(executor, "scanned", instance.counters.keys_scanned.get());
    counter(executor, "scannedObjects", instance.counters.documents_scanned.get());
}

/// Records are never moved in either engine.
fn records(_: &Instance, record: &mut DocumentWriter<'_>) {
    counter(record, "moves", 0);
}

fn expiry(instance: &Instance, ttl: &mut DocumentWriter<'_>) {
    counter(ttl, "deletedDocuments", instance.counters.ttl_deleted.get());
    counter(ttl, "passes", instance.counters.ttl_passes.get());
}

fn commands(instance: &Instance, commands: &mut DocumentWriter<'_>) {
    instance.counters.commands.write(instance.commands, commands);
}

fn cursors(instance: &Instance, cursor: &mut DocumentWriter<'_>) {
    let (open, never, timed_out) = instance.cursors.counts();
    counter(cursor, "timedOut", timed_out);
    let mut now = cursor.begin_document("open");
    number(&mut now, "noTimeout", length(never));
    number(&mut now, "pinned", length(instance.cursors.in_use()));
    number(&mut now, "total", length(open));
}

/// Entries fetched and applied; zeros if the server is not a member of a set.
fn replication(instance: &Instance, repl: &mut DocumentWriter<'_>) {
    let none = ReplicationFigures::default();
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
    timed(&mut preload, "docs", &TimedCounter::default());
    timed(&mut preload, "indexes", &TimedCounter::default());
}

fn timed(writer: &mut DocumentWriter<'_>, name: &str, figures: &TimedCounter) {
    let mut one = writer.begin_document(name);
    counter(&mut one, "num", figures.count.get());
    counter(&mut one, "totalMillis", figures.total_ms());
}
