//! The threads: each reads, then writes, at places of its own choice, for as long as the run lasts.
//!
//! A direct write is `pwrite` and `fdatasync`, timed apart; through a mapping, one byte a page is loaded or
//! stored, and durability is the background sync's. Stamping, recording and pausing lie outside the clock.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fathom_errors::{Error, Result};
use fathom_stats::Seeded;

use super::config::{Options, PAGE};
use super::test_file::keeps_content;
use crate::buffer::AlignedBuffer;
use crate::clock::{now_ns, sleep_until};
use crate::crew::Starter;
use crate::engine::failed;
use crate::engine::mapping::Mapping;
use crate::file::BlockFile;
use crate::stamp::{FIRST_GENERATION, Stamper};
use crate::tracks::{Shard, Shards, Track, lock};

/// How long a thread may sleep before it looks whether the run is over.
const NAP_NS: u64 = 50_000_000;

/// How records are reached.
pub(super) enum Medium<'a> {
    /// Whole records, past the page cache.
    Direct(&'a dyn BlockFile),
    /// One byte a page, through the page cache.
    Mapped(&'a Mapping<'a>),
}

/// What all threads share.
pub(super) struct Shared<'a> {
    pub(super) options: &'a Options,
    pub(super) medium: Medium<'a>,
    pub(super) path: &'a Path,
    pub(super) stamper: &'a Stamper,
    pub(super) shards: Shards,
    /// Threads running, by which the pauses are divided.
    pub(super) running: AtomicU32,
    /// Syncs of the mapping that nobody has told yet: begin on the monotonic clock, and how long, nanoseconds.
    pub(super) syncs: Mutex<Vec<(u64, u64)>>,
    /// Places that a record may begin at, and how far apart they are.
    places: u64,
    stride: u64,
    generation: AtomicU64,
    stop: Starter,
    error: Mutex<Option<Error>>,
}

impl<'a> Shared<'a> {
    /// For a file aligned to `align` bytes.
    pub(super) fn new(
        options: &'a Options,
        medium: Medium<'a>,
        path: &'a Path,
        stamper: &'a Stamper,
        align: u64,
    ) -> Self {
        let stride = align.max(PAGE);
        let room = options.file_bytes.get().saturating_sub(options.record_room());
        Shared {
            shards: Shards::new(options.threads as usize),
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

    /// Asks everybody to end after the operation they are in.
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

    /// The first error, once.
    pub(super) fn take_error(&self) -> Option<Error> {
        lock(&self.error).take()
    }

    /// Sleeps, in naps, until `deadline_ns` or the end of the run.
    fn pause(&self, deadline_ns: u64) {
        while !self.stopping() && now_ns() < deadline_ns {
            sleep_until(deadline_ns.min(now_ns() + NAP_NS));
        }
    }
}

/// Runs one thread until the end of the run.
pub(super) fn work(shared: &Shared<'_>, index: u32, random: Seeded) -> Result<()> {
    let options = shared.options;
    let buffer = match shared.medium {
        Medium::Direct(_) => options.record_bytes.get(),
        Medium::Mapped(_) => PAGE,
    };
    let buffer = AlignedBuffer::new(usize::try_from(buffer).unwrap_or(usize::MAX))?;
    let shard = shared.shards.of(index as usize);
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
            shared.pause(now_ns() + options.sleep_us / running * 1_000);
        }
    }
    Ok(())
}

struct Worker<'a> {
    shared: &'a Shared<'a>,
    random: Seeded,
    buffer: AlignedBuffer,
    shard: &'a Shard,
}

impl Worker<'_> {
    fn place(&mut self) -> u64 {
        self.random.below(self.shared.places) * self.shared.stride
    }

    fn read(&mut self) -> Result<()> {
        let offset = self.place();
        let begin = now_ns();
        let read = match &self.shared.medium {
            Medium::Direct(file) => file.read_at(self.buffer.as_mut_slice(), offset),
            Medium::Mapped(mapping) => mapping.load_pages(offset, self.room()),
        };
        let end = now_ns();
        read.map_err(|e| failed("read", self.shared.path, offset, e))?;
        self.shard.tracks().record(Track::Read, end - begin);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let offset = self.place();
        match &self.shared.medium {
            Medium::Direct(file) => self.write_direct(*file, offset),
            Medium::Mapped(mapping) => {
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

/// Makes the mapping durable every `syncDelay` seconds, first at once, until the end of the run.
pub(super) fn sync(shared: &Shared<'_>, file: &dyn BlockFile) -> Result<()> {
    let delay_ns = u64::from(shared.options.sync_delay_s) * 1_000_000_000;
    while !shared.stopping() {
        let begin = now_ns();
        file.sync_data().map_err(|e| failed("fdatasync", shared.path, 0, e))?;
        let end = now_ns();
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

    use crate::tracks::Tracks;

    /// Notes what is asked of it, and fails from the hundredth write on.
    #[derive(Default)]
    struct Script {
        seen: Mutex<HashSet<(bool, u64)>>,
        writes: AtomicU64,
        unsynced: AtomicBool,
        lens: Mutex<HashSet<usize>>,
    }

    impl BlockFile for Script {
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

        fn begin_anew(&self, _size_bytes: u64) -> io::Result<()> {
            Ok(())
        }
    }

    fn one_thread(document: &str) -> (Script, Tracks, Option<Error>) {
        let options = Options::parse(document).unwrap().options;
        let (script, stamper) = (Script::default(), Stamper::new(1, false));
        let mut tracks = Tracks::default();
        let error = {
            let path = Path::new("/the/file");
            let shared = Shared::new(&options, Medium::Direct(&script), path, &stamper, 512);
            shared.running.store(1, Ordering::Relaxed);
            if let Err(error) = work(&shared, 0, Seeded::from_seed(7)) {
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
        let options = Options::parse("{r:1,nThreads:4,sleepMicros:4000}").unwrap().options;
        let (script, stamper) = (Script::default(), Stamper::new(1, false));
        let shared = Shared::new(&options, Medium::Direct(&script), Path::new("/f"), &stamper, 1);
        shared.running.store(4, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let work = || work(&shared, 0, Seeded::from_seed(7));
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
