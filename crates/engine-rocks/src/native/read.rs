//! How and as of when to read: read options and snapshots.

#![expect(unsafe_code, reason = "the C interface takes and gives raw pointers")]

use std::sync::Arc;

use crate::native::{Database, Native};
use crate::sys;

/// A state of the database that stays readable while this lives.
pub(crate) struct Snapshot {
    raw: *const sys::rocksdb_snapshot_t,
    options: ReadOptions,
    database: Arc<Database>,
}

// SAFETY: a snapshot is an entry in the database's list that only the database's own lock changes; reading through it
// from many threads is what it is for, and its options are not changed after they were made.
unsafe impl Send for Snapshot {}
// SAFETY: as above.
unsafe impl Sync for Snapshot {}

impl Snapshot {
    /// The state of now.
    pub(crate) fn new(database: &Arc<Database>) -> Self {
        // SAFETY: the database is open while the `Arc` lives, which this snapshot keeps.
        let raw = unsafe { sys::rocksdb_create_snapshot(database.raw()) };
        let options = ReadOptions::new();
        options.set_snapshot(raw);
        Snapshot { raw, options, database: Arc::clone(database) }
    }

    /// Options that read this state.
    pub(crate) fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// The pointer for calls, valid while `self` lives.
    pub(super) fn raw(&self) -> *const sys::rocksdb_snapshot_t {
        self.raw
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // SAFETY: made by this database, which is still open, and released once. Nobody reads with the options that
        // hold its address: they can only be borrowed from us.
        unsafe { sys::rocksdb_release_snapshot(self.database.raw(), self.raw) }
    }
}

/// Options of reads.
pub(crate) struct ReadOptions(Native<sys::rocksdb_readoptions_t>);

impl ReadOptions {
    /// Reads the newest state, checks checksums, fills the cache.
    pub(crate) fn new() -> Self {
        // SAFETY: a new object, freed by its own destructor.
        ReadOptions(unsafe {
            Native::new(sys::rocksdb_readoptions_create(), sys::rocksdb_readoptions_destroy)
        })
    }

    /// For a walk over everything that should not push the working set out of the cache.
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
