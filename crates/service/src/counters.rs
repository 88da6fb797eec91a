//! The counters for `serverStatus`: connections, commands, and the kernel's figures on this process: memory, page
//! faults, CPU time (proc(5), `/proc/self/stat`).

use std::sync::atomic::{AtomicU64, Ordering};

use fathom_wire::{Compressor, DocumentWriter};

use crate::CommandRegistry;

/// A counter that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, number: u64) {
        // Most operations leave most counters unchanged, and adding zero costs as much as adding any number.
        if number != 0 {
            self.0.fetch_add(number, Ordering::Relaxed);
        }
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs and failures of one command.
#[derive(Debug, Default)]
pub struct CommandCounter {
    /// All runs of the command.
    pub total: Counter,
    /// The runs that failed.
    pub failed: Counter,
}

/// Runs and failures of each command, for `metrics.commands`.
#[derive(Debug)]
pub struct CommandCounters {
    /// Requests for unknown commands.
    pub unknown: Counter,
    /// In the order of the table of commands.
    each: Vec<CommandCounter>,
}

impl CommandCounters {
    /// Makes counters for this number of commands.
    pub fn new(commands: usize) -> CommandCounters {
        let each = (0..commands).map(|_| CommandCounter::default()).collect();
        CommandCounters { unknown: Counter::default(), each }
    }

    /// Counts the end of a command, by its row.
    pub fn count(&self, row: usize, failed: bool) {
        if let Some(counter) = self.each.get(row) {
            counter.total.add(1);
            counter.failed.add(u64::from(failed));
        }
    }

    /// Writes them as `metrics.commands` of `serverStatus`.
    pub fn write<K, R>(&self, commands: &CommandRegistry<K, R>, writer: &mut DocumentWriter<'_>) {
        let write = |writer: &mut DocumentWriter<'_>, name: &str, counter: &Counter| {
            writer.i64(name, i64::try_from(counter.get()).unwrap_or(i64::MAX));
        };
        write(writer, "<UNKNOWN>", &self.unknown);
        for (command, counter) in commands.all().iter().zip(&self.each) {
            let mut one = writer.begin_document(command.name);
            write(&mut one, "failed", &counter.failed);
            write(&mut one, "total", &counter.total);
        }
    }
}

/// Bytes before and after one compressor, in both directions.
#[derive(Debug, Default)]
pub struct CompressionCounters {
    /// Bytes in, before compression.
    pub compressor_in: Counter,
    /// Bytes out, after compression.
    pub compressor_out: Counter,
    /// Bytes in, before decompression.
    pub decompressor_in: Counter,
    /// Bytes out, after decompression.
    pub decompressor_out: Counter,
}

/// The section `network` of `serverStatus`.
#[derive(Debug, Default)]
pub struct NetworkCounters {
    /// Bytes of messages received, before compression.
    pub bytes_in: Counter,
    /// Bytes of messages sent, before compression.
    pub bytes_out: Counter,
    /// Bytes received over the wire.
    pub physical_in: Counter,
    /// Bytes sent over the wire.
    pub physical_out: Counter,
    /// Messages that came in.
    pub requests: Counter,
    compression: [CompressionCounters; 4],
}

impl NetworkCounters {
    /// Counts a received frame.
    pub fn received(&self, bytes: usize) {
        self.requests.add(1);
        self.physical_in.add(bytes as u64);
        self.bytes_in.add(bytes as u64);
    }

    /// Counts a sent frame.
    pub fn sent(&self, bytes: usize) {
        self.physical_out.add(bytes as u64);
        self.bytes_out.add(bytes as u64);
    }

    /// Counts a received frame that was compressed.
    pub fn decompressed(&self, compressor: Compressor, packed: usize, plain: usize) {
        self.bytes_in.add((plain as u64).saturating_sub(packed as u64));
        let counters = self.for_compressor(compressor);
        counters.decompressor_in.add(packed as u64);
        counters.decompressor_out.add(plain as u64);
    }

    /// Counts a sent frame that was compressed.
    pub fn compressed(&self, compressor: Compressor, plain: usize, packed: usize) {
        self.bytes_out.add((plain as u64).saturating_sub(packed as u64));
        let counters = self.for_compressor(compressor);
        counters.compressor_in.add(plain as u64);
        counters.compressor_out.add(packed as u64);
    }

    /// The counters of one compressor.
    pub fn for_compressor(&self, compressor: Compressor) -> &CompressionCounters {
        match compressor {
            Compressor::Noop => &self.compression[0],
            Compressor::Snappy => &self.compression[1],
            Compressor::Zlib => &self.compression[2],
            Compressor::Zstd => &self.compression[3],
        }
    }
}

/// One reading of `/proc/self/stat`; zeros if it cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFigures {
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that required disk reads.
    pub major_faults: u64,
    /// Time in user space.
    pub user_micros: u64,
    /// Time in the kernel.
    pub system_micros: u64,
    /// Size of the address space.
    pub virtual_bytes: u64,
    /// Memory that is resident.
    pub resident_bytes: u64,
}

impl ProcessFigures {
    /// Reads the current figures of this process.
    pub fn read() -> ProcessFigures {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        ProcessFigures::parse(
            &text,
            rustix::param::clock_ticks_per_second(),
            rustix::param::page_size() as u64,
        )
        .unwrap_or_default()
    }

    /// Fields are numbered from 1 in proc(5). The name in parentheses may contain any characters, so they are counted from its end.
    fn parse(text: &str, ticks_per_second: u64, page_bytes: u64) -> Option<ProcessFigures> {
        const FIRST_AFTER_NAME: usize = 3;
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - FIRST_AFTER_NAME)?.parse::<u64>().ok();
        let micros = |ticks: u64| ticks.saturating_mul(1_000_000) / ticks_per_second.max(1);
        Some(ProcessFigures {
            minor_faults: field(10)?,
            major_faults: field(12)?,
            user_micros: micros(field(14)?),
            system_micros: micros(field(15)?),
            virtual_bytes: field(23)?,
            resident_bytes: field(24)?.saturating_mul(page_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_shifts_nothing() {
        let text = "42 (a ) b) S 1 1 1 0 -1 4194560 100 0 7 0 250 50 0 0 20 0 9 0 77 1048576 256 99\n";
        let figures = ProcessFigures::parse(text, 100, 4096).unwrap();
        assert_eq!(figures.minor_faults, 100);
        assert_eq!(figures.major_faults, 7);
        assert_eq!((figures.user_micros, figures.system_micros), (2_500_000, 500_000));
        assert_eq!((figures.virtual_bytes, figures.resident_bytes), (1 << 20, 1 << 20));
        assert_eq!(ProcessFigures::parse("42 (x) S 1", 100, 4096), None);
        assert!(ProcessFigures::read().resident_bytes > 0);
    }
}
