//! The data written: it neither compresses nor repeats, and every 4 KiB of it names its own position.
//!
//! Storage that compresses, deduplicates or detects zeros answers faster to lazy data (fio reuses one buffer by
//! default, mongoperf wrote one unset 32 MiB buffer). So each 4 KiB chunk is a pool of random words XORed with a
//! key made from (seed, offset, generation): any two chunks differ in every word, by a difference no
//! Lempel-Ziv coder can use. The first words are a stamp:
//!
//! | byte | field |
//! |---|---|
//! | 0 | magic `FATHOM01` |
//! | 8 | offset in the file |
//! | 16 | generation: how often this chunk was written in its run |
//! | 24 | seed of the run |
//! | 32 | CRC-32C of the whole chunk with this field zero, or 0 if it was not asked for |
//! | 40 | payload |
//!
//! Since the payload follows from the stamp, a torn or misplaced chunk shows even without the checksum.
//!
//! For `--verify` a table in memory holds the generation that each chunk was last written with. A stamp alone cannot
//! show a write that the storage acknowledged and lost, since the older chunk is just as well formed; comparing with
//! this table does. It takes 8 bytes per 4 KiB of file.

use std::sync::atomic::{AtomicU64, Ordering};

use fathom_errors::{Error, Kind, Result};
use fathom_stats::SeededRandom;

/// Bytes per stamped chunk: the smallest block in which torn writes are detected.
pub const CHUNK: usize = 4096;
const WORDS: usize = CHUNK / 8;
const HEADER_WORDS: usize = 5;
const MAGIC: u64 = u64::from_le_bytes(*b"FATHOM01");

/// The contents of a chunk's stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkStamp {
    /// The offset that it was written for.
    pub offset: u64,
    /// The number of writes to that offset, this one included.
    pub generation: u64,
    /// The run that wrote it.
    pub seed: u64,
}

/// Writes and checks stamped data for one seed.
#[derive(Clone)]
pub struct Stamper {
    seed: u64,
    pool: Box<[u64]>,
    checksum: bool,
}

impl Stamper {
    /// A stamper for `seed`; `checksum` adds the CRC, at about 0.2 µs a chunk.
    pub fn new(seed: u64, checksum: bool) -> Self {
        Stamper { seed, pool: pool(), checksum }
    }

    /// Fills `block`, to be written at `offset`, chunk by chunk; a block shorter than a chunk gets the stamp and the payload that
    /// fits.
    pub fn fill(&self, block: &mut [u8], offset: u64, generation: u64) {
        for (i, chunk) in block.chunks_mut(CHUNK).enumerate() {
            let stamp = ChunkStamp { offset: offset + (i * CHUNK) as u64, generation, seed: self.seed };
            payload(&self.pool, chunk, stamp);
            if self.checksum && chunk.len() == CHUNK {
                let sum = u64::from(crc32c::crc32c(chunk));
                put(chunk, 4, sum);
            }
        }
    }

    /// Checks `block`, read from `offset`. `expected` gives the generation a chunk must have, if it is known.
    ///
    /// # Errors
    /// [`Kind::Corruption`], naming offset, what was expected and what was found.
    pub fn verify(
        &self,
        block: &[u8],
        offset: u64,
        expected: impl Fn(u64) -> Option<(u64, u64)>,
    ) -> Result<u64> {
        let mut scratch = [0u8; CHUNK];
        let mut checked = 0;
        for (i, chunk) in block.chunks_exact(CHUNK).enumerate() {
            let at = offset + (i * CHUNK) as u64;
            self.verify_chunk(chunk, at, expected(at), &mut scratch)?;
            checked += 1;
        }
        Ok(checked)
    }

    fn verify_chunk(
        &self,
        chunk: &[u8],
        at: u64,
        expected: Option<(u64, u64)>,
        scratch: &mut [u8; CHUNK],
    ) -> Result<()> {
        let wrong = |what: String| {
            let advice = "the storage returned other data than was written; do not trust it with a database";
            Err(Error::new(Kind::Corruption, format!("block at offset {at}: {what}")).advise(advice))
        };
        let Some(stamp) = read_stamp(chunk) else {
            return wrong("no stamp of ours where one was written (lost or overwritten)".into());
        };
        if stamp.offset != at {
            return wrong(format!("holds the block of offset {} (misplaced write)", stamp.offset));
        }
        if let Some((seed, generation)) = expected
            && (stamp.seed != seed || stamp.generation != generation)
        {
            return wrong(format!(
                "holds generation {} of run {:016x}, expected generation {generation} of run {seed:016x} (lost write)",
                stamp.generation, stamp.seed
            ));
        }
        payload(&self.pool, scratch, stamp);
        let sum = word(chunk, 4);
        put(scratch, 4, sum);
        if let Some(first) = chunk.chunks_exact(512).zip(scratch.chunks_exact(512)).position(|(a, b)| a != b)
        {
            return wrong(format!("is torn or damaged from byte {} on", first * 512));
        }
        put(scratch, 4, 0);
        if sum != 0 && sum != u64::from(crc32c::crc32c(&scratch[..])) {
            return wrong("its checksum does not match (damaged)".into());
        }
        Ok(())
    }
}

/// The stamp at the start of a chunk, if it is one of ours.
pub fn read_stamp(chunk: &[u8]) -> Option<ChunkStamp> {
    (chunk.len() >= HEADER_WORDS * 8 && word(chunk, 0) == MAGIC).then(|| ChunkStamp {
        offset: word(chunk, 1),
        generation: word(chunk, 2),
        seed: word(chunk, 3),
    })
}

/// One fixed pool for all runs: what varies is the key, so that any version can check another's data.
fn pool() -> Box<[u64]> {
    let mut random = SeededRandom::from_seed(0x00fa_7403);
    (0..WORDS).map(|_| random.bits()).collect()
}

/// Writes stamp and payload; the checksum field is left zero.
fn payload(pool: &[u64], chunk: &mut [u8], stamp: ChunkStamp) {
    let key = mix(stamp.seed ^ mix(stamp.offset ^ mix(stamp.generation)));
    for (bytes, word) in chunk.chunks_exact_mut(8).zip(pool) {
        bytes.copy_from_slice(&(word ^ key).to_le_bytes());
    }
    for (index, value) in [MAGIC, stamp.offset, stamp.generation, stamp.seed, 0].into_iter().enumerate() {
        put(chunk, index, value);
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit changes half of the output bits.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn word(chunk: &[u8], index: usize) -> u64 {
    let bytes = chunk.get(index * 8..index * 8 + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

fn put(chunk: &mut [u8], index: usize, value: u64) {
    if let Some(bytes) = chunk.get_mut(index * 8..index * 8 + 8) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}

/// The generation that the layout pass gives every chunk.
pub(crate) const FIRST_GENERATION: u64 = 1;
/// The generation of chunks that are written a second time. Storage that deduplicates would not write the same bytes again.
pub(crate) const SECOND_GENERATION: u64 = 2;

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

    /// Seed and generation that the chunk at `offset` must hold, if it is known.
    pub(crate) fn expected(&self, offset: u64) -> Option<(u64, u64)> {
        let generation = self.chunk(offset)?.load(Ordering::Acquire);
        (generation != 0).then_some((self.seed, generation))
    }

    fn chunk(&self, offset: u64) -> Option<&AtomicU64> {
        self.chunks.get(usize::try_from(offset / CHUNK as u64).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(generation: u64) -> (Stamper, Vec<u8>) {
        let stamper = Stamper::new(7, true);
        let mut block = vec![0; 4 * CHUNK];
        stamper.fill(&mut block, 65_536, generation);
        (stamper, block)
    }

    #[test]
    fn what_was_written_verifies() {
        let (stamper, block) = block(3);
        assert_eq!(stamper.verify(&block, 65_536, |_| Some((7, 3))).unwrap(), 4);
        assert_eq!(stamper.verify(&block, 65_536, |_| None).unwrap(), 4);
    }

    #[test]
    fn every_kind_of_damage_is_named() {
        let (stamper, good) = block(3);
        let fails = |block: &[u8], offset, word: &str| {
            let error = stamper.verify(block, offset, |_| Some((7, 3))).unwrap_err();
            assert_eq!(error.kind(), Kind::Corruption);
            assert!(error.to_string().contains(word), "{error}");
        };
        fails(&good, 0, "misplaced");
        let (_, stale) = block(2);
        fails(&stale, 65_536, "lost write");
        let mut torn = good.clone();
        torn[CHUNK + 1024..CHUNK + 2048].copy_from_slice(&stale[CHUNK + 1024..CHUNK + 2048]);
        fails(&torn, 65_536, "torn or damaged from byte 1024");
        let mut sum = good.clone();
        sum[32] ^= 1;
        fails(&sum, 65_536, "checksum");
        fails(&vec![0; CHUNK], 65_536, "no stamp");
        for bit in [41 * 8, 8 * CHUNK - 1, 8 * 3 * CHUNK + 500] {
            let mut flipped = good.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fails(&flipped, 65_536, "damaged");
        }
    }

    #[test]
    fn data_neither_compresses_nor_repeats() {
        let stamper = Stamper::new(1, false);
        let mut seen = std::collections::HashSet::new();
        let mut block = vec![0; CHUNK];
        let mut counts = [0u32; 256];
        for i in 0..2_000u64 {
            stamper.fill(&mut block, (i % 50) * 4096, i / 50);
            // Every 16-byte piece of payload at the same alignment is new: nothing for LZ or dedup to find.
            for piece in block[48..].chunks_exact(16) {
                assert!(seen.insert(<[u8; 16]>::try_from(piece).unwrap()), "repeats in chunk {i}");
            }
            block[48..].iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        }
        let total: u32 = counts.iter().sum();
        let entropy: f64 =
            counts.iter().map(|c| f64::from(*c) / f64::from(total)).map(|p| -p * p.log2()).sum();
        assert!(entropy > 7.999, "bits per byte: {entropy}");
    }
}
