//! The operations of a session: transactions, point reads and writes, cursors.

use std::sync::Arc;

use fathom_engine::{Cursor, Durability, Error, Key, Result, Session, Splice, Statistics, Table};
use fathom_engine_wt_sys::{WT_DUPLICATE_KEY, WT_NOTFOUND};

use crate::cursor::WtCursor;
use crate::pack::KeyBuffer;
use crate::session::{WtSession, raw_key};
use crate::{cursor_handle, statistics};

impl Session for WtSession {
    fn begin(&self) -> Result<()> {
        if self.in_transaction.get() {
            return Err(Error::usage("a transaction is open already"));
        }
        let entered = self.enter()?;
        match entered.session().begin() {
            0 => {
                self.in_transaction.set(true);
                self.epoch.set(self.epoch.get() + 1);
                entered.keep();
                Ok(())
            }
            code => Err(self.shared.fault.error(code, "begin a transaction", "", false)),
        }
    }

    fn in_transaction(&self) -> bool {
        self.in_transaction.get()
    }

    fn commit(&self, durability: Durability) -> Result<()> {
        if !self.in_transaction.get() {
            return Err(Error::usage("there is no transaction to commit"));
        }
        if let Err(stopped) = self.shared.fault.check() {
            self.rollback();
            return Err(stopped);
        }
        let journal = self.shared.options.journal;
        let sync = (durability == Durability::Durable && journal).then_some(c"sync=on");
        match self.end(|entered| entered.session().commit(sync)) {
            0 if durability == Durability::Durable && !journal => self.shared.checkpoint(),
            0 => Ok(()),
            code => Err(self.shared.fault.error(code, "commit a transaction", "", false)),
        }
    }

    fn rollback(&self) {
        if self.in_transaction.get() {
            // After a stop the library refuses; the connection's end rolls back.
            let _ = self.end(|entered| entered.session().rollback());
        }
    }

    fn get(&self, table: &Table, key: Key<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let mut scratch = KeyBuffer::default();
        let raw = raw_key(table, key, &mut scratch)?;
        let mut entered = self.enter()?;
        let cursor = self.kept(&mut entered, table, true)?;
        let code = match cursor.search(raw) {
            0 => cursor.append_value(out),
            code => code,
        };
        // A key that was read in a transaction is often changed next; the transaction's end resets the cursor.
        if self.in_transaction.get() {
            cursor.hold(self.epoch.get());
        } else {
            cursor.reset();
        }
        match code {
            0 => Ok(true),
            WT_NOTFOUND => Ok(false),
            code => Err(self.error(code, "read from", table)),
        }
    }

    fn insert(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        match self.write(table, key, true, |cursor, raw| cursor.insert(raw, value))? {
            WT_DUPLICATE_KEY => Err(self.error(WT_DUPLICATE_KEY, "insert a key into", table)),
            code => self.written(code, table),
        }
    }

    fn put(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        let code = self.write(table, key, false, |cursor, raw| cursor.insert(raw, value))?;
        self.written(code, table)
    }

    fn update(&self, table: &Table, key: Key<'_>, value: &[u8], splices: Option<&[Splice]>) -> Result<()> {
        let mut buffer: [cursor_handle::BytePatch<'_>; cursor_handle::MAX_PARTS] =
            [(0, 0, &[]); cursor_handle::MAX_PARTS];
        let count =
            splices.and_then(|splices| cursor_handle::parts(splices, value.len(), &mut buffer)).unwrap_or(0);
        let parts = buffer.get(..count).unwrap_or_default();
        if parts.is_empty() {
            return self.put(table, key, value);
        }
        match self.write(table, key, true, |cursor, raw| cursor.modify(raw, parts, self.epoch.get()))? {
            WT_NOTFOUND => self.put(table, key, value),
            code => self.written(code, table),
        }
    }

    fn remove(&self, table: &Table, key: Key<'_>) -> Result<bool> {
        match self.write(table, key, true, |cursor, raw| cursor.remove(raw))? {
            0 => Ok(true),
            WT_NOTFOUND => Ok(false),
            code => Err(self.error(code, "remove from", table)),
        }
    }

    fn truncate(&self, table: &Table, from: Option<Key<'_>>, to: Option<Key<'_>>) -> Result<()> {
        let (mut first, mut last) = (KeyBuffer::default(), KeyBuffer::default());
        let from = from.map(|key| raw_key(table, key, &mut first)).transpose()?;
        let to = to.map(|key| raw_key(table, key, &mut last)).transpose()?;
        // Stored keys order as keys do.
        if to.is_some() && from > to {
            return Ok(());
        }
        let mut entered = self.enter()?;
        let code = self.alone(&mut entered, |entered| self.truncate_range(entered, table, from, to))?;
        self.written(code, table)
    }

    fn cursor<'s>(&'s self, table: &Table) -> Result<Box<dyn Cursor + 's>> {
        let mut entered = self.enter()?;
        let kept = self.take(&mut entered, table)?;
        Ok(Box::new(WtCursor::new(self, table, kept)))
    }

    fn operation_statistics(&self) -> Statistics {
        let now = statistics::of_session(self.enter_anyway().session());
        self.counted.get().plus(now).named()
    }

    fn end_operation(&self) {
        if self.used.get() && !self.in_transaction.get() {
            // As mongod does when it returns a session to its cache.
            let _ = self.enter_anyway().session().reset();
            self.used.set(false);
            self.counted.set(statistics::SessionStatistics::default());
        }
    }

    fn release(&self, table: Option<&Table>) {
        let mut entered = self.enter_anyway();
        match table {
            Some(table) => entered.cache().close_table(table.slot()),
            None => entered.cache().close_all(),
        }
    }
}

impl Drop for WtSession {
    fn drop(&mut self) {
        self.rollback();
        self.end_operation();
        self.shared.give_back(Arc::clone(&self.core));
    }
}
