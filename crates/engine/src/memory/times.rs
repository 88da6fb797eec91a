//! The order of commits: the clock, the snapshots that are open, and what may be pruned when they end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::key::StoredKey;
use super::store::Store;
use super::version::Stamp;

/// What a transaction wrote, to be undone or settled.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) store: Arc<Store>,
    pub(super) key: StoredKey,
    /// Whether a version will be without readers when all snapshots are past the commit.
    pub(super) leaves_garbage: bool,
}

/// A key with versions that can go when no snapshot is older than `time`.
#[derive(Debug)]
pub(super) struct Garbage {
    time: u64,
    pub(super) store: Arc<Store>,
    pub(super) key: StoredKey,
}

/// How many keys the end of a transaction prunes at least, if that many are due: more than most make, so that
/// the queue shrinks.
const SHARE: usize = 32;

/// Under one lock: the counter of commits, open snapshots and garbage.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// The time of the newest commit; the first is 1.
    clock: u64,
    /// How many transactions read as of each time.
    snapshots: BTreeMap<u64, usize>,
    garbage: VecDeque<Garbage>,
}

impl Times {
    /// Opens a snapshot of now.
    pub(super) fn begin(&mut self) -> u64 {
        *self.snapshots.entry(self.clock).or_insert(0) += 1;
        self.clock
    }

    /// Makes all that is under `stamp` visible at once, later than every commit before.
    pub(super) fn commit(&mut self, stamp: &Stamp, written: &mut Vec<Written>) {
        self.clock += 1;
        stamp.commit(self.clock);
        let time = self.clock;
        let leaving = written.drain(..).filter(|one| one.leaves_garbage);
        self.garbage.extend(leaving.map(|one| Garbage { time, store: one.store, key: one.key }));
    }

    /// Closes a snapshot.
    pub(super) fn end(&mut self, snapshot: u64) {
        if let Some(readers) = self.snapshots.get_mut(&snapshot) {
            *readers -= 1;
            if *readers == 0 {
                self.snapshots.remove(&snapshot);
            }
        }
    }

    /// Notes a key for pruning when no snapshot is older than `time`.
    pub(super) fn discard(&mut self, time: u64, store: Arc<Store>, key: StoredKey) {
        self.garbage.push_back(Garbage { time, store, key });
    }

    /// The time that no open snapshot is older than.
    pub(super) fn oldest(&self) -> u64 {
        self.snapshots.first_key_value().map_or(self.clock, |(time, _)| *time)
    }

    /// How many transactions are open.
    pub(super) fn open(&self) -> usize {
        self.snapshots.values().sum()
    }

    /// Takes keys out of the queue that can be pruned now, `extra` more than the usual share.
    pub(super) fn due(&mut self, extra: usize, out: &mut Vec<Garbage>) {
        let oldest = self.oldest();
        for _ in 0..SHARE + extra {
            if self.garbage.front().is_none_or(|one| one.time > oldest) {
                return;
            }
            out.extend(self.garbage.pop_front());
        }
    }
}
