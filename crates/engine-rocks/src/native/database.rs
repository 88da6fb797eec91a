//! An open database, its snapshots, write batches that are applied completely or not at all, and the block reads
//! that its calls cause.
//!
//! RocksDB counts the blocks that each thread reads. It measures their time only at a level that also times a dozen other
//! steps of each call, and its histogram of reads includes those of compactions. So each call is timed here, and its time
//! counts if it read a block.

#![expect(unsafe_code, reason = "the C interface takes and gives raw pointers")]

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{ptr, slice};

use crate::native::status::{checked, owned_text};
use crate::native::{NativeHandle, NativeOptions, ReadOptions, RocksStatus};
use crate::sys;

/// Files of one level of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelFiles {
    /// The level's number; new files are created in level 0.
    pub(crate) number: i64,
    pub(crate) files: u64,
    /// Their size, in bytes.
    pub(crate) bytes: u64,
}

/// An open database; closed when dropped. All calls are thread-safe in RocksDB.
pub(crate) struct Database {
    raw: *mut sys::rocksdb_t,
    options: NativeOptions,
    write: NativeHandle<sys::rocksdb_writeoptions_t>,
    flush: NativeHandle<sys::rocksdb_flushoptions_t>,
    block_reads: BlockReads,
}

// SAFETY: RocksDB's database object may be used and closed from any thread; the option objects are not changed after
// they were made.
unsafe impl Send for Database {}
// SAFETY: as above; its methods lock for themselves.
unsafe impl Sync for Database {}

impl Database {
    /// Opens the database in `path`. Without `journal`, writes do not go to the log.
    pub(crate) fn open(path: &Path, options: NativeOptions, journal: bool) -> Result<Self, RocksStatus> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| RocksStatus::zero_byte())?;
        // SAFETY: new objects, freed by their own destructors.
        let (write, flush) = unsafe {
            (
                NativeHandle::new(sys::rocksdb_writeoptions_create(), sys::rocksdb_writeoptions_destroy),
                NativeHandle::new(sys::rocksdb_flushoptions_create(), sys::rocksdb_flushoptions_destroy),
            )
        };
        // SAFETY: both were just made.
        unsafe {
            sys::rocksdb_writeoptions_disable_WAL(write.raw(), i32::from(!journal));
            sys::rocksdb_flushoptions_set_wait(flush.raw(), 1);
        }
        // SAFETY: options and path live through the call.
        let raw = checked(|error| unsafe { sys::rocksdb_open(options.raw(), path.as_ptr(), error) })?;
        Ok(Database { raw, options, write, flush, block_reads: BlockReads::default() })
    }

    /// The pointer for calls, valid while `self` lives.
    pub(crate) fn raw(&self) -> *mut sys::rocksdb_t {
        self.raw
    }

    /// The options that it was opened with, which hold its statistics.
    pub(crate) fn options(&self) -> &NativeOptions {
        &self.options
    }

    /// The blocks that its calls have read from files.
    pub(crate) fn block_reads(&self) -> &BlockReads {
        &self.block_reads
    }

    /// Passes the value of `key` to `take`, without a copy if the cache holds it; `None` if there is none.
    pub(crate) fn get<T>(
        &self,
        options: &ReadOptions,
        key: &[u8],
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, RocksStatus> {
        let (key, key_len) = text(key);
        // SAFETY: database and options live; the key is only read during the call.
        let read = |error| unsafe { sys::rocksdb_get_pinned(self.raw, options.raw(), key, key_len, error) };
        let pinned = self.block_reads.measure(|| checked(read))?;
        if pinned.is_null() {
            return Ok(None);
        }
        // SAFETY: not null, so a pinned value that we own; it is freed on every way out.
        let pinned = unsafe { NativeHandle::new(pinned, sys::rocksdb_pinnableslice_destroy) };
        let mut length = 0;
        // SAFETY: the bytes stay while the pinned value lives, which is longer than `take` can keep them.
        let bytes = unsafe {
            let bytes = sys::rocksdb_pinnableslice_value(pinned.raw(), &raw mut length);
            slice::from_raw_parts(bytes.cast(), length)
        };
        Ok(Some(take(bytes)))
    }

    /// Writes a batch; it is visible when this returns.
    pub(crate) fn write(&self, batch: &WriteBatch) -> Result<(), RocksStatus> {
        // SAFETY: all three live; a write changes nothing in the batch but its sequence number, and it is not shared.
        checked(|error| unsafe { sys::rocksdb_write(self.raw, self.write.raw(), batch.raw(), error) })
    }

    /// The number of the newest visible write.
    pub(crate) fn sequence(&self) -> u64 {
        // SAFETY: the database lives.
        unsafe { sys::rocksdb_get_latest_sequence_number(self.raw) }
    }

    /// Syncs the log: everything written so far survives a crash of the machine.
    pub(crate) fn sync_log(&self) -> Result<(), RocksStatus> {
        // SAFETY: the database lives.
        checked(|error| unsafe { sys::rocksdb_flush_wal(self.raw, 1, error) })
    }

    /// Writes the memtables out as synced files.
    pub(crate) fn flush(&self) -> Result<(), RocksStatus> {
        // SAFETY: database and options live.
        checked(|error| unsafe { sys::rocksdb_flush(self.raw, self.flush.raw(), error) })
    }

    /// Deletes the files that are wholly in the range, also those that snapshots still read.
    pub(crate) fn delete_files(&self, start: &[u8], end: &[u8]) -> Result<(), RocksStatus> {
        let (start, start_len) = text(start);
        let (end, end_len) = text(end);
        // SAFETY: the database lives; the bounds are only read during the call.
        checked(|error| unsafe {
            sys::rocksdb_delete_file_in_range(self.raw, start, start_len, end, end_len, error)
        })
    }

    /// Compacts a range in addition to the automatic compactions, rewriting the last level too. RocksDB reports no result.
    pub(crate) fn compact(&self, start: &[u8], end: &[u8]) {
        /// `kForceOptimized`: the last level is rewritten, but not what this very compaction has just written.
        const FORCE_OPTIMIZED: u8 = 3;
        let (start, start_len) = text(start);
        let (end, end_len) = text(end);
        // SAFETY: the options are freed by their own destructor; the bounds are only read during the call.
        unsafe {
            let options =
                NativeHandle::new(sys::rocksdb_compactoptions_create(), sys::rocksdb_compactoptions_destroy);
            sys::rocksdb_compactoptions_set_exclusive_manual_compaction(options.raw(), 0);
            sys::rocksdb_compactoptions_set_bottommost_level_compaction(options.raw(), FORCE_OPTIMIZED);
            sys::rocksdb_compact_range_opt(self.raw, options.raw(), start, start_len, end, end_len);
        }
    }

    /// About how many bytes of files the range takes; memtables do not count.
    pub(crate) fn approximate_size(&self, start: &[u8], end: &[u8]) -> Result<u64, RocksStatus> {
        let (start, start_len) = text(start);
        let (end, end_len) = text(end);
        let (starts, start_lens, ends, end_lens) = ([start], [start_len], [end], [end_len]);
        let mut sizes = [0];
        // SAFETY: one range in each array, as the count says; they live through the call.
        checked(|error| unsafe {
            sys::rocksdb_approximate_sizes(
                self.raw,
                1,
                starts.as_ptr(),
                start_lens.as_ptr(),
                ends.as_ptr(),
                end_lens.as_ptr(),
                sizes.as_mut_ptr(),
                error,
            );
        })?;
        Ok(sizes[0])
    }

    /// Changes options at run time; all or none.
    pub(crate) fn set_options(&self, settings: &[(String, String)]) -> Result<(), RocksStatus> {
        let owned = |text: &String| CString::new(text.as_str()).map_err(|_| RocksStatus::zero_byte());
        let names = settings.iter().map(|(name, _)| owned(name)).collect::<Result<Vec<_>, _>>()?;
        let values = settings.iter().map(|(_, value)| owned(value)).collect::<Result<Vec<_>, _>>()?;
        let name_pointers: Vec<*const c_char> = names.iter().map(|text| text.as_ptr()).collect();
        let value_pointers: Vec<*const c_char> = values.iter().map(|text| text.as_ptr()).collect();
        let count = i32::try_from(settings.len()).unwrap_or(i32::MAX);
        // SAFETY: both arrays have `count` C strings, which live through the call.
        checked(|error| unsafe {
            sys::rocksdb_set_options(self.raw, count, name_pointers.as_ptr(), value_pointers.as_ptr(), error);
        })
    }

    /// A property that is a number; `None` if this version does not have it.
    pub(crate) fn property(&self, name: &str) -> Option<u64> {
        let name = CString::new(name).ok()?;
        let mut value = 0;
        // SAFETY: the database lives; name and value live through the call.
        let result = unsafe { sys::rocksdb_property_int(self.raw, name.as_ptr(), &raw mut value) };
        (result == 0).then_some(value)
    }

    /// A property that is a text; `None` if this version does not have it.
    pub(crate) fn property_text(&self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        // SAFETY: the database lives; the library allocates the text for us.
        unsafe { owned_text(sys::rocksdb_property_value(self.raw, name.as_ptr())) }
    }

    /// The levels of the tree with their files.
    pub(crate) fn levels(&self) -> Vec<LevelFiles> {
        // SAFETY: every object is freed by its own destructor, the levels before the metadata they belong to.
        unsafe {
            let metadata = NativeHandle::new(
                sys::rocksdb_get_column_family_metadata(self.raw),
                sys::rocksdb_column_family_metadata_destroy,
            );
            let count = sys::rocksdb_column_family_metadata_get_level_count(metadata.raw());
            (0..count)
                .map(|index| {
                    let raw = sys::rocksdb_column_family_metadata_get_level_metadata(metadata.raw(), index);
                    let level = NativeHandle::new(raw, sys::rocksdb_level_metadata_destroy);
                    LevelFiles {
                        number: i64::from(sys::rocksdb_level_metadata_get_level(level.raw())),
                        files: sys::rocksdb_level_metadata_get_file_count(level.raw()) as u64,
                        bytes: sys::rocksdb_level_metadata_get_size(level.raw()),
                    }
                })
                .collect()
        }
    }

    /// Stops flushes and compactions for good, and waits until they have ended; afterwards the database can only be closed.
    pub(crate) fn stop_background_work(&self) {
        // SAFETY: the database lives.
        unsafe { sys::rocksdb_cancel_all_background_work(self.raw, 1) }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once; snapshots and iterators hold the `Arc` around this, so none is left.
        unsafe { sys::rocksdb_close(self.raw) };
        self.raw = ptr::null_mut();
    }
}

/// A snapshot of the database, readable as long as this value lives.
pub(crate) struct DatabaseSnapshot {
    raw: *const sys::rocksdb_snapshot_t,
    options: ReadOptions,
    database: Arc<Database>,
}

// SAFETY: a snapshot is an entry in the database's list that only the database's own lock changes; reading through it
// from many threads is what it is for, and its options are not changed after they were made.
unsafe impl Send for DatabaseSnapshot {}
// SAFETY: as above.
unsafe impl Sync for DatabaseSnapshot {}

impl DatabaseSnapshot {
    /// A snapshot of the current state.
    pub(crate) fn new(database: &Arc<Database>) -> Self {
        // SAFETY: the database is open while the `Arc` lives, which this snapshot keeps.
        let raw = unsafe { sys::rocksdb_create_snapshot(database.raw()) };
        let options = ReadOptions::new();
        options.set_snapshot(raw);
        DatabaseSnapshot { raw, options, database: Arc::clone(database) }
    }

    /// Read options for this snapshot.
    pub(crate) fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// The pointer for calls, valid while `self` lives.
    pub(super) fn raw(&self) -> *const sys::rocksdb_snapshot_t {
        self.raw
    }
}

impl Drop for DatabaseSnapshot {
    fn drop(&mut self) {
        // SAFETY: made by this database, which is still open, and released once. No reader uses the options that
        // hold its address: they can only be borrowed from us.
        unsafe { sys::rocksdb_release_snapshot(self.database.raw(), self.raw) }
    }
}

/// A write batch; reused, it keeps its memory.
pub(crate) struct WriteBatch {
    native: NativeHandle<sys::rocksdb_writebatch_t>,
    bytes: usize,
}

impl WriteBatch {
    pub(crate) fn new() -> Self {
        // SAFETY: a new object, freed by its own destructor.
        let native =
            unsafe { NativeHandle::new(sys::rocksdb_writebatch_create(), sys::rocksdb_writebatch_destroy) };
        WriteBatch { native, bytes: 0 }
    }

    /// Forgets what it holds.
    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
        // SAFETY: the batch lives and is ours alone.
        unsafe { sys::rocksdb_writebatch_clear(self.raw()) }
    }

    /// About how many bytes of keys and values it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a key with its value.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.bytes += key.len() + value.len();
        let (key, key_len) = text(key);
        let (value, value_len) = text(value);
        // SAFETY: the batch is ours alone and copies both ranges.
        unsafe { sys::rocksdb_writebatch_put(self.raw(), key, key_len, value, value_len) }
    }

    /// Adds the removal of a key, whether it exists or not.
    pub(crate) fn delete(&mut self, key: &[u8]) {
        self.bytes += key.len();
        let (key, key_len) = text(key);
        // SAFETY: the batch is ours alone and copies the range.
        unsafe { sys::rocksdb_writebatch_delete(self.raw(), key, key_len) }
    }

    /// Adds the removal of a key that was put exactly once since it was last removed.
    pub(crate) fn delete_single(&mut self, key: &[u8]) {
        self.bytes += key.len();
        let (key, key_len) = text(key);
        // SAFETY: the batch is ours alone and copies the range.
        unsafe { sys::rocksdb_writebatch_singledelete(self.raw(), key, key_len) }
    }

    /// Adds the removal of all keys from `start` up to, not including, `end`.
    pub(crate) fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        self.bytes += start.len() + end.len();
        let (start, start_len) = text(start);
        let (end, end_len) = text(end);
        // SAFETY: the batch is ours alone and copies both ranges.
        unsafe { sys::rocksdb_writebatch_delete_range(self.raw(), start, start_len, end, end_len) }
    }

    /// The pointer for calls, valid while `self` lives.
    pub(crate) fn raw(&self) -> *mut sys::rocksdb_writebatch_t {
        self.native.raw()
    }
}

/// The pointer and length of bytes, as C takes them.
pub(crate) fn text(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

thread_local! {
    /// RocksDB's counters of this thread.
    static THREAD_COUNTERS: NativeHandle<sys::rocksdb_perfcontext_t> = {
        // SAFETY: a new handle on them, freed by its own destructor in the same thread.
        unsafe { NativeHandle::new(sys::rocksdb_perfcontext_create(), sys::rocksdb_perfcontext_destroy) }
    };
}

/// Sums over all threads since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct BlockReads {
    blocks: AtomicU64,
    time_ns: AtomicU64,
}

impl BlockReads {
    /// Makes a call, and counts the blocks that it reads.
    pub(super) fn measure<T>(&self, call: impl FnOnce() -> T) -> T {
        let (before, begun) = (blocks_of_thread(), Instant::now());
        let result = call();
        let blocks = blocks_of_thread().wrapping_sub(before);
        if blocks > 0 {
            let time_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.blocks.fetch_add(blocks, Ordering::Relaxed);
            self.time_ns.fetch_add(time_ns, Ordering::Relaxed);
        }
        result
    }

    /// The blocks read, and the microseconds of the calls that read them, decompression included.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.blocks.load(Ordering::Relaxed), self.time_ns.load(Ordering::Relaxed) / 1000)
    }
}

/// The number of blocks that this thread has read from files. An ending thread has no counters left, and reads nothing more.
fn blocks_of_thread() -> u64 {
    let metric = i32::try_from(sys::rocksdb_block_read_count).unwrap_or(0);
    // SAFETY: the handle was made by this thread, whose counters it points at.
    let count =
        |counters: &NativeHandle<_>| unsafe { sys::rocksdb_perfcontext_metric(counters.raw(), metric) };
    THREAD_COUNTERS.try_with(count).unwrap_or(0)
}
