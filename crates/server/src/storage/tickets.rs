//! Tickets: limit the number of concurrent operations in the engine (128 readers and 128 writers, as in mongod up to 6.0).

use std::time::Instant;

use super::sync::{AtomicI64, AtomicU64, Condvar, Mutex, Ordering};

/// A waiter and a free ticket in [`Tickets::state`].
const WAITER: i64 = 1;
const FREE: i64 = 1 << 32;

fn free(state: i64) -> i64 {
    state >> 32
}

fn waiters(state: i64) -> i64 {
    state & (FREE - WAITER)
}

/// The tickets of one kind.
#[derive(Debug)]
pub(crate) struct Tickets {
    total: AtomicI64,
    /// Free tickets in the upper half, which are negative for a moment after the total was lowered, and waiters in the lower. All processors see
    /// changes of one word in one order: a waiter that sees no free ticket is seen by the next operation that returns one.
    state: AtomicI64,
    /// Tickets taken since the start. It is next to `state`, which every taker writes anyway.
    taken: AtomicU64,
    waited: AtomicU64,
    waited_micros: AtomicU64,
    lock: Mutex<()>,
    freed: Condvar,
}

/// A ticket in use.
#[derive(Debug)]
pub(crate) struct Ticket<'t>(&'t Tickets);

impl Tickets {
    pub(crate) fn new(total: i64) -> Tickets {
        Tickets {
            total: AtomicI64::new(total),
            state: AtomicI64::new(total * FREE),
            taken: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            waited_micros: AtomicU64::new(0),
            lock: Mutex::new(()),
            freed: Condvar::new(),
        }
    }

    /// Takes a ticket, waiting at most until `deadline`; `None` if none became free.
    pub(crate) fn take(&self, deadline: Option<Instant>) -> Option<Ticket<'_>> {
        if self.try_take() {
            return Some(Ticket(self));
        }
        let begun = Instant::now();
        self.state.fetch_add(WAITER, Ordering::Relaxed);
        let mut held = self.lock.lock();
        let got = loop {
            if self.try_take() {
                break true;
            }
            match deadline {
                None => self.freed.wait(&mut held),
                Some(deadline) => {
                    if self.freed.wait_until(&mut held, deadline).timed_out() {
                        break self.try_take();
                    }
                }
            }
        };
        self.state.fetch_sub(WAITER, Ordering::Relaxed);
        self.waited.fetch_add(1, Ordering::Relaxed);
        self.waited_micros.fetch_add(crate::stats::elapsed_micros(begun), Ordering::Relaxed);
        got.then(|| Ticket(self))
    }

    fn try_take(&self) -> bool {
        let got = self
            .state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| {
                (free(state) > 0).then(|| state - FREE)
            })
            .is_ok();
        if got {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        got
    }

    fn give_back(&self) {
        let before = self.state.fetch_add(FREE, Ordering::Release);
        if waiters(before) > 0 {
            drop(self.lock.lock());
            self.freed.notify_one();
        }
    }

    /// Changes the total (`wiredTigerConcurrentReadTransactions`).
    pub(crate) fn resize(&self, total: i64) {
        let _held = self.lock.lock();
        let before = self.total.swap(total, Ordering::Relaxed);
        self.state.fetch_add((total - before) * FREE, Ordering::Release);
        self.freed.notify_all();
    }

    /// The number of tickets taken so far, the number of waits for one, and the total time of the waits.
    pub(crate) fn history(&self) -> TicketHistory {
        TicketHistory {
            taken: self.taken.load(Ordering::Relaxed),
            waited: self.waited.load(Ordering::Relaxed),
            waited_micros: self.waited_micros.load(Ordering::Relaxed),
        }
    }

    /// The numbers of used and free tickets, the total, and the waiting operations.
    pub(crate) fn counts(&self) -> TicketCounts {
        let total = self.total.load(Ordering::Relaxed);
        let state = self.state.load(Ordering::Relaxed);
        let available = free(state);
        TicketCounts { out: total - available, available, total, queued: waiters(state) }
    }
}

/// The figures on tickets in `serverStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TicketCounts {
    pub(crate) out: i64,
    pub(crate) available: i64,
    pub(crate) total: i64,
    pub(crate) queued: i64,
}

/// The figures on tickets in `serverStatus.locks`, since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TicketHistory {
    pub(crate) taken: u64,
    pub(crate) waited: u64,
    pub(crate) waited_micros: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}
