//! The locks of all operations: how many they took, and their waits for a collection that is held exclusively and for the end of an
//! `fsync` lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::{LockKind, LockKindMap, OperationLocks};
use crate::stats::elapsed_micros;

/// The locks and waits since the start, by kind of lock. A wait counts from its beginning on, so that one that does not end is seen
/// too, and a lock once its operation has ended.
#[derive(Debug)]
pub(crate) struct LockWaits {
    started: Instant,
    acquired: LockKindMap<AtomicU64>,
    sums: LockKindMap<Mutex<WaitSums>>,
}

/// The waits for one kind of lock. Only an operation that must wait changes them.
#[derive(Clone, Copy, Debug, Default)]
struct WaitSums {
    count: u64,
    ended_us: u64,
    /// The waits in progress, and the sum of the moments at which they began, in microseconds since the start.
    waiting: u64,
    begun_us: u64,
}

/// The figures on waits for one kind of lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockWaitFigures {
    /// All waits since the start, and their time.
    pub(crate) count: u64,
    pub(crate) total_us: u64,
    /// The operations that wait now.
    pub(crate) waiting: u64,
}

/// A wait in progress.
struct BegunWait<'w> {
    waits: &'w LockWaits,
    kind: LockKind,
    begun_us: u64,
}

impl Default for LockWaits {
    fn default() -> LockWaits {
        LockWaits { started: Instant::now(), acquired: LockKindMap::default(), sums: LockKindMap::default() }
    }
}

impl LockWaits {
    /// Runs a wait, and counts it.
    pub(crate) fn time<T>(&self, kind: LockKind, wait: impl FnOnce() -> T) -> T {
        let mut sums = self.sums.of(kind).lock();
        let begun_us = elapsed_micros(self.started);
        sums.count += 1;
        sums.waiting += 1;
        sums.begun_us += begun_us;
        drop(sums);
        let _begun = BegunWait { waits: self, kind, begun_us };
        wait()
    }

    /// Counts the locks of an operation that ended.
    pub(crate) fn count(&self, locks: &OperationLocks) {
        for (kind, acquired) in self.acquired.iter() {
            let number = locks.acquired(kind);
            if number > 0 {
                acquired.fetch_add(number, Ordering::Relaxed);
            }
        }
    }

    /// The locks of a kind that operations took until their end.
    pub(crate) fn acquired(&self, kind: LockKind) -> u64 {
        self.acquired.of(kind).load(Ordering::Relaxed)
    }

    /// The waits for one kind of lock.
    pub(crate) fn figures(&self, kind: LockKind) -> LockWaitFigures {
        let sums = self.sums.of(kind).lock();
        let in_progress_us = (sums.waiting * elapsed_micros(self.started)).saturating_sub(sums.begun_us);
        LockWaitFigures { count: sums.count, total_us: sums.ended_us + in_progress_us, waiting: sums.waiting }
    }

    /// The waits for all locks.
    pub(crate) fn total(&self) -> LockWaitFigures {
        LockKind::ALL.into_iter().map(|kind| self.figures(kind)).fold(
            LockWaitFigures::default(),
            |sum, one| LockWaitFigures {
                count: sum.count + one.count,
                total_us: sum.total_us + one.total_us,
                waiting: sum.waiting + one.waiting,
            },
        )
    }
}

impl Drop for BegunWait<'_> {
    fn drop(&mut self) {
        let mut sums = self.waits.sums.of(self.kind).lock();
        sums.waiting -= 1;
        sums.begun_us -= self.begun_us;
        sums.ended_us += elapsed_micros(self.waits.started).saturating_sub(self.begun_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_while_it_lasts_and_once_it_has_ended() {
        let waits = LockWaits::default();
        let during = waits.time(LockKind::CollectionRead, || {
            waits.time(LockKind::GlobalWrite, || ());
            waits.figures(LockKind::CollectionRead)
        });
        assert_eq!((during.count, during.waiting), (1, 1));
        let after = waits.figures(LockKind::CollectionRead);
        assert_eq!((after.count, after.waiting), (1, 0));
        assert!(after.total_us >= during.total_us, "{during:?}, {after:?}");
        let both = waits.total();
        assert_eq!((both.count, both.waiting), (2, 0));
        assert_eq!(waits.figures(LockKind::CollectionExclusive), LockWaitFigures::default());
    }
}
