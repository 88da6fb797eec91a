//! The latency histograms that workers record into, and from which a collector takes them each second.
//!
//! A worker holds the lock of its shard for the few nanoseconds of one record; the collector swaps the shard's
//! histograms for empty ones. Shards are fewer than workers (a thousand threads need no thousand histograms) and
//! more than CPUs, so that the lock is nearly always free.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fathom_stats::Histogram;

/// The operation that was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// A read, from its send.
    Read,
    /// A write, from its send, without its sync.
    Write,
    /// A sync without a write.
    Sync,
    /// A write with its sync; for a checkpoint, the whole burst with its fsync.
    Durable,
    /// A read, from its intended start.
    ReadResponse,
    /// A write with the sync that makes it durable, if any, from its intended start.
    WriteResponse,
}

impl Track {
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

    /// Whether nothing was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Histogram::is_empty)
    }

    #[inline]
    pub(crate) fn record(&mut self, track: Track, latency_ns: u64) {
        self.0[track as usize].record(latency_ns);
    }

    /// Adds all of another's.
    pub fn merge(&mut self, other: &Tracks) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// Removes all recorded latencies.
    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(Histogram::clear);
    }
}

/// The histograms into which some of a job's workers record.
pub(crate) struct TrackShard {
    tracks: Mutex<Tracks>,
    /// Set while the reader wants all shards.
    wanted: Arc<AtomicBool>,
    /// The time that a worker steps back before it checks again.
    step_back: Duration,
}

impl TrackShard {
    /// The tracks, to record into. Steps back while the reader waits: with far more busy workers than CPUs (a thousand loads from
    /// cached memory) the reader would otherwise queue behind all of them for a minute.
    #[inline]
    pub(crate) fn tracks(&self) -> MutexGuard<'_, Tracks> {
        while self.wanted.load(Ordering::Relaxed) {
            thread::sleep(self.step_back);
        }
        lock(&self.tracks)
    }
}

/// The shards of one job's workers.
pub(crate) struct Shards {
    shards: Vec<TrackShard>,
    wanted: Arc<AtomicBool>,
}

/// At most this many shards per job.
const MAX_SHARDS: usize = 32;
/// The time that workers step back, for each of them: a few workers must not lose time that shows in a rate.
const STEP_BACK_EACH: Duration = Duration::from_micros(10);

impl Shards {
    /// Shards for `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        let wanted = Arc::<AtomicBool>::default();
        let step_back = STEP_BACK_EACH * u32::try_from(workers).unwrap_or(u32::MAX).min(1024);
        let shard = |_| TrackShard { tracks: Mutex::default(), wanted: Arc::clone(&wanted), step_back };
        Shards { shards: (0..workers.clamp(1, MAX_SHARDS)).map(shard).collect(), wanted }
    }

    /// The shard of a worker.
    pub(crate) fn shard(&self, worker: usize) -> &TrackShard {
        &self.shards[worker % self.shards.len()]
    }

    /// Moves everything recorded so far into `into`; `spare` is an empty set that swaps places.
    pub(crate) fn drain(&self, into: &mut Tracks, spare: &mut Tracks) {
        for shard in &self.shards {
            let mut tracks = shard.tracks.try_lock().unwrap_or_else(|_| {
                self.wanted.store(true, Ordering::Relaxed);
                lock(&shard.tracks)
            });
            std::mem::swap(&mut *tracks, spare);
            drop(tracks);
            into.merge(spare);
            spare.clear();
        }
        self.wanted.store(false, Ordering::Relaxed);
    }
}

/// Counts stay right whichever thread panicked while holding them, so a poisoned lock is used as it is.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
