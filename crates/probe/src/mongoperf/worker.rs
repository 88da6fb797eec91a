//! The threads: each reads, then writes, at random offsets, for as long as the run lasts.
//!
//! A direct write is `pwrite` and `fdatasync`, timed separately; through a mapping, one byte per page is loaded or stored, and the
//! background sync makes it durable. Stamping, recording and pausing are outside the timed interval.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fathom_errors::{Error, Result};
use fathom_stats::SeededRandom;

use super::config::{MongoperfOptions, PAGE};
use super::test_file::keeps_content;
use crate::buffer::AlignedBuffer;
use crate::clock::{WaitClock, now_ns};
use crate::engine::failed;
use crate::engine::mapping::Mapping;
use crate::file::BlockFile;
use crate::stamp::{FIRST_GENERATION, Stamper};
use crate::tracks::{Shards, Track, TrackShard, lock};
use crate::worker_context::Starter;

/// The longest sleep of a thread before it checks whether the run is over.
const MAX_SLEEP_NS: u64 = 50_000_000;

/// The way in which records are accessed.
pub(super) enum RecordAccess<'a> {
    /// Whole records, bypassing the page cache.
    Direct(&'a dyn BlockFile),
    /// One byte per page, through the page cache.
    Mapped(&'a Mapping<'a>),
}

/// The state that all threads share.
pub(super) struct WorkerState<'a> {
    /// The time by which the ramp, the pauses and the background sync wait; operations read the monotonic clock itself.
    pub(super) clock: &'a dyn WaitClock,
    pub(super) options: &'a MongoperfOptions,
    pub(super) medium: RecordAccess<'a>,
    pub(super) path: &'a Path,
    pub(super) stamper: &'a Stamper,
    pub(super) shards: Shards,
    /// The number of running threads, by which the pauses are divided.
    pub(super) running: AtomicU32,
    /// Syncs of the mapping that are not reported yet: begin on the monotonic clock, and length, in nanoseconds.
    pub(super) syncs: Mutex<Vec<(u64, u64)>>,
    /// The number of offsets at which a record may begin, and the distance between them.
    places: u64,
    stride: u64,
    generation: AtomicU64,
    stop: Starter,
    error: Mutex<Option<Error>>,
}

impl<'a> WorkerState<'a> {
    /// For a file aligned to `align` bytes.
    pub(super) fn new(
        clock: &'a dyn WaitClock,
        options: &'a MongoperfOptions,
        medium: RecordAccess<'a>,
        path: &'a Path,
        stamper: &'a Stamper,
        align: u64,
    ) -> Self {
        let stride = align.max(PAGE);
        let room = options.file_bytes.get().saturating_sub(options.record_room());
        WorkerState {
            shards: Shards::new(options.threads as usize),
            clock,
            options,
            medium,
            path,
            stamper,
            running: AtomicU32::new(0),
            syncs: Mutex::default(),
            places: room / stride + 1,
            stride,
            generation: AtomicU64::new(FIRST_GENERATION + 1),
            stop: Starter::default(),
            error: Mutex::default(),
        }
    }

    /// Asks all threads to end after their current operation.
    pub(super) fn stop(&self) {
        self.stop.stop();
    }

    pub(super) fn stopping(&self) -> bool {
        self.stop.stopping()
    }

    /// Keeps the first error and ends the run.
    pub(super) fn fail(&self, error: Error) {
        lock(&self.error).get_or_insert(error);
        self.stop();
    }

    /// The first error, returned once.
    pub(super) fn take_error(&self) -> Option<Error> {
        lock(&self.error).take()
    }

    /// Sleeps, in naps, until `deadline_ns` or the end of the run.
    fn pause(&self, deadline_ns: u64) {
        while !self.stopping() && self.clock.now_ns() < deadline_ns {
            self.clock.sleep_until(deadline_ns.min(self.clock.now_ns() + MAX_SLEEP_NS));
        }
    }
}

/// Runs one thread until the end of the run.
pub(super) fn work(shared: &WorkerState<'_>, index: u32, random: SeededRandom) -> Result<()> {
    let options = shared.options;
    let buffer = match shared.medium {
        RecordAccess::Direct(_) => options.record_bytes.get(),
        RecordAccess::Mapped(_) => PAGE,
    };
    let buffer = AlignedBuffer::new(usize::try_from(buffer).unwrap_or(usize::MAX))?;
    let shard = shared.shards.shard(index as usize);
    let mut worker = Worker { shared, random, buffer, shard };
    while !shared.stopping() {
        if options.reads {
            worker.read()?;
        }
        if options.writes && !shared.stopping() {
            worker.write()?;
        }
        let running = u64::from(shared.running.load(Ordering::Relaxed)).max(1);
        if options.sleep_us / running > 0 {
            shared.pause(shared.clock.now_ns() + options.sleep_us / running * 1_000);
        }
    }
    Ok(())
}

struct Worker<'a> {
    shared: &'a WorkerState<'a>,
    random: SeededRandom,
    buffer: AlignedBuffer,
    shard: &'a TrackShard,
}

impl Worker<'_> {
    fn place(&mut self) -> u64 {
        self.random.below(self.shared.places) * self.shared.stride
    }

    fn read(&mut self) -> Result<()> {
        let offset = self.place();
        let begin = now_ns();
        let read = match &self.shared.medium {
            RecordAccess::Direct(file) => file.read_at(self.buffer.as_mut_slice(), offset),
            RecordAccess::Mapped(mapping) => mapping.load_pages(offset, self.room()),
        };
        let end = now_ns();
        read.map_err(|e| failed("read", self.shared.path, offset, e))?;
        self.shard.tracks().record(Track::Read, end - begin);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let offset = self.place();
        match &self.shared.medium {
            RecordAccess::Direct(file) => self.write_direct(*file, offset),
            RecordAccess::Mapped(mapping) => {
                let begin = now_ns();
                let stored = mapping.store_pages(offset, self.room());
                let end = now_ns();
                stored.map_err(|e| failed("write", self.shared.path, offset, e))?;
                self.shard.tracks().record(Track::Write, end - begin);
                Ok(())
            }
        }
    }

    fn write_direct(&mut self, file: &dyn BlockFile, offset: u64) -> Result<()> {
        let generation = if keeps_content(self.shared.options) {
            FIRST_GENERATION
        } else {
            self.shared.generation.fetch_add(1, Ordering::Relaxed)
        };
        self.shared.stamper.fill(self.buffer.as_mut_slice(), offset, generation);
        let begin = now_ns();
        let wrote = file.write_at(self.buffer.as_slice(), offset);
        let written = now_ns();
        wrote.map_err(|e| failed("write", self.shared.path, offset, e))?;
        file.sync_data().map_err(|e| failed("fdatasync", self.shared.path, offset, e))?;
        let end = now_ns();
        let mut tracks = self.shard.tracks();
        tracks.record(Track::Write, written - begin);
        tracks.record(Track::Sync, end - written);
        tracks.record(Track::Durable, end - begin);
        Ok(())
    }

    fn room(&self) -> usize {
        usize::try_from(self.shared.options.record_room()).unwrap_or(usize::MAX)
    }
}

/// Syncs the mapping every `syncDelay` seconds, first at once, until the end of the run.
pub(super) fn sync(shared: &WorkerState<'_>, file: &dyn BlockFile) -> Result<()> {
    let delay_ns = u64::from(shared.options.sync_delay_s) * 1_000_000_000;
    while !shared.stopping() {
        let begin = shared.clock.now_ns();
        file.sync_data().map_err(|e| failed("fdatasync", shared.path, 0, e))?;
        let end = shared.clock.now_ns();
        lock(&shared.syncs).push((begin, end - begin));
        shared.pause(end + delay_ns);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::io;
    use std::sync::atomic::AtomicBool;

    use crate::clock::MonotonicClock;
    use crate::tracks::Tracks;

    /// Records its calls, and fails from the hundredth write on.
    #[derive(Default)]
    struct FailingFile {
        seen: Mutex<HashSet<(bool, u64)>>,
        writes: AtomicU64,
        unsynced: AtomicBool,
        lens: Mutex<HashSet<usize>>,
    }

    impl BlockFile for FailingFile {
        fn read_at(&self, block: &mut [u8], offset: u64) -> io::Result<()> {
            lock(&self.seen).insert((false, offset));
            lock(&self.lens).insert(block.len());
            Ok(())
        }

        fn write_at(&self, block: &[u8], offset: u64) -> io::Result<()> {
            assert!(!self.unsynced.swap(true, Ordering::Relaxed), "every write is synced");
            lock(&self.seen).insert((true, offset));
            lock(&self.lens).insert(block.len());
            let enough = self.writes.fetch_add(1, Ordering::Relaxed) >= 99;
            if enough { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
        }

        fn sync_data(&self) -> io::Result<()> {
            assert!(self.unsynced.swap(false, Ordering::Relaxed), "a sync follows a write");
            Ok(())
        }

        fn sync_all(&self) -> io::Result<()> {
            Ok(())
        }

        fn start_over(&self, _size_bytes: u64) -> io::Result<()> {
            Ok(())
        }
    }

    fn one_thread(document: &str) -> (FailingFile, Tracks, Option<Error>) {
        let options = MongoperfOptions::parse(document).unwrap().options;
        let (script, stamper) = (FailingFile::default(), Stamper::new(1, false));
        let mut tracks = Tracks::default();
        let error = {
            let path = Path::new("/the/file");
            let shared = WorkerState::new(
                &MonotonicClock,
                &options,
                RecordAccess::Direct(&script),
                path,
                &stamper,
                512,
            );
            shared.running.store(1, Ordering::Relaxed);
            if let Err(error) = work(&shared, 0, SeededRandom::from_seed(7)) {
                shared.fail(error);
            }
            shared.shards.drain(&mut tracks, &mut Tracks::default());
            assert!(shared.stopping());
            shared.take_error()
        };
        (script, tracks, error)
    }

    #[test]
    fn reads_and_writes_alternate_and_each_write_is_synced() {
        let (script, tracks, error) = one_thread("{r:1,w:1,recSizeKB:64,fileSizeMB:1}");
        let lens = |track| tracks.get(track).len();
        assert_eq!(
            (lens(Track::Read), lens(Track::Write), lens(Track::Sync), lens(Track::Durable)),
            (100, 99, 99, 99)
        );
        assert_eq!(*lock(&script.lens), HashSet::from([65_536]), "the buffer holds a whole record");
        let error = error.unwrap();
        assert_eq!(error.kind().exit_code(), 1, "{error}");
        assert!(error.to_string().starts_with("cannot write /the/file: "), "{error}");
    }

    #[test]
    fn records_stay_inside_the_file_on_pages() {
        let (script, ..) = one_thread("{r:1,w:1,recSizeKB:900,fileSizeMB:1}");
        let seen = lock(&script.seen);
        assert!(seen.iter().all(|(_, at)| at % PAGE == 0 && at + 900 * 1024 <= 1 << 20), "{seen:?}");
        assert!(seen.len() > 30, "32 places for each kind");
    }

    #[test]
    fn reads_alone_never_write() {
        let options = MongoperfOptions::parse("{r:1,nThreads:4,sleepMicros:4000}").unwrap().options;
        let (script, stamper) = (FailingFile::default(), Stamper::new(1, false));
        let medium = RecordAccess::Direct(&script);
        let shared = WorkerState::new(&MonotonicClock, &options, medium, Path::new("/f"), &stamper, 1);
        shared.running.store(4, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let work = || work(&shared, 0, SeededRandom::from_seed(7));
            let worker = scope.spawn(work);
            while lock(&script.seen).len() < 3 {
                std::thread::yield_now();
            }
            shared.stop();
            worker.join().unwrap().unwrap();
        });
        assert!(lock(&script.seen).iter().all(|(write, _)| !write));
        assert!(shared.take_error().is_none());
    }
}
