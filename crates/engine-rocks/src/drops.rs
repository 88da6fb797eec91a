//! Reclaims the space of dropped tables in the background.
//!
//! A drop removes the table's record and all its keys in one batch; only its space remains in use. One thread deletes the
//! files that hold nothing else and compacts the rest, then removes the mark of the drop. A mark that outlives the
//! process is processed at the next opening. mongo-rocks does this with a compaction filter, for which the C interface
//! would need callbacks; one range deletion has the same effect.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use parking_lot::{Condvar, Mutex};

use crate::catalog::dropped_key;
use crate::keys;
use crate::native::WriteBatch;
use crate::store::Store;

/// How often the thread checks whether the last reader of a dropped table has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The thread and its work.
pub(crate) struct Drops {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<DropQueue>,
    wake: Condvar,
}

#[derive(Default)]
struct DropQueue {
    /// Dropped prefixes, each with the tick of its drop.
    waiting: VecDeque<(u32, u64)>,
    stopping: bool,
}

impl Drops {
    /// Starts the thread, with the drops that an earlier process did not finish.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] if the system gives no thread.
    pub(crate) fn start(store: &Arc<Store>, unfinished: Vec<u32>) -> Result<Drops> {
        let queue = Arc::new(Queue::default());
        queue.state.lock().waiting.extend(unfinished.into_iter().map(|prefix| (prefix, 0)));
        let (its_queue, its_store) = (Arc::clone(&queue), Arc::clone(store));
        let thread = thread::Builder::new()
            .name("rocksdb drops".to_owned())
            .spawn(move || its_queue.work(&its_store))
            .map_err(|e| {
                Error::new(Kind::Unsupported, "cannot start a thread for dropped tables").because(e)
            })?;
        Ok(Drops { queue, thread: Mutex::new(Some(thread)) })
    }

    /// Queues a prefix that was dropped at `tick`.
    pub(crate) fn add(&self, prefix: u32, tick: u64) {
        self.queue.state.lock().waiting.push_back((prefix, tick));
        self.queue.wake.notify_one();
    }

    /// The number of prefixes that are not reclaimed yet.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.state.lock().waiting.len()
    }

    /// Asks the thread to end after its current work.
    pub(crate) fn stop(&self) {
        self.queue.state.lock().stopping = true;
        self.queue.wake.notify_one();
    }

    /// Waits for the thread to end.
    pub(crate) fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the thread was printed when it happened; the marks stay, so nothing is lost.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn work(&self, store: &Store) {
        while let Some(prefix) = self.next(store) {
            let [start, end] = keys::bounds(prefix);
            if store.database.delete_files(&start, &end).is_ok() {
                store.database.compact(&start, &end);
                if self.state.lock().stopping {
                    // The compaction may have been interrupted: the mark stays.
                    return;
                }
                let mut batch = WriteBatch::new();
                batch.delete(&dropped_key(prefix));
                if store.check().and_then(|()| store.write(&batch)).is_err() {
                    return;
                }
            }
            // If files could not be deleted, the mark stays, and the next opening tries again.
            self.state.lock().waiting.pop_front();
        }
    }

    /// Waits for a prefix that no reader can see any more, or returns `None` if the thread is to end.
    fn next(&self, store: &Store) -> Option<u32> {
        let mut state = self.state.lock();
        loop {
            if state.stopping {
                return None;
            }
            match state.waiting.front() {
                // Deleting files does not look at snapshots.
                Some(&(prefix, tick)) if store.snapshots.oldest() >= tick => return Some(prefix),
                Some(_) => {
                    self.wake.wait_for(&mut state, CHECK_INTERVAL);
                }
                None => self.wake.wait(&mut state),
            }
        }
    }
}
