//! Generates the sequence of blocks: one seeded generator per worker (or ring), without shared state.
//!
//! Offsets are uniform over the whole file, so a device's own cache cannot hold them; a fixed seed repeats them. When verifying,
//! each worker uses its own region, so that no read races a write of another worker.

use std::collections::HashSet;

use fathom_stats::SeededRandom;

use crate::shape::{Job, Pattern};

/// One request to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IoRequest {
    pub(crate) write: bool,
    pub(crate) offset: u64,
}

/// The endless requests of one worker.
pub(crate) struct RequestStream {
    random: SeededRandom,
    pattern: Pattern,
    block: u64,
    first: u64,
    blocks: u64,
    sequential: u64,
    /// Offsets in flight, tracked only if two writes of one block must not overlap.
    in_flight: Option<HashSet<u64>>,
}

impl RequestStream {
    /// Requests of worker `index` of `workers` over `size_bytes` bytes; `exclusive` gives each its own region and
    /// never has one block in flight twice.
    pub(crate) fn new(
        job: &Job,
        size_bytes: u64,
        index: u64,
        workers: u64,
        exclusive: bool,
        seed: &SeededRandom,
    ) -> Self {
        let block = job.block.get();
        let all = size_bytes / block;
        let (first, blocks) = if exclusive && job.pattern != Pattern::Append {
            let share = (all / workers).max(1);
            ((share * index).min(all.saturating_sub(share)), share)
        } else {
            (0, all)
        };
        RequestStream {
            random: seed.split(index),
            pattern: job.pattern,
            block,
            first,
            blocks: blocks.max(1),
            sequential: 0,
            in_flight: exclusive.then(HashSet::new),
        }
    }

    /// The next request. For an append, `None` if the file is full and must be started again.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<IoRequest> {
        if self.pattern == Pattern::Append {
            let offset = self.sequential * self.block;
            self.sequential += 1;
            return (self.sequential <= self.blocks).then_some(IoRequest { write: true, offset });
        }
        let mut index = self.first + self.random.below(self.blocks);
        if let Some(in_flight) = &mut self.in_flight {
            while !in_flight.insert(index * self.block) {
                index = self.first + (index - self.first + 1) % self.blocks;
            }
        }
        let write = match self.pattern {
            Pattern::RandRead => false,
            Pattern::RandRw => self.random.bits() >> 63 == 1,
            _ => true,
        };
        Some(IoRequest { write, offset: index * self.block })
    }

    /// Notes that a request has ended.
    #[inline]
    pub(crate) fn ended(&mut self, offset: u64) {
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.remove(&offset);
        }
    }

    /// Starts an append file again.
    pub(crate) fn rewind(&mut self) {
        self.sequential = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::IoEngine;
    use fathom_units::Bytes;

    fn requests(pattern: Pattern, workers: u64, index: u64, exclusive: bool) -> RequestStream {
        let job = Job::new(pattern, Bytes(4096), IoEngine::Psync, 4);
        RequestStream::new(&job, 4096 * 64, index, workers, exclusive, &SeededRandom::from_seed(3))
    }

    #[test]
    fn random_offsets_cover_the_file_evenly() {
        let mut requests = requests(Pattern::RandRw, 1, 0, false);
        let (mut hits, mut writes) = ([0u32; 64], 0);
        for _ in 0..64_000 {
            let request = requests.next().unwrap();
            assert_eq!(request.offset % 4096, 0);
            hits[usize::try_from(request.offset / 4096).unwrap()] += 1;
            writes += u32::from(request.write);
        }
        assert!(hits.iter().all(|hits| (800..1200).contains(hits)), "{hits:?}");
        assert!((31_000..33_000).contains(&writes));
    }

    #[test]
    fn exclusive_regions_do_not_overlap_and_nothing_is_in_flight_twice() {
        let mut seen = HashSet::new();
        for index in 0..4 {
            let mut requests = requests(Pattern::RandWrite, 4, index, true);
            let mine: HashSet<u64> = (0..16).map(|_| requests.next().unwrap().offset).collect();
            assert_eq!(mine.len(), 16, "sixteen in flight are sixteen blocks");
            assert!(mine.iter().all(|offset| seen.insert(*offset)));
        }
    }

    #[test]
    fn an_append_ends_with_its_file() {
        let mut requests = requests(Pattern::Append, 1, 0, false);
        let offsets: Vec<u64> = std::iter::from_fn(|| requests.next()).map(|r| r.offset).collect();
        assert_eq!(offsets, (0..64).map(|i| i * 4096).collect::<Vec<_>>());
        requests.rewind();
        assert_eq!(requests.next().unwrap().offset, 0);
    }
}
