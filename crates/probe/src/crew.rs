//! What the workers of one job share: when to start and stop, where latencies go, what went wrong first.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use fathom_errors::Error;
use fathom_stats::Seeded;

use crate::arrivals::Arrivals;
use crate::generations::Generations;
use crate::log::Log;
use crate::shape::{Job, Pattern};
use crate::stamp::Stamper;
use crate::tracks::{Shards, lock};

/// The shared state of one job's workers.
pub(crate) struct Crew<'a> {
    pub(crate) job: &'a Job,
    /// Threads (psync, mmap) or rings (io_uring).
    pub(crate) workers: u64,
    /// Bytes of the data file that requests may touch.
    pub(crate) size_bytes: u64,
    /// Bytes of each append file.
    pub(crate) journal_bytes: u64,
    pub(crate) seed: Seeded,
    pub(crate) stamper: &'a Stamper,
    /// Present when verifying.
    pub(crate) generations: Option<&'a Generations>,
    pub(crate) shards: Shards,
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) verified: AtomicU64,
    pub(crate) starter: &'a Starter,
    pub(crate) rally: Rally,
    pub(crate) log: Log,
    sequence: AtomicU64,
    error: Mutex<Option<Error>>,
}

impl<'a> Crew<'a> {
    #[expect(clippy::too_many_arguments, reason = "one call, in window.rs, that names every part once")]
    pub(crate) fn new(
        job: &'a Job,
        workers: u64,
        size_bytes: u64,
        journal_bytes: u64,
        seed: Seeded,
        stamper: &'a Stamper,
        generations: Option<&'a Generations>,
        starter: &'a Starter,
    ) -> Self {
        let rally = Rally::new(u32::try_from(workers).unwrap_or(u32::MAX), job.burst_requests());
        let shards = Shards::new(usize::try_from(workers).unwrap_or(1));
        Crew {
            job,
            workers,
            size_bytes,
            journal_bytes,
            seed,
            stamper,
            generations,
            shards,
            arrivals: None,
            verified: AtomicU64::new(0),
            starter,
            rally,
            log: Log::new(journal_bytes),
            sequence: AtomicU64::new(1),
            error: Mutex::new(None),
        }
    }

    /// Bytes of the file that this job's requests go to: the append file or the data file.
    pub(crate) fn file_bytes(&self) -> u64 {
        if self.job.pattern == Pattern::Append { self.journal_bytes } else { self.size_bytes }
    }

    /// Keeps the first error and makes everybody stop.
    pub(crate) fn fail(&self, error: Error) {
        lock(&self.error).get_or_insert(error);
        self.starter.stop();
        self.rally.wake();
    }

    /// The first error, once.
    pub(crate) fn take_error(&self) -> Option<Error> {
        lock(&self.error).take()
    }

    /// A generation for the next write.
    #[inline]
    pub(crate) fn next_generation(&self) -> u64 {
        match self.generations {
            Some(generations) => generations.next(),
            None => self.sequence.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// One start and one stop for the workers of all jobs in a window.
#[derive(Default)]
pub(crate) struct Starter {
    ready: AtomicU32,
    started: Mutex<bool>,
    go: Condvar,
    stopping: AtomicBool,
}

impl Starter {
    /// Called by each worker once it could begin; returns when all may.
    pub(crate) fn wait(&self) {
        self.ready.fetch_add(1, Ordering::AcqRel);
        let mut started = lock(&self.started);
        while !*started && !self.stopping() {
            started = match self.go.wait_timeout(started, Duration::from_millis(100)) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// How many workers wait or have started.
    pub(crate) fn ready(&self) -> u32 {
        self.ready.load(Ordering::Acquire)
    }

    /// Lets all workers begin.
    pub(crate) fn start(&self) {
        *lock(&self.started) = true;
        self.go.notify_all();
    }

    /// Asks all workers to end after the request they are in.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.go.notify_all();
    }

    /// Whether to end.
    #[inline]
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// Where the threads of a checkpoint meet: all write until the burst is used up, the last to arrive syncs, then
/// the next burst begins.
pub(crate) struct Rally {
    workers: u32,
    burst: u64,
    tickets: AtomicU64,
    state: Mutex<RallyState>,
    next: Condvar,
}

#[derive(Default)]
struct RallyState {
    arrived: u32,
    round: u64,
    /// When the running burst began.
    began_ns: u64,
}

impl Rally {
    fn new(workers: u32, burst: u64) -> Self {
        let state = Mutex::default();
        Rally { workers, burst, tickets: AtomicU64::new(burst), state, next: Condvar::new() }
    }

    /// Takes one write of the running burst; false when it is used up.
    pub(crate) fn take(&self) -> bool {
        self.tickets.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok()
    }

    /// Waits for the others. The last to arrive runs `sync` with the burst's start and returns; then all begin
    /// the next burst. Returns early when `stopping`.
    pub(crate) fn meet(&self, now_ns: impl Fn() -> u64, stopping: impl Fn() -> bool, sync: impl FnOnce(u64)) {
        let mut state = lock(&self.state);
        state.arrived += 1;
        if state.arrived == self.workers {
            let began = state.began_ns;
            drop(state);
            sync(began);
            let mut state = lock(&self.state);
            (state.arrived, state.began_ns) = (0, now_ns());
            state.round += 1;
            self.tickets.store(self.burst, Ordering::Release);
            drop(state);
            self.next.notify_all();
            return;
        }
        let round = state.round;
        while state.round == round && !stopping() {
            state = match self.next.wait_timeout(state, Duration::from_millis(50)) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Notes when the first burst begins.
    pub(crate) fn begin(&self, now_ns: u64) {
        let mut state = lock(&self.state);
        if state.began_ns == 0 {
            state.began_ns = now_ns;
        }
    }

    /// Wakes all who wait, so that they see that all is over.
    pub(crate) fn wake(&self) {
        self.next.notify_all();
    }
}
