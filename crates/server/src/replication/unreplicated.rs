//! Threads whose writes are not logged: they apply what another member logged, or recover what this one did.
//!
//! It is the thread that knows, as in mongod, where an operation's context carries the same mark: an applier is a thread of its
//! own and does nothing else.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, what this thread writes is not logged.
#[derive(Debug)]
pub(crate) struct Unreplicated {
    /// It must go on the thread that made it.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Unreplicated {
    /// Begins.
    pub(crate) fn begin() -> Unreplicated {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Unreplicated { _thread: std::marker::PhantomData }
    }

    /// Whether this thread's writes are not logged.
    pub(crate) fn is_on() -> bool {
        DEPTH.with(Cell::get) > 0
    }
}

impl Drop for Unreplicated {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}
