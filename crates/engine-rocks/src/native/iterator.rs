//! A scan of the keys between two bounds.

#![expect(unsafe_code, reason = "the C interface takes and gives raw pointers")]

use std::slice;
use std::sync::Arc;

use crate::native::database::text;
use crate::native::status::checked;
use crate::native::{Database, DatabaseSnapshot, NativeHandle, ReadOptions, RocksStatus};
use crate::sys;

/// An iterator over the keys from `start` up to, not including, `end`, as of one moment.
pub(crate) struct RangeScan {
    // The order matters: the iterator is dropped before the options and bounds that it points at, and before its database.
    iterator: NativeHandle<sys::rocksdb_iterator_t>,
    _options: ReadOptions,
    _bounds: Box<[[u8; 4]; 2]>,
    database: Arc<Database>,
}

impl RangeScan {
    /// A scan of `bounds[0]..bounds[1]`, as of `snapshot` or of the current state. The state is fixed here: the snapshot may be
    /// dropped before the scan.
    pub(crate) fn new(
        database: &Arc<Database>,
        options: ReadOptions,
        snapshot: Option<&DatabaseSnapshot>,
        bounds: [[u8; 4]; 2],
    ) -> Self {
        let bounds = Box::new(bounds);
        let [(start, start_len), (end, end_len)] = [text(&bounds[0]), text(&bounds[1])];
        // SAFETY: the options keep the addresses of the bounds, which stand in a box that outlives the iterator (see
        // the field order). RocksDB reads the snapshot's sequence number when it makes the iterator and holds the
        // files and memtables itself. The iterator is freed by its own destructor.
        let iterator = unsafe {
            sys::rocksdb_readoptions_set_iterate_lower_bound(options.raw(), start, start_len);
            sys::rocksdb_readoptions_set_iterate_upper_bound(options.raw(), end, end_len);
            if let Some(snapshot) = snapshot {
                options.set_snapshot(snapshot.raw());
            }
            let raw = sys::rocksdb_create_iterator(database.raw(), options.raw());
            NativeHandle::new(raw, sys::rocksdb_iter_destroy)
        };
        RangeScan { iterator, _options: options, _bounds: bounds, database: Arc::clone(database) }
    }

    /// Moves to the first key; false if there is none. The other movements return the same.
    pub(crate) fn first(&mut self) -> Result<bool, RocksStatus> {
        // SAFETY: the iterator lives and is ours alone.
        self.move_by(|iterator| unsafe { sys::rocksdb_iter_seek_to_first(iterator) });
        self.landed()
    }

    /// Moves to the last key.
    pub(crate) fn last(&mut self) -> Result<bool, RocksStatus> {
        // SAFETY: the iterator lives and is ours alone.
        self.move_by(|iterator| unsafe { sys::rocksdb_iter_seek_to_last(iterator) });
        self.landed()
    }

    /// Moves to the smallest key that is at least `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<bool, RocksStatus> {
        let (key, key_len) = text(key);
        // SAFETY: the iterator lives and is ours alone; the key is only read during the call.
        self.move_by(|iterator| unsafe { sys::rocksdb_iter_seek(iterator, key, key_len) });
        self.landed()
    }

    /// Moves to the largest key that is at most `key`.
    pub(crate) fn seek_back(&mut self, key: &[u8]) -> Result<bool, RocksStatus> {
        let (key, key_len) = text(key);
        // SAFETY: the iterator lives and is ours alone; the key is only read during the call.
        self.move_by(|iterator| unsafe { sys::rocksdb_iter_seek_for_prev(iterator, key, key_len) });
        self.landed()
    }

    /// Moves one key forward; if it is on no key, it returns false and stays so.
    pub(crate) fn next(&mut self) -> Result<bool, RocksStatus> {
        if !self.valid() {
            return Ok(false);
        }
        // SAFETY: the iterator is on a key.
        self.move_by(|iterator| unsafe { sys::rocksdb_iter_next(iterator) });
        self.landed()
    }

    /// Moves one key back; if it is on no key, it returns false and stays so.
    pub(crate) fn previous(&mut self) -> Result<bool, RocksStatus> {
        if !self.valid() {
            return Ok(false);
        }
        // SAFETY: the iterator is on a key.
        self.move_by(|iterator| unsafe { sys::rocksdb_iter_prev(iterator) });
        self.landed()
    }

    /// Makes a movement, which may read blocks.
    fn move_by(&mut self, movement: impl FnOnce(*mut sys::rocksdb_iterator_t)) {
        self.database.block_reads().measure(|| movement(self.iterator.raw()));
    }

    /// The key under it, until it moves; `None` if it has no position.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        let mut length = 0;
        // SAFETY: the iterator is on a key; what it returns stays until it moves, which takes `&mut self`.
        self.valid().then(|| unsafe {
            let bytes = sys::rocksdb_iter_key(self.iterator.raw(), &raw mut length);
            slice::from_raw_parts(bytes.cast(), length)
        })
    }

    /// The value under it, until it moves; `None` if it has no position.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        let mut length = 0;
        // SAFETY: as in `key`.
        self.valid().then(|| unsafe {
            let bytes = sys::rocksdb_iter_value(self.iterator.raw(), &raw mut length);
            slice::from_raw_parts(bytes.cast(), length)
        })
    }

    fn valid(&self) -> bool {
        // SAFETY: the iterator lives.
        unsafe { sys::rocksdb_iter_valid(self.iterator.raw()) != 0 }
    }

    /// Whether the last movement found a key; an iterator without a position may have failed.
    fn landed(&self) -> Result<bool, RocksStatus> {
        if self.valid() {
            return Ok(true);
        }
        // SAFETY: the iterator lives.
        checked(|error| unsafe { sys::rocksdb_iter_get_error(self.iterator.raw(), error) })?;
        Ok(false)
    }
}
