//! The one clock of a run: nanoseconds since its start, monotonic, the same for every sampler.

use std::time::Instant;

/// The clock of a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: Instant,
}

impl Clock {
    /// The clock of the run that started at `zero` (`RunWriter::started`).
    pub fn since(zero: Instant) -> Clock {
        Clock { zero }
    }

    /// Nanoseconds since the run's start.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
