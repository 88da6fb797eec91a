//! The locks of one connection's operation: those that it holds, that for which it waits, and its waits so far, as `currentOp`
//! shows them to others and the log at its end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use bson::{Bson, Document};

use super::{LockKind, LockKindMap};
use crate::stats::elapsed_micros;

/// The locks of an operation. Only the thread that runs the operation changes them, so that it needs no instruction that locks
/// the memory; others read.
#[derive(Debug, Default)]
pub(crate) struct OperationLocks {
    tallies: LockKindMap<LockTally>,
}

/// The locks of one kind.
#[derive(Debug, Default)]
struct LockTally {
    acquired: AtomicU64,
    held: AtomicU64,
    waits: AtomicU64,
    waited_us: AtomicU64,
    is_waiting: AtomicBool,
}

/// A figure on the locks of one kind.
type LockFigure = fn(&LockTally) -> u64;

/// A lock that an operation holds until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldLock<'l>(&'l LockTally);

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn add(counter: &AtomicU64, number: u64) {
    counter.store(get(counter).saturating_add(number), Ordering::Relaxed);
}

impl OperationLocks {
    /// Forgets the locks of the last operation.
    pub(crate) fn clear(&self) {
        for (_, tally) in self.tallies.iter() {
            for counter in [&tally.acquired, &tally.held, &tally.waits, &tally.waited_us] {
                counter.store(0, Ordering::Relaxed);
            }
            tally.is_waiting.store(false, Ordering::Relaxed);
        }
    }

    /// Records that the operation has a lock now.
    pub(crate) fn hold(&self, kind: LockKind) -> HeldLock<'_> {
        let tally = self.tallies.of(kind);
        add(&tally.acquired, 1);
        add(&tally.held, 1);
        HeldLock(tally)
    }

    /// Runs a wait for a lock.
    pub(crate) fn wait<T>(&self, kind: LockKind, wait: impl FnOnce() -> T) -> T {
        let tally = self.tallies.of(kind);
        let begun = Instant::now();
        add(&tally.waits, 1);
        tally.is_waiting.store(true, Ordering::Relaxed);
        let waited = wait();
        tally.is_waiting.store(false, Ordering::Relaxed);
        add(&tally.waited_us, elapsed_micros(begun));
        waited
    }

    /// The mode in which the operation locks a collection: that of its lock on the server.
    pub(crate) fn collection_kind(&self) -> LockKind {
        if self.is_held(LockKind::GlobalWrite) { LockKind::CollectionWrite } else { LockKind::CollectionRead }
    }

    /// Whether the operation has a lock of this kind.
    pub(crate) fn is_held(&self, kind: LockKind) -> bool {
        get(&self.tallies.of(kind).held) > 0
    }

    /// The number of locks of a kind that the operation took.
    pub(crate) fn acquired(&self, kind: LockKind) -> u64 {
        get(&self.tallies.of(kind).acquired)
    }

    /// Whether the operation waits for a lock.
    pub(crate) fn is_waiting(&self) -> bool {
        self.tallies.iter().any(|(_, tally)| tally.is_waiting.load(Ordering::Relaxed))
    }

    /// The strongest mode of each resource that the operation holds or waits for (`locks` of `currentOp`).
    pub(crate) fn modes(&self) -> Document {
        let mut modes = Document::new();
        for (kind, tally) in self.tallies.iter() {
            if self.is_held(kind) || tally.is_waiting.load(Ordering::Relaxed) {
                modes.insert(kind.resource(), kind.mode());
            }
        }
        modes
    }

    /// The locks and waits so far, by resource and mode (`lockStats` of `currentOp`, `locks` of the log). As in mongod a lock
    /// counts as acquired while the operation waits for it, and what is zero is left out.
    pub(crate) fn statistics(&self) -> Document {
        let mut statistics = Document::new();
        for resource in LockKind::RESOURCES {
            let figures: [(&str, LockFigure); 3] = [
                ("acquireCount", LockTally::requested),
                ("acquireWaitCount", |tally| get(&tally.waits)),
                ("timeAcquiringMicros", |tally| get(&tally.waited_us)),
            ];
            let mut of_resource = Document::new();
            for (name, figure) in figures {
                let modes = self.modes_with(resource, figure);
                if !modes.is_empty() {
                    of_resource.insert(name, modes);
                }
            }
            if !of_resource.is_empty() {
                statistics.insert(resource, of_resource);
            }
        }
        statistics
    }

    /// The modes of a resource with a figure that is not zero.
    fn modes_with(&self, resource: &str, figure: LockFigure) -> Document {
        let of_resource = self.tallies.iter().filter(|(kind, _)| kind.resource() == resource);
        of_resource
            .map(|(kind, tally)| (kind.mode(), figure(tally)))
            .filter(|(_, figure)| *figure > 0)
            .map(|(mode, figure)| (mode.to_owned(), Bson::Int64(i64::try_from(figure).unwrap_or(i64::MAX))))
            .collect()
    }
}

impl LockTally {
    fn requested(&self) -> u64 {
        get(&self.acquired) + u64::from(self.is_waiting.load(Ordering::Relaxed))
    }
}

impl Drop for HeldLock<'_> {
    fn drop(&mut self) {
        self.0.held.store(get(&self.0.held).saturating_sub(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn a_wait_is_shown_while_it_lasts_and_counted_afterwards() {
        let locks = OperationLocks::default();
        assert_eq!((locks.is_waiting(), locks.modes(), locks.statistics()), (false, doc! {}, doc! {}));
        let global = locks.hold(LockKind::GlobalWrite);
        assert_eq!(locks.collection_kind(), LockKind::CollectionWrite);
        locks.wait(locks.collection_kind(), || {
            assert!(locks.is_waiting());
            // As a mongod 4.0 shows an update that waits for an index build, but for the database's lock.
            assert_eq!(locks.modes(), doc! { "Global": "w", "Collection": "w" });
            let waiting = doc! { "acquireCount": { "w": 1_i64 }, "acquireWaitCount": { "w": 1_i64 } };
            let global = doc! { "acquireCount": { "w": 1_i64 } };
            assert_eq!(locks.statistics(), doc! { "Global": global, "Collection": waiting });
        });
        let exclusive = locks.hold(LockKind::CollectionExclusive);
        assert_eq!(locks.modes(), doc! { "Global": "w", "Collection": "W" });
        drop((global, exclusive));
        assert_eq!((locks.is_waiting(), locks.modes()), (false, doc! {}));
        let statistics = locks.statistics();
        let collection = statistics.get_document("Collection").unwrap();
        assert_eq!(collection.get_document("acquireCount").unwrap(), &doc! { "W": 1_i64 });
        assert_eq!(collection.get_document("acquireWaitCount").unwrap(), &doc! { "w": 1_i64 });
        locks.clear();
        assert_eq!((locks.statistics(), locks.collection_kind()), (doc! {}, LockKind::CollectionRead));
    }
}
