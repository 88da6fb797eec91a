//! Changes that are written together or not at all.

#![expect(unsafe_code, reason = "the C interface takes and gives raw pointers")]

use std::ffi::c_char;

use crate::native::Native;
use crate::sys;

/// A write batch; reused, it keeps its memory.
pub(crate) struct Batch {
    native: Native<sys::rocksdb_writebatch_t>,
    bytes: usize,
}

impl Batch {
    /// An empty one.
    pub(crate) fn new() -> Self {
        // SAFETY: a new object, freed by its own destructor.
        let native =
            unsafe { Native::new(sys::rocksdb_writebatch_create(), sys::rocksdb_writebatch_destroy) };
        Batch { native, bytes: 0 }
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

    /// Adds the removal of a key, there or not.
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

/// Bytes as C takes them.
pub(crate) fn text(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}
