//! What is counted of connections and commands, for `serverStatus`.

use std::sync::atomic::{AtomicU64, Ordering};

use fathom_wire::Compressor;

/// A counter that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts up.
    pub fn add(&self, number: u64) {
        // Most operations leave most counters alone, and an addition of nothing costs as much as any.
        if number != 0 {
            self.0.fetch_add(number, Ordering::Relaxed);
        }
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs and failures of one command.
#[derive(Debug, Default)]
pub struct CommandCounter {
    /// All runs.
    pub total: Counter,
    /// Those that failed.
    pub failed: Counter,
}

/// Bytes before and after one compressor, both ways.
#[derive(Debug, Default)]
pub struct CompressionCounters {
    /// Before compressing.
    pub compressor_in: Counter,
    /// After it.
    pub compressor_out: Counter,
    /// Before decompressing.
    pub decompressor_in: Counter,
    /// After it.
    pub decompressor_out: Counter,
}

/// `network` of `serverStatus`.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes of messages as they stand uncompressed.
    pub bytes_in: Counter,
    /// The same, going out.
    pub bytes_out: Counter,
    /// Bytes as they came over the wire.
    pub physical_in: Counter,
    /// The same, going out.
    pub physical_out: Counter,
    /// Messages that came in.
    pub requests: Counter,
    compression: [CompressionCounters; 4],
}

impl Traffic {
    /// A frame came in.
    pub fn received(&self, bytes: usize) {
        self.requests.add(1);
        self.physical_in.add(bytes as u64);
        self.bytes_in.add(bytes as u64);
    }

    /// A frame went out.
    pub fn sent(&self, bytes: usize) {
        self.physical_out.add(bytes as u64);
        self.bytes_out.add(bytes as u64);
    }

    /// The frame that came in was compressed.
    pub fn decompressed(&self, compressor: Compressor, packed: usize, plain: usize) {
        self.bytes_in.add((plain as u64).saturating_sub(packed as u64));
        let counters = self.of(compressor);
        counters.decompressor_in.add(packed as u64);
        counters.decompressor_out.add(plain as u64);
    }

    /// The frame that goes out was compressed.
    pub fn compressed(&self, compressor: Compressor, plain: usize, packed: usize) {
        self.bytes_out.add((plain as u64).saturating_sub(packed as u64));
        let counters = self.of(compressor);
        counters.compressor_in.add(plain as u64);
        counters.compressor_out.add(packed as u64);
    }

    /// The counters of one compressor.
    pub fn of(&self, compressor: Compressor) -> &CompressionCounters {
        match compressor {
            Compressor::Noop => &self.compression[0],
            Compressor::Snappy => &self.compression[1],
            Compressor::Zlib => &self.compression[2],
            Compressor::Zstd => &self.compression[3],
        }
    }
}
