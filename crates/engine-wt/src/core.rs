//! A WiredTiger session with the cursors that it keeps, and the lock that lets one thread at a time use them.
//!
//! The owner of a session holds the lock during an operation, or from the beginning to the end of a transaction.
//! Between operations a thread that removes a table may take it to close idle cursors: without that, the session of an
//! idle connection would keep the table busy for ever. An uncontended lock costs a few nanoseconds.
//!
//! Cursors are kept between operations, because opening one costs more than a look-up. They are in the order of use, the
//! newest last, because an operation uses the same two or three tables again and again. The order among the newest few does
//! not matter, so these stay in place. The oldest is closed when there are too many, as mongod does with its hundred.

#![expect(unsafe_code, reason = "the lock is held longer than a guard's scope, over a whole transaction")]

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt;

use parking_lot::lock_api::RawMutex as _;

use crate::connection::SessionHandle;
use crate::cursor_handle::CursorHandle;

/// A session of the library and its idle cursors.
pub(crate) struct PooledSession {
    lock: parking_lot::RawMutex,
    session: SessionHandle,
    cache: UnsafeCell<CursorCache>,
}

// SAFETY: session and cache are only reached through `CoreGuard`, which exists only where the lock is held.
unsafe impl Sync for PooledSession {}

impl fmt::Debug for PooledSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("session", &self.session).finish_non_exhaustive()
    }
}

/// The right to use a core. Its drop releases the lock, unless the lock is kept for a transaction.
#[derive(Debug)]
pub(crate) struct CoreGuard<'c> {
    core: &'c PooledSession,
    unlocks: bool,
}

impl PooledSession {
    pub(crate) fn new(session: SessionHandle) -> Self {
        PooledSession { lock: parking_lot::RawMutex::INIT, session, cache: UnsafeCell::default() }
    }

    /// Waits for the lock.
    #[inline]
    pub(crate) fn enter(&self) -> CoreGuard<'_> {
        self.lock.lock();
        CoreGuard { core: self, unlocks: true }
    }

    /// Takes the lock if it is free; `None` otherwise.
    pub(crate) fn try_enter(&self) -> Option<CoreGuard<'_>> {
        self.lock.try_lock().then_some(CoreGuard { core: self, unlocks: true })
    }

    /// Enters again within a transaction, whose beginning kept the lock; does not release it at the end.
    ///
    /// # Safety
    /// The lock must have been kept with [`CoreGuard::keep`] by the same owner, and no other `CoreGuard` of this core may exist.
    #[inline]
    pub(crate) unsafe fn enter_again(&self) -> CoreGuard<'_> {
        CoreGuard { core: self, unlocks: false }
    }
}

impl CoreGuard<'_> {
    #[inline]
    pub(crate) fn session(&self) -> &SessionHandle {
        &self.core.session
    }

    #[inline]
    pub(crate) fn cache(&mut self) -> &mut CursorCache {
        // SAFETY: the lock is held and this is the only `CoreGuard` (the lock, or the promise of `enter_again`), so the borrow
        // of `self` guards the cache.
        unsafe { &mut *self.core.cache.get() }
    }

    /// Keeps the lock after this guard is dropped, for a transaction.
    #[inline]
    pub(crate) fn keep(mut self) {
        self.unlocks = false;
    }

    /// Releases the lock when this guard is dropped: the transaction is over.
    #[inline]
    pub(crate) fn end(mut self) {
        self.unlocks = true;
    }
}

impl Drop for CoreGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.unlocks {
            // SAFETY: the lock is held: `enter` or `try_enter` took it, or the transaction kept it.
            unsafe { self.core.lock.unlock() };
        }
    }
}

/// How many cursors a session keeps.
const MAX_IDLE_CURSORS: usize = 100;
/// The number of newest cursors that are not moved when used again.
const UNMOVED_CURSORS: usize = 8;
/// A buffer larger than this is not kept with its cursor.
const MAX_KEPT_BUFFER_BYTES: usize = 64 * 1024;

/// A cursor of a table, with the buffers of its last user.
#[derive(Debug)]
pub(crate) struct IdleCursor {
    pub(crate) handle: CursorHandle,
    /// A buffer for the key under the cursor.
    pub(crate) key: Vec<u8>,
    /// A buffer for the value under the cursor.
    pub(crate) value: Vec<u8>,
    slot: u64,
    strict: bool,
}

/// The idle cursors of one session.
#[derive(Debug, Default)]
pub(crate) struct CursorCache {
    kept: Vec<IdleCursor>,
    /// The engine's count of dropped tables when all cursors were last closed.
    pub(crate) generation: u64,
}

impl IdleCursor {
    pub(crate) fn new(handle: CursorHandle, slot: u64, strict: bool) -> Self {
        IdleCursor { handle, key: Vec::new(), value: Vec::new(), slot, strict }
    }
}

impl CursorCache {
    /// The place of a table's cursor, if there is one; `strict` cursors do not overwrite existing keys (`overwrite=false`).
    #[inline]
    pub(crate) fn place(&mut self, slot: u64, strict: bool) -> Option<usize> {
        let at = self.kept.iter().rposition(|one| one.slot == slot && one.strict == strict)?;
        if self.kept.len() - at <= UNMOVED_CURSORS {
            return Some(at);
        }
        let one = self.kept.remove(at);
        self.kept.push(one);
        Some(self.kept.len() - 1)
    }

    /// The cursor at a place that [`CursorCache::place`] or [`CursorCache::put`] gave.
    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> Option<&mut IdleCursor> {
        self.kept.get_mut(place)
    }

    /// Makes a table's strict cursor release the key on which a look-up left it.
    #[inline]
    pub(crate) fn let_go(&mut self, slot: u64) {
        if let Some(one) = self.kept.iter_mut().rfind(|one| one.slot == slot && one.strict) {
            one.handle.reset();
        }
    }

    /// Takes a table's cursor out, for a caller that keeps a position of its own.
    pub(crate) fn take(&mut self, slot: u64, strict: bool) -> Option<IdleCursor> {
        let at = self.place(slot, strict)?;
        let mut one = self.kept.remove(at);
        one.handle.reset();
        Some(one)
    }

    /// Adds or returns a cursor to the cache; returns its place.
    pub(crate) fn put(&mut self, mut one: IdleCursor) -> usize {
        one.handle.reset();
        for buffer in [&mut one.key, &mut one.value] {
            if buffer.capacity() > MAX_KEPT_BUFFER_BYTES {
                *buffer = Vec::new();
            }
        }
        if self.kept.len() >= MAX_IDLE_CURSORS {
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

    pub(crate) fn close_all(&mut self) {
        for one in self.kept.drain(..) {
            drop_quietly(one.handle.close());
        }
    }
}

/// Ignores the code of a close. Closing a cursor without a position loses nothing; an error shows at the next operation.
fn drop_quietly(_code: c_int) {}
