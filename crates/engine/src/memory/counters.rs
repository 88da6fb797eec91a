//! What the engine in memory counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter. Relaxed: the numbers are for people, nothing is decided by them.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, many: u64) {
        self.0.fetch_add(many, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All counters of an engine, since it was opened.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) begins: Counter,
    pub(super) commits: Counter,
    pub(super) rollbacks: Counter,
    pub(super) conflicts: Counter,
    pub(super) pruned: Counter,
    pub(super) journal_flushes: Counter,
    pub(super) checkpoints: Counter,
}

impl Counters {
    /// Section, name and value of each.
    pub(super) fn all(&self) -> [(&'static str, &'static str, u64); 7] {
        [
            ("transaction", "transactions begun", self.begins.value()),
            ("transaction", "transactions committed", self.commits.value()),
            ("transaction", "transactions rolled back", self.rollbacks.value()),
            ("transaction", "write conflicts", self.conflicts.value()),
            ("transaction", "versions pruned", self.pruned.value()),
            ("durability", "journal flushes", self.journal_flushes.value()),
            ("durability", "checkpoints", self.checkpoints.value()),
        ]
    }
}
