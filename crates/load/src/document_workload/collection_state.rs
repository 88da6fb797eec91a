//! How far a collection is: which numbers of documents are given away, and which of them may be read.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::core_workload::Acknowledged;

/// How far a collection is.
#[derive(Debug)]
pub(super) struct CollectionState {
    /// The number of the next document that is inserted.
    next: AtomicU64,
    /// Those that may be read.
    acknowledged: Acknowledged,
}

impl CollectionState {
    /// Documents below this number are there.
    pub(super) fn up_to(next: u64) -> CollectionState {
        CollectionState { next: AtomicU64::new(next), acknowledged: Acknowledged::up_to(next) }
    }

    /// The number of the next document that is inserted.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The newest that may be read.
    #[inline]
    pub(super) fn newest(&self) -> u64 {
        self.acknowledged.newest()
    }

    /// Takes the numbers of documents that are inserted; the first of them.
    #[inline]
    pub(super) fn claim(&self, count: u64) -> u64 {
        self.next.fetch_add(count, Ordering::Relaxed)
    }

    /// Takes up to `count` numbers below `documents`: the first and how many; none if all are taken.
    pub(super) fn claim_below(&self, documents: u64, count: u64) -> Option<(u64, u64)> {
        let mut end = 0;
        let claim = |next: u64| {
            end = documents.min(next.saturating_add(count));
            (next < end).then_some(end)
        };
        let first = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok()?;
        Some((first, end - first))
    }

    /// Takes note that inserts ended, well or not.
    pub(super) fn acknowledge(&self, first: u64, count: u64) {
        (first..first.saturating_add(count)).for_each(|number| self.acknowledged.acknowledge(number));
    }
}
