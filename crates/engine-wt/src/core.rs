//! A session of the library with its cursors, and the lock that lets one thread at a time use them.
//!
//! The owner of a session holds the lock during an operation, or from the beginning to the end of a transaction. Between operations a
//! thread that removes a table may take it to close idle cursors: without that, the session of an idle connection would
//! keep the table busy for ever. An uncontended lock costs a few nanoseconds.

#![expect(unsafe_code, reason = "the lock is held longer than a guard's scope, over a whole transaction")]

use std::cell::UnsafeCell;
use std::fmt;

use parking_lot::lock_api::RawMutex as _;

use crate::cache::Cache;
use crate::session_handle::SessionHandle;

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
