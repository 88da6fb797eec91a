//! The replica set, as one of its members knows it: its coordinator with the clock, its oplog, and who waits for what. What a member
//! does with its data and its connections is in `replication`, above the operations.
//!
//! All decisions are the coordinator's (`fathom-replication`); here they meet the time and the threads. Whoever tells it something
//! does so by [`ReplicaSet::tell`], and the driver thread carries out what follows.

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
    Action, Clocks, Coordinator, LastVote, MemberState, Moment, OpTime, Options, Progress,
};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};

pub(crate) use clock::Stamp;
pub(crate) use difference::difference;
pub(crate) use entry::{Change, ChangeKind, Entry, Image, Statement, read_optime, stamp_of, timestamp_of};
pub(crate) use figures::{Figures, Timed};
pub(crate) use oplog::{
    Logged, OPLOG, Oplog, Role, TRANSACTIONS, Unreplicated, is_replicated, key, not_primary,
};
pub(crate) use retryable::{Again, Checkout, Transactions, again, session_of};

/// How the last election and the last step-down of this member ended, for the commands that wait for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) elections: u64,
    pub(crate) election: Option<ElectionOutcome>,
    pub(crate) step_downs: u64,
    pub(crate) refused: Option<Failure>,
}

/// What the threads of a member share.
#[derive(Debug)]
pub(crate) struct ReplicaSet {
    name: String,
    begun: Instant,
    coordinator: Mutex<Coordinator>,
    /// There are actions, or an earlier moment to tick.
    wake: Condvar,
    /// Something changed that somebody may wait for: progress, the commit point, the state.
    changes: Mutex<u64>,
    changed: Condvar,
    oplog: Arc<Oplog>,
    /// The state that others see, by its number: read by each command.
    state: AtomicU8,
    writable: AtomicBool,
    rollback_id: AtomicI64,
    /// Held alone while a batch is applied: readers see all of it or nothing, as in mongod before 4.0.
    batch: RwLock<()>,
    transactions: Transactions,
    /// The data are consistent from here on; entries before it may be in them already.
    minimum: Mutex<OpTime>,
    /// What commands wait for that the coordinator tells once.
    pub(crate) outcomes: Mutex<Outcomes>,
    figures: Figures,
    /// Ends the connection to the source that is followed, which may wait for seconds.
    fetching: Mutex<Option<Interrupter>>,
    voting: Mutex<()>,
}

impl ReplicaSet {
    /// A member that has no configuration yet.
    pub(crate) fn new(name: &str, config_server: bool) -> ReplicaSet {
        let coordinator = coordinator(name, config_server, None, Progress::default());
        ReplicaSet {
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
            figures: Figures::default(),
            fetching: Mutex::default(),
            voting: Mutex::default(),
        }
    }

    /// What was stored before a restart: told before any thread begins.
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

    /// The name that it was started with.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The oplog.
    pub(crate) fn oplog(&self) -> &Arc<Oplog> {
        &self.oplog
    }

    /// What it counts.
    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// What retryable writes did.
    pub(crate) fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    /// Now, on the coordinator's clock.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.begun.elapsed())
    }

    /// Now, on both clocks.
    pub(crate) fn clocks(&self) -> Clocks {
        Clocks { now: self.now(), wall: DateTime::now() }
    }

    /// Tells the coordinator something; the driver carries out what follows.
    pub(crate) fn tell<T>(&self, what: impl FnOnce(&mut Coordinator, Moment) -> T) -> T {
        let mut coordinator = self.coordinator.lock();
        let result = what(&mut coordinator, self.now());
        self.mirror(&coordinator);
        drop(coordinator);
        self.wake.notify_all();
        result
    }

    /// Asks the coordinator something.
    pub(crate) fn ask<T>(&self, what: impl FnOnce(&Coordinator) -> T) -> T {
        what(&self.coordinator.lock())
    }

    fn mirror(&self, coordinator: &Coordinator) {
        let state = u8::try_from(coordinator.state().number()).unwrap_or(6);
        self.state.store(state, Ordering::Release);
        self.writable.store(coordinator.can_accept_writes(), Ordering::Release);
    }

    /// Waits until there is something to do, ticking when the time has come; empty when `until` has come before.
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
            // A moment that is due again at once would keep this thread busy.
            let due = due.map(|due| due.max(Instant::now() + Duration::from_millis(1)));
            let until = due.map_or(until, |due| due.min(until));
            self.wake.wait_until(&mut coordinator, until);
        }
    }

    /// The state that others see.
    pub(crate) fn state(&self) -> MemberState {
        MemberState::of_number(i64::from(self.state.load(Ordering::Acquire))).unwrap_or_default()
    }

    /// Whether clients' writes are accepted.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }

    /// How often this member has rolled back.
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

    /// Notes the connection to the source that is followed from now on.
    pub(crate) fn fetching(&self, interrupter: Option<Interrupter>) {
        *self.fetching.lock() = interrupter;
    }

    /// Stops following the source at once.
    pub(crate) fn stop_fetching(&self) {
        if let Some(fetching) = self.fetching.lock().take() {
            fetching.interrupt();
        }
    }

    /// From where on the data are consistent.
    pub(crate) fn minimum(&self) -> OpTime {
        *self.minimum.lock()
    }

    pub(crate) fn set_minimum(&self, minimum: OpTime) {
        *self.minimum.lock() = minimum;
    }

    /// Forgets why the last step-down was refused, before another is asked for.
    pub(crate) fn forget_refusal(&self) {
        self.outcomes.lock().refused = None;
    }

    /// How the last election and the last step-down ended.
    pub(crate) fn outcomes(&self) -> Outcomes {
        self.outcomes.lock().clone()
    }

    /// Wakes those who wait for a change.
    pub(crate) fn announce(&self) {
        *self.changes.lock() += 1;
        self.changed.notify_all();
    }

    /// How many changes there were: look before asking, and wait for more than that.
    pub(crate) fn changes(&self) -> u64 {
        *self.changes.lock()
    }

    /// Waits until there were more changes than `seen`, no longer than `until`.
    pub(crate) fn wait_for_change(&self, seen: u64, until: Instant) {
        let mut changes = self.changes.lock();
        while *changes <= seen {
            if self.changed.wait_until(&mut changes, until).timed_out() {
                return;
            }
        }
    }

    /// Keeps batches away while a read goes on.
    pub(crate) fn reading(&self) -> RwLockReadGuard<'_, ()> {
        self.batch.read_recursive()
    }

    /// Keeps readers away while a batch is applied.
    pub(crate) fn applying(&self) -> parking_lot::RwLockWriteGuard<'_, ()> {
        self.batch.write()
    }
}

/// What decides for a member that stands so.
fn coordinator(name: &str, config_server: bool, vote: Option<LastVote>, own: Progress) -> Coordinator {
    let mut options = Options::new(name, crate::random::number());
    options.config_server = config_server;
    Coordinator::new(options, vote, own)
}

/// The newest entry that majority reads see, once they see any: what the set has committed and this member has applied.
pub(crate) fn majority_of(coordinator: &Coordinator) -> Option<OpTime> {
    let seen = coordinator.last_committed().min(coordinator.own_progress().applied);
    (!seen.is_null()).then_some(seen)
}
