//! Reads of blocks from files by the operations of this engine, and their time.
//!
//! RocksDB counts the blocks that each thread reads. It tells their time only at a level that times a dozen other steps of each call too, and its
//! histogram of reads mixes those of compactions in. So each call is timed here, and its time counts if it read a block.

#![expect(unsafe_code, reason = "the C interface takes and gives raw pointers")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::native::Native;
use crate::sys;

thread_local! {
    /// RocksDB's counters of this thread.
    static THREAD_COUNTERS: Native<sys::rocksdb_perfcontext_t> = {
        // SAFETY: a new handle on them, freed by its own destructor in the same thread.
        unsafe { Native::new(sys::rocksdb_perfcontext_create(), sys::rocksdb_perfcontext_destroy) }
    };
}

/// Sums over all threads since the database was opened.
#[derive(Debug, Default)]
pub(crate) struct BlockReads {
    blocks: AtomicU64,
    time_ns: AtomicU64,
}

impl BlockReads {
    /// Makes a call that may read blocks.
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

/// The blocks that this thread has read from files. A thread that ends has no counters left, and reads nothing more.
fn blocks_of_thread() -> u64 {
    let metric = i32::try_from(sys::rocksdb_block_read_count).unwrap_or(0);
    // SAFETY: the handle was made by this thread, whose counters it points at.
    let count = |counters: &Native<_>| unsafe { sys::rocksdb_perfcontext_metric(counters.raw(), metric) };
    THREAD_COUNTERS.try_with(count).unwrap_or(0)
}
