//! Cursors, which scan a table in key order.
//!
//! The key is copied at every step, the value only when it is requested: WiredTiger's memory is valid until the transaction
//! ends, and the caller may end it while it still holds a slice. Outside a transaction that memory is not guaranteed, so the
//! value is copied at once. It refuses to step from a position of an ended transaction: WiredTiger would start over.

#![expect(unsafe_code, reason = "the value is copied on demand behind a shared reference")]

use std::cell::{Cell, UnsafeCell};
use std::cmp::Ordering;
use std::ffi::c_int;

use fathom_engine::{Cursor, Error, Key, KeyKind, Result, Session, Table};
use fathom_engine_wt_sys::{WT_ERROR, WT_NOTFOUND};

use crate::core::IdleCursor;
use crate::pack::{self, KeyBuffer};
use crate::session::{WtSession, raw_key};

/// A cursor on one table.
pub(crate) struct WtCursor<'s> {
    session: &'s WtSession,
    table: Table,
    /// Always present, until `drop` takes it.
    kept: Option<IdleCursor>,
    on_key: bool,
    /// The session's epoch when the cursor was positioned.
    epoch: u64,
    /// The session's count of writes outside a transaction at that time.
    writes: u64,
    number: i64,
    /// Whether `value` holds the value under the cursor.
    loaded: Cell<bool>,
    value: UnsafeCell<Vec<u8>>,
}

impl<'s> WtCursor<'s> {
    pub(crate) fn new(session: &'s WtSession, table: &Table, mut kept: IdleCursor) -> Self {
        let value = std::mem::take(&mut kept.value);
        session.cursor_opened();
        WtCursor {
            session,
            table: table.clone(),
            kept: Some(kept),
            on_key: false,
            epoch: 0,
            writes: 0,
            number: 0,
            loaded: Cell::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Makes one movement and copies the key.
    fn step(&mut self, movement: impl FnOnce(&mut IdleCursor) -> c_int) -> Result<bool> {
        self.on_key = false;
        self.loaded.set(false);
        let _entered = self.session.enter()?;
        let Some(kept) = &mut self.kept else { return Ok(false) };
        let mut code = movement(kept);
        if code == 0 {
            kept.key.clear();
            code = kept.handle.append_key(&mut kept.key);
        }
        if code == 0 {
            match self.table.keys() {
                KeyKind::Number => match pack::unpack(&kept.key) {
                    Some(number) => self.number = number,
                    None => code = WT_ERROR,
                },
                KeyKind::Bytes => pack::restore(&mut kept.key),
            }
        }
        if code == 0 && !self.session.in_transaction() {
            let value = self.value.get_mut();
            value.clear();
            code = kept.handle.append_value(value);
            self.loaded.set(true);
        }
        match code {
            0 => {
                self.on_key = true;
                self.epoch = self.session.epoch();
                self.writes = self.session.writes();
                Ok(true)
            }
            WT_NOTFOUND => Ok(false),
            code => {
                kept.handle.reset();
                Err(self.session.error(code, "walk", &self.table))
            }
        }
    }

    /// Refuses to move without a position.
    fn check(&self) -> Result<()> {
        if !self.on_key {
            return Err(Error::usage(format!("the cursor over {} is not on a key", self.table.ident())));
        }
        if self.epoch != self.session.epoch() {
            let what = format!(
                "the transaction in which the cursor over {} found its place is over",
                self.table.ident()
            );
            return Err(Error::usage(what));
        }
        Ok(())
    }

    /// Moves to the requested key or to the next one on the wanted side of it.
    fn near(&mut self, key: Key<'_>, wanted: Ordering) -> Result<bool> {
        let mut scratch = KeyBuffer::default();
        let raw = raw_key(&self.table, key, &mut scratch)?;
        self.step(|kept| match kept.handle.search_near(raw) {
            Ok(side) if side == Ordering::Equal || side == wanted => 0,
            Ok(Ordering::Less) => kept.handle.next(),
            Ok(_) => kept.handle.previous(),
            Err(code) => code,
        })
    }
}

/// Returns to the key that the cursor was on, or to a neighbour; a write outside a transaction has lost the position.
fn found_again(kept: &mut IdleCursor, keys: KeyKind) -> Result<Ordering, c_int> {
    let mut scratch = KeyBuffer::default();
    let stored = match keys {
        KeyKind::Number => &kept.key,
        KeyKind::Bytes => pack::stored(Key::Bytes(&kept.key), &mut scratch),
    };
    kept.handle.search_near(stored)
}

impl Cursor for WtCursor<'_> {
    fn first(&mut self) -> Result<bool> {
        self.step(|kept| {
            kept.handle.reset();
            kept.handle.next()
        })
    }

    fn last(&mut self) -> Result<bool> {
        self.step(|kept| {
            kept.handle.reset();
            kept.handle.previous()
        })
    }

    fn seek(&mut self, key: Key<'_>) -> Result<bool> {
        self.near(key, Ordering::Greater)
    }

    fn seek_back(&mut self, key: Key<'_>) -> Result<bool> {
        self.near(key, Ordering::Less)
    }

    fn next(&mut self) -> Result<bool> {
        self.check()?;
        let (lost, keys) = (self.writes != self.session.writes(), self.table.keys());
        self.step(|kept| match if lost { found_again(kept, keys) } else { Ok(Ordering::Equal) } {
            Ok(Ordering::Greater) => 0,
            Ok(_) => kept.handle.next(),
            Err(code) => code,
        })
    }

    fn previous(&mut self) -> Result<bool> {
        self.check()?;
        let (lost, keys) = (self.writes != self.session.writes(), self.table.keys());
        self.step(|kept| match if lost { found_again(kept, keys) } else { Ok(Ordering::Equal) } {
            Ok(Ordering::Less) => 0,
            Ok(_) => kept.handle.previous(),
            Err(code) => code,
        })
    }

    fn key(&self) -> Key<'_> {
        match self.table.keys() {
            KeyKind::Number => Key::Number(self.number),
            KeyKind::Bytes => Key::Bytes(self.kept.as_ref().map_or(&[], |kept| &kept.key)),
        }
    }

    fn value(&self) -> &[u8] {
        if !self.loaded.replace(true) {
            // SAFETY: there is no reference into the buffer: this is the first request since the last movement, which had the
            // cursor to itself, and later requests only read.
            let value = unsafe { &mut *self.value.get() };
            value.clear();
            // Only within the transaction of the position is the library's memory valid; afterwards there is no value.
            if let (Ok(()), Some(kept)) = (self.check(), &self.kept) {
                kept.handle.append_value(value);
            }
        }
        // SAFETY: the buffer changes only in movements, which need the cursor to themselves, and in the branch above, which runs
        // once between them.
        unsafe { &*self.value.get() }
    }
}

impl Drop for WtCursor<'_> {
    fn drop(&mut self) {
        if let Some(mut kept) = self.kept.take() {
            kept.value = std::mem::take(self.value.get_mut());
            self.session.enter_anyway().cache().put(kept);
        }
        self.session.cursor_closed();
    }
}
