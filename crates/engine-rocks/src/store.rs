//! What the engine and its sessions share: the open database, the conflict table, and whether it may go on.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use fathom_errors::{Error, Kind, Result};
use parking_lot::RwLock;

use crate::conflicts::Conflicts;
use crate::native::{Batch, Database, Status};
use crate::snapshots::Snapshots;

/// An open database with the state of its transactions.
pub(crate) struct Store {
    pub(crate) database: Arc<Database>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) conflicts: Conflicts,
    /// Prefixes of dropped tables. A commit holds it for reading while it writes, so that none can write to a table
    /// after its keys were removed.
    pub(crate) dropped: RwLock<HashSet<u32>>,
    /// Whether indexes are removed from with RocksDB's `SingleDelete`.
    pub(crate) single_delete_index: bool,
    /// Sessions that are open.
    pub(crate) sessions: AtomicUsize,
    /// What only we can count.
    pub(crate) counts: Counts,
    journal: bool,
    stopped: AtomicBool,
    cause: OnceLock<String>,
    owners: AtomicU64,
}

/// What the store counts itself, since RocksDB knows nothing of our transactions.
#[derive(Default)]
pub(crate) struct Counts {
    /// Commits that wrote something.
    pub(crate) commits: AtomicU64,
    /// Writes refused because another transaction was first.
    pub(crate) conflicts: AtomicU64,
}

impl Store {
    /// Around a database that was just opened.
    pub(crate) fn new(database: Database, journal: bool, single_delete_index: bool) -> Self {
        let database = Arc::new(database);
        Store {
            snapshots: Snapshots::new(Arc::clone(&database)),
            database,
            conflicts: Conflicts::new(),
            dropped: RwLock::default(),
            single_delete_index,
            sessions: AtomicUsize::new(0),
            counts: Counts::default(),
            journal,
            stopped: AtomicBool::new(false),
            cause: OnceLock::new(),
            owners: AtomicU64::new(1),
        }
    }

    /// A number for a session that no other has.
    pub(crate) fn new_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the store may be used.
    ///
    /// # Errors
    /// [`Kind::Stopped`] after a failure or the close.
    pub(crate) fn check(&self) -> Result<()> {
        if self.stopped.load(Ordering::Acquire) { Err(self.why_stopped()) } else { Ok(()) }
    }

    /// Ends all use; `cause` is what later callers are told, unless there was an earlier one.
    pub(crate) fn stop(&self, cause: impl FnOnce() -> String) {
        self.cause.get_or_init(cause);
        self.stopped.store(true, Ordering::Release);
    }

    /// Writes a batch; it is visible when this returns, and in the log if there is one.
    ///
    /// # Errors
    /// Any failure stops the store.
    pub(crate) fn write(&self, batch: &Batch) -> Result<()> {
        self.database.write(batch).map_err(|status| self.fail("RocksDB could not write", status))
    }

    /// Makes what is written survive a crash of the machine: by the log, or by files where there is no log.
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

    fn fail(&self, what: &str, status: Status) -> Error {
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

/// An error of a read, which stops nothing: what was read may be wrong, what is written is not.
pub(crate) fn cannot_read(status: Status) -> Error {
    Error::new(status.kind(), "RocksDB could not read").because(status)
}
