//! What all sessions share: the tables by name and slot, the order of commits, the counters, and whether the engine
//! still runs or fails as a disk does.
//!
//! The order of commits is the clock, the snapshots that are open, and what may be pruned when they end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::store::{Store, StoredKey};
use super::version::Stamp;
use crate::{Error, KeyKind, Kind, Result, Statistics, Table};

/// The name of the engine; MongoDB has one of the same kind under the same name.
pub const NAME: &str = "ephemeralForTest";

/// The tables. Slots are given once and never again, so that a table that was dropped cannot be taken for a new one.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    slots: Vec<Option<Arc<Store>>>,
    by_ident: BTreeMap<String, Table>,
}

impl Catalog {
    pub(super) fn create(&mut self, ident: &str, keys: KeyKind) -> Result<Table> {
        if self.by_ident.contains_key(ident) {
            return Err(Error::new(Kind::Duplicate, format!("table {ident} exists already")));
        }
        let table = Table::new(ident, keys, self.slots.len() as u64);
        self.slots.push(Some(Arc::new(Store::new(ident, keys))));
        self.by_ident.insert(ident.to_owned(), table.clone());
        Ok(table)
    }

    pub(super) fn open(&self, ident: &str) -> Result<Table> {
        self.by_ident.get(ident).cloned().ok_or_else(|| no_table(ident))
    }

    /// Cursors and transactions that hold the table keep what they hold until they end.
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

    fn store(&self, table: &Table) -> Result<&Arc<Store>> {
        let held = usize::try_from(table.slot()).ok().and_then(|slot| self.slots.get(slot)?.as_ref());
        held.filter(|store| store.ident() == table.ident()).ok_or_else(|| no_table(table.ident()))
    }
}

/// One engine, as its sessions see it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) catalog: RwLock<Catalog>,
    pub(super) times: Mutex<Times>,
    pub(super) counters: Counters,
    pub(super) faults: Faults,
    stopped: AtomicBool,
}

impl Shared {
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

    /// The rows of a table; an error if it is gone, or the engine is.
    pub(super) fn store(&self, table: &Table) -> Result<Arc<Store>> {
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

    /// Counters, then what is held now.
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

/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`crate::Engine::flush_journal`].
    FlushJournal,
    /// [`crate::Engine::checkpoint`].
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

/// Which calls are going to fail. None, until a test says so.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    /// Lets the `nth` call from now fail (1 is the next) with `kind`, which is [`Kind::NoSpace`] or [`Kind::Io`] where a
    /// disk is played. The engine is stopped from then on.
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
