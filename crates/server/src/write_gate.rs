//! The gate that `fsync` with `lock` shuts: while it is shut no client's write begins, and those that had begun are done.
//!
//! It is looked at after a write ticket is taken and before the write begins, and whoever shuts it waits until no ticket
//! is out: one of both sees the other.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long a waiting write sleeps before it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Shut while the count is above 0: locks nest.
#[derive(Debug, Default)]
pub(crate) struct WriteGate {
    locks: AtomicI64,
    /// Operations that wait for it to open.
    waiting: AtomicUsize,
    lock: Mutex<()>,
    opened: Condvar,
}

impl WriteGate {
    /// Shuts it once more; how often it is shut now.
    pub(crate) fn shut(&self) -> i64 {
        self.locks.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Opens it once; how often it is still shut, or none if it was open.
    pub(crate) fn open(&self) -> Option<i64> {
        let before = self
            .locks
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |locks| (locks > 0).then(|| locks - 1));
        let left = before.ok()? - 1;
        if left == 0 {
            drop(self.lock.lock());
            self.opened.notify_all();
        }
        Some(left)
    }

    /// Whether writes must wait.
    pub(crate) fn is_shut(&self) -> bool {
        self.locks.load(Ordering::SeqCst) > 0
    }

    /// Waits until it opens, a short time at most.
    pub(crate) fn wait(&self, deadline: Option<Instant>) {
        let until =
            deadline.map_or_else(|| Instant::now() + LOOK, |deadline| deadline.min(Instant::now() + LOOK));
        let mut held = self.lock.lock();
        if self.is_shut() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            self.opened.wait_until(&mut held, until);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How many operations wait for it to open, which mongod counts as queued writers.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}
