//! The state of a capped collection apart from its records: its single writer, the position of its oldest record, and the readers that wait for
//! the next one.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::CollectionOptions;

/// The limits of a capped collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CappedLimits {
    /// Bytes of BSON in the collection.
    pub(crate) bytes: i64,
    /// Documents, if their number is also limited.
    pub(crate) documents: Option<i64>,
}

impl CappedLimits {
    /// The limits in the options, or `None` if the collection is not capped.
    pub(crate) fn from_options(options: &CollectionOptions) -> Option<CappedLimits> {
        let documents = options.capped_documents();
        options
            .is_capped()
            .then(|| CappedLimits { bytes: options.capped_bytes().unwrap_or(i64::MAX), documents })
    }

    /// Whether these counts exceed the limits.
    pub(crate) fn exceeded(&self, records: i64, bytes: i64) -> bool {
        bytes > self.bytes || self.documents.is_some_and(|most| records > most)
    }
}

/// The state of a capped collection; unused in any other.
#[derive(Debug, Default)]
pub(crate) struct CappedState {
    /// A collection that removes documents at one end must commit them in the order of its records.
    turn: Mutex<()>,
    /// No record before this one remains, so that a search for the oldest need not scan removed records.
    oldest: AtomicI64,
    /// The number of inserts so far.
    inserts: Mutex<u64>,
    inserted: Condvar,
}

impl CappedState {
    /// Waits for its turn to write.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// A record before which no record exists.
    pub(crate) fn oldest(&self) -> i64 {
        self.oldest.load(Ordering::Relaxed)
    }

    /// Records that all records before this one are deleted for good.
    pub(crate) fn set_oldest(&self, record: i64) {
        self.oldest.store(record, Ordering::Relaxed);
    }

    /// Wakes the readers that wait for a document.
    pub(crate) fn announce(&self) {
        *self.inserts.lock() += 1;
        self.inserted.notify_all();
    }

    /// The number of inserts so far: read it before reading the collection, and wait for a higher number.
    pub(crate) fn inserts(&self) -> u64 {
        *self.inserts.lock()
    }

    /// Waits, at most until `until`, for more than `seen` inserts; returns their number.
    pub(crate) fn wait(&self, seen: u64, until: Instant) -> u64 {
        let mut inserts = self.inserts.lock();
        while *inserts <= seen {
            if self.inserted.wait_until(&mut inserts, until).timed_out() {
                break;
            }
        }
        *inserts
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn whoever_waits_hears_of_an_insert_and_else_of_the_end_of_the_time() {
        let capped = CappedState::default();
        let soon = || Instant::now() + Duration::from_millis(5);
        assert_eq!(capped.wait(0, soon()), 0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| capped.wait(0, Instant::now() + Duration::from_secs(20)));
            std::thread::sleep(Duration::from_millis(5));
            capped.announce();
            assert_eq!(waiter.join().unwrap(), 1);
        });
        // Earlier events are not waited for.
        assert_eq!(capped.wait(0, soon()), 1);
    }
}
