//! The one clock of a run: nanoseconds since it began.

use std::time::{Duration, Instant};

use rustix::time::ClockId;

/// The clock; copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(super) fn now_ns(self) -> u64 {
        nanos(self.0.elapsed())
    }
}

/// A duration in nanoseconds; 584 years at most.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How long this thread was on a processor, in nanoseconds.
pub(super) fn thread_cpu_ns() -> u64 {
    cpu_ns(ClockId::ThreadCPUTime)
}

/// How long all threads of this process were, in nanoseconds.
#[cfg(feature = "official-driver")]
pub(super) fn process_cpu_ns() -> u64 {
    cpu_ns(ClockId::ProcessCPUTime)
}

fn cpu_ns(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
