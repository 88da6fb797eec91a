//! Tests of tickets with real threads, and a model of them that tries every order of their steps, including the stale
//! reads that weakly ordered processors allow and x86-64 does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fathom_testkit::loom;

use super::tickets::{TicketCounts, Tickets};

/// The product's file compiled again, with loom's types.
#[path = "tickets.rs"]
#[expect(
    dead_code,
    clippy::duplicate_mod,
    reason = "the model compiles the same file and needs a part of it"
)]
mod model;

#[test]
fn no_more_tickets_are_out_than_there_are_and_a_resize_lets_waiters_in() {
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

/// loom's types behind parking_lot's interface.
mod sync {
    use std::ops::{Deref, DerefMut};
    use std::time::Instant;

    use fathom_testkit::loom;
    pub(super) use fathom_testkit::loom::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    #[derive(Debug)]
    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

    /// Empty only during a wait for a condition.
    pub(super) struct TicketGuard<'m, T>(Option<loom::sync::MutexGuard<'m, T>>);

    #[derive(Debug)]
    pub(super) struct Condvar(loom::sync::Condvar);

    pub(super) struct Timeout;

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> TicketGuard<'_, T> {
            TicketGuard(Some(self.0.lock().unwrap()))
        }
    }

    impl<T> Deref for TicketGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().unwrap()
        }
    }

    impl<T> DerefMut for TicketGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().unwrap()
        }
    }

    impl Condvar {
        pub(super) fn new() -> Condvar {
            Condvar(loom::sync::Condvar::new())
        }

        pub(super) fn wait<T>(&self, guard: &mut TicketGuard<'_, T>) {
            guard.0 = guard.0.take().map(|held| self.0.wait(held).unwrap());
        }

        /// The model has no time.
        pub(super) fn wait_until<T>(&self, guard: &mut TicketGuard<'_, T>, _: Instant) -> Timeout {
            self.wait(guard);
            Timeout
        }

        pub(super) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(super) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    impl Timeout {
        pub(super) fn timed_out(&self) -> bool {
            false
        }
    }
}

/// A lost wake-up leaves a waiter waiting forever, which the model reports as a deadlock.
#[test]
fn a_ticket_that_is_given_back_wakes_a_waiter() {
    model_with_waiters(1, None, |held, _| drop(held));
    model_with_waiters(2, Some(2), |held, _| drop(held));
}

#[test]
fn a_resize_wakes_a_waiter() {
    model_with_waiters(1, None, |_held, tickets| tickets.resize(2));
}

/// Runs each order of steps, with at most the given number of preemptions: the only ticket is taken, waiters arrive, and `release`
/// frees one.
fn model_with_waiters(
    count: usize,
    preemptions: Option<usize>,
    release: fn(Option<model::Ticket<'_>>, &model::Tickets),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
        let tickets = Arc::new(model::Tickets::new(1));
        let held = tickets.take(None);
        let waiter = |_| {
            let tickets = Arc::clone(&tickets);
            loom::thread::spawn(move || tickets.take(None).is_some())
        };
        let waiters: Vec<_> = (0..count).map(waiter).collect();
        release(held, &tickets);
        for waiter in waiters {
            assert!(waiter.join().unwrap());
        }
        let counts = tickets.counts();
        assert_eq!((counts.out, counts.queued), (0, 0));
    });
}
