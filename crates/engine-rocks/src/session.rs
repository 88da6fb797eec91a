//! A session of one thread: its open transaction, and its writes to the store.

use std::cell::{Cell, Ref, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fathom_engine::{Durability, Error, Key, Kind, Result, Table};

use crate::keys;
use crate::native::{ReadOptions, WriteBatch};
use crate::store::Store;
use crate::transaction::{KeyTarget, Transaction};

/// A batch that grew beyond this is not kept for the next transaction.
const MAX_KEPT_BATCH_BYTES: usize = 1 << 20;

/// A session of the RocksDB engine.
pub(crate) struct RocksSession {
    pub(crate) store: Arc<Store>,
    pub(crate) owner: u64,
    pub(crate) transaction: RefCell<Option<Transaction>>,
    /// Counts begins and ends of transactions, so that a cursor knows whether its position belongs to the current one.
    epoch: Cell<u64>,
    pub(crate) newest: ReadOptions,
    pub(crate) batch: RefCell<WriteBatch>,
    pub(crate) key: Cell<Vec<u8>>,
}

impl RocksSession {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        store.sessions.fetch_add(1, Ordering::SeqCst);
        RocksSession {
            owner: store.new_owner(),
            store,
            transaction: RefCell::new(None),
            epoch: Cell::new(0),
            newest: ReadOptions::new(),
            batch: RefCell::new(WriteBatch::new()),
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

    /// Runs `work` on the whole key of `key`.
    pub(crate) fn with_key<T>(
        &self,
        table: &Table,
        key: Key<'_>,
        work: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        self.store.check()?;
        // The buffer is taken rather than borrowed, so that it is never left borrowed; its memory is kept.
        let mut whole = self.key.take();
        let result = keys::encode(&mut whole, table, key).and_then(|()| work(&whole));
        self.key.set(whole);
        result
    }

    /// Writes within the open transaction, or in one for this write alone.
    pub(crate) fn write<T>(
        &self,
        table: &Table,
        key: Key<'_>,
        work: impl FnOnce(&mut Transaction, &Store, KeyTarget<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with_key(table, key, |whole| {
            let target = KeyTarget { key: whole, kind: table.keys() };
            self.alone_or_within(|| self.change(|transaction| work(transaction, &self.store, target)))
        })
    }

    pub(crate) fn change<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        match self.transaction.borrow_mut().as_mut() {
            Some(transaction) => work(transaction),
            None => Err(no_transaction()),
        }
    }

    /// Runs `work` in the open transaction, or in one for this work alone.
    pub(crate) fn alone_or_within<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.transaction.borrow().is_some() {
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

    pub(crate) fn finish(&self, durability: Durability) -> Result<()> {
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
        if batch.bytes() > MAX_KEPT_BATCH_BYTES {
            *batch = WriteBatch::new();
        }
        Ok(())
    }

    pub(crate) fn give_up(&self) {
        if let Some(transaction) = self.transaction.take() {
            transaction.abandon(&self.store, self.owner);
        }
    }

    pub(crate) fn next_epoch(&self) {
        self.epoch.set(self.epoch.get() + 1);
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
