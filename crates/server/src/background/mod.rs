//! The background threads of a server: journal syncs, checkpoints, flushes of the counts, cursor timeouts, and the TTL
//! monitor.
//!
//! All of them sleep on one bell, so that a changed interval or a shutdown takes effect at once. mongod 4.0 reads
//! `syncdelay` only once (SERVER-75162); here a change takes effect immediately.
//!
//! Every `ttlMonitorSleepSecs` (60) the TTL monitor visits all TTL indexes, unless `ttlMonitorEnabled` is off. The
//! earliest date of an array counts; other types never expire; a partial index expires only its own documents. Each
//! document is deleted in its own transaction, as in mongod, and each batch holds a write ticket, so that the monitor
//! queues with the clients. Capped collections and hashed indexes are skipped: nothing can expire there.

#[cfg(test)]
mod crash_tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document, doc};
use fathom_errors::Error;
use fathom_query::{Code, FieldKind, Hint};
use fathom_service::spawn_thread;

use crate::Result;
use crate::client::Client;
use crate::execution::{WriteTarget, delete_some};
use crate::instance::Instance;
use crate::operation_context::OperationContext;
use crate::storage::{CollectionState, Index};

/// The interval at which the counts are flushed, as mongod's sizeStorer does.
const COUNTS_INTERVAL_S: u64 = 60;

/// Starts the background threads.
pub(crate) fn start(instance: &Arc<Instance>) -> Result<Vec<std::thread::JoinHandle<()>>, Error> {
    Ok(vec![
        spawn_thread("JournalFlusher", instance, flush_journal)?,
        spawn_thread("Checkpointer", instance, make_checkpoints)?,
        spawn_thread("Housekeeping", instance, keep_house)?,
        spawn_thread("TTLMonitor", instance, watch)?,
    ])
}

fn flush_journal(instance: &Arc<Instance>) {
    let mut next = Instant::now();
    loop {
        let heard = instance.bell.rings();
        if instance.is_stopping() {
            return;
        }
        let interval = Duration::from_millis(instance.parameters.journal_commit_interval_ms());
        next = (next + interval).max(Instant::now());
        instance.bell.sleep_since(heard, Some(next));
        if instance.is_stopping() {
            return;
        }
        // The bell may have rung for another thread.
        if Instant::now() < next {
            next -= interval;
            continue;
        }
        if !instance.config.storage.journal {
            continue;
        }
        if let Err(error) = instance.journal.wait_until_durable() {
            instance.die("the journal could not be synced", &error);
        }
    }
}

fn make_checkpoints(instance: &Arc<Instance>) {
    let mut last = Instant::now();
    loop {
        let heard = instance.bell.rings();
        if instance.is_stopping() {
            return;
        }
        let seconds = instance.parameters.sync_delay_seconds();
        // 0 switches checkpoints off.
        let due = (seconds > 0.0).then(|| last + Duration::from_secs_f64(seconds));
        if due.is_none_or(|due| Instant::now() < due) {
            instance.bell.sleep_since(heard, due);
            continue;
        }
        last = Instant::now();
        if let Err(error) = instance.checkpoint() {
            instance.die("the checkpoint failed", &error);
        }
    }
}

fn keep_house(instance: &Arc<Instance>) {
    let mut counted = Instant::now();
    while !instance.is_stopping() {
        let begun = Instant::now();
        // The setting is read again after each bell, since it may have changed.
        loop {
            let heard = instance.bell.rings();
            let until = begun + Duration::from_secs(instance.parameters.cursor_monitor_secs());
            if Instant::now() >= until || instance.is_stopping() {
                break;
            }
            instance.bell.sleep_since(heard, Some(until));
        }
        instance.cursors.expire(Duration::from_millis(instance.parameters.cursor_timeout_ms()));
        instance.catalog.drop_pending();
        if counted.elapsed() >= Duration::from_secs(COUNTS_INTERVAL_S) {
            counted = Instant::now();
            if let Err(failure) = instance.catalog.flush_sizes(false) {
                instance.log.warning(
                    "STORAGE",
                    22430,
                    "Housekeeping",
                    "the counts could not be written",
                    doc! {
                        "error": failure.message(),
                    },
                );
            }
        }
    }
}

/// The number of documents between two checks for an operation that waits for the collection exclusively.
const BATCH: usize = 500;

/// The TTL monitor: removes documents whose date in a TTL index is older than the index allows.
///
/// Every `ttlMonitorSleepSecs` (60) it visits all TTL indexes, unless `ttlMonitorEnabled` is off. The earliest date of an
/// array counts; other types never expire; a partial index expires only its own documents. Each document is deleted in
/// its own transaction, as in mongod, and each batch holds a write ticket, so that the monitor queues with the clients.
/// Capped collections and hashed indexes are skipped: nothing can expire there.
///
/// Runs until the server stops.
fn watch(instance: &Arc<Instance>) {
    let mut last = Instant::now();
    loop {
        let heard = instance.bell.rings();
        if instance.is_stopping() {
            return;
        }
        let due = last.checked_add(Duration::from_secs(instance.parameters.ttl_monitor_sleep_secs()));
        if due.is_none_or(|due| Instant::now() < due) {
            instance.bell.sleep_since(heard, due);
            continue;
        }
        last = Instant::now();
        // The primary deletes; other members follow through the oplog.
        let follows = instance.set.as_ref().is_some_and(|set| !set.is_writable());
        if follows || !instance.parameters.ttl_monitor_enabled() {
            continue;
        }
        if let Err(failure) = pass(instance)
            && !instance.is_stopping()
        {
            let error = doc! { "error": failure.message() };
            instance.log.warning("INDEX", 22538, "TTLMonitor", "Error removing expired documents", error);
        }
        instance.counters.ttl_passes.add(1);
    }
}

/// Visits all TTL indexes once.
fn pass(instance: &Arc<Instance>) -> Result<()> {
    let session = instance.engine.session()?;
    let client = Client::internal();
    let mut op = OperationContext::new(instance, &*session, &client);
    for collection in instance.catalog.all() {
        let names: Vec<String> = {
            let state = op.lock(&collection)?;
            let expiring = state.indexes.iter().filter(|index| index.expire_after_seconds().is_some());
            expiring.map(|index| index.name().to_owned()).collect()
        };
        if collection.limits().is_some() {
            continue;
        }
        for name in names {
            expire(&mut op, collection.namespace(), &name)?;
        }
    }
    Ok(())
}

/// Deletes the documents that expire by one index.
fn expire(op: &mut OperationContext<'_>, namespace: &str, name: &str) -> Result<()> {
    loop {
        op.check_interrupt()?;
        let ticket = op.write_ticket()?;
        let deleted = match delete_some(op, namespace, BATCH, &|state| target(state, name)) {
            // The index or the collection was dropped meanwhile.
            Err(failure) if failure.code() == Code::QueryPlanKilled => return Ok(()),
            other => other?,
        };
        drop(ticket);
        op.instance.counters.ttl_deleted.add(deleted);
        op.instance.counters.documents_deleted.add(deleted);
        if deleted < BATCH as u64 {
            return Ok(());
        }
    }
}

/// The documents that have expired by an index, found through that index, or `None` if it was dropped.
fn target(state: &CollectionState, name: &str) -> Result<Option<WriteTarget>> {
    let Some(index) = state.index(name) else { return Ok(None) };
    let Some(filter) = expired(index) else { return Ok(None) };
    let filter = crate::parse::filter_of(&filter)?;
    Ok(Some(WriteTarget { filter, hint: Some(Hint::Name(name.to_owned())), sort: None }))
}

fn expired(index: &Index) -> Option<Document> {
    let [field] = index.pattern().fields.as_slice() else { return None };
    if field.kind == FieldKind::Hashed {
        return None;
    }
    let age_ms = index.expire_after_seconds()?.saturating_mul(1000);
    let oldest = DateTime::from_millis(DateTime::now().timestamp_millis().saturating_sub(age_ms));
    // Only dates are compared with a date.
    let old = doc! { &field.path: { "$lte": oldest } };
    Some(match index.spec().partial() {
        None => old,
        Some(partial) => doc! { "$and": [Bson::Document(old), Bson::Document(partial.clone())] },
    })
}
