//! Waits for the conditions of write concerns and read concerns (docs/methods.md#write-concern).

use std::time::{Duration, Instant};

use bson::{Timestamp, doc};
use fathom_query::{Code, Failure};
use fathom_replication::{OpTime, WriteConcern};

use crate::Result;
use crate::operation_context::OperationContext;
use crate::replica_set::{ReplicaSetState, Stamp, majority_of, timestamp_of};

/// The interval at which a waiter checks whether it must stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum time of transactions from their timestamp to their commit.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until a write concern is fulfilled for all writes of the operation. A failure is returned for the reply's
/// `writeConcernError`: the write stays.
pub(crate) fn for_write(op: &OperationContext<'_>, concern: &WriteConcern) -> Option<Failure> {
    let set = op.instance.set.as_ref()?;
    // An operation that wrote nothing waits for everything before it: its change may have been made already.
    let at = op.last.unwrap_or_else(|| newest(set));
    if concern.journal == Some(true) && !concern.needs_others() && op.instance.config.storage.journal {
        return op.instance.journal.wait_for_operation().err().map(Failure::from);
    }
    if !concern.needs_others() {
        return None;
    }
    if let Some(failure) =
        set.ask(|one| one.config().and_then(|config| concern.check_satisfiable(config).err()))
    {
        return Some(failure);
    }
    let begun = Instant::now();
    let failure = wait_for_others(op, concern, at, begun);
    set.figures().waits.add(begun.elapsed());
    if failure.as_ref().is_some_and(|failure| failure.code() == Code::WriteConcernFailed) {
        set.figures().timeouts.add(1);
    }
    failure
}

/// The newest of all entries assigned before the call, once it is committed.
pub(crate) fn newest(set: &ReplicaSetState) -> OpTime {
    set.oplog().optime_of(set.oplog().clock().wait_quiet(Instant::now() + COMMIT_TIMEOUT))
}

fn wait_for_others(
    op: &OperationContext<'_>,
    concern: &WriteConcern,
    at: OpTime,
    begun: Instant,
) -> Option<Failure> {
    let set = op.instance.set.as_ref()?;
    let end = concern.timeout.and_then(|timeout| begun.checked_add(timeout));
    loop {
        let seen = set.changes();
        let satisfied = set.ask(|one| {
            let majority = majority_of(one).unwrap_or(OpTime::NULL);
            one.is_write_concern_satisfied(concern, at, majority)
        });
        match satisfied {
            Ok(true) => return None,
            Ok(false) => {}
            Err(failure) => return Some(failure),
        }
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            let what = "waiting for replication timed out";
            return Some(
                Failure::new(Code::WriteConcernFailed, what).with("errInfo", doc! { "wtimeout": true }),
            );
        }
        if let Err(failure) = op.check_interrupt() {
            return Some(failure);
        }
        let until = end.map_or(now + CHECK_INTERVAL, |end| end.min(now + CHECK_INTERVAL));
        set.wait_for_change(seen, until);
    }
}

/// Waits until this member has applied everything up to a cluster time (`afterClusterTime`).
///
/// A time that the clock has not reached is rejected, as in mongod: a client can only know a cluster time from a member, and
/// sends it along as `$clusterTime`, which moves the clock within bounds before the read starts.
pub(crate) fn for_cluster_time(op: &OperationContext<'_>, time: Stamp) -> Result<()> {
    let Some(set) = &op.instance.set else { return Ok(()) };
    let clock = set.oplog().clock();
    let now = clock.last();
    if time > now {
        let show = |stamp| {
            let Timestamp { time, increment } = timestamp_of(stamp);
            format!("{{ ts: Timestamp({time}, {increment}) }}")
        };
        let what = format!(
            "readConcern afterClusterTime value must not be greater than the current clusterTime. Requested clusterTime: {}; \
             current clusterTime: {}",
            show(time),
            show(now)
        );
        return Err(Failure::new(Code::InvalidOptions, what));
    }
    loop {
        let seen = set.changes();
        if clock.settled() >= time {
            return Ok(());
        }
        if set.is_writable() {
            // The `$clusterTime` of another oplog moved the clock there: this oplog gets an entry after that time.
            super::driver::note(op.instance, bson::rawdoc! { "msg": "noop write for afterClusterTime" })?;
            continue;
        }
        op.check_interrupt()?;
        set.wait_for_change(seen, Instant::now() + CHECK_INTERVAL);
    }
}

/// Waits until everything that a read may have seen is committed by a majority, so that it cannot be rolled back
/// (`readConcern: majority`, like MongoDB's speculative majority reads).
///
/// mongod 4.0 reads an older snapshot instead of waiting, so that it answers at once if no majority can be reached.
pub(crate) fn for_majority(op: &OperationContext<'_>) -> Result<()> {
    let Some(set) = &op.instance.set else { return Ok(()) };
    let seen_up_to = newest(set);
    loop {
        let seen = set.changes();
        let committed = set.ask(|one| one.last_committed());
        // Checked after the commit point: a later commit may belong to a history that does not contain the data read.
        if set.rollback_id() != op.rollback_id() {
            return Err(Failure::new(
                Code::InterruptedDueToReplStateChange,
                "this member rolled back what was read",
            ));
        }
        if committed >= seen_up_to {
            return Ok(());
        }
        op.check_interrupt()?;
        set.wait_for_change(seen, Instant::now() + CHECK_INTERVAL);
    }
}
