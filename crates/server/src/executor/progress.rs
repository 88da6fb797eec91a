//! How far a loop is, for the watch: told by the loop at next to no cost.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a loop tells of itself.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Odd while it runs operations of a connection; grows.
    step: AtomicU64,
    /// How often it waited for events.
    rests: AtomicU64,
    /// Its thread's kernel id.
    thread: OnceLock<i32>,
}

impl Progress {
    /// The calling thread runs the loop.
    pub(super) fn begin(&self) {
        let _ = self.thread.set(rustix::thread::gettid().as_raw_nonzero().get());
    }

    /// Operations begin or end. In one order with the watch's going to sleep, for all to see.
    pub(super) fn turn(&self) {
        self.step.fetch_add(1, Ordering::SeqCst);
    }

    /// It waits for events, which is no fault of the operations.
    pub(super) fn rest(&self) {
        self.rests.fetch_add(1, Ordering::Relaxed);
    }

    /// The step that it is at.
    pub(super) fn step(&self) -> u64 {
        self.step.load(Ordering::SeqCst)
    }

    /// How often it waited for events.
    pub(super) fn rests(&self) -> u64 {
        self.rests.load(Ordering::Relaxed)
    }

    /// Its thread, once it runs.
    pub(super) fn thread(&self) -> Option<i32> {
        self.thread.get().copied()
    }
}
