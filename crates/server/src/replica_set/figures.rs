//! What a member counts of following others, for `serverStatus`: `opcountersRepl` and `metrics.repl`.

use std::time::Duration;

use fathom_service::Counter;

use super::entry::{ChangeKind, Entry};

/// How often something was done, and how long it took.
#[derive(Debug, Default)]
pub(crate) struct Timed {
    pub(crate) count: Counter,
    took_us: Counter,
}

impl Timed {
    pub(crate) fn add(&self, took: Duration) {
        self.count.add(1);
        self.took_us.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn total_ms(&self) -> u64 {
        self.took_us.get() / 1000
    }
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) inserts: Counter,
    pub(crate) updates: Counter,
    pub(crate) deletes: Counter,
    pub(crate) commands: Counter,
    /// Batches that were applied.
    pub(crate) batches: Timed,
    /// Entries in them.
    pub(crate) applied: Counter,
    /// Replies of sources, and what was in them.
    pub(crate) get_mores: Timed,
    pub(crate) fetched_bytes: Counter,
    pub(crate) fetched: Counter,
    /// Copies of all data that were completed.
    pub(crate) copies: Counter,
    /// Write concerns that waited for other members, and that gave up.
    pub(crate) waits: Timed,
    pub(crate) timeouts: Counter,
}

impl Figures {
    /// Counts a batch that was applied.
    pub(crate) fn applied(&self, batch: &[Entry], took: Duration) {
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
