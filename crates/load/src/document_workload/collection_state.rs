//! The progress of a collection: the document numbers that are claimed for inserts, and those that may be read.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::core_workload::InsertedRecords;

/// The progress of a collection.
#[derive(Debug)]
pub(super) struct CollectionProgress {
    /// The number of the next document to insert.
    next: AtomicU64,
    /// Those that may be read.
    acknowledged: InsertedRecords,
}

impl CollectionProgress {
    /// The state in which documents below this number exist.
    pub(super) fn up_to(next: u64) -> CollectionProgress {
        CollectionProgress { next: AtomicU64::new(next), acknowledged: InsertedRecords::up_to(next) }
    }

    /// The number of the next document to insert.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The newest that may be read.
    #[inline]
    pub(super) fn newest(&self) -> u64 {
        self.acknowledged.newest()
    }

    /// Claims the numbers of documents to insert; returns the first.
    #[inline]
    pub(super) fn claim(&self, count: u64) -> u64 {
        self.next.fetch_add(count, Ordering::Relaxed)
    }

    /// Claims up to `count` numbers below `documents`. Returns the first and their count; `None` if all are claimed.
    pub(super) fn claim_below(&self, documents: u64, count: u64) -> Option<(u64, u64)> {
        let mut end = 0;
        let claim = |next: u64| {
            end = documents.min(next.saturating_add(count));
            (next < end).then_some(end)
        };
        let first = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok()?;
        Some((first, end - first))
    }

    /// Records that inserts ended, successfully or not.
    pub(super) fn acknowledge(&self, first: u64, count: u64) {
        (first..first.saturating_add(count)).for_each(|number| self.acknowledged.acknowledge(number));
    }
}
