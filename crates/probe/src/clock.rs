//! The clock of the probe: CLOCK_MONOTONIC in nanoseconds, read through the vDSO in about 20 ns.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the monotonic clock.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The time by which a loop waits: the monotonic clock, or simulated time in tests.
pub(crate) trait WaitClock: Sync {
    fn now_ns(&self) -> u64;

    /// Sleeps until `deadline_ns`; returns at once if it has passed.
    fn sleep_until(&self, deadline_ns: u64);
}

pub(crate) struct MonotonicClock;

impl WaitClock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn sleep_until(&self, deadline_ns: u64) {
        sleep_until(deadline_ns);
    }
}

/// Sleeps until `deadline_ns`; returns at once if it has passed.
pub(crate) fn sleep_until(deadline_ns: u64) {
    let now = now_ns();
    if deadline_ns > now {
        std::thread::sleep(std::time::Duration::from_nanos(deadline_ns - now));
    }
}
