//! Follows the oplog of other members: one thread fetches, another applies; if histories differ, the member rolls back or copies all data.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::doc;
use fathom_engine::Durability;
use fathom_query::{Code, Failure};
use fathom_replication::{FollowerMode, OpTime};

use super::apply::{Applier, ApplyMode};
use super::fetch::{Buffer, FetchEnd, follow};
use super::store::become_consistent;
use super::{driver, initial_sync, rollback};
use crate::Result;
use crate::checkpoint;
use crate::instance::Instance;
use crate::replica_set::{OplogEntry, ReplicaSetState};

/// The maximum entries and bytes of a batch (`replBatchLimitOperations`, 100 MB).
const MAX_BATCH_ENTRIES: usize = 5000;
const MAX_BATCH_BYTES: usize = 100 << 20;
/// The interval at which the threads check for a stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The pause before a failed step is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Fetches, until the server stops.
pub(super) fn fetch(instance: &Arc<Instance>, buffer: &Arc<Buffer>) {
    let Some(set) = &instance.set else { return };
    while !instance.is_stopping() {
        let seen = set.changes();
        if let Err(failure) = fetch_once(instance, set, buffer) {
            let attributes = doc! { "error": failure.message() };
            instance.log.warning(
                "REPL",
                21079,
                "BackgroundSync",
                "replication waits before it tries again",
                attributes,
            );
            set.wait_for_change(set.changes(), Instant::now() + RETRY_PAUSE);
            continue;
        }
        set.wait_for_change(seen, Instant::now() + CHECK_INTERVAL);
    }
}

/// Follows one source as long as it is suitable.
fn fetch_once(instance: &Arc<Instance>, set: &Arc<ReplicaSetState>, buffer: &Buffer) -> Result<()> {
    if !holds_data(set) {
        return Ok(());
    }
    if needs_copy(instance, set)? {
        return initial_sync::run(instance, set);
    }
    let fetched = set.ask(|one| one.own_progress().applied);
    if fetched.is_null() || !buffer.is_idle() {
        return Ok(());
    }
    let Some(source) = set.tell(|one, now| one.choose_sync_source(now, fetched)) else { return Ok(()) };
    match follow(instance, set, buffer, &source) {
        FetchEnd::Elsewhere => Ok(()),
        FetchEnd::Diverged(source) => {
            // Fetched entries of the common history are applied first.
            while !buffer.is_idle() && !instance.is_stopping() {
                std::thread::sleep(Duration::from_millis(5));
            }
            if set.ask(|one| one.is_catching_up()) {
                return set.tell(|one, now| one.abort_catch_up(now));
            }
            rollback::run(instance, set, &source)
        }
        FetchEnd::TooStale => {
            if set.tell(|one, now| one.deny_stale_source(now, &source, fetched)) {
                set.tell(|one, now| one.set_follower_mode(now, FollowerMode::Recovering));
                set.wait_for_change(set.changes(), Instant::now() + RETRY_PAUSE);
            }
            Ok(())
        }
    }
}

/// Whether this member belongs to the set and stores data.
fn holds_data(set: &ReplicaSetState) -> bool {
    set.ask(|one| {
        let member = one.config().zip(one.own_index()).and_then(|(config, own)| config.members.get(own));
        member.is_some_and(|member| member.holds_data())
    })
}

/// Whether this member has no data yet, or only part of a copy.
fn needs_copy(instance: &Instance, set: &ReplicaSetState) -> Result<bool> {
    let copying = checkpoint::validity(instance)?.is_some_and(|validity| validity.copying);
    Ok(copying || set.oplog().collection().is_none())
}

/// Applies the fetched entries, and completes this member's election, until the server stops.
pub(super) fn apply(instance: &Arc<Instance>, buffer: &Arc<Buffer>) {
    let Some(set) = &instance.set else { return };
    let mut applier = match Applier::new(instance, instance.parameters.replication_writers()) {
        Ok(applier) => applier,
        Err(failure) => return die(instance, &failure),
    };
    while !instance.is_stopping() {
        let until = Instant::now() + Duration::from_millis(20);
        let (after, batch) = buffer.take(MAX_BATCH_ENTRIES, MAX_BATCH_BYTES, until);
        let newest = set.oplog().optime_of(set.oplog().clock().settled());
        let result = if batch.is_empty() {
            take_office(instance, set, buffer)
        } else if after == newest && !set.oplog().role().writable {
            apply_batch(instance, set, &mut applier, &batch)
        } else {
            // They were fetched before this member led, or rolled back: its history is a different one now.
            set.stop_fetching();
            buffer.clear();
            Ok(())
        };
        buffer.done();
        match result {
            // The data is recorded as complete up to the last batch: the next start applies the rest of this one.
            Err(failure) if failure.code() == Code::InterruptedAtShutdown => return,
            Err(failure) => return die(instance, &failure),
            Ok(()) => {}
        }
    }
}

/// Stops a member whose data and oplog may differ.
fn die(instance: &Instance, failure: &Failure) {
    let error = fathom_errors::Error::new(fathom_errors::Kind::Corruption, failure.message().to_owned());
    instance.die("an entry of the oplog could not be applied", &error);
}

fn apply_batch(
    instance: &Instance,
    set: &ReplicaSetState,
    applier: &mut Applier,
    batch: &[OplogEntry],
) -> Result<()> {
    let Some(last) = batch.last() else { return Ok(()) };
    wait_for_delay(instance, set, last.at)?;
    let session = instance.engine.session()?;
    session.begin()?;
    set.oplog().copy(&*session, batch)?;
    session.commit(Durability::Buffered)?;
    let begun = Instant::now();
    {
        let _nobody_reads = set.applying();
        // After a rollback or a copy, the data may already contain these entries.
        let ahead = batch.first().is_some_and(|first| first.at <= set.minimum());
        applier.apply(batch, if ahead { ApplyMode::Relaxed } else { ApplyMode::Exact })?;
    }
    set.figures().applied(batch, begun.elapsed());
    set.transactions().learn(batch);
    if batch.iter().any(|entry| entry.namespace == "admin.system.users") {
        instance.users.load(&instance.engine, &instance.catalog, &instance.log)?;
    }
    let term = last.at.term;
    set.oplog().clock().advance(last.at.timestamp);
    set.tell(|one, now| {
        one.term_seen(now, term);
        one.applied_advanced(now, last.at);
    });
    become_consistent(instance, set, last.at)
}

/// Waits until an entry is old enough on a delayed member (`slaveDelay`), which applies nothing younger, not even during a stop.
fn wait_for_delay(instance: &Instance, set: &ReplicaSetState, at: OpTime) -> Result<()> {
    let delay = set.ask(|one| {
        let member = one.config().zip(one.own_index()).and_then(|(config, own)| config.members.get(own));
        member.map_or(Duration::ZERO, |member| member.delay)
    });
    if delay.is_zero() {
        return Ok(());
    }
    let due = i64::from(at.seconds()).saturating_add(i64::try_from(delay.as_secs()).unwrap_or(i64::MAX));
    while bson::DateTime::now().timestamp_millis() / 1000 < due {
        instance.check_stopping()?;
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

/// Completes the transition of an elected member that has caught up and applied all entries.
fn take_office(instance: &Instance, set: &ReplicaSetState, buffer: &Buffer) -> Result<()> {
    let term = set.ask(|one| one.may_complete_transition(one.term()).then(|| one.term()));
    let Some(term) = term else { return Ok(()) };
    if !buffer.is_empty() {
        return Ok(());
    }
    if let Err(failure) = driver::complete_transition(instance, set, term) {
        // The member stepped down meanwhile; the data is not at fault.
        let attributes = doc! { "error": failure.message() };
        instance.log.info(
            "REPL",
            21332,
            "OplogApplier",
            "the transition to primary was not completed",
            attributes,
        );
    }
    Ok(())
}
