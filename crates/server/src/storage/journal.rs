//! The journal: synced every `journalCommitInterval`, and at once for those who wait.
//!
//! mongod syncs its journal each 100 ms, and a write with `j: true` does not wait for the tick: it asks for a sync. One
//! caller syncs at a time; whoever comes meanwhile shares the next sync (server.md, 4.2). Which tables it holds is here too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fathom_engine::{Engine, Error, TableSpec};
use parking_lot::{Condvar, Mutex};

use crate::stats::elapsed_micros;

/// Syncs of the journal, grouped.
#[derive(Debug)]
pub(crate) struct Journal {
    engine: Arc<dyn Engine>,
    progress: Mutex<Progress>,
    done: Condvar,
    syncs: AtomicU64,
    waits: AtomicU64,
    waited_us: AtomicU64,
}

/// What `serverStatus` tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalCounts {
    /// Syncs that were made.
    pub(crate) syncs: u64,
    /// Operations of clients that waited for one, and how long, together.
    pub(crate) waits: u64,
    pub(crate) waited_us: u64,
}

#[derive(Debug, Default)]
struct Progress {
    /// The number of the sync that is running or ran last.
    begun: u64,
    /// The number of the last sync that ended well.
    finished: u64,
    running: bool,
    /// Why the last sync failed; none will follow.
    failed: Option<String>,
}

impl Journal {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Journal {
        Journal {
            engine,
            progress: Mutex::default(),
            done: Condvar::new(),
            syncs: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
        }
    }

    /// [`Journal::wait_until_durable`] for an operation of a client, whose wait is counted.
    pub(crate) fn wait_for_operation(&self) -> Result<(), Error> {
        let begun = Instant::now();
        let result = self.wait_until_durable();
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_us.fetch_add(elapsed_micros(begun), Ordering::Relaxed);
        result
    }

    /// Returns when all that was committed before the call is durable.
    pub(crate) fn wait_until_durable(&self) -> Result<(), Error> {
        let mut progress = self.progress.lock();
        // A sync that runs already may have begun before our commit; the one after it has not.
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

    /// What was counted so far.
    pub(crate) fn counts(&self) -> JournalCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        JournalCounts { syncs: read(&self.syncs), waits: read(&self.waits), waited_us: read(&self.waited_us) }
    }
}

/// How far the data of a member of a set were applied; not journaled, for it belongs to the data.
pub(crate) const MIN_VALID: &str = "local.replset.minvalid";

/// Which tables of this server are journaled.
///
/// A server alone journals all. A member of a replica set journals only what is in `local`, the oplog above all: its data come
/// back from the last checkpoint and the oplog (server.md, 5). Journaling more would write more than mongod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetTables {
    set: bool,
}

impl SetTables {
    /// The rule for a server that is a member of a set, or is not.
    pub(crate) fn new(set: bool) -> SetTables {
        SetTables { set }
    }

    /// Whether the server is a member of a set.
    pub(crate) fn is_set(self) -> bool {
        self.set
    }

    /// Whether a collection's tables are journaled. The catalog and the counts, which have no name, follow the data.
    pub(crate) fn are_journaled(self, namespace: &str) -> bool {
        !self.set || (namespace.starts_with("local.") && namespace != MIN_VALID)
    }

    /// `spec` for a table of that collection.
    pub(crate) fn spec(self, spec: TableSpec, namespace: &str) -> TableSpec {
        TableSpec { journaled: self.are_journaled(namespace), ..spec }
    }
}
