//! Reports from the loops to the watch: the progress of each loop, at almost no cost for the loop, and the arrival of new work.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

/// A loop's report on itself.
#[derive(Debug, Default)]
pub(crate) struct LoopProgress {
    /// Odd while the loop runs operations of a connection; grows.
    step: AtomicU64,
    /// The number of waits for events.
    rests: AtomicU64,
    /// Its thread's kernel id.
    thread: OnceLock<i32>,
}

impl LoopProgress {
    /// Records that the calling thread runs the loop.
    pub(crate) fn begin(&self) {
        let _ = self.thread.set(rustix::thread::gettid().as_raw_nonzero().get());
    }

    /// Records that operations begin or end. It is ordered with the watch's going to sleep, so that neither misses the other.
    pub(crate) fn turn(&self) {
        self.step.fetch_add(1, Ordering::SeqCst);
    }

    /// Records a wait for events, which is not due to the operations.
    pub(crate) fn rest(&self) {
        self.rests.fetch_add(1, Ordering::Relaxed);
    }

    /// The current step of the loop.
    pub(crate) fn step(&self) -> u64 {
        self.step.load(Ordering::SeqCst)
    }

    /// The number of waits for events.
    pub(crate) fn rests(&self) -> u64 {
        self.rests.load(Ordering::Relaxed)
    }

    /// Its thread, once it runs.
    pub(crate) fn thread(&self) -> Option<i32> {
        self.thread.get().copied()
    }
}

#[derive(Debug, Default)]
pub(crate) struct WatchBell {
    asleep: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl WatchBell {
    /// Wakes the watch if it sleeps, because work has arrived.
    pub(crate) fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    pub(crate) fn ring(&self) {
        let _held = self.lock.lock();
        self.asleep.store(false, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Sleeps until it is woken, unless `has_work`, called once all threads can see that it sleeps, reports work.
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
