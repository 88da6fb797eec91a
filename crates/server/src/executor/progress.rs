//! What the watch is told: how far each loop is, at next to no cost for the loop, and that there is work again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

/// What a loop tells of itself.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Odd while it runs operations of a connection; grows.
    step: AtomicU64,
    /// How often it waited for events.
    rests: AtomicU64,
    /// Its thread's kernel id.
    thread: OnceLock<i32>,
}

impl Progress {
    /// The calling thread runs the loop.
    pub(crate) fn begin(&self) {
        let _ = self.thread.set(rustix::thread::gettid().as_raw_nonzero().get());
    }

    /// Operations begin or end. In one order with the watch's going to sleep, for all to see.
    pub(crate) fn turn(&self) {
        self.step.fetch_add(1, Ordering::SeqCst);
    }

    /// It waits for events, which is no fault of the operations.
    pub(crate) fn rest(&self) {
        self.rests.fetch_add(1, Ordering::Relaxed);
    }

    /// The step that it is at.
    pub(crate) fn step(&self) -> u64 {
        self.step.load(Ordering::SeqCst)
    }

    /// How often it waited for events.
    pub(crate) fn rests(&self) -> u64 {
        self.rests.load(Ordering::Relaxed)
    }

    /// Its thread, once it runs.
    pub(crate) fn thread(&self) -> Option<i32> {
        self.thread.get().copied()
    }
}

/// Wakes the watch.
#[derive(Debug, Default)]
pub(crate) struct WatchBell {
    asleep: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl WatchBell {
    /// Wakes it if it sleeps: there is work.
    pub(crate) fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    /// Wakes it.
    pub(crate) fn ring(&self) {
        let _held = self.lock.lock();
        self.asleep.store(false, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Sleeps until it is woken, unless `has_work` says, once everybody can see that it sleeps, that it must not.
    pub(crate) fn sleep(&self, has_work: impl FnOnce() -> bool) {
        let mut held = self.lock.lock();
        self.asleep.store(true, Ordering::SeqCst);
        if !has_work() {
            while self.asleep.load(Ordering::SeqCst) {
                self.changed.wait(&mut held);
            }
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}
