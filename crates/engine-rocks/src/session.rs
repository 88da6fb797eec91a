//! One thread's way in: transactions, point reads and writes.

use std::cell::{Cell, Ref, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fathom_engine::{Cursor, Durability, Error, Key, Kind, Result, Session, Table};

use crate::cursor::RocksCursor;
use crate::keys;
use crate::native::{Batch, ReadOptions};
use crate::store::{Store, cannot_read};
use crate::transaction::{Target, Transaction};

/// A batch that grew beyond this is not kept for the next transaction.
const KEPT_BATCH_BYTES: usize = 1 << 20;

/// A session of the RocksDB engine.
pub(crate) struct RocksSession {
    pub(crate) store: Arc<Store>,
    owner: u64,
    transaction: RefCell<Option<Transaction>>,
    /// Counts begins and ends, so that a cursor knows whether its position is of this transaction.
    epoch: Cell<u64>,
    newest: ReadOptions,
    batch: RefCell<Batch>,
    key: Cell<Vec<u8>>,
}

impl RocksSession {
    /// A new one.
    pub(crate) fn new(store: Arc<Store>) -> Self {
        store.sessions.fetch_add(1, Ordering::SeqCst);
        RocksSession {
            owner: store.new_owner(),
            store,
            transaction: RefCell::new(None),
            epoch: Cell::new(0),
            newest: ReadOptions::new(),
            batch: RefCell::new(Batch::new()),
            key: Cell::default(),
        }
    }

    /// Counts begins and ends of transactions.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// The open transaction, for a cursor.
    pub(crate) fn open(&self) -> Ref<'_, Option<Transaction>> {
        self.transaction.borrow()
    }

    /// Works on the whole key of `key`.
    fn with_key<T>(&self, table: &Table, key: Key<'_>, work: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        self.store.check()?;
        // Taken rather than borrowed, so that it is free again whatever happens; its memory is kept.
        let mut whole = self.key.take();
        let result = keys::encode(&mut whole, table, key).and_then(|()| work(&whole));
        self.key.set(whole);
        result
    }

    /// Writes within the open transaction, or in one of its own.
    fn write<T>(
        &self,
        table: &Table,
        key: Key<'_>,
        work: impl FnOnce(&mut Transaction, &Store, Target<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with_key(table, key, |whole| {
            let target = Target { key: whole, kind: table.keys() };
            self.alone_or_within(|| self.change(|transaction| work(transaction, &self.store, target)))
        })
    }

    fn change<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        match self.transaction.borrow_mut().as_mut() {
            Some(transaction) => work(transaction),
            None => Err(no_transaction()),
        }
    }

    /// Runs `work` in the open transaction, or in one that ends with it.
    fn alone_or_within<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.in_transaction() {
            return work();
        }
        self.transaction.replace(Some(Transaction::new(&self.store)));
        match work() {
            Ok(value) => self.finish(Durability::Buffered).map(|()| value),
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    fn finish(&self, durability: Durability) -> Result<()> {
        let transaction = self.transaction.take().ok_or_else(no_transaction)?;
        if transaction.changes().is_empty() {
            transaction.abandon(&self.store, self.owner);
            return self.store.check();
        }
        match self.write_out(&transaction) {
            Ok(()) => transaction.committed(&self.store, self.owner),
            Err(error) => {
                transaction.abandon(&self.store, self.owner);
                return Err(error);
            }
        }
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Durable => self.store.sync(),
        }
    }

    fn write_out(&self, transaction: &Transaction) -> Result<()> {
        self.store.check()?;
        let mut batch = self.batch.borrow_mut();
        transaction.fill(&mut batch);
        let dropped = self.store.dropped.read();
        if !dropped.is_empty() {
            let mut prefixes = transaction.changes().keys().filter_map(|key| keys::prefix_in(key));
            if prefixes.any(|prefix| dropped.contains(&prefix)) {
                return Err(Error::new(Kind::NotFound, "a table that the transaction wrote to was dropped"));
            }
        }
        self.store.write(&batch)?;
        drop(dropped);
        self.store.counts.commits.fetch_add(1, Ordering::Relaxed);
        if batch.bytes() > KEPT_BATCH_BYTES {
            *batch = Batch::new();
        }
        Ok(())
    }

    fn give_up(&self) {
        if let Some(transaction) = self.transaction.take() {
            transaction.abandon(&self.store, self.owner);
        }
    }

    fn next_epoch(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }
}

impl Session for RocksSession {
    fn begin(&self) -> Result<()> {
        self.store.check()?;
        if self.in_transaction() {
            return Err(Error::usage("a transaction is open already"));
        }
        self.next_epoch();
        self.transaction.replace(Some(Transaction::new(&self.store)));
        Ok(())
    }

    fn in_transaction(&self) -> bool {
        self.transaction.borrow().is_some()
    }

    fn commit(&self, durability: Durability) -> Result<()> {
        self.next_epoch();
        self.finish(durability)
    }

    fn rollback(&self) {
        if self.in_transaction() {
            self.next_epoch();
            self.give_up();
        }
    }

    fn get(&self, table: &Table, key: Key<'_>, out: &mut Vec<u8>) -> Result<bool> {
        self.with_key(table, key, |whole| match self.transaction.borrow().as_ref() {
            Some(transaction) => transaction.get(&self.store, whole, out),
            None => {
                let found =
                    self.store.database.get(&self.newest, whole, |value| out.extend_from_slice(value));
                found.map(|found| found.is_some()).map_err(cannot_read)
            }
        })
    }

    fn insert(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        self.write(table, key, |transaction, store, target| {
            transaction.insert(store, self.owner, target, value)
        })
    }

    fn put(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        self.write(table, key, |transaction, store, target| transaction.put(store, self.owner, target, value))
    }

    fn remove(&self, table: &Table, key: Key<'_>) -> Result<bool> {
        self.write(table, key, |transaction, store, target| transaction.remove(store, self.owner, target))
    }

    /// Removes key by key, in the transaction: RocksDB's range deletions cannot be seen by the transaction's own cursors,
    /// and would not notice that another transaction has written one of the keys.
    fn truncate(&self, table: &Table, from: Option<Key<'_>>, to: Option<Key<'_>>) -> Result<()> {
        let mut end = Vec::new();
        if let Some(to) = to {
            keys::encode(&mut end, table, to)?;
        }
        self.store.check()?;
        self.alone_or_within(|| {
            let mut cursor = RocksCursor::new(self, table)?;
            let mut found = match from {
                Some(from) => cursor.seek(from)?,
                None => cursor.first()?,
            };
            let mut key = Vec::new();
            while found {
                key.clear();
                key.extend_from_slice(cursor.whole_key());
                if to.is_some() && key > end {
                    break;
                }
                let target = Target { key: &key, kind: table.keys() };
                self.change(|transaction| transaction.remove(&self.store, self.owner, target))?;
                found = cursor.next()?;
            }
            Ok(())
        })
    }

    fn cursor<'s>(&'s self, table: &Table) -> Result<Box<dyn Cursor + 's>> {
        self.store.check()?;
        Ok(Box::new(RocksCursor::new(self, table)?))
    }

    /// A session keeps nothing of a table between operations; only memory is given back.
    fn release(&self, _table: Option<&Table>) {
        self.key.take();
        if !self.in_transaction() {
            self.batch.replace(Batch::new());
        }
    }
}

impl Drop for RocksSession {
    fn drop(&mut self) {
        self.give_up();
        self.store.sessions.fetch_sub(1, Ordering::SeqCst);
    }
}

fn no_transaction() -> Error {
    Error::usage("no transaction is open")
}
