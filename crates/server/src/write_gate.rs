//! The gate that `fsync` with `lock` shuts: while it is shut no client write begins, and earlier writes have finished.
//!
//! The gate is checked after a write ticket is taken and before the write begins; the operation that shuts it waits until no
//! ticket is in use. So one of the two always sees the other.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The interval at which a waiting write checks whether it must stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Shut while the count is above 0, since locks nest.
#[derive(Debug, Default)]
pub(crate) struct WriteGate {
    locks: AtomicI64,
    lock: Mutex<()>,
    opened: Condvar,
}

impl WriteGate {
    /// Shuts it once more; returns how often it is now shut.
    pub(crate) fn shut(&self) -> i64 {
        self.locks.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Opens it once; returns how often it is still shut, or `None` if it was open.
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

    /// Waits until it opens, for a short time at most.
    pub(crate) fn wait(&self, deadline: Option<Instant>) {
        let until = deadline.map_or_else(
            || Instant::now() + CHECK_INTERVAL,
            |deadline| deadline.min(Instant::now() + CHECK_INTERVAL),
        );
        let mut held = self.lock.lock();
        if self.is_shut() {
            self.opened.wait_until(&mut held, until);
        }
    }
}
