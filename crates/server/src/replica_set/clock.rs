//! The logical clock of an oplog: the timestamp of the next entry, and the point up to which all entries are committed.
//!
//! Timestamps are assigned before transactions commit, and transactions end in any order. A reader of the oplog must not skip
//! an entry that is still to be committed, so reads end before the oldest timestamp that is assigned and not finished
//! (docs/methods.md#the-oplog).

use std::collections::BTreeSet;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// A position in the oplog: MongoDB's Timestamp as a number, seconds in the upper half and a counter in the lower.
pub(crate) type Stamp = u64;

/// The clock, which all writers share.
#[derive(Debug, Default)]
pub(crate) struct OplogClock {
    state: Mutex<ClockState>,
    /// Signalled when a transaction ended, or the clock was set.
    moved: Condvar,
}

#[derive(Debug, Default)]
struct ClockState {
    /// The last timestamp that was assigned here or received from another member.
    last: Stamp,
    /// Timestamps assigned and neither committed nor abandoned.
    open: BTreeSet<Stamp>,
    /// The last entries of committed reservations after an open timestamp.
    done: BTreeSet<Stamp>,
    /// The newest entry before which all timestamps are settled; an abandoned timestamp is not an entry.
    settled: Stamp,
}

impl ClockState {
    fn settle(&mut self) {
        let end = self.open.first().map_or(Stamp::MAX, |first| first - 1);
        while let Some(entry) = self.done.first().copied()
            && entry <= end
        {
            self.done.remove(&entry);
            self.settled = self.settled.max(entry);
        }
    }
}

/// Timestamps that were assigned together. Dropping this settles them, whether they were committed or not.
#[derive(Debug)]
pub(crate) struct TimestampReservation<'c> {
    clock: &'c OplogClock,
    first: Stamp,
    count: u64,
    committed: bool,
}

impl TimestampReservation<'_> {
    /// The first of them; the others follow without a gap.
    pub(crate) fn first(&self) -> Stamp {
        self.first
    }

    /// The last of them.
    pub(crate) fn last(&self) -> Stamp {
        self.first + self.count - 1
    }

    /// Marks their entries as committed; otherwise the timestamps have no entries.
    pub(crate) fn commit(mut self) {
        self.committed = true;
    }
}

impl Drop for TimestampReservation<'_> {
    fn drop(&mut self) {
        let mut state = self.clock.state.lock();
        state.open.remove(&self.first);
        if self.committed {
            state.done.insert(self.last());
        }
        state.settle();
        drop(state);
        self.clock.moved.notify_all();
    }
}

impl OplogClock {
    /// Assigns `count` timestamps (at least one), not before `now_seconds`.
    pub(crate) fn reserve(&self, now_seconds: u32, count: u64) -> TimestampReservation<'_> {
        let mut state = self.state.lock();
        let count = count.max(1);
        let first = (state.last + 1).max((u64::from(now_seconds) << 32) | 1);
        state.last = first + count - 1;
        state.open.insert(first);
        TimestampReservation { clock: self, first, count, committed: false }
    }

    /// Advances the clock to a time that other members know. It never moves back.
    pub(crate) fn follow(&self, to: Stamp) {
        let mut state = self.state.lock();
        state.last = state.last.max(to);
    }

    /// Advances to an entry of another member, up to which this member has all entries.
    pub(crate) fn advance(&self, to: Stamp) {
        let mut state = self.state.lock();
        state.last = state.last.max(to);
        state.settled = state.settled.max(to);
        drop(state);
        self.moved.notify_all();
    }

    /// Sets the clock back to the end of a truncated oplog; no timestamp may be open.
    pub(crate) fn cut(&self, to: Stamp) {
        let mut state = self.state.lock();
        state.last = to;
        state.settled = to;
        state.done.clear();
        drop(state);
        self.moved.notify_all();
    }

    /// The last timestamp that was assigned or received, settled or not.
    pub(crate) fn last(&self) -> Stamp {
        self.state.lock().last
    }

    /// The newest entry before which all timestamps are settled.
    pub(crate) fn settled(&self) -> Stamp {
        self.state.lock().settled
    }

    /// Waits, at most until `until`, for all timestamps assigned before the call to settle; returns the newest settled entry.
    /// Everything that was readable when the wait began is at or before it.
    pub(crate) fn wait_quiet(&self, until: Instant) -> Stamp {
        let mut state = self.state.lock();
        let last = state.last;
        while state.open.first().is_some_and(|first| *first <= last) {
            if self.moved.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        state.settled.max(state.done.last().copied().unwrap_or(0))
    }

    /// Waits, at most until `until`, for a newest settled entry other than `seen`; returns it.
    pub(crate) fn wait_settled(&self, seen: Stamp, until: Instant) -> Stamp {
        let mut state = self.state.lock();
        while state.settled == seen {
            if self.moved.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        state.settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_settled_ends_before_the_oldest_that_is_open() {
        let clock = OplogClock::default();
        let first = clock.reserve(10, 1);
        let second = clock.reserve(10, 3);
        let third = clock.reserve(10, 1);
        assert_eq!(
            (first.first(), second.first(), second.last()),
            ((10 << 32) | 1, (10 << 32) | 2, (10 << 32) | 4)
        );
        second.commit();
        assert_eq!(clock.settled(), 0);
        first.commit();
        assert_eq!(clock.settled(), (10 << 32) | 4);
        // An abandoned timestamp is not an entry.
        drop(third);
        assert_eq!((clock.settled(), clock.last()), ((10 << 32) | 4, (10 << 32) | 5));
    }

    #[test]
    fn it_follows_the_time_and_never_goes_back() {
        let clock = OplogClock::default();
        assert_eq!(clock.reserve(20, 1).first(), (20 << 32) | 1);
        assert_eq!(clock.reserve(19, 1).first(), (20 << 32) | 2);
        clock.advance((30 << 32) | 7);
        clock.follow(5);
        assert_eq!(clock.reserve(21, 1).first(), (30 << 32) | 8);
        clock.cut((30 << 32) | 1);
        assert_eq!((clock.last(), clock.settled()), ((30 << 32) | 1, (30 << 32) | 1));
    }
}
