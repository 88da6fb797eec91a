//! The logical clock of an oplog: which timestamp the next entry gets, and up to where all entries are committed.
//!
//! Timestamps are given out before transactions commit, and these end in any order. Whoever follows the oplog must not step
//! over an entry that is still to come, so what may be read ends before the oldest timestamp that is given out and not
//! finished (server.md, 4.1: holes).

use std::collections::BTreeSet;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// A place in the oplog: MongoDB's Timestamp as a number, seconds in the upper half and a counter in the lower.
pub(crate) type Stamp = u64;

/// The clock; shared by all who write.
#[derive(Debug, Default)]
pub(crate) struct OplogClock {
    state: Mutex<State>,
    /// Somebody finished, or the clock was set.
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The last timestamp that was given out or that another member gave.
    last: Stamp,
    /// Given out and neither committed nor given up.
    open: BTreeSet<Stamp>,
    /// The last entries of what is committed behind something open.
    done: BTreeSet<Stamp>,
    /// The newest entry before which all are settled; a timestamp that was given up is no entry.
    settled: Stamp,
}

impl State {
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

/// Timestamps that were given out together; they are settled when this goes, by a commit or without.
#[derive(Debug)]
pub(crate) struct Reserved<'c> {
    clock: &'c OplogClock,
    first: Stamp,
    count: u64,
    committed: bool,
}

impl Reserved<'_> {
    /// The first of them; the others follow without a gap.
    pub(crate) fn first(&self) -> Stamp {
        self.first
    }

    /// The last of them.
    pub(crate) fn last(&self) -> Stamp {
        self.first + self.count - 1
    }

    /// Their entries are committed; without this there are none.
    pub(crate) fn commit(mut self) {
        self.committed = true;
    }
}

impl Drop for Reserved<'_> {
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
    /// Gives out `count` timestamps (one at least), not before `now_seconds`.
    pub(crate) fn reserve(&self, now_seconds: u32, count: u64) -> Reserved<'_> {
        let mut state = self.state.lock();
        let count = count.max(1);
        let first = (state.last + 1).max((u64::from(now_seconds) << 32) | 1);
        state.last = first + count - 1;
        state.open.insert(first);
        Reserved { clock: self, first, count, committed: false }
    }

    /// Sets the clock forward to a time that other members know; it never goes back.
    pub(crate) fn follow(&self, to: Stamp) {
        let mut state = self.state.lock();
        state.last = state.last.max(to);
    }

    /// Goes on to an entry of another member's, before which this member has all.
    pub(crate) fn advance(&self, to: Stamp) {
        let mut state = self.state.lock();
        state.last = state.last.max(to);
        state.settled = state.settled.max(to);
        drop(state);
        self.moved.notify_all();
    }

    /// Sets the clock back to the end of an oplog that was cut; nothing may be open.
    pub(crate) fn cut(&self, to: Stamp) {
        let mut state = self.state.lock();
        state.last = to;
        state.settled = to;
        state.done.clear();
        drop(state);
        self.moved.notify_all();
    }

    /// The last timestamp that was given out or heard of, settled or not.
    pub(crate) fn last(&self) -> Stamp {
        self.state.lock().last
    }

    /// The newest entry before which all are settled.
    pub(crate) fn settled(&self) -> Stamp {
        self.state.lock().settled
    }

    /// Waits until nothing is open that was given out before now, no longer than `until`; the newest settled entry then. All that
    /// could be read when the wait began is at or before it.
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

    /// Waits until another entry than `seen` is the newest settled one, no longer than `until`; which it is then.
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
        // What was given up is no entry.
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
