//! Sessions: point reads and writes, and transactions on snapshots.
//!
//! Two kinds of cursors serve a table. The strict one respects what is there and serves everything but `put`: an insert of a key that
//! exists is a duplicate, a removal of one that does not is none. A write that meets another's is WiredTiger's rollback,
//! which is our write conflict.

#![expect(unsafe_code, reason = "a transaction keeps the session's lock from call to call")]

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fathom_engine::{Cursor, Durability, Error, Key, Result, Session, Splice, Table};
use fathom_engine_wt_sys::{WT_DUPLICATE_KEY, WT_NOTFOUND};

use crate::cache::Kept;
use crate::connection::c_string;
use crate::core::{Core, Entered};
use crate::creation;
use crate::cursor::WtCursor;
use crate::cursor_handle::CursorHandle;
use crate::modify;
use crate::pack::{self, LONGEST};
use crate::pool::Shared;

/// One thread's way into the engine; gives its session of the library back to the pool at the end.
#[derive(Debug)]
pub(crate) struct WtSession {
    shared: Arc<Shared>,
    core: Arc<Core>,
    in_transaction: Cell<bool>,
    /// Counts beginnings and ends of transactions: a position belongs to one of them.
    epoch: Cell<u64>,
}

/// The key as the library stores it; empty for an empty key of bytes, which the library does not have.
///
/// # Errors
/// `Kind::Usage` if the key is not of the table's kind.
#[inline]
pub(crate) fn raw_key<'k>(table: &Table, key: Key<'k>, buffer: &'k mut [u8; LONGEST]) -> Result<&'k [u8]> {
    if key.kind() != table.keys() {
        return Err(Error::usage(format!("a key of the wrong kind for {}", table.ident())));
    }
    Ok(match key {
        Key::Number(number) => pack::pack(number, buffer),
        Key::Bytes(bytes) => bytes,
    })
}

impl WtSession {
    pub(crate) fn new(shared: Arc<Shared>, core: Arc<Core>) -> Self {
        WtSession { shared, core, in_transaction: Cell::new(false), epoch: Cell::new(0) }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// The right to use the library's session, unless the engine has stopped. Never within another.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered<'_>> {
        self.shared.fault.check()?;
        Ok(self.enter_anyway())
    }

    /// The same after a stop too, to put things back. Never within another.
    #[inline]
    pub(crate) fn enter_anyway(&self) -> Entered<'_> {
        if self.in_transaction.get() {
            // SAFETY: `begin` kept the lock, and no function of ours enters within another.
            return unsafe { self.core.enter_again() };
        }
        let mut entered = self.core.enter();
        let generation = self.shared.generation.load(Ordering::Acquire);
        let cache = entered.cache();
        if cache.generation != generation {
            cache.generation = generation;
            cache.close_all();
        }
        entered
    }

    /// The error of a failed operation on a table.
    #[cold]
    pub(crate) fn error(&self, code: c_int, action: &str, table: &Table) -> Error {
        self.shared.fault.error(code, action, table.ident(), false)
    }

    /// A new cursor of a table.
    #[cold]
    fn open(&self, entered: &Entered<'_>, table: &Table, strict: bool) -> Result<Kept> {
        let uri = c_string(&creation::uri(table.ident()))?;
        let settings = if strict { c"raw,overwrite=false" } else { c"raw,overwrite=true" };
        match entered.session().open_cursor(&uri, Some(settings)) {
            Ok(handle) => Ok(Kept::new(handle, table.slot(), strict)),
            Err(code) => Err(self.error(code, "open", table)),
        }
    }

    /// A table's cursor in its place.
    #[inline]
    fn kept<'e>(
        &self,
        entered: &'e mut Entered<'_>,
        table: &Table,
        strict: bool,
    ) -> Result<&'e mut CursorHandle> {
        let place = match entered.cache().place(table.slot(), strict) {
            Some(place) => place,
            None => {
                let new = self.open(entered, table, strict)?;
                entered.cache().put(new)
            }
        };
        let kept = entered.cache().at(place);
        kept.map(|kept| &mut kept.handle).ok_or_else(|| self.error(WT_NOTFOUND, "keep a cursor of", table))
    }

    /// A table's cursor taken out, for somebody who keeps a position.
    pub(crate) fn take(&self, entered: &mut Entered<'_>, table: &Table) -> Result<Kept> {
        match entered.cache().take(table.slot(), true) {
            Some(kept) => Ok(kept),
            None => self.open(entered, table, true),
        }
    }

    /// One operation on one key; WiredTiger's code, or an error.
    #[inline]
    fn on_key(
        &self,
        table: &Table,
        key: Key<'_>,
        strict: bool,
        operation: impl FnOnce(&mut CursorHandle, &[u8]) -> c_int,
    ) -> Result<c_int> {
        let mut buffer = [0; LONGEST];
        let raw = raw_key(table, key, &mut buffer)?;
        if raw.is_empty() {
            return Ok(WT_NOTFOUND);
        }
        let mut entered = self.enter()?;
        let handle = self.kept(&mut entered, table, strict)?;
        let code = operation(handle, raw);
        handle.reset();
        Ok(code)
    }

    /// The outcome of a write.
    #[inline]
    fn written(&self, code: c_int, table: &Table, key: Key<'_>) -> Result<()> {
        match code {
            0 => Ok(()),
            WT_NOTFOUND if key.bytes().is_some_and(<[u8]>::is_empty) => {
                Err(Error::usage(format!("an empty key for {}", table.ident())))
            }
            code => Err(self.error(code, "write to", table)),
        }
    }

    /// Ends the open transaction with a code of the library's; gives the lock back.
    fn end(&self, finish: impl FnOnce(&Entered<'_>) -> c_int) -> c_int {
        let entered = self.enter_anyway();
        let code = finish(&entered);
        self.in_transaction.set(false);
        self.epoch.set(self.epoch.get() + 1);
        entered.end();
        code
    }

    fn truncate_range(&self, table: &Table, from: &[u8], to: &[u8]) -> Result<()> {
        let mut entered = self.enter()?;
        let mut first = self.take(&mut entered, table)?;
        let mut last = match self.take(&mut entered, table) {
            Ok(last) => last,
            Err(error) => {
                entered.cache().put(first);
                return Err(error);
            }
        };
        // With neither end given, the range begins at the first key that is there.
        let code = if from.is_empty() && to.is_empty() { first.handle.next() } else { 0 };
        let code = match code {
            0 => {
                // SAFETY: both keys are the caller's and live through the truncation, which is the operation that uses them.
                unsafe {
                    if !from.is_empty() {
                        first.handle.aim(from);
                    }
                    if !to.is_empty() {
                        last.handle.aim(to);
                    }
                }
                let begin = (!from.is_empty() || to.is_empty()).then_some(&mut first.handle);
                let end = (!to.is_empty()).then_some(&mut last.handle);
                entered.session().truncate(begin, end)
            }
            code => code,
        };
        entered.cache().put(first);
        entered.cache().put(last);
        match code {
            0 | WT_NOTFOUND => Ok(()),
            code => Err(self.error(code, "truncate", table)),
        }
    }
}

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
        let code = self.on_key(table, key, true, |cursor, raw| match cursor.search(raw) {
            0 => cursor.append_value(out),
            code => code,
        })?;
        match code {
            0 => Ok(true),
            WT_NOTFOUND => Ok(false),
            code => Err(self.error(code, "read from", table)),
        }
    }

    fn insert(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        match self.on_key(table, key, true, |cursor, raw| cursor.insert(raw, value))? {
            WT_DUPLICATE_KEY => Err(self.error(WT_DUPLICATE_KEY, "insert a key into", table)),
            code => self.written(code, table, key),
        }
    }

    fn put(&self, table: &Table, key: Key<'_>, value: &[u8]) -> Result<()> {
        let code = self.on_key(table, key, false, |cursor, raw| cursor.insert(raw, value))?;
        self.written(code, table, key)
    }

    fn update(&self, table: &Table, key: Key<'_>, value: &[u8], splices: Option<&[Splice]>) -> Result<()> {
        let mut buffer: [modify::Part<'_>; modify::PARTS_MAX] = [(0, 0, &[]); modify::PARTS_MAX];
        // WiredTiger takes changes of parts only in a transaction.
        let count = splices
            .filter(|_| self.in_transaction.get())
            .and_then(|splices| modify::parts(splices, value.len(), &mut buffer))
            .unwrap_or(0);
        let parts = buffer.get(..count).unwrap_or_default();
        let code = self.on_key(table, key, true, |cursor, raw| {
            if parts.is_empty() { cursor.update(raw, value) } else { cursor.modify(raw, parts) }
        })?;
        self.written(code, table, key)
    }

    fn remove(&self, table: &Table, key: Key<'_>) -> Result<bool> {
        match self.on_key(table, key, true, |cursor, raw| cursor.remove(raw))? {
            0 => Ok(true),
            WT_NOTFOUND => Ok(false),
            code => Err(self.error(code, "remove from", table)),
        }
    }

    fn truncate(&self, table: &Table, from: Option<Key<'_>>, to: Option<Key<'_>>) -> Result<()> {
        let (mut first, mut last) = ([0; LONGEST], [0; LONGEST]);
        let start = from.map_or(Ok(&[][..]), |key| raw_key(table, key, &mut first))?;
        let end = to.map_or(Ok(&[][..]), |key| raw_key(table, key, &mut last))?;
        // Packed keys order as keys do. Nothing is as small as an empty key, so nothing lies up to one.
        if to.is_some() && (start > end || end.is_empty()) {
            return Ok(());
        }
        self.truncate_range(table, start, end)
    }

    fn cursor<'s>(&'s self, table: &Table) -> Result<Box<dyn Cursor + 's>> {
        let mut entered = self.enter()?;
        let kept = self.take(&mut entered, table)?;
        Ok(Box::new(WtCursor::new(self, table, kept)))
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
        self.shared.give_back(Arc::clone(&self.core));
    }
}
