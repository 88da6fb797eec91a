//! The states that transactions read, shared where nothing was committed in between.
//!
//! Making a snapshot takes RocksDB's big lock twice, so readers that begin between two commits share one. The commit
//! clock counts commits; it ticks after a commit is visible. A view carries the tick at which it was asked for, so
//! that a write to a key committed at a later tick is known to be a conflict (`conflicts`).
//!
//! The order of steps is what makes this right. A view is registered before its snapshot is made; a commit is made
//! visible, then ticks, then asks for the oldest view. So a commit that does not find a view in the register is in
//! that view's snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::native::{Database, Snapshot};

/// What [`Snapshots::oldest`] is when no view is open.
pub(crate) const NONE_OPEN: u64 = u64::MAX;

/// The commit clock and the open views.
pub(crate) struct Snapshots {
    database: Arc<Database>,
    clock: AtomicU64,
    oldest: AtomicU64,
    register: Mutex<Register>,
}

#[derive(Default)]
struct Register {
    /// The view to share; it pins nothing, because it goes with the next commit.
    shared: Option<Arc<View>>,
    /// How many views are open at each tick.
    open: BTreeMap<u64, usize>,
}

/// A state of the database as a transaction sees it.
pub(crate) struct View {
    snapshot: Snapshot,
    tick: u64,
    sequence: u64,
    home: Arc<Snapshots>,
}

impl Snapshots {
    /// For a database that was just opened.
    pub(crate) fn new(database: Arc<Database>) -> Arc<Self> {
        Arc::new(Snapshots {
            database,
            clock: AtomicU64::new(0),
            oldest: AtomicU64::new(NONE_OPEN),
            register: Mutex::default(),
        })
    }

    /// What is committed now.
    pub(crate) fn view(self: &Arc<Self>) -> Arc<View> {
        let mut register = self.register.lock();
        let tick = self.clock.load(Ordering::SeqCst);
        let sequence = self.database.sequence();
        if let Some(view) = &register.shared
            && view.tick == tick
            && view.sequence == sequence
        {
            return Arc::clone(view);
        }
        *register.open.entry(tick).or_default() += 1;
        self.note_oldest(&register);
        let snapshot = Snapshot::new(&self.database);
        let view = Arc::new(View { snapshot, tick, sequence, home: Arc::clone(self) });
        let replaced = register.shared.replace(Arc::clone(&view));
        drop(register);
        // The last holder of a view locks the register.
        drop(replaced);
        view
    }

    /// The time of a commit that has just become visible.
    pub(crate) fn tick(&self) -> u64 {
        let tick = self.clock.fetch_add(1, Ordering::SeqCst) + 1;
        self.stop_sharing();
        tick
    }

    /// The tick of the oldest open view, or [`NONE_OPEN`].
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::SeqCst)
    }

    /// How many views are open that somebody reads.
    pub(crate) fn open(&self) -> usize {
        self.stop_sharing();
        self.register.lock().open.values().sum()
    }

    /// Lets go of the view to share. Also breaks the circle of references at the end.
    pub(crate) fn stop_sharing(&self) {
        let shared = self.register.lock().shared.take();
        drop(shared);
    }

    fn note_oldest(&self, register: &Register) {
        let oldest = register.open.first_key_value().map_or(NONE_OPEN, |(tick, _)| *tick);
        self.oldest.store(oldest, Ordering::SeqCst);
    }
}

impl View {
    /// The commits that are not in the view have later ticks.
    pub(crate) fn tick(&self) -> u64 {
        self.tick
    }

    /// The snapshot to read.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let mut register = self.home.register.lock();
        if let Some(count) = register.open.get_mut(&self.tick) {
            *count -= 1;
            if *count == 0 {
                register.open.remove(&self.tick);
            }
        }
        self.home.note_oldest(&register);
    }
}
