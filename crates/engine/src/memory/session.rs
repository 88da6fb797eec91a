//! Sessions of the engine in memory: transactions over the version chains.

use std::cell::{Cell, RefCell};
use std::ops::Bound;
use std::sync::Arc;

use super::cursor::MemoryCursor;
use super::faults::Call;
use super::shared::Shared;
use super::store::{Demand, Store, Wrote};
use super::times::Written;
use super::version::{Stamp, Value, View};
use crate::{Cursor, Durability, Error, Key, Kind, Result, Session, Table};

/// A transaction and what it has written.
struct Transaction {
    view: View,
    stamp: Stamp,
    written: Vec<Written>,
    /// After a conflict only a rollback is left; what the caller decided on what it read may be wrong.
    conflicted: bool,
}

impl Transaction {
    fn new(snapshot: u64) -> Self {
        let stamp = Stamp::default();
        Transaction {
            view: View { snapshot, own: Some(stamp.clone()) },
            stamp,
            written: Vec::new(),
            conflicted: false,
        }
    }

    /// Whether its snapshot is registered; a write outside a transaction reads the newest state and has none.
    fn is_explicit(&self) -> bool {
        self.view.snapshot != u64::MAX
    }

    /// Writes one key; false if it was not as demanded.
    fn write(
        &mut self,
        store: &Arc<Store>,
        key: &[u8],
        value: Option<Value>,
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
            Wrote::Nothing => return Ok(false),
            // The first mention of the key says nothing of this removal; a second one does no harm.
            Wrote::Again(key) if removes => (key, true),
            Wrote::Again(_) => return Ok(true),
            Wrote::Fresh(key) => (key, false),
            Wrote::Over(key) => (key, true),
        };
        self.written.push(Written { store: Arc::clone(store), key, leaves_garbage });
        Ok(true)
    }
}

/// A session of the engine in memory.
pub(super) struct MemorySession {
    shared: Arc<Shared>,
    open: RefCell<Option<Transaction>>,
    /// Changes whenever what the session sees may have changed by its own doing, so that cursors drop what they fetched.
    epoch: Cell<u64>,
}

impl MemorySession {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        MemorySession { shared, open: RefCell::new(None), epoch: Cell::new(0) }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// What the session sees now; an error if it may not look.
    pub(super) fn view(&self) -> Result<View> {
        self.check()?;
        Ok(self.open.borrow().as_ref().map_or_else(View::newest, |transaction| transaction.view.clone()))
    }

    /// Whether the session may look at all.
    pub(super) fn check(&self) -> Result<()> {
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
        self.writing(|transaction| transaction.write(&store, key, value.map(Value::from), demand))
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

/// What a transaction says after a conflict until it is rolled back.
fn spoiled() -> Error {
    Error::new(Kind::WriteConflict, "the transaction met a write conflict before")
        .advise("roll back and try again")
}

fn conflict(table: &str) -> Error {
    Error::new(Kind::WriteConflict, format!("another transaction wrote the same key of table {table}"))
        .advise("roll back and try again")
}
