//! Sessions: their cursors, their transactions on snapshots, and what the engine does on a session of its own.
//!
//! Two kinds of cursors serve a table. The strict one respects what is there and serves everything but `put`: an insert of a key that
//! exists is a duplicate, a removal of one that does not is none. A write that meets another's is WiredTiger's rollback,
//! which is our write conflict.

#![expect(unsafe_code, reason = "a transaction keeps the session's lock from call to call")]

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fathom_engine::{Error, Key, Result, Table};
use fathom_engine_wt_sys::WT_NOTFOUND;

use crate::connection::c_string;
use crate::core::{Core, Entered, Kept};
use crate::cursor_handle::CursorHandle;
use crate::pack::{self, Scratch};
use crate::pool::Shared;
use crate::{creation, events, statistics};

/// One thread's way into the engine; gives its session of the library back to the pool at the end.
#[derive(Debug)]
pub(crate) struct WtSession {
    pub(crate) shared: Arc<Shared>,
    pub(crate) core: Arc<Core>,
    pub(crate) in_transaction: Cell<bool>,
    /// Counts beginnings and ends of transactions: a position belongs to one of them.
    pub(crate) epoch: Cell<u64>,
    /// Counts writes outside a transaction: the library loses all positions of the session at their end.
    writes: Cell<u64>,
    /// Cursors that may stand on a key.
    cursors: Cell<usize>,
    /// Whether the library was used since the last operation ended.
    pub(crate) used: Cell<bool>,
    /// What the library counted for the operation before it was made to forget.
    pub(crate) counted: Cell<statistics::OfSession>,
}

/// The key as the library stores it.
///
/// # Errors
/// `Kind::Usage` if the key is not of the table's kind.
#[inline]
pub(crate) fn raw_key<'k>(table: &Table, key: Key<'k>, scratch: &'k mut Scratch) -> Result<&'k [u8]> {
    if key.kind() == table.keys() {
        Ok(pack::stored(key, scratch))
    } else {
        Err(Error::usage(format!("a key of the wrong kind for {}", table.ident())))
    }
}

impl WtSession {
    pub(crate) fn new(shared: Arc<Shared>, core: Arc<Core>) -> Self {
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

    /// Notes that a cursor comes into the world.
    pub(crate) fn cursor_opened(&self) {
        self.cursors.set(self.cursors.get() + 1);
    }

    /// Notes that a cursor is gone, and stands on no key any more.
    pub(crate) fn cursor_closed(&self) {
        self.cursors.set(self.cursors.get().saturating_sub(1));
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes.get()
    }

    /// The right to use the library's session, unless the engine has stopped. Never within another.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered<'_>> {
        self.shared.fault.check()?;
        self.used.set(true);
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
    pub(crate) fn kept<'e>(
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

    /// One write of one key, in the open transaction or one of its own; WiredTiger's code, or an error.
    #[inline]
    pub(crate) fn write(
        &self,
        table: &Table,
        key: Key<'_>,
        strict: bool,
        operation: impl FnOnce(&mut CursorHandle, &[u8]) -> c_int,
    ) -> Result<c_int> {
        let mut scratch = Scratch::default();
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

    /// Does a write in a transaction of its own, unless one is open. WiredTiger would do so by itself, but on a conflict it tries
    /// again until the other transaction ends.
    #[inline]
    pub(crate) fn alone<'e>(
        &self,
        entered: &mut Entered<'e>,
        write: impl FnOnce(&mut Entered<'e>) -> Result<c_int>,
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

    /// Ends the open transaction with a code of the library's; gives the lock back.
    pub(crate) fn end(&self, finish: impl FnOnce(&Entered<'_>) -> c_int) -> c_int {
        let entered = self.enter_anyway();
        let code = finish(&entered);
        // A cursor that stays on a key after the transaction would hold its snapshot for whatever comes next. The library
        // forgets what it counted with it. A failure shows at the next call.
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
        entered: &mut Entered<'_>,
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
        // With neither end given, the range begins at the first key that is there.
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

impl Shared {
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

    /// The creation string of a table; none if there is no such table.
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
