//! The state that the engine and its sessions share: the open database, the conflict table, the snapshots that transactions
//! read, and whether the store has stopped.
//!
//! Making a snapshot takes RocksDB's big lock twice, so readers that begin between two commits share one. The commit
//! clock counts commits; it ticks after a commit is visible. A view carries the tick at which it was requested, so that
//! a write to a key committed at a later tick is known to be a conflict (`conflicts`).
//!
//! The order of steps makes this correct. A view is registered before its snapshot is made. A commit becomes
//! visible, then ticks, then reads the oldest view. So a commit that does not find a view in the register is in that
//! view's snapshot.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use fathom_errors::{Error, Kind, Result};
use parking_lot::{Mutex, RwLock};

use crate::conflicts::Conflicts;
use crate::native::{Database, DatabaseSnapshot, RocksStatus, WriteBatch};

/// An open database with the state of its transactions.
pub(crate) struct Store {
    pub(crate) database: Arc<Database>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) conflicts: Conflicts,
    /// Prefixes of dropped tables. A commit holds the read lock while it writes, so that no commit can write to a table
    /// after its keys were removed.
    pub(crate) dropped: RwLock<HashSet<u32>>,
    /// Whether index entries are removed with RocksDB's `SingleDelete`.
    pub(crate) single_delete_index: bool,
    /// Sessions that are open.
    pub(crate) sessions: AtomicUsize,
    /// The counts that RocksDB does not have.
    pub(crate) counts: StoreCounts,
    journal: bool,
    stopped: AtomicBool,
    cause: OnceLock<String>,
    owners: AtomicU64,
}

/// The store's own counts, since RocksDB knows nothing of our transactions.
#[derive(Default)]
pub(crate) struct StoreCounts {
    /// Commits that wrote something.
    pub(crate) commits: AtomicU64,
    /// Writes refused because another transaction was first.
    pub(crate) conflicts: AtomicU64,
}

impl Store {
    /// A store for a database that was just opened.
    pub(crate) fn new(database: Database, journal: bool, single_delete_index: bool) -> Self {
        let database = Arc::new(database);
        Store {
            snapshots: Snapshots::new(Arc::clone(&database)),
            database,
            conflicts: Conflicts::new(),
            dropped: RwLock::default(),
            single_delete_index,
            sessions: AtomicUsize::new(0),
            counts: StoreCounts::default(),
            journal,
            stopped: AtomicBool::new(false),
            cause: OnceLock::new(),
            owners: AtomicU64::new(1),
        }
    }

    /// A number for a session, different from all others.
    pub(crate) fn new_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Fails if the store may not be used.
    ///
    /// # Errors
    /// [`Kind::Stopped`] after a failure or the close.
    pub(crate) fn check(&self) -> Result<()> {
        if self.stopped.load(Ordering::Acquire) { Err(self.why_stopped()) } else { Ok(()) }
    }

    /// Ends all use; later callers get `cause`, unless there was an earlier one.
    pub(crate) fn stop(&self, cause: impl FnOnce() -> String) {
        self.cause.get_or_init(cause);
        self.stopped.store(true, Ordering::Release);
    }

    /// Writes a batch; it is visible when this returns, and in the log if there is one.
    ///
    /// # Errors
    /// Any failure stops the store.
    pub(crate) fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.database.write(batch).map_err(|status| self.fail("RocksDB could not write", status))
    }

    /// Makes earlier writes survive a crash of the machine: by a sync of the log or, without a log, by a flush to files.
    ///
    /// # Errors
    /// Any failure stops the store.
    pub(crate) fn sync(&self) -> Result<()> {
        if !self.journal {
            return self.flush();
        }
        self.check()?;
        self.database.sync_log().map_err(|status| self.fail("RocksDB could not sync its log", status))
    }

    /// Writes the memtables out.
    ///
    /// # Errors
    /// Any failure stops the store.
    pub(crate) fn flush(&self) -> Result<()> {
        self.check()?;
        self.database.flush().map_err(|status| self.fail("RocksDB could not flush its memtables", status))
    }

    fn fail(&self, what: &str, status: RocksStatus) -> Error {
        self.stop(|| format!("{what}: {status}"));
        let advice = "nothing more is written until it is opened again";
        Error::new(status.kind(), what).because(status).advise(advice)
    }

    fn why_stopped(&self) -> Error {
        let cause = self.cause.get().map_or("it was closed", String::as_str);
        Error::new(Kind::Stopped, format!("the RocksDB engine has stopped: {cause}"))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.snapshots.stop_sharing();
    }
}

/// The error of a failed read. It does not stop the store: the data read may be wrong, the data written is not.
pub(crate) fn cannot_read(status: RocksStatus) -> Error {
    Error::new(status.kind(), "RocksDB could not read").because(status)
}

/// The value of [`Snapshots::oldest`] when no view is open.
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
    /// The view to share. It does not pin old data, because it is dropped with the next commit.
    shared: Option<Arc<TransactionView>>,
    /// How many views are open at each tick.
    open: BTreeMap<u64, usize>,
}

/// A state of the database as a transaction sees it.
pub(crate) struct TransactionView {
    snapshot: DatabaseSnapshot,
    tick: u64,
    sequence: u64,
    home: Arc<Snapshots>,
}

impl Snapshots {
    /// The snapshots of a database that was just opened.
    pub(crate) fn new(database: Arc<Database>) -> Arc<Self> {
        Arc::new(Snapshots {
            database,
            clock: AtomicU64::new(0),
            oldest: AtomicU64::new(NONE_OPEN),
            register: Mutex::default(),
        })
    }

    /// A view of the committed state.
    pub(crate) fn view(self: &Arc<Self>) -> Arc<TransactionView> {
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
        let snapshot = DatabaseSnapshot::new(&self.database);
        let view = Arc::new(TransactionView { snapshot, tick, sequence, home: Arc::clone(self) });
        let replaced = register.shared.replace(Arc::clone(&view));
        drop(register);
        // The last holder of a view locks the register.
        drop(replaced);
        view
    }

    /// The tick of a commit that has just become visible.
    pub(crate) fn tick(&self) -> u64 {
        let tick = self.clock.fetch_add(1, Ordering::SeqCst) + 1;
        self.stop_sharing();
        tick
    }

    /// The tick of the oldest open view, or [`NONE_OPEN`].
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::SeqCst)
    }

    /// How many open views have readers.
    pub(crate) fn open(&self) -> usize {
        self.stop_sharing();
        self.register.lock().open.values().sum()
    }

    /// Drops the view to share. This also breaks the reference cycle at the end.
    pub(crate) fn stop_sharing(&self) {
        let shared = self.register.lock().shared.take();
        drop(shared);
    }

    fn note_oldest(&self, register: &Register) {
        let oldest = register.open.first_key_value().map_or(NONE_OPEN, |(tick, _)| *tick);
        self.oldest.store(oldest, Ordering::SeqCst);
    }
}

impl TransactionView {
    /// The commits that are not in the view have later ticks.
    pub(crate) fn tick(&self) -> u64 {
        self.tick
    }

    /// The snapshot to read.
    pub(crate) fn snapshot(&self) -> &DatabaseSnapshot {
        &self.snapshot
    }
}

impl Drop for TransactionView {
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
