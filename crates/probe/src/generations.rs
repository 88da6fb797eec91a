//! What every chunk of the test file must hold, for `--verify`: the generation last written, in memory.
//!
//! A stamp alone cannot show a write that the storage acknowledged and lost, since the older chunk is just as
//! well formed; comparing with this table does. 8 bytes per 4 KiB of file.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::layout::SECOND_GENERATION;
use crate::stamp::CHUNK;

/// The generation of every chunk; 0 means unknown.
pub(crate) struct Generations {
    seed: u64,
    next: AtomicU64,
    chunks: Vec<AtomicU64>,
}

impl Generations {
    /// A table for a file of `size_bytes` in which every chunk has generation `initial` (0 for unknown) of the
    /// run with `seed`.
    pub(crate) fn new(seed: u64, size_bytes: u64, initial: u64) -> Self {
        let count = usize::try_from(size_bytes / CHUNK as u64).unwrap_or(0);
        let chunks = (0..count).map(|_| AtomicU64::new(initial)).collect();
        Generations { seed, next: AtomicU64::new(SECOND_GENERATION + 1), chunks }
    }

    /// A generation that no chunk has yet.
    pub(crate) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that the chunks of a block now hold `generation`; 0 makes them unknown, for a write that failed.
    pub(crate) fn wrote(&self, offset: u64, len: usize, generation: u64) {
        for at in (offset..offset + len as u64).step_by(CHUNK) {
            if let Some(chunk) = self.chunk(at) {
                chunk.store(generation, Ordering::Release);
            }
        }
    }

    /// Seed and generation that the chunk at `offset` must hold, where it is known.
    pub(crate) fn expected(&self, offset: u64) -> Option<(u64, u64)> {
        let generation = self.chunk(offset)?.load(Ordering::Acquire);
        (generation != 0).then_some((self.seed, generation))
    }

    fn chunk(&self, offset: u64) -> Option<&AtomicU64> {
        self.chunks.get(usize::try_from(offset / CHUNK as u64).ok()?)
    }
}
