//! Sessions: their cursors, their snapshot transactions, and the operations that the engine does on a session of its own.
//!
//! A table has two kinds of cursors. The strict one does not overwrite and serves everything but `put`: an insert of an
//! existing key is a duplicate, and a removal of a missing key removes nothing. A write that meets another transaction's
//! gets WiredTiger's rollback code, which is our write conflict.

#![expect(unsafe_code, reason = "a transaction keeps the session's lock from call to call")]

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fathom_engine::{Error, Key, Result, Table};
use fathom_engine_wt_sys::WT_NOTFOUND;

use crate::connection::c_string;
use crate::core::{CoreGuard, IdleCursor, PooledSession};
use crate::cursor_handle::CursorHandle;
use crate::pack::{self, KeyBuffer};
use crate::pool::EngineState;
use crate::{creation, events, statistics};

/// A session, through which one thread uses the engine. At its end it returns its WiredTiger session to the pool.
#[derive(Debug)]
pub(crate) struct WtSession {
    pub(crate) shared: Arc<EngineState>,
    pub(crate) core: Arc<PooledSession>,
    pub(crate) in_transaction: Cell<bool>,
    /// Counts beginnings and ends of transactions: a position belongs to one of them.
    pub(crate) epoch: Cell<u64>,
    /// Counts writes outside a transaction: WiredTiger resets all positions of the session at their end.
    writes: Cell<u64>,
    /// The number of cursors that may be on a key.
    cursors: Cell<usize>,
    /// Whether WiredTiger was used since the last operation ended.
    pub(crate) used: Cell<bool>,
    /// WiredTiger's counts for the operation, saved before a reset.
    pub(crate) counted: Cell<statistics::SessionStatistics>,
}

/// The key as the library stores it.
///
/// # Errors
/// `Kind::Usage` if the key is not of the table's kind.
#[inline]
pub(crate) fn raw_key<'k>(table: &Table, key: Key<'k>, scratch: &'k mut KeyBuffer) -> Result<&'k [u8]> {
    if key.kind() == table.keys() {
        Ok(pack::stored(key, scratch))
    } else {
        Err(Error::usage(format!("a key of the wrong kind for {}", table.ident())))
    }
}

impl WtSession {
    pub(crate) fn new(shared: Arc<EngineState>, core: Arc<PooledSession>) -> Self {
        WtSession {
            shared,
            core,
            in_transaction: Cell::new(false),
            epoch: Cell::new(0),
            writes: Cell::new(0),
            cursors: Cell::new(0),
            used: Cell::new(false),
            counted: Cell::default(),
        }
    }

    /// Counts a cursor that was opened.
    pub(crate) fn cursor_opened(&self) {
        self.cursors.set(self.cursors.get() + 1);
    }

    /// Counts a cursor that was closed, and is on no key any more.
    pub(crate) fn cursor_closed(&self) {
        self.cursors.set(self.cursors.get().saturating_sub(1));
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes.get()
    }

    /// The right to use the WiredTiger session, unless the engine has stopped. It must not be nested.
    #[inline]
    pub(crate) fn enter(&self) -> Result<CoreGuard<'_>> {
        self.shared.fault.check()?;
        self.used.set(true);
        Ok(self.enter_anyway())
    }

    /// The same, also after a stop, for cleaning up. It must not be nested.
    #[inline]
    pub(crate) fn enter_anyway(&self) -> CoreGuard<'_> {
        if self.in_transaction.get() {
            // SAFETY: `begin` kept the lock, and none of our functions nests guards.
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
    fn open(&self, entered: &CoreGuard<'_>, table: &Table, strict: bool) -> Result<IdleCursor> {
        let uri = c_string(&creation::uri(table.ident()))?;
        let settings = if strict { c"raw,overwrite=false" } else { c"raw,overwrite=true" };
        match entered.session().open_cursor(&uri, Some(settings)) {
            Ok(handle) => Ok(IdleCursor::new(handle, table.slot(), strict)),
            Err(code) => Err(self.error(code, "open", table)),
        }
    }

    /// A table's cursor in the cache, opened if necessary.
    #[inline]
    pub(crate) fn kept<'e>(
        &self,
        entered: &'e mut CoreGuard<'_>,
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

    /// A table's cursor taken out, for a caller that keeps a position.
    pub(crate) fn take(&self, entered: &mut CoreGuard<'_>, table: &Table) -> Result<IdleCursor> {
        match entered.cache().take(table.slot(), true) {
            Some(kept) => Ok(kept),
            None => self.open(entered, table, true),
        }
    }

    /// One write of one key, in the open transaction or one of its own; WiredTiger's code, or an error.
    #[inline]
    pub(crate) fn write(
        &self,
        table: &Table,
        key: Key<'_>,
        strict: bool,
        operation: impl FnOnce(&mut CursorHandle, &[u8]) -> c_int,
    ) -> Result<c_int> {
        let mut scratch = KeyBuffer::default();
        let raw = raw_key(table, key, &mut scratch)?;
        let mut entered = self.enter()?;
        self.alone(&mut entered, |entered| {
            if !strict {
                // A look-up may have left the other one on this key, with the value that is being replaced.
                entered.cache().let_go(table.slot());
            }
            let handle = self.kept(entered, table, strict)?;
            let code = operation(handle, raw);
            handle.reset();
            Ok(code)
        })
    }

    /// Does a write in a transaction of its own, unless one is open. WiredTiger would do so by itself, but it would retry a
    /// conflict until the other transaction ends.
    #[inline]
    pub(crate) fn alone<'e>(
        &self,
        entered: &mut CoreGuard<'e>,
        write: impl FnOnce(&mut CoreGuard<'e>) -> Result<c_int>,
    ) -> Result<c_int> {
        if self.in_transaction.get() {
            return write(entered);
        }
        let code = entered.session().begin();
        if code != 0 {
            return Ok(code);
        }
        self.writes.set(self.writes.get() + 1);
        let outcome = write(entered);
        match outcome {
            Ok(0) => Ok(entered.session().commit(None)),
            other => {
                // What failed is reported; after a stop the library refuses, and the connection's end rolls back.
                let _ = entered.session().rollback();
                other
            }
        }
    }

    /// The outcome of a write.
    #[inline]
    pub(crate) fn written(&self, code: c_int, table: &Table) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(code, "write to", table)) }
    }

    /// Ends the open transaction with `finish` and returns its code; releases the lock.
    pub(crate) fn end(&self, finish: impl FnOnce(&CoreGuard<'_>) -> c_int) -> c_int {
        let entered = self.enter_anyway();
        let code = finish(&entered);
        // A cursor that stays on a key after the transaction would hold its snapshot for the next operations. The reset
        // also clears WiredTiger's counts. A failure shows at the next call.
        if self.cursors.get() > 0 {
            self.counted.set(self.counted.get().plus(statistics::of_session(entered.session())));
            let _ = entered.session().reset();
        }
        self.in_transaction.set(false);
        self.epoch.set(self.epoch.get() + 1);
        entered.end();
        code
    }

    /// Removes a range of stored keys; WiredTiger's code, or an error.
    pub(crate) fn truncate_range(
        &self,
        entered: &mut CoreGuard<'_>,
        table: &Table,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<c_int> {
        let mut first = self.take(entered, table)?;
        let mut last = match self.take(entered, table) {
            Ok(last) => last,
            Err(error) => {
                entered.cache().put(first);
                return Err(error);
            }
        };
        // If neither end is given, the range begins at the first existing key.
        let whole = from.is_none() && to.is_none();
        let code = match if whole { first.handle.next() } else { 0 } {
            0 => {
                // SAFETY: both keys are the caller's and live through the truncation, which is the operation that uses them.
                unsafe {
                    from.inspect(|key| first.handle.aim(key));
                    to.inspect(|key| last.handle.aim(key));
                }
                let begin = (whole || from.is_some()).then_some(&mut first.handle);
                entered.session().truncate(begin, to.map(|_| &mut last.handle))
            }
            code => code,
        };
        entered.cache().put(first);
        entered.cache().put(last);
        Ok(if code == WT_NOTFOUND { 0 } else { code })
    }
}

impl EngineState {
    /// A session for use.
    pub(crate) fn checkout(self: &Arc<Self>) -> Result<WtSession> {
        Ok(WtSession::new(Arc::clone(self), self.lend()?))
    }

    /// Makes a checkpoint on a session of its own.
    pub(crate) fn checkpoint(self: &Arc<Self>) -> Result<()> {
        let session = self.checkout()?;
        let entered = session.enter()?;
        events::forget_last();
        match entered.session().checkpoint(c"use_timestamp=false") {
            0 => Ok(()),
            code => Err(self.error(code, "make a checkpoint", "")),
        }
    }

    /// The creation string of a table; `None` if there is no such table.
    pub(crate) fn metadata(self: &Arc<Self>, ident: &str) -> Result<Option<String>> {
        let session = self.checkout()?;
        let entered = session.enter()?;
        events::forget_last();
        let failed = |code| self.error(code, "read the metadata of", ident);
        // This cursor shows what a table was created with, the file's settings included.
        let mut cursor = entered.session().open_cursor(c"metadata:create", None).map_err(failed)?;
        let found = cursor.metadata(&c_string(&creation::uri(ident))?);
        cursor.close();
        match found {
            Ok(text) => Ok(Some(text)),
            Err(code) if code == WT_NOTFOUND => Ok(None),
            Err(code) => Err(failed(code)),
        }
    }
}
