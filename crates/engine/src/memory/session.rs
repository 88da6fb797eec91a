//! Sessions of the engine in memory: transactions over the version chains, and cursors.
//!
//! A cursor is a position by key, and a few rows fetched ahead. No lock is held between calls. Within a transaction no other
//! session changes its view, so rows may be fetched ahead until the session itself writes; outside one every move reads again.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use super::shared::{Call, EngineState, TransactionWrites};
use super::store::{CursorDirection, Demand, StoredRow, TableStore, WriteEffect};
use super::version::{CommitStamp, ReadView, SharedValue};
use crate::{Cursor, Durability, Error, Key, KeyKind, Kind, Result, Session, Table};

/// How many rows are fetched ahead at most. They double from one, so that a short look costs little.
const MAX_BATCH: usize = 32;

/// A transaction and what it has written.
struct Transaction {
    view: ReadView,
    stamp: CommitStamp,
    written: Vec<TransactionWrites>,
    /// After a conflict only a rollback is allowed: what the caller decided from its reads may be wrong.
    conflicted: bool,
}

impl Transaction {
    fn new(snapshot: u64) -> Self {
        let stamp = CommitStamp::default();
        Transaction {
            view: ReadView { snapshot, own: Some(stamp.clone()) },
            stamp,
            written: Vec::new(),
            conflicted: false,
        }
    }

    /// Whether its snapshot is registered; a write outside a transaction reads the newest state and has none.
    fn is_explicit(&self) -> bool {
        self.view.snapshot != u64::MAX
    }

    /// Writes one key; false if the key did not meet the demand.
    fn write(
        &mut self,
        store: &Arc<TableStore>,
        key: &[u8],
        value: Option<SharedValue>,
        demand: Demand,
    ) -> Result<bool> {
        if self.conflicted {
            return Err(spoiled());
        }
        let removes = value.is_none();
        let Some(wrote) = store.write(&self.view, &self.stamp, key, value, demand) else {
            self.conflicted = true;
            return Err(conflict(store.ident()));
        };
        let (key, leaves_garbage) = match wrote {
            WriteEffect::Nothing => return Ok(false),
            // The key's first entry does not record this removal; a second entry does no harm.
            WriteEffect::Again(key) if removes => (key, true),
            WriteEffect::Again(_) => return Ok(true),
            WriteEffect::Fresh(key) => (key, false),
            WriteEffect::Over(key) => (key, true),
        };
        self.written.push(TransactionWrites { store: Arc::clone(store), key, leaves_garbage });
        Ok(true)
    }
}

/// A session of the engine in memory.
pub(super) struct MemorySession {
    shared: Arc<EngineState>,
    open: RefCell<Option<Transaction>>,
    /// Changes whenever the session itself may have changed what it sees, so that cursors drop the rows they fetched.
    epoch: Cell<u64>,
}

impl MemorySession {
    pub(super) fn new(shared: Arc<EngineState>) -> Self {
        MemorySession { shared, open: RefCell::new(None), epoch: Cell::new(0) }
    }

    fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// The session's present view; an error if it may not read.
    fn view(&self) -> Result<ReadView> {
        self.check()?;
        Ok(self.open.borrow().as_ref().map_or_else(ReadView::newest, |transaction| transaction.view.clone()))
    }

    /// Fails if the session may not read.
    fn check(&self) -> Result<()> {
        self.shared.check_running()?;
        match self.open.borrow().as_ref() {
            Some(transaction) if transaction.conflicted => Err(spoiled()),
            _ => Ok(()),
        }
    }

    fn turn(&self) {
        self.epoch.set(self.epoch.get().wrapping_add(1));
    }

    /// Runs `work` in the open transaction, or in one of its own that is committed or undone with its result.
    fn writing<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.turn();
        let mut open = self.open.borrow_mut();
        let result = if let Some(transaction) = open.as_mut() {
            work(transaction)
        } else {
            let mut own = Transaction::new(u64::MAX);
            match work(&mut own) {
                Ok(done) => self.settle(own).map(|()| done),
                Err(error) => {
                    self.undo(own);
                    Err(error)
                }
            }
        };
        if result.as_ref().is_err_and(|error| error.kind() == Kind::WriteConflict) {
            self.shared.counters.conflicts.add(1);
        }
        result
    }

    fn write(&self, table: &Table, key: Key<'_>, value: Option<&[u8]>, demand: Demand) -> Result<bool> {
        let store = self.shared.store(table)?;
        let mut room = [0; 8];
        let key = store.encode(key, &mut room)?;
        self.writing(|transaction| transaction.write(&store, key, value.map(SharedValue::from), demand))
    }

    /// Commits; if that fails, undoes.
    fn settle(&self, mut transaction: Transaction) -> Result<()> {
        if !transaction.written.is_empty()
            && let Err(error) = self.shared.may_fail(Call::Commit)
        {
            self.undo(transaction);
            return Err(error);
        }
        let many = transaction.written.len();
        let mut due = Vec::new();
        let oldest = {
            let mut times = self.shared.times.lock();
            if many > 0 {
                times.commit(&transaction.stamp, &mut transaction.written);
            }
            if transaction.is_explicit() {
                times.end(transaction.view.snapshot);
            }
            times.due(2 * many, &mut due);
            times.oldest()
        };
        self.shared.prune(due, oldest);
        self.shared.counters.commits.add(1);
        Ok(())
    }

    fn undo(&self, mut transaction: Transaction) {
        let many = transaction.written.len();
        let mut due = Vec::new();
        let mut bared = Vec::new();
        for one in transaction.written.drain(..).rev() {
            if let Some(time) = one.store.undo(&transaction.stamp, &one.key) {
                bared.push((time, one.store, one.key));
            }
        }
        let oldest = {
            let mut times = self.shared.times.lock();
            if transaction.is_explicit() {
                times.end(transaction.view.snapshot);
            }
            for (time, store, key) in bared {
                times.discard(time, store, key);
            }
            times.due(2 * many, &mut due);
            times.oldest()
        };
        self.shared.prune(due, oldest);
        self.shared.counters.rollbacks.add(1);
    }
}

impl Session for MemorySession {
    fn begin(&self) -> Result<()> {
        self.shared.check_running()?;
        let mut open = self.open.borrow_mut();
        if open.is_some() {
            return Err(Error::usage("a transaction is open already in this session"));
        }
        self.turn();
        *open = Some(Transaction::new(self.shared.times.lock().begin()));
        self.shared.counters.begins.add(1);
        Ok(())
    }

    fn in_transaction(&self) -> bool {
        self.open.borrow().is_some()
    }

    fn commit(&self, _durability: Durability) -> Result<()> {
        self.turn();
        let open = self.open.borrow_mut().take();
        let transaction = open.ok_or_else(|| Error::usage("no transaction is open in this session"))?;
        if let Err(error) = self.shared.check_running() {
            self.undo(transaction);
            return Err(error);
        }
        if transaction.conflicted {
            self.undo(transaction);
            return Err(spoiled());
        }
        self.settle(transaction)
    }

    fn rollback(&self) {
        self.turn();
        let open = self.open.borrow_mut().take();
        if let Some(transaction) = open {
            self.undo(transaction);
        }
    }

    fn get(&self, table: &Table, key: Key<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let store = self.shared.store(table)?;
        let mut room = [0; 8];
        let key = store.encode(key, &mut room)?;
        let found = store.get(&self.view()?, key, |value| out.extend_from_slice(value));
        Ok(found.is_some())
    }

    fn insert(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        if self.write(table, key, Some(value), Demand::Absent)? {
            return Ok(());
        }
        Err(Error::new(Kind::Duplicate, format!("the key is in table {} already", table.ident())))
    }

    fn put(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        self.write(table, key, Some(value), Demand::Any).map(|_| ())
    }

    fn remove(&self, table: &Table, key: Key<'_>) -> Result<bool> {
        self.write(table, key, None, Demand::Present)
    }

    fn truncate(&self, table: &Table, from: Option<Key<'_>>, to: Option<Key<'_>>) -> Result<()> {
        let store = self.shared.store(table)?;
        let (mut first, mut last) = ([0; 8], [0; 8]);
        let from = from.map(|key| store.encode(key, &mut first)).transpose()?;
        let to = to.map(|key| store.encode(key, &mut last)).transpose()?;
        let bounds =
            (from.map_or(Bound::Unbounded, Bound::Included), to.map_or(Bound::Unbounded, Bound::Included));
        self.writing(|transaction| {
            for key in store.keys_within(&transaction.view, bounds) {
                transaction.write(&store, &key, None, Demand::Present)?;
            }
            Ok(())
        })
    }

    fn cursor<'s>(&'s self, table: &Table) -> Result<Box<dyn Cursor + 's>> {
        Ok(Box::new(MemoryCursor::new(self, self.shared.store(table)?)))
    }

    /// The session keeps nothing between operations.
    fn release(&self, _table: Option<&Table>) {}
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        self.rollback();
    }
}

/// A cursor of the engine in memory.
struct MemoryCursor<'s> {
    session: &'s MemorySession,
    store: Arc<TableStore>,
    here: Option<StoredRow>,
    ahead: VecDeque<StoredRow>,
    way: CursorDirection,
    batch: usize,
    /// The session's epoch when `ahead` was fetched.
    epoch: u64,
}

impl<'s> MemoryCursor<'s> {
    fn new(session: &'s MemorySession, store: Arc<TableStore>) -> Self {
        let epoch = session.epoch();
        MemoryCursor {
            session,
            store,
            here: None,
            ahead: VecDeque::new(),
            way: CursorDirection::Forward,
            batch: 1,
            epoch,
        }
    }

    /// Moves to the first row within the bounds, in direction `way`.
    fn place(&mut self, bounds: (Bound<&[u8]>, Bound<&[u8]>), way: CursorDirection) -> Result<bool> {
        (self.here, self.way, self.batch) = (None, way, 1);
        self.fetch(bounds)
    }

    fn fetch(&mut self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<bool> {
        self.ahead.clear();
        let view = self.session.view()?;
        self.epoch = self.session.epoch();
        self.store.fetch(&view, bounds, self.way, self.batch, &mut self.ahead);
        self.here = self.ahead.pop_front();
        Ok(self.here.is_some())
    }

    fn step(&mut self, way: CursorDirection) -> Result<bool> {
        let Some(here) = self.here.take() else {
            return Err(Error::usage("the cursor is not on a key, so there is no next one"));
        };
        let continues =
            self.way == way && self.epoch == self.session.epoch() && self.session.in_transaction();
        if continues && let Some(row) = self.ahead.pop_front() {
            self.session.check()?;
            self.here = Some(row);
            return Ok(true);
        }
        self.batch = if continues { (self.batch * 2).min(MAX_BATCH) } else { 1 };
        self.way = way;
        match way {
            CursorDirection::Forward => self.fetch((Bound::Excluded(&here.key), Bound::Unbounded)),
            CursorDirection::Back => self.fetch((Bound::Unbounded, Bound::Excluded(&here.key))),
        }
    }
}

impl Cursor for MemoryCursor<'_> {
    fn first(&mut self) -> Result<bool> {
        self.place((Bound::Unbounded, Bound::Unbounded), CursorDirection::Forward)
    }

    fn last(&mut self) -> Result<bool> {
        self.place((Bound::Unbounded, Bound::Unbounded), CursorDirection::Back)
    }

    fn seek(&mut self, key: Key<'_>) -> Result<bool> {
        let mut room = [0; 8];
        let store = Arc::clone(&self.store);
        let key = store.encode(key, &mut room)?;
        self.place((Bound::Included(key), Bound::Unbounded), CursorDirection::Forward)
    }

    fn seek_back(&mut self, key: Key<'_>) -> Result<bool> {
        let mut room = [0; 8];
        let store = Arc::clone(&self.store);
        let key = store.encode(key, &mut room)?;
        self.place((Bound::Unbounded, Bound::Included(key)), CursorDirection::Back)
    }

    fn next(&mut self) -> Result<bool> {
        self.step(CursorDirection::Forward)
    }

    fn previous(&mut self) -> Result<bool> {
        self.step(CursorDirection::Back)
    }

    /// Without a position it is a meaningless key; callers must be on a key.
    fn key(&self) -> Key<'_> {
        match (&self.here, self.store.keys()) {
            (Some(row), _) => self.store.decode(&row.key),
            (None, KeyKind::Number) => Key::Number(0),
            (None, KeyKind::Bytes) => Key::Bytes(&[]),
        }
    }

    fn value(&self) -> &[u8] {
        self.here.as_ref().map_or(&[], |row| &row.value)
    }
}

/// The error of a transaction after a conflict until it is rolled back.
fn spoiled() -> Error {
    Error::new(Kind::WriteConflict, "the transaction met a write conflict before")
        .advise("roll back and try again")
}

fn conflict(table: &str) -> Error {
    Error::new(Kind::WriteConflict, format!("another transaction wrote the same key of table {table}"))
        .advise("roll back and try again")
}
