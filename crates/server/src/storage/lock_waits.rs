//! How often operations waited for a lock, and how long: for a collection that is held alone, and for the end of an `fsync` lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Waits of all operations since the start.
#[derive(Debug, Default)]
pub(crate) struct LockWaits {
    count: AtomicU64,
    total_us: AtomicU64,
}

impl LockWaits {
    /// Does something that waits, and counts the wait.
    pub(crate) fn time<T>(&self, wait: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let waited = wait();
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total_us.fetch_add(crate::elapsed::elapsed_micros(begun), Ordering::Relaxed);
        waited
    }

    /// How many there were, and how long they took together, in microseconds.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.total_us.load(Ordering::Relaxed))
    }
}
