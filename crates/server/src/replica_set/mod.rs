//! The state of a replica set that a member's threads share: its coordinator with the clock, its oplog, and the waiters. The
//! member's work on its data and connections is in `replication`, above the operations.
//!
//! The coordinator (`fathom-replication`) makes all decisions; this module adds time and threads. Events reach the coordinator
//! through [`ReplicaSetState::tell`], and the driver thread carries out its decisions.

mod clock;
mod difference;
mod entry;
mod figures;
mod oplog;
mod retryable;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use bson::DateTime;
use fathom_client::Interrupter;
use fathom_query::Failure;
use fathom_replication::coordinator::ElectionOutcome;
use fathom_replication::{
    Action, Clocks, Coordinator, CoordinatorOptions, LastVote, MemberState, MonotonicTime, OpTime, Progress,
};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};

pub(crate) use clock::Stamp;
pub(crate) use difference::difference;
pub(crate) use entry::{
    ChangeKind, Image, LoggedChange, OplogEntry, RetryStatement, read_optime, stamp_of, timestamp_of,
};
pub(crate) use figures::{ReplicationFigures, TimedCounter};
pub(crate) use oplog::{
    OPLOG, Oplog, OplogRole, OplogSlots, TRANSACTIONS, UnreplicatedWritesBlock, is_replicated, key,
    not_primary,
};
pub(crate) use retryable::{Checkout, PriorResult, Transactions, again, session_of};

/// The outcomes of this member's last election and last step-down, for the commands that wait for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) elections: u64,
    pub(crate) election: Option<ElectionOutcome>,
    pub(crate) step_downs: u64,
    pub(crate) refused: Option<Failure>,
}

/// The state that the threads of a member share.
#[derive(Debug)]
pub(crate) struct ReplicaSetState {
    name: String,
    begun: Instant,
    coordinator: Mutex<Coordinator>,
    /// Signalled when the coordinator has actions or an earlier deadline.
    wake: Condvar,
    /// The number of changes that a thread may wait for: progress, the commit point, the state.
    changes: Mutex<u64>,
    changed: Condvar,
    oplog: Arc<Oplog>,
    /// The state that others see, as its number; every command reads it.
    state: AtomicU8,
    writable: AtomicBool,
    rollback_id: AtomicI64,
    /// Held exclusively while a batch is applied: readers see all of the batch or none, as in mongod before 4.0.
    batch: RwLock<()>,
    transactions: Transactions,
    /// The data is consistent from this entry on; it may already contain earlier entries.
    minimum: Mutex<OpTime>,
    /// Outcomes that the coordinator reports once and that commands wait for.
    pub(crate) outcomes: Mutex<Outcomes>,
    figures: ReplicationFigures,
    /// Ends the connection to the current sync source, which may wait for seconds.
    fetching: Mutex<Option<Interrupter>>,
    voting: Mutex<()>,
}

impl ReplicaSetState {
    /// A member without a configuration.
    pub(crate) fn new(name: &str, config_server: bool) -> ReplicaSetState {
        let coordinator = coordinator(name, config_server, None, Progress::default());
        ReplicaSetState {
            name: name.to_owned(),
            begun: Instant::now(),
            coordinator: Mutex::new(coordinator),
            wake: Condvar::new(),
            changes: Mutex::new(0),
            changed: Condvar::new(),
            oplog: Arc::default(),
            state: AtomicU8::new(0),
            writable: AtomicBool::new(false),
            rollback_id: AtomicI64::new(1),
            batch: RwLock::new(()),
            transactions: Transactions::default(),
            minimum: Mutex::default(),
            outcomes: Mutex::default(),
            figures: ReplicationFigures::default(),
            fetching: Mutex::default(),
            voting: Mutex::default(),
        }
    }

    /// Restores the state that was stored before a restart, before any thread begins.
    pub(crate) fn restore(
        &self,
        config_server: bool,
        vote: Option<LastVote>,
        own: Progress,
        rollback_id: i64,
    ) {
        *self.coordinator.lock() = coordinator(&self.name, config_server, vote, own);
        self.rollback_id.store(rollback_id, Ordering::Release);
    }

    /// The set name that the server was started with.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn oplog(&self) -> &Arc<Oplog> {
        &self.oplog
    }

    pub(crate) fn figures(&self) -> &ReplicationFigures {
        &self.figures
    }

    /// The results of retryable writes.
    pub(crate) fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    /// Now, on the coordinator's clock.
    pub(crate) fn now(&self) -> MonotonicTime {
        MonotonicTime(self.begun.elapsed())
    }

    /// Now, on both clocks.
    pub(crate) fn clocks(&self) -> Clocks {
        Clocks { now: self.now(), wall: DateTime::now() }
    }

    /// Reports an event to the coordinator; the driver carries out the resulting actions.
    pub(crate) fn tell<T>(&self, what: impl FnOnce(&mut Coordinator, MonotonicTime) -> T) -> T {
        let mut coordinator = self.coordinator.lock();
        let result = what(&mut coordinator, self.now());
        self.mirror(&coordinator);
        drop(coordinator);
        self.wake.notify_all();
        result
    }

    /// Reads the coordinator's state.
    pub(crate) fn ask<T>(&self, what: impl FnOnce(&Coordinator) -> T) -> T {
        what(&self.coordinator.lock())
    }

    fn mirror(&self, coordinator: &Coordinator) {
        let state = u8::try_from(coordinator.state().number()).unwrap_or(6);
        self.state.store(state, Ordering::Release);
        self.writable.store(coordinator.can_accept_writes(), Ordering::Release);
    }

    /// Waits for actions of the coordinator, ticking at its deadlines; empty if `until` passes first.
    pub(crate) fn next_actions(&self, until: Instant) -> Vec<Action> {
        let mut coordinator = self.coordinator.lock();
        loop {
            let now = self.now();
            if coordinator.next_wakeup().is_some_and(|due| due <= now) {
                coordinator.tick(now);
            }
            self.mirror(&coordinator);
            let actions = coordinator.take_actions();
            if !actions.is_empty() || Instant::now() >= until {
                return actions;
            }
            let due = coordinator.next_wakeup().and_then(|due| self.begun.checked_add(due.0));
            // A deadline that is due at once would keep this thread busy.
            let due = due.map(|due| due.max(Instant::now() + Duration::from_millis(1)));
            let until = due.map_or(until, |due| due.min(until));
            self.wake.wait_until(&mut coordinator, until);
        }
    }

    /// The state that others see.
    pub(crate) fn state(&self) -> MemberState {
        MemberState::from_number(i64::from(self.state.load(Ordering::Acquire))).unwrap_or_default()
    }

    /// Whether clients' writes are accepted.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }

    /// The number of rollbacks of this member.
    pub(crate) fn rollback_id(&self) -> i64 {
        self.rollback_id.load(Ordering::Acquire)
    }

    pub(crate) fn set_rollback_id(&self, id: i64) {
        self.rollback_id.store(id, Ordering::Release);
    }

    /// Held while a vote is stored.
    pub(crate) fn storing_vote(&self) -> MutexGuard<'_, ()> {
        self.voting.lock()
    }

    /// Records the connection to the new sync source.
    pub(crate) fn fetching(&self, interrupter: Option<Interrupter>) {
        *self.fetching.lock() = interrupter;
    }

    /// Ends the fetch from the source at once.
    pub(crate) fn stop_fetching(&self) {
        if let Some(fetching) = self.fetching.lock().take() {
            fetching.interrupt();
        }
    }

    /// The entry from which on the data is consistent.
    pub(crate) fn minimum(&self) -> OpTime {
        *self.minimum.lock()
    }

    pub(crate) fn set_minimum(&self, minimum: OpTime) {
        *self.minimum.lock() = minimum;
    }

    /// Clears the reason of the last refused step-down, before another is requested.
    pub(crate) fn forget_refusal(&self) {
        self.outcomes.lock().refused = None;
    }

    /// The outcomes of the last election and the last step-down.
    pub(crate) fn outcomes(&self) -> Outcomes {
        self.outcomes.lock().clone()
    }

    /// Wakes the threads that wait for a change.
    pub(crate) fn announce(&self) {
        *self.changes.lock() += 1;
        self.changed.notify_all();
    }

    /// The number of changes so far: read it before checking a condition, and wait for a higher number.
    pub(crate) fn changes(&self) -> u64 {
        *self.changes.lock()
    }

    /// Waits, at most until `until`, for more changes than `seen`.
    pub(crate) fn wait_for_change(&self, seen: u64, until: Instant) {
        let mut changes = self.changes.lock();
        while *changes <= seen {
            if self.changed.wait_until(&mut changes, until).timed_out() {
                return;
            }
        }
    }

    /// Prevents batches during a read.
    pub(crate) fn reading(&self) -> RwLockReadGuard<'_, ()> {
        self.batch.read_recursive()
    }

    /// Blocks readers while a batch is applied.
    pub(crate) fn applying(&self) -> parking_lot::RwLockWriteGuard<'_, ()> {
        self.batch.write()
    }
}

/// The coordinator of a member in this state.
fn coordinator(name: &str, config_server: bool, vote: Option<LastVote>, own: Progress) -> Coordinator {
    let mut options = CoordinatorOptions::new(name, crate::random::number());
    options.config_server = config_server;
    Coordinator::new(options, vote, own)
}

/// The newest entry that majority reads see, once they see any: the set has committed it and this member has applied it.
pub(crate) fn majority_of(coordinator: &Coordinator) -> Option<OpTime> {
    let seen = coordinator.last_committed().min(coordinator.own_progress().applied);
    (!seen.is_null()).then_some(seen)
}
