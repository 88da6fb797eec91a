//! Owned option objects of RocksDB, of databases and of reads, and the block cache.
//!
//! RocksDB copies options when a database is opened; what must outlive that (statistics, cache) is shared by reference
//! counts on its side, so that freeing our handles is always right.

#![expect(unsafe_code, reason = "the C interface takes and gives raw pointers")]

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::native::status::{RocksStatus, checked, owned_text};
use crate::sys;

/// A C object with the function that frees it.
pub(crate) struct NativeHandle<T> {
    raw: *mut T,
    free: unsafe extern "C" fn(*mut T),
}

// SAFETY: option objects are plain data that C code changes only in calls that we make through `&mut self` or before
// sharing; the cache object is thread-safe in RocksDB.
unsafe impl<T> Send for NativeHandle<T> {}
// SAFETY: as above; through a shared reference only thread-safe functions are called.
unsafe impl<T> Sync for NativeHandle<T> {}

impl<T> NativeHandle<T> {
    /// Takes over `raw`. The constructors of the C interface never return null: they end the process when memory runs out.
    ///
    /// # Safety
    /// `raw` came from a constructor, has no other owner, and `free` is its destructor.
    pub(crate) unsafe fn new(raw: *mut T, free: unsafe extern "C" fn(*mut T)) -> Self {
        NativeHandle { raw, free }
    }

    /// The pointer for calls, valid while `self` lives.
    pub(crate) fn raw(&self) -> *mut T {
        self.raw
    }
}

impl<T> Drop for NativeHandle<T> {
    fn drop(&mut self) {
        // SAFETY: `new` promised that we own it and that this frees it.
        unsafe { (self.free)(self.raw) }
    }
}

/// The options of a database, and through them its statistics.
pub(crate) struct NativeOptions(NativeHandle<sys::rocksdb_options_t>);

impl NativeOptions {
    /// Options with RocksDB's own defaults.
    pub(crate) fn new() -> Self {
        // SAFETY: a new object, freed by its own destructor.
        NativeOptions(unsafe {
            NativeHandle::new(sys::rocksdb_options_create(), sys::rocksdb_options_destroy)
        })
    }

    /// A copy with a string of settings applied, in RocksDB's grammar `a=1;b={c=2}`.
    pub(crate) fn with_string(&self, settings: &str) -> Result<Self, RocksStatus> {
        let text = CString::new(settings).map_err(|_| RocksStatus::zero_byte())?;
        let over = NativeOptions::new();
        // SAFETY: all three live through the call.
        checked(|error| unsafe {
            sys::rocksdb_get_options_from_string(self.raw(), text.as_ptr(), over.raw(), error);
        })?;
        Ok(over)
    }

    /// The pointer for calls, valid while `self` lives.
    pub(crate) fn raw(&self) -> *mut sys::rocksdb_options_t {
        self.0.raw()
    }

    /// Everything that the statistics object counts, one line each; `None` if counting is off.
    pub(crate) fn statistics(&self) -> Option<String> {
        // SAFETY: the options live; the library allocates the text for us.
        unsafe { owned_text(sys::rocksdb_options_statistics_get_string(self.raw())) }
    }

    /// Sets whether a missing database is created, where its log is, and whether it counts.
    pub(crate) fn set_home(&mut self, create: bool, log: &Path, statistics: bool) -> Result<(), RocksStatus> {
        let log = CString::new(log.as_os_str().as_bytes()).map_err(|_| RocksStatus::zero_byte())?;
        // SAFETY: the options live and copy the path.
        unsafe {
            sys::rocksdb_options_set_create_if_missing(self.raw(), u8::from(create));
            sys::rocksdb_options_set_wal_dir(self.raw(), log.as_ptr());
            if statistics {
                sys::rocksdb_options_enable_statistics(self.raw());
            }
        }
        Ok(())
    }

    /// Sets a table format with these blocks.
    pub(crate) fn set_table(
        &mut self,
        block_bytes: usize,
        bloom_bits: f64,
        format: c_int,
        cache: &BlockCache,
    ) {
        // SAFETY: the table options are freed by their own destructor; they and the database options take their own
        // references of what they are given, and they take over the filter policy.
        unsafe {
            let table = NativeHandle::new(
                sys::rocksdb_block_based_options_create(),
                sys::rocksdb_block_based_options_destroy,
            );
            sys::rocksdb_block_based_options_set_block_size(table.raw(), block_bytes);
            sys::rocksdb_block_based_options_set_format_version(table.raw(), format);
            let filter = sys::rocksdb_filterpolicy_create_bloom_full(bloom_bits);
            sys::rocksdb_block_based_options_set_filter_policy(table.raw(), filter);
            sys::rocksdb_block_based_options_set_block_cache(table.raw(), cache.0.raw());
            sys::rocksdb_options_set_block_based_table_factory(self.raw(), table.raw());
        }
    }

    /// Limits what flushes and compactions write.
    pub(crate) fn set_rate_limit(&mut self, bytes_per_second: i64) {
        // RocksDB's own defaults: refill ten times a second, one low-priority request in ten takes precedence.
        const REFILL_US: i64 = 100_000;
        const FAIRNESS: i32 = 10;
        // SAFETY: the limiter is freed by its own destructor; the options take their own reference.
        unsafe {
            let limiter = NativeHandle::new(
                sys::rocksdb_ratelimiter_create(bytes_per_second, REFILL_US, FAIRNESS),
                sys::rocksdb_ratelimiter_destroy,
            );
            sys::rocksdb_options_set_ratelimiter(self.raw(), limiter.raw());
        }
    }
}

/// A least-recently-used block cache.
pub(crate) struct BlockCache(NativeHandle<sys::rocksdb_cache_t>);

impl BlockCache {
    /// A cache of `capacity_bytes` in two to the power of `shard_bits` shards.
    pub(crate) fn new(capacity_bytes: usize, shard_bits: c_int) -> Self {
        // SAFETY: both objects are freed by their own destructors; the cache keeps nothing of its options.
        unsafe {
            let options = NativeHandle::new(
                sys::rocksdb_lru_cache_options_create(),
                sys::rocksdb_lru_cache_options_destroy,
            );
            sys::rocksdb_lru_cache_options_set_capacity(options.raw(), capacity_bytes);
            sys::rocksdb_lru_cache_options_set_num_shard_bits(options.raw(), shard_bits);
            BlockCache(NativeHandle::new(
                sys::rocksdb_cache_create_lru_opts(options.raw()),
                sys::rocksdb_cache_destroy,
            ))
        }
    }

    /// Changes its capacity; shrinking evicts at once.
    pub(crate) fn set_capacity(&self, bytes: usize) {
        // SAFETY: the cache lives, and locks its shards itself.
        unsafe { sys::rocksdb_cache_set_capacity(self.0.raw(), bytes) }
    }

    /// Capacity, use and pinned part, in bytes.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        // SAFETY: the cache lives, and locks its shards itself.
        unsafe {
            [
                sys::rocksdb_cache_get_capacity(self.0.raw()),
                sys::rocksdb_cache_get_usage(self.0.raw()),
                sys::rocksdb_cache_get_pinned_usage(self.0.raw()),
            ]
        }
    }
}

pub(crate) struct ReadOptions(NativeHandle<sys::rocksdb_readoptions_t>);

impl ReadOptions {
    /// Reads the newest state, checks checksums, fills the cache.
    pub(crate) fn new() -> Self {
        // SAFETY: a new object, freed by its own destructor.
        ReadOptions(unsafe {
            NativeHandle::new(sys::rocksdb_readoptions_create(), sys::rocksdb_readoptions_destroy)
        })
    }

    /// Options for a full scan that should not evict the working set from the cache.
    pub(crate) fn walk() -> Self {
        let options = ReadOptions::new();
        // SAFETY: the options live.
        unsafe {
            sys::rocksdb_readoptions_set_fill_cache(options.raw(), 0);
            sys::rocksdb_readoptions_set_verify_checksums(options.raw(), 1);
        }
        options
    }

    /// Reads as of `snapshot`. Only its address is kept, so this is for owners that keep the snapshot too.
    pub(super) fn set_snapshot(&self, snapshot: *const sys::rocksdb_snapshot_t) {
        // SAFETY: the options live; the call only stores the address.
        unsafe { sys::rocksdb_readoptions_set_snapshot(self.raw(), snapshot) }
    }

    /// The pointer for calls, valid while `self` lives.
    pub(crate) fn raw(&self) -> *mut sys::rocksdb_readoptions_t {
        self.0.raw()
    }
}
