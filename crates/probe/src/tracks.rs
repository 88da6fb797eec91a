//! Where workers put their latencies, and how a collector takes them out each second.
//!
//! A worker holds the lock of its shard for the few nanoseconds of one record; the collector swaps the shard's
//! histograms for empty ones. Shards are fewer than workers (a thousand threads need no thousand histograms) and
//! more than CPUs, so that the lock is nearly always free.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fathom_stats::Histogram;

/// What was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// A read, from its send.
    Read,
    /// A write, from its send, without its sync.
    Write,
    /// A sync alone.
    Sync,
    /// A write with its sync; for a checkpoint, the whole burst with its fsync.
    Durable,
    /// A read, from its intended start.
    ReadResponse,
    /// A write with whatever makes it durable, from its intended start.
    WriteResponse,
}

impl Track {
    /// Every track.
    pub const ALL: [Track; 6] =
        [Track::Read, Track::Write, Track::Sync, Track::Durable, Track::ReadResponse, Track::WriteResponse];

    /// Its name in file names and series.
    pub fn name(self) -> &'static str {
        match self {
            Track::Read => "read",
            Track::Write => "write",
            Track::Sync => "sync",
            Track::Durable => "durable",
            Track::ReadResponse => "read-response",
            Track::WriteResponse => "write-response",
        }
    }
}

/// One histogram per track.
#[derive(Clone, Debug, Default)]
pub struct Tracks([Histogram; Track::ALL.len()]);

impl Tracks {
    /// The histogram of a track.
    pub fn get(&self, track: Track) -> &Histogram {
        let [read, write, sync, durable, read_response, write_response] = &self.0;
        match track {
            Track::Read => read,
            Track::Write => write,
            Track::Sync => sync,
            Track::Durable => durable,
            Track::ReadResponse => read_response,
            Track::WriteResponse => write_response,
        }
    }

    /// Adds one latency.
    #[inline]
    pub(crate) fn record(&mut self, track: Track, latency_ns: u64) {
        self.0[track as usize].record(latency_ns);
    }

    /// Adds all of another's.
    pub fn merge(&mut self, other: &Tracks) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(Histogram::clear);
    }
}

/// The shards of one job's workers.
pub(crate) struct Shards(Vec<Mutex<Tracks>>);

/// At most this many shards per job.
const SHARDS_MAX: usize = 32;

impl Shards {
    /// Shards for `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        Shards((0..workers.clamp(1, SHARDS_MAX)).map(|_| Mutex::default()).collect())
    }

    /// The shard of a worker.
    pub(crate) fn of(&self, worker: usize) -> &Mutex<Tracks> {
        &self.0[worker % self.0.len()]
    }

    /// Moves everything recorded so far into `into`; `spare` is an empty set that swaps places.
    pub(crate) fn drain(&self, into: &mut Tracks, spare: &mut Tracks) {
        for shard in &self.0 {
            std::mem::swap(&mut *lock(shard), spare);
            into.merge(spare);
            spare.clear();
        }
    }
}

/// Counts stay right whoever panicked while holding them, so a poisoned lock is taken as it is.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
