//! Time that has passed, as counters take it.

use std::time::Instant;

/// How long an operation took so far, in microseconds.
pub(crate) fn elapsed_micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
