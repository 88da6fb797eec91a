//! The state that the workers of one job share: the start and stop, the due times of requests, the offsets of the append file, the
//! histograms of latencies, and the first error.
//!
//! Under a fixed rate the intended starts are a Poisson process, whether or not the disk keeps up. Latency counts from these
//! starts, so that a stall affects every request that should have started during it (coordinated omission: scylladb/seastar#2260).
//! The gaps are exponential, like those of independent clients.
//!
//! All threads of a journal share one append file: each takes the next offset, and the thread that finds it full empties it while
//! no thread writes. mongod has one log: threads that sync together share the device's flush, and separate files would not show
//! that.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use fathom_errors::Error;
use fathom_stats::SeededRandom;

use crate::shape::{Job, Pattern};
use crate::stamp::{Generations, Stamper};
use crate::tracks::{Shards, lock};

/// The shared state of one job's workers.
pub(crate) struct WorkerContext<'a> {
    pub(crate) job: &'a Job,
    /// Threads (psync, mmap) or rings (io_uring).
    pub(crate) workers: u64,
    /// Bytes of the data file that requests may touch.
    pub(crate) size_bytes: u64,
    /// Bytes of each append file.
    pub(crate) journal_bytes: u64,
    pub(crate) seed: SeededRandom,
    pub(crate) stamper: &'a Stamper,
    /// Present if the contents are to be verified.
    pub(crate) generations: Option<&'a Generations>,
    pub(crate) shards: Shards,
    pub(crate) arrivals: Option<StartSchedule>,
    pub(crate) verified: AtomicU64,
    pub(crate) starter: &'a Starter,
    pub(crate) rally: BurstBarrier,
    pub(crate) log: AppendLog,
    sequence: AtomicU64,
    error: Mutex<Option<Error>>,
}

impl<'a> WorkerContext<'a> {
    #[expect(clippy::too_many_arguments, reason = "one call, in window.rs, that names every part once")]
    pub(crate) fn new(
        job: &'a Job,
        workers: u64,
        size_bytes: u64,
        journal_bytes: u64,
        seed: SeededRandom,
        stamper: &'a Stamper,
        generations: Option<&'a Generations>,
        starter: &'a Starter,
    ) -> Self {
        let rally = BurstBarrier::new(u32::try_from(workers).unwrap_or(u32::MAX), job.burst_requests());
        let shards = Shards::new(usize::try_from(workers).unwrap_or(1));
        WorkerContext {
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
            log: AppendLog::new(journal_bytes),
            sequence: AtomicU64::new(1),
            error: Mutex::new(None),
        }
    }

    /// Bytes of the file that this job's requests go to: the append file or the data file.
    pub(crate) fn file_bytes(&self) -> u64 {
        if self.job.pattern == Pattern::Append { self.journal_bytes } else { self.size_bytes }
    }

    /// Keeps the first error and stops all workers.
    pub(crate) fn fail(&self, error: Error) {
        lock(&self.error).get_or_insert(error);
        self.starter.stop();
        self.rally.wake();
    }

    /// The first error, returned once.
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

/// The common start and stop for the workers of all jobs in a window.
#[derive(Default)]
pub(crate) struct Starter {
    ready: AtomicU32,
    started: Mutex<bool>,
    go: Condvar,
    stopping: AtomicBool,
}

impl Starter {
    /// Called by each worker when it is ready; returns when all may begin.
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

    /// The number of workers that wait or have started.
    pub(crate) fn ready(&self) -> u32 {
        self.ready.load(Ordering::Acquire)
    }

    /// Lets all workers begin.
    pub(crate) fn start(&self) {
        *lock(&self.started) = true;
        self.go.notify_all();
    }

    /// Asks all workers to end after their current request.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.go.notify_all();
    }

    #[inline]
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// The meeting point of the threads of a checkpoint: all write until the burst is used up, the last to arrive syncs, then the next
/// burst begins.
pub(crate) struct BurstBarrier {
    workers: u32,
    burst: u64,
    tickets: AtomicU64,
    state: Mutex<BarrierState>,
    next: Condvar,
}

#[derive(Default)]
struct BarrierState {
    arrived: u32,
    round: u64,
    /// The start of the running burst.
    began_ns: u64,
}

impl BurstBarrier {
    fn new(workers: u32, burst: u64) -> Self {
        let state = Mutex::default();
        BurstBarrier { workers, burst, tickets: AtomicU64::new(burst), state, next: Condvar::new() }
    }

    /// Takes one write of the running burst; returns false if it is used up.
    pub(crate) fn take(&self) -> bool {
        self.tickets.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok()
    }

    /// Waits for the other threads. The last to arrive runs `sync` with the burst's start and returns; then all begin the next
    /// burst. Returns early if `stopping`.
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

    /// Notes the start of the first burst.
    pub(crate) fn begin(&self, now_ns: u64) {
        let mut state = lock(&self.state);
        if state.began_ns == 0 {
            state.began_ns = now_ns;
        }
    }

    /// Wakes all waiting threads, so that they notice the end.
    pub(crate) fn wake(&self) {
        self.next.notify_all();
    }
}

/// An endless schedule of intended starts, shared by a job's workers.
pub(crate) struct StartSchedule {
    gap_ns: f64,
    state: Mutex<(SeededRandom, f64)>,
}

impl StartSchedule {
    /// A schedule of `rate_per_s` that begins at `start_ns`.
    pub(crate) fn new(rate_per_s: f64, start_ns: u64, random: SeededRandom) -> Self {
        StartSchedule { gap_ns: 1e9 / rate_per_s, state: Mutex::new((random, start_ns as f64)) }
    }

    /// The next intended start, on the monotonic clock.
    pub(crate) fn next_ns(&self) -> u64 {
        let mut state = lock(&self.state);
        let (random, next) = &mut *state;
        *next += random.exponential(self.gap_ns);
        *next as u64
    }
}

/// The next free offset of an append file of fixed size.
pub(crate) struct AppendLog {
    size_bytes: u64,
    next: AtomicU64,
    turn: RwLock<()>,
}

/// An offset to write to; the file is not emptied while this claim is held.
pub(crate) struct OffsetClaim<'a> {
    pub(crate) offset: u64,
    _turn: RwLockReadGuard<'a, ()>,
}

impl AppendLog {
    /// An empty log of `size_bytes`.
    pub(crate) fn new(size_bytes: u64) -> Self {
        AppendLog { size_bytes, next: AtomicU64::new(0), turn: RwLock::new(()) }
    }

    /// The next offset for `block` bytes, or `None` if the file is full.
    pub(crate) fn take(&self, block: u64) -> Option<OffsetClaim<'_>> {
        let turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
        let offset = self.next.fetch_add(block, Ordering::AcqRel);
        (offset + block <= self.size_bytes).then_some(OffsetClaim { offset, _turn: turn })
    }

    /// Restarts the file with `empty`, unless another thread has just done so.
    pub(crate) fn start_over(&self, empty: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _alone = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        if self.next.load(Ordering::Acquire) > self.size_bytes {
            empty()?;
            self.next.store(0, Ordering::Release);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_the_gaps_are_exponential() {
        let arrivals = StartSchedule::new(1_000.0, 5_000_000, SeededRandom::from_seed(1));
        let times: Vec<u64> = (0..100_000).map(|_| arrivals.next_ns()).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let sd = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean / 1e6 - 1.0).abs() < 0.015, "mean gap {mean}");
        assert!((sd / mean - 1.0).abs() < 0.03, "an exponential's deviation is its mean: {sd} {mean}");
    }

    #[test]
    fn threads_get_places_of_their_own_and_one_of_them_begins_anew() {
        let log = AppendLog::new(4096 * 100);
        let rounds = AtomicU64::new(0);
        let taken = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        match log.take(4096) {
                            Some(place) => taken.lock().unwrap().push(place.offset),
                            None => {
                                let count = || {
                                    rounds.fetch_add(1, Ordering::Relaxed);
                                    Ok(())
                                };
                                log.start_over(count).unwrap();
                            }
                        }
                    }
                });
            }
        });
        let (taken, rounds) = (taken.into_inner().unwrap(), rounds.into_inner());
        let mut times = std::collections::HashMap::new();
        taken.iter().for_each(|offset| *times.entry(*offset).or_insert(0u64) += 1);
        assert!(
            times.values().all(|n| *n == rounds || *n == rounds + 1),
            "each place once a round: {rounds} rounds"
        );
        assert!(rounds >= 8_000 / 100 / 2);
    }
}
