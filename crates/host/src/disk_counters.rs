//! The block layer's counters of one device, as a line of `/proc/diskstats` and a `stat` file of sysfs have them.

use crate::DeviceNumber;

/// The counters of a device since it appeared. Times are in milliseconds and wrap at 2^32 on every kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Field 1: reads completed.
    pub reads: u64,
    /// Field 2: reads that were merged into a queued neighbour.
    pub read_merges: u64,
    /// Field 3: sectors read.
    pub read_sectors: u64,
    /// Field 4: milliseconds that reads took, summed over reads.
    pub read_ms: u64,
    /// Field 5: writes completed. Since 5.5 an empty flush counts here and in field 16.
    pub writes: u64,
    /// Field 6: writes that were merged.
    pub write_merges: u64,
    /// Field 7: sectors written.
    pub write_sectors: u64,
    /// Field 8: milliseconds that writes took, summed over writes.
    pub write_ms: u64,
    /// Field 9: requests that are with the device now; the only one that is not a running total.
    pub in_flight: u64,
    /// Field 10: milliseconds with at least one request in flight (its meaning varies: see `docs/iostat.md`).
    pub io_ms: u64,
    /// Field 11: milliseconds of all requests, summed over requests.
    pub weighted_ms: u64,
    /// Fields 12 to 15, kernel 4.18 and later.
    pub discards: Option<Discards>,
    /// Fields 16 and 17, kernel 5.5 and later. A partition always shows zeros here.
    pub flushes: Option<Flushes>,
}

/// Counters of discard (TRIM, UNMAP) requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discards {
    /// Field 12: discards completed.
    pub discards: u64,
    /// Field 13: discards that were merged.
    pub merges: u64,
    /// Field 14: sectors discarded.
    pub sectors: u64,
    /// Field 15: milliseconds that discards took.
    pub ms: u64,
}

/// Counters of cache flushes, which the kernel merges and sends one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushes {
    /// Field 16: flushes completed.
    pub flushes: u64,
    /// Field 17: milliseconds that flushes took.
    pub ms: u64,
}

impl Counters {
    /// Returns whether the device has ever completed a request.
    pub fn any_io(&self) -> bool {
        let discards = self.discards.map_or(0, |d| d.discards);
        let flushes = self.flushes.map_or(0, |f| f.flushes);
        self.reads != 0 || self.writes != 0 || discards != 0 || flushes != 0
    }

    /// The counters of a `stat` file in sysfs, or the tail of a diskstats line.
    pub fn parse(text: &str) -> Option<Counters> {
        let mut fields = Vec::with_capacity(17);
        for word in text.split_ascii_whitespace() {
            fields.push(number(word)?);
        }
        let &[reads, read_merges, read_sectors, read_ms, writes, write_merges, write_sectors, write_ms, ..] =
            fields.as_slice()
        else {
            return None;
        };
        let &[in_flight, io_ms, weighted_ms, ref later @ ..] = fields.get(8..)? else { return None };
        let discards = match *later {
            [discards, merges, sectors, ms, ..] => Some(Discards { discards, merges, sectors, ms }),
            _ => None,
        };
        let flushes = match *later {
            [_, _, _, _, flushes, ms, ..] => Some(Flushes { flushes, ms }),
            _ => None,
        };
        Some(Counters {
            reads,
            read_merges,
            read_sectors,
            read_ms,
            writes,
            write_merges,
            write_sectors,
            write_ms,
            in_flight,
            io_ms,
            weighted_ms,
            discards,
            flushes,
        })
    }
}

/// Parses a number. Some kernels let the count in flight fall below zero and print it so; that counts as 0.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix('-') {
        Some(digits) => digits.parse::<u64>().ok().map(|_| 0),
        None => word.parse().ok(),
    }
}

/// One line: a device and its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub number: DeviceNumber,
    /// The kernel's name for it.
    pub name: String,
    pub counters: Counters,
}
