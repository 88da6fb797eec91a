//! The counters of a secondary, for `serverStatus`: `opcountersRepl` and `metrics.repl`.

use std::time::Duration;

use fathom_service::Counter;

use super::entry::{ChangeKind, OplogEntry};

/// The number of times an action was done, and the time it took.
#[derive(Debug, Default)]
pub(crate) struct TimedCounter {
    pub(crate) count: Counter,
    took_us: Counter,
}

impl TimedCounter {
    pub(crate) fn add(&self, took: Duration) {
        self.count.add(1);
        self.took_us.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn total_ms(&self) -> u64 {
        self.took_us.get() / 1000
    }
}

#[derive(Debug, Default)]
pub(crate) struct ReplicationFigures {
    pub(crate) inserts: Counter,
    pub(crate) updates: Counter,
    pub(crate) deletes: Counter,
    pub(crate) commands: Counter,
    /// Batches that were applied.
    pub(crate) batches: TimedCounter,
    /// Entries in the applied batches.
    pub(crate) applied: Counter,
    /// Replies of sync sources, and their contents.
    pub(crate) get_mores: TimedCounter,
    pub(crate) fetched_bytes: Counter,
    pub(crate) fetched: Counter,
    /// The number of initial syncs that were completed.
    pub(crate) copies: Counter,
    /// Write concerns that waited for other members, and those that timed out.
    pub(crate) waits: TimedCounter,
    pub(crate) timeouts: Counter,
}

impl ReplicationFigures {
    /// Counts a batch that was applied.
    pub(crate) fn applied(&self, batch: &[OplogEntry], took: Duration) {
        self.batches.add(took);
        self.applied.add(batch.len() as u64);
        for entry in batch {
            match entry.kind {
                ChangeKind::Insert => self.inserts.add(1),
                ChangeKind::Update => self.updates.add(1),
                ChangeKind::Delete => self.deletes.add(1),
                ChangeKind::Command => self.commands.add(1),
                ChangeKind::Noop => {}
            }
        }
    }
}
