//! The journal: synced every `journalCommitInterval`, and at once for operations that wait for it.
//!
//! mongod syncs its journal every 100 ms, and a write with `j: true` does not wait for the tick: it requests a sync. One caller syncs at a time;
//! callers that arrive meanwhile share the next sync (docs/methods.md#write-concern). The list of journaled tables is in this module too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fathom_engine::{Engine, Error, TableSpec};
use parking_lot::{Condvar, Mutex};

use crate::stats::elapsed_micros;

/// Groups the syncs of the journal.
#[derive(Debug)]
pub(crate) struct JournalFlusher {
    engine: Arc<dyn Engine>,
    progress: Mutex<SyncProgress>,
    done: Condvar,
    syncs: AtomicU64,
    waits: AtomicU64,
    waited_us: AtomicU64,
}

/// The counts that `serverStatus` reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalCounts {
    /// The number of syncs.
    pub(crate) syncs: u64,
    /// Clients' operations that waited for a sync, and their total waiting time.
    pub(crate) waits: u64,
    pub(crate) waited_us: u64,
}

#[derive(Debug, Default)]
struct SyncProgress {
    /// The number of the running or last sync.
    begun: u64,
    /// The number of the last successful sync.
    finished: u64,
    running: bool,
    /// The error of the last sync; no further sync is attempted.
    failed: Option<String>,
}

impl JournalFlusher {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> JournalFlusher {
        JournalFlusher {
            engine,
            progress: Mutex::default(),
            done: Condvar::new(),
            syncs: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
        }
    }

    /// Calls [`JournalFlusher::wait_until_durable`] for a client's operation, and counts the wait.
    pub(crate) fn wait_for_operation(&self) -> Result<(), Error> {
        let begun = Instant::now();
        let result = self.wait_until_durable();
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_us.fetch_add(elapsed_micros(begun), Ordering::Relaxed);
        result
    }

    /// Returns when everything committed before the call is durable.
    pub(crate) fn wait_until_durable(&self) -> Result<(), Error> {
        let mut progress = self.progress.lock();
        // A running sync may have begun before our commit; the next one begins after it.
        let wanted = progress.begun + 1;
        loop {
            if progress.finished >= wanted {
                return Ok(());
            }
            if let Some(why) = &progress.failed {
                return Err(Error::new(
                    fathom_engine::Kind::Stopped,
                    format!("the journal cannot be synced: {why}"),
                ));
            }
            if progress.running {
                self.done.wait(&mut progress);
                continue;
            }
            progress.begun += 1;
            progress.running = true;
            let number = progress.begun;
            let result = parking_lot::MutexGuard::unlocked(&mut progress, || self.engine.flush_journal());
            progress.running = false;
            self.syncs.fetch_add(1, Ordering::Relaxed);
            match result {
                Ok(()) => progress.finished = number,
                Err(error) => {
                    progress.failed = Some(error.to_string());
                    self.done.notify_all();
                    return Err(error);
                }
            }
            self.done.notify_all();
        }
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> JournalCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        JournalCounts { syncs: read(&self.syncs), waits: read(&self.waits), waited_us: read(&self.waited_us) }
    }
}

/// The record of the last entry applied to a set member's data; not journaled, since it belongs to the data.
pub(crate) const MIN_VALID: &str = "local.replset.minvalid";

/// The rule for which tables of this server are journaled.
///
/// A standalone server journals all tables. A member of a replica set journals only those in `local`, above all the oplog: its data is recovered from
/// the last checkpoint and the oplog (docs/methods.md#records-and-indexes). Journaling more would write more than mongod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetTables {
    set: bool,
}

impl SetTables {
    /// The rule for a member of a set, or for a standalone server.
    pub(crate) fn new(set: bool) -> SetTables {
        SetTables { set }
    }

    /// Whether the server is a member of a set.
    pub(crate) fn is_set(self) -> bool {
        self.set
    }

    /// Whether a collection's tables are journaled. The catalog and the counts, which have no name, are treated like data.
    pub(crate) fn are_journaled(self, namespace: &str) -> bool {
        !self.set || (namespace.starts_with("local.") && namespace != MIN_VALID)
    }

    /// Adapts `spec` to a table of that collection.
    pub(crate) fn spec(self, spec: TableSpec, namespace: &str) -> TableSpec {
        TableSpec { journaled: self.are_journaled(namespace), ..spec }
    }
}
