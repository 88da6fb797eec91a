//! The state that all sessions share: the tables by name and slot, the order of commits, the counters, and whether the
//! engine still runs or fails as a disk does.
//!
//! The order of commits consists of the clock, the open snapshots, and the keys to prune when these end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::store::{StoredKey, TableStore};
use super::version::CommitStamp;
use crate::{Error, KeyKind, Kind, Result, Statistics, Table};

/// The name of the engine; MongoDB has one of the same kind under the same name.
pub const NAME: &str = "ephemeralForTest";

/// The tables. Slots are given once and never again, so that a table that was dropped cannot be taken for a new one.
#[derive(Debug, Default)]
pub(super) struct TableSlots {
    slots: Vec<Option<Arc<TableStore>>>,
    by_ident: BTreeMap<String, Table>,
}

impl TableSlots {
    pub(super) fn create(&mut self, ident: &str, keys: KeyKind) -> Result<Table> {
        if self.by_ident.contains_key(ident) {
            return Err(Error::new(Kind::Duplicate, format!("table {ident} exists already")));
        }
        let table = Table::new(ident, keys, self.slots.len() as u64);
        self.slots.push(Some(Arc::new(TableStore::new(ident, keys))));
        self.by_ident.insert(ident.to_owned(), table.clone());
        Ok(table)
    }

    pub(super) fn open(&self, ident: &str) -> Result<Table> {
        self.by_ident.get(ident).cloned().ok_or_else(|| no_table(ident))
    }

    /// Removes a table. Cursors and transactions that hold it keep its rows until they end.
    pub(super) fn remove(&mut self, table: &Table) -> Result<()> {
        self.store(table)?;
        self.by_ident.remove(table.ident());
        if let Some(slot) = usize::try_from(table.slot()).ok().and_then(|slot| self.slots.get_mut(slot)) {
            *slot = None;
        }
        Ok(())
    }

    pub(super) fn idents(&self) -> Vec<String> {
        self.by_ident.keys().cloned().collect()
    }

    fn store(&self, table: &Table) -> Result<&Arc<TableStore>> {
        let held = usize::try_from(table.slot()).ok().and_then(|slot| self.slots.get(slot)?.as_ref());
        held.filter(|store| store.ident() == table.ident()).ok_or_else(|| no_table(table.ident()))
    }
}

/// One engine, as its sessions see it.
#[derive(Debug, Default)]
pub(super) struct EngineState {
    pub(super) catalog: RwLock<TableSlots>,
    pub(super) times: Mutex<CommitTimes>,
    pub(super) counters: EngineCounters,
    pub(super) faults: Faults,
    stopped: AtomicBool,
}

impl EngineState {
    /// An error once the engine was closed or has failed.
    pub(super) fn check_running(&self) -> Result<()> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(Error::new(
                Kind::Stopped,
                format!("the engine {NAME} is closed or has stopped itself"),
            ));
        }
        Ok(())
    }

    /// The rows of a table; an error if it was dropped, or the engine closed.
    pub(super) fn store(&self, table: &Table) -> Result<Arc<TableStore>> {
        self.check_running()?;
        self.catalog.read().store(table).cloned()
    }

    /// Counts a call that a test may have made to fail; if it does, the engine stops.
    pub(super) fn may_fail(&self, call: Call) -> Result<()> {
        self.faults.count(call).inspect_err(|_| self.stopped.store(true, Ordering::Release))
    }

    /// Ends all calls for ever.
    pub(super) fn close(&self) -> Result<()> {
        self.check_running()?;
        self.stopped.store(true, Ordering::Release);
        Ok(())
    }

    /// Prunes the keys that were due. Not under the lock of the clock, which every transaction needs.
    pub(super) fn prune(&self, due: Vec<Garbage>, oldest: u64) {
        let pruned = due.iter().map(|one| one.store.prune(&one.key, oldest)).sum();
        self.counters.pruned.add(pruned);
    }

    /// The counters, then the gauges of the current state.
    pub(super) fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::default();
        for (section, name, value) in self.counters.all() {
            statistics.push(section, name, value.cast_signed());
        }
        let open = self.times.lock().open() as u64;
        statistics.push("transaction", "transactions open", open.cast_signed());
        let catalog = self.catalog.read();
        let stores: Vec<_> = catalog.slots.iter().flatten().map(|store| store.statistics()).collect();
        for name in ["keys held", "versions held", "bytes held"] {
            statistics.push("tables", name, stores.iter().filter_map(|one| one.get("table", name)).sum());
        }
        statistics.push("tables", "tables", (stores.len() as u64).cast_signed());
        statistics
    }
}

fn no_table(ident: &str) -> Error {
    Error::new(Kind::NotFound, format!("there is no table {ident}"))
}

/// One counter. Relaxed ordering is enough: the numbers are only shown, and no decision depends on them.
#[derive(Debug, Default)]
pub(super) struct RelaxedCounter(AtomicU64);

impl RelaxedCounter {
    pub(super) fn add(&self, many: u64) {
        self.0.fetch_add(many, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All counters of an engine, since it was opened.
#[derive(Debug, Default)]
pub(super) struct EngineCounters {
    pub(super) begins: RelaxedCounter,
    pub(super) commits: RelaxedCounter,
    pub(super) rollbacks: RelaxedCounter,
    pub(super) conflicts: RelaxedCounter,
    pub(super) pruned: RelaxedCounter,
    pub(super) journal_flushes: RelaxedCounter,
    pub(super) checkpoints: RelaxedCounter,
}

impl EngineCounters {
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

/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A call of [`crate::Engine::flush_journal`].
    FlushJournal,
    /// A call of [`crate::Engine::checkpoint`].
    Checkpoint,
    /// [`crate::Session::commit`], and the commit of a write outside a transaction. Commits without writes do not count.
    Commit,
}

#[derive(Debug)]
struct Fault {
    call: Call,
    calls_left: u64,
    kind: Kind,
}

/// The calls that will fail: none until a test asks for one.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    /// Makes the `nth` call from now fail (1 is the next) with `kind`, which is [`Kind::NoSpace`] or [`Kind::Io`] to simulate
    /// a disk. The engine is stopped from then on.
    pub fn fail(&self, call: Call, nth: u64, kind: Kind) {
        self.0.lock().push(Fault { call, calls_left: nth.max(1), kind });
    }

    /// Counts a call; an error if it is one that fails.
    pub(super) fn count(&self, call: Call) -> Result<()> {
        for fault in self.0.lock().iter_mut().filter(|fault| fault.call == call) {
            fault.calls_left = fault.calls_left.saturating_sub(1);
            if fault.calls_left == 0 {
                return Err(Error::new(fault.kind, format!("{call:?} failed because a test asked for it")));
            }
        }
        Ok(())
    }
}

/// The writes of a transaction, to be undone or settled.
#[derive(Debug)]
pub(super) struct TransactionWrites {
    pub(super) store: Arc<TableStore>,
    pub(super) key: StoredKey,
    /// Whether a version will have no readers once all snapshots are later than the commit.
    pub(super) leaves_garbage: bool,
}

/// A key with versions that can be pruned when no snapshot is older than `time`.
#[derive(Debug)]
pub(super) struct Garbage {
    time: u64,
    pub(super) store: Arc<TableStore>,
    pub(super) key: StoredKey,
}

/// The least number of keys that the end of a transaction prunes, if that many are due. It is more than most transactions
/// add, so that the queue shrinks.
const MIN_PRUNED_KEYS: usize = 32;

/// Under one lock: the counter of commits, open snapshots and garbage.
#[derive(Debug, Default)]
pub(super) struct CommitTimes {
    /// The time of the newest commit; the first is 1.
    clock: u64,
    /// How many transactions read as of each time.
    snapshots: BTreeMap<u64, usize>,
    garbage: VecDeque<Garbage>,
}

impl CommitTimes {
    /// Opens a snapshot of now.
    pub(super) fn begin(&mut self) -> u64 {
        *self.snapshots.entry(self.clock).or_insert(0) += 1;
        self.clock
    }

    /// Makes everything under `stamp` visible at once, as the newest commit.
    pub(super) fn commit(&mut self, stamp: &CommitStamp, written: &mut Vec<TransactionWrites>) {
        self.clock += 1;
        stamp.commit(self.clock);
        let time = self.clock;
        let leaving = written.drain(..).filter(|one| one.leaves_garbage);
        self.garbage.extend(leaving.map(|one| Garbage { time, store: one.store, key: one.key }));
    }

    pub(super) fn end(&mut self, snapshot: u64) {
        if let Some(readers) = self.snapshots.get_mut(&snapshot) {
            *readers -= 1;
            if *readers == 0 {
                self.snapshots.remove(&snapshot);
            }
        }
    }

    /// Queues a key for pruning when no snapshot is older than `time`.
    pub(super) fn discard(&mut self, time: u64, store: Arc<TableStore>, key: StoredKey) {
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

    /// Takes keys that can be pruned now out of the queue, up to `extra` more than the usual share.
    pub(super) fn due(&mut self, extra: usize, out: &mut Vec<Garbage>) {
        let oldest = self.oldest();
        for _ in 0..MIN_PRUNED_KEYS + extra {
            if self.garbage.front().is_none_or(|one| one.time > oldest) {
                return;
            }
            out.extend(self.garbage.pop_front());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::open;
    use crate::{Durability, Engine, Key, TableSpec};

    #[test]
    fn the_nth_call_fails_and_everything_after_it() {
        let engine = open();
        engine.faults().fail(Call::FlushJournal, 3, Kind::NoSpace);
        assert!(engine.flush_journal().is_ok());
        assert!(engine.checkpoint().is_ok());
        assert!(engine.flush_journal().is_ok());
        assert_eq!(engine.flush_journal().unwrap_err().kind(), Kind::NoSpace);
        assert_eq!(engine.flush_journal().unwrap_err().kind(), Kind::Stopped);
        assert_eq!(engine.tables().unwrap_err().kind(), Kind::Stopped);
    }

    #[test]
    fn a_commit_that_fails_leaves_no_transaction_and_stops_the_session() {
        let engine = open();
        let table = engine.create_table("t", &TableSpec::records()).unwrap();
        let session = engine.session().unwrap();
        session.put(&table, Key::Number(1), b"before").unwrap();
        engine.faults().fail(Call::Commit, 1, Kind::Io);
        session.begin().unwrap();
        session.put(&table, Key::Number(2), b"lost").unwrap();
        assert_eq!(session.commit(Durability::Buffered).unwrap_err().kind(), Kind::Io);
        assert!(!session.in_transaction());
        assert_eq!(session.get(&table, Key::Number(1), &mut Vec::new()).unwrap_err().kind(), Kind::Stopped);
        assert_eq!(session.begin().unwrap_err().kind(), Kind::Stopped);
    }
}
