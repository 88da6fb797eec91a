//! The journal: synced every `journalCommitInterval`, and at once for those who wait.
//!
//! mongod syncs its journal each 100 ms, and a write with `j: true` does not wait for the tick: it asks for a sync. One
//! caller syncs at a time; whoever comes meanwhile shares the next sync (server.md, 4.2).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_engine::{Engine, Error};
use parking_lot::{Condvar, Mutex};

/// Syncs of the journal, grouped.
#[derive(Debug)]
pub(crate) struct Journal {
    engine: Arc<dyn Engine>,
    progress: Mutex<Progress>,
    done: Condvar,
    /// Syncs that were made, for `serverStatus`.
    syncs: AtomicU64,
    waits: AtomicU64,
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
        }
    }

    /// Returns when all that was committed before the call is durable.
    pub(crate) fn wait_until_durable(&self) -> Result<(), Error> {
        self.waits.fetch_add(1, Ordering::Relaxed);
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

    /// Syncs so far, and callers that waited for one.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.syncs.load(Ordering::Relaxed), self.waits.load(Ordering::Relaxed))
    }
}
