//! What an operation waits for shards: kept by thread, since an operation runs on one from its message to its reply.

use std::cell::Cell;
use std::time::Duration;

/// The waits of the operation that this thread runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waited {
    /// How long, in microseconds; where several shards were asked at once, until the last had answered.
    pub(crate) us: u64,
    /// The most shards that were asked at once.
    pub(crate) shards: usize,
}

thread_local! {
    static WAITED: Cell<Waited> = const { Cell::new(Waited { us: 0, shards: 0 }) };
}

/// Adds a wait for so many shards.
pub(crate) fn add(took: Duration, shards: usize) {
    WAITED.with(|cell| {
        let Waited { us, shards: most } = cell.get();
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        cell.set(Waited { us: us.saturating_add(took_us), shards: most.max(shards) });
    });
}

/// What was waited since it was last taken.
pub(crate) fn take() -> Waited {
    WAITED.with(Cell::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_add_up_until_they_are_taken() {
        add(Duration::from_micros(3), 1);
        add(Duration::from_micros(4), 2);
        add(Duration::from_micros(5), 1);
        let waited = take();
        assert_eq!((waited.us, waited.shards), (12, 2));
        assert_eq!(take().us, 0);
    }
}
