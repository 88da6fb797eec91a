//! What a capped collection needs beside its records: one writer at a time, where its oldest record is, and who waits for
//! the next one.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::CollectionOptions;

/// How much a capped collection may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of BSON.
    pub(crate) bytes: i64,
    /// Documents, if their number is limited too.
    pub(crate) documents: Option<i64>,
}

impl Limits {
    /// The limits that options give; none if the collection is not capped.
    pub(crate) fn of(options: &CollectionOptions) -> Option<Limits> {
        let documents = options.capped_documents();
        options.is_capped().then(|| Limits { bytes: options.capped_bytes().unwrap_or(i64::MAX), documents })
    }

    /// Whether so much is too much.
    pub(crate) fn exceeded(&self, records: i64, bytes: i64) -> bool {
        bytes > self.bytes || self.documents.is_some_and(|most| records > most)
    }
}

/// The state of a capped collection; idle in any other.
#[derive(Debug, Default)]
pub(crate) struct Capped {
    /// Where documents fall out at one end, the order of the commits must be that of the records.
    turn: Mutex<()>,
    /// No record before this one is left, so that a search for the oldest need not walk over what was removed.
    oldest: AtomicI64,
    /// How many inserts there were.
    inserts: Mutex<u64>,
    inserted: Condvar,
}

impl Capped {
    /// Waits for one's turn to write.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// A record that no record comes before.
    pub(crate) fn oldest(&self) -> i64 {
        self.oldest.load(Ordering::Relaxed)
    }

    /// Notes that all records before this one are gone for good.
    pub(crate) fn set_oldest(&self, record: i64) {
        self.oldest.store(record, Ordering::Relaxed);
    }

    /// Wakes those who wait for a document.
    pub(crate) fn announce(&self) {
        *self.inserts.lock() += 1;
        self.inserted.notify_all();
    }

    /// How many inserts there were so far: look before reading, and wait for more than that.
    pub(crate) fn inserts(&self) -> u64 {
        *self.inserts.lock()
    }

    /// Waits until there were more than `seen` inserts, no longer than `until`; how many there were.
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
        let capped = Capped::default();
        let soon = || Instant::now() + Duration::from_millis(5);
        assert_eq!(capped.wait(0, soon()), 0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| capped.wait(0, Instant::now() + Duration::from_secs(20)));
            std::thread::sleep(Duration::from_millis(5));
            capped.announce();
            assert_eq!(waiter.join().unwrap(), 1);
        });
        // What came before is not waited for.
        assert_eq!(capped.wait(0, soon()), 1);
    }
}
