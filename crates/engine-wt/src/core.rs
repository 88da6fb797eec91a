//! A session of the library with the cursors that it keeps, and the lock that lets one thread at a time use them.
//!
//! The owner of a session holds the lock during an operation, or from the beginning to the end of a transaction.
//! Between operations a thread that removes a table may take it to close idle cursors: without that, the session of an
//! idle connection would keep the table busy for ever. An uncontended lock costs a few nanoseconds.
//!
//! Cursors are kept between operations, because opening one costs more than a look-up: in the order of use, the newest
//! last, because an operation touches the same two or three tables again and again. A handful more or less does not
//! matter for order, so the newest few stay where they are. The oldest is closed when there are too many, as mongod
//! does with its hundred.

#![expect(unsafe_code, reason = "the lock is held longer than a guard's scope, over a whole transaction")]

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt;

use parking_lot::lock_api::RawMutex as _;

use crate::connection::SessionHandle;
use crate::cursor_handle::CursorHandle;

/// A session of the library and its idle cursors.
pub(crate) struct Core {
    lock: parking_lot::RawMutex,
    session: SessionHandle,
    cache: UnsafeCell<Cache>,
}

// SAFETY: session and cache are only reached through `Entered`, which exists only where the lock is held.
unsafe impl Sync for Core {}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("session", &self.session).finish_non_exhaustive()
    }
}

/// The right to use a core; lets go of the lock at its end, unless it is kept for a transaction.
#[derive(Debug)]
pub(crate) struct Entered<'c> {
    core: &'c Core,
    unlocks: bool,
}

impl Core {
    pub(crate) fn new(session: SessionHandle) -> Self {
        Core { lock: parking_lot::RawMutex::INIT, session, cache: UnsafeCell::default() }
    }

    /// Waits for the lock.
    #[inline]
    pub(crate) fn enter(&self) -> Entered<'_> {
        self.lock.lock();
        Entered { core: self, unlocks: true }
    }

    /// Takes the lock if nobody has it.
    pub(crate) fn try_enter(&self) -> Option<Entered<'_>> {
        self.lock.try_lock().then_some(Entered { core: self, unlocks: true })
    }

    /// Enters again within a transaction, whose beginning kept the lock; does not let go of it at the end.
    ///
    /// # Safety
    /// The lock must have been kept with [`Entered::keep`] by the same owner, and no other `Entered` of this core may exist.
    #[inline]
    pub(crate) unsafe fn enter_again(&self) -> Entered<'_> {
        Entered { core: self, unlocks: false }
    }
}

impl Entered<'_> {
    /// The library's session.
    #[inline]
    pub(crate) fn session(&self) -> &SessionHandle {
        &self.core.session
    }

    /// The idle cursors.
    #[inline]
    pub(crate) fn cache(&mut self) -> &mut Cache {
        // SAFETY: the lock is held and this is the only `Entered` (the lock, or the promise of `enter_again`), so the borrow
        // of `self` guards the cache.
        unsafe { &mut *self.core.cache.get() }
    }

    /// Keeps the lock when this ends, for a transaction.
    #[inline]
    pub(crate) fn keep(mut self) {
        self.unlocks = false;
    }

    /// Lets go of the lock when this ends: the transaction is over.
    #[inline]
    pub(crate) fn end(mut self) {
        self.unlocks = true;
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.unlocks {
            // SAFETY: the lock is held: `enter` or `try_enter` took it, or the transaction kept it.
            unsafe { self.core.lock.unlock() };
        }
    }
}

/// How many cursors a session keeps.
const KEPT_MAX: usize = 100;
/// So many of the newest are not moved when used again.
const NEWEST: usize = 8;
/// A buffer larger than this is not kept with its cursor.
const BUFFER_MAX_BYTES: usize = 64 * 1024;

/// A cursor of a table, with the buffers of whoever last walked with it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) handle: CursorHandle,
    /// A buffer for the key under the cursor.
    pub(crate) key: Vec<u8>,
    /// A buffer for the value under the cursor.
    pub(crate) value: Vec<u8>,
    slot: u64,
    strict: bool,
}

/// The cursors of one session that nobody uses just now.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    kept: Vec<Kept>,
    /// The engine's count of removals of tables when the cursors were last all closed.
    pub(crate) generation: u64,
}

impl Kept {
    pub(crate) fn new(handle: CursorHandle, slot: u64, strict: bool) -> Self {
        Kept { handle, key: Vec::new(), value: Vec::new(), slot, strict }
    }
}

impl Cache {
    /// The place of a table's cursor, if there is one; `strict` ones respect what is there (`overwrite=false`).
    #[inline]
    pub(crate) fn place(&mut self, slot: u64, strict: bool) -> Option<usize> {
        let at = self.kept.iter().rposition(|one| one.slot == slot && one.strict == strict)?;
        if self.kept.len() - at <= NEWEST {
            return Some(at);
        }
        let one = self.kept.remove(at);
        self.kept.push(one);
        Some(self.kept.len() - 1)
    }

    /// The cursor at a place that [`Cache::place`] or [`Cache::put`] gave.
    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> Option<&mut Kept> {
        self.kept.get_mut(place)
    }

    /// Has a table's strict cursor let go of the key on which a look-up left it.
    #[inline]
    pub(crate) fn let_go(&mut self, slot: u64) {
        if let Some(one) = self.kept.iter_mut().rfind(|one| one.slot == slot && one.strict) {
            one.handle.reset();
        }
    }

    /// Takes a table's cursor out, for somebody who keeps a position of its own.
    pub(crate) fn take(&mut self, slot: u64, strict: bool) -> Option<Kept> {
        let at = self.place(slot, strict)?;
        let mut one = self.kept.remove(at);
        one.handle.reset();
        Some(one)
    }

    /// Puts a cursor in or back; gives its place.
    pub(crate) fn put(&mut self, mut one: Kept) -> usize {
        one.handle.reset();
        for buffer in [&mut one.key, &mut one.value] {
            if buffer.capacity() > BUFFER_MAX_BYTES {
                *buffer = Vec::new();
            }
        }
        if self.kept.len() >= KEPT_MAX {
            drop_quietly(self.kept.remove(0).handle.close());
        }
        self.kept.push(one);
        self.kept.len() - 1
    }

    /// Closes the cursors of one table.
    pub(crate) fn close_table(&mut self, slot: u64) {
        for one in self.kept.extract_if(.., |one| one.slot == slot) {
            drop_quietly(one.handle.close());
        }
    }

    /// Closes all.
    pub(crate) fn close_all(&mut self) {
        for one in self.kept.drain(..) {
            drop_quietly(one.handle.close());
        }
    }
}

/// Closing a cursor that has no position cannot lose anything; what is wrong shows at the next operation.
fn drop_quietly(_code: c_int) {}
