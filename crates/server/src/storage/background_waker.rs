//! The bell on which background threads sleep, and the figures on checkpoints.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// Wakes the background threads.
#[derive(Debug, Default)]
pub(crate) struct BackgroundWaker {
    rings: Mutex<u64>,
    changed: Condvar,
}

impl BackgroundWaker {
    /// Wakes all sleeping threads.
    pub(crate) fn ring(&self) {
        *self.rings.lock() += 1;
        self.changed.notify_all();
    }

    /// The number of rings so far. Read it before checking a condition that a ring may announce, so that no ring in between is missed.
    pub(crate) fn rings(&self) -> u64 {
        *self.rings.lock()
    }

    /// Sleeps until `until` (without limit if absent), or until it has rung more often than `heard`.
    pub(crate) fn sleep_since(&self, heard: u64, until: Option<Instant>) {
        let mut rings = self.rings.lock();
        while *rings == heard {
            match until {
                None => self.changed.wait(&mut rings),
                Some(until) => {
                    if self.changed.wait_until(&mut rings, until).timed_out() {
                        return;
                    }
                }
            }
        }
    }
}

/// Figures on checkpoints, for `serverStatus` and the tests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CheckpointFigures {
    pub(crate) count: u64,
    pub(crate) last_ms: u64,
    pub(crate) total_ms: u64,
}
