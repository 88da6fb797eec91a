//! Tickets: how many operations may be inside the engine at once (128 readers and 128 writers, as in mongod to 6.0).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// One kind of ticket.
#[derive(Debug)]
pub(crate) struct Tickets {
    total: AtomicI64,
    /// May go below zero for a moment after the total was lowered.
    available: AtomicI64,
    queued: AtomicI64,
    /// Tickets given out since the start; beside `available`, which every taker writes anyway.
    taken: AtomicU64,
    waited: AtomicU64,
    waited_micros: AtomicU64,
    lock: Mutex<()>,
    freed: Condvar,
}

/// A ticket that is held.
#[derive(Debug)]
pub(crate) struct Ticket<'t>(&'t Tickets);

impl Tickets {
    pub(crate) fn new(total: i64) -> Tickets {
        Tickets {
            total: AtomicI64::new(total),
            available: AtomicI64::new(total),
            queued: AtomicI64::new(0),
            taken: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            waited_micros: AtomicU64::new(0),
            lock: Mutex::new(()),
            freed: Condvar::new(),
        }
    }

    /// Takes a ticket, waiting until `deadline` for one; none if the time is over.
    pub(crate) fn take(&self, deadline: Option<Instant>) -> Option<Ticket<'_>> {
        if self.try_take() {
            return Some(Ticket(self));
        }
        let begun = Instant::now();
        self.queued.fetch_add(1, Ordering::Relaxed);
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
        self.queued.fetch_sub(1, Ordering::Relaxed);
        self.waited.fetch_add(1, Ordering::Relaxed);
        self.waited_micros.fetch_add(crate::dispatch::elapsed_micros(begun), Ordering::Relaxed);
        got.then(|| Ticket(self))
    }

    fn try_take(&self) -> bool {
        let got = self
            .available
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |available| {
                (available > 0).then(|| available - 1)
            })
            .is_ok();
        if got {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        got
    }

    fn give_back(&self) {
        self.available.fetch_add(1, Ordering::Release);
        if self.queued.load(Ordering::Relaxed) > 0 {
            drop(self.lock.lock());
            self.freed.notify_one();
        }
    }

    /// Changes how many there are (`wiredTigerConcurrentReadTransactions`).
    pub(crate) fn resize(&self, total: i64) {
        let _held = self.lock.lock();
        let before = self.total.swap(total, Ordering::Relaxed);
        self.available.fetch_add(total - before, Ordering::Release);
        self.freed.notify_all();
    }

    /// Tickets given out so far, how often somebody waited for one, and how long that took together.
    pub(crate) fn history(&self) -> TicketHistory {
        TicketHistory {
            taken: self.taken.load(Ordering::Relaxed),
            waited: self.waited.load(Ordering::Relaxed),
            waited_micros: self.waited_micros.load(Ordering::Relaxed),
        }
    }

    /// Held, free, all, and operations that wait for one.
    pub(crate) fn counts(&self) -> TicketCounts {
        let total = self.total.load(Ordering::Relaxed);
        let available = self.available.load(Ordering::Relaxed);
        TicketCounts { out: total - available, available, total, queued: self.queued.load(Ordering::Relaxed) }
    }
}

/// What `serverStatus` says of tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TicketCounts {
    pub(crate) out: i64,
    pub(crate) available: i64,
    pub(crate) total: i64,
    pub(crate) queued: i64,
}

/// What `serverStatus.locks` says of tickets since the start.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;

    #[test]
    fn nobody_gets_more_than_there_are_and_resizing_lets_waiters_in() {
        let tickets = Tickets::new(1);
        let held = tickets.take(None).unwrap();
        assert!(tickets.take(Some(Instant::now() + Duration::from_millis(5))).is_none());
        let got = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _second = tickets.take(None);
                got.store(true, Ordering::Relaxed);
            });
            while tickets.counts().queued == 0 {
                std::thread::yield_now();
            }
            assert!(!got.load(Ordering::Relaxed));
            tickets.resize(2);
        });
        assert!(got.load(Ordering::Relaxed));
        let history = tickets.history();
        assert_eq!((history.taken, history.waited), (2, 2));
        assert!(history.waited_micros >= 5000);
        drop(held);
        assert_eq!(tickets.counts(), TicketCounts { out: 0, available: 2, total: 2, queued: 0 });
    }
}
