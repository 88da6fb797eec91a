//! The block layer's counters, as `/proc/diskstats` gives them.
//!
//! Each line holds a device number, a name, and 11 counters; kernel 4.18 added four for discards and 5.5 two for
//! flushes (torvalds/linux:Documentation/admin-guide/iostats.rst). A group that the kernel does not have is `None`,
//! never zero. Sectors are 512 bytes, whatever the device's block size. [`crate::rates`] computes differences and
//! rates. A line that does not follow the grammar is skipped.

use std::fs::File;
use std::os::unix::fs::FileExt;

use fathom_errors::{Error, Result};
use rustix::time::{ClockId, clock_gettime};

use crate::{DeviceNumber, View};

/// Bytes in the sector that every counter of sectors counts, whatever the device's block size.
pub const SECTOR_BYTES: u64 = 512;

const PATH: &str = "proc/diskstats";

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

/// Parses the text of `/proc/diskstats`.
pub fn parse(text: &str) -> Vec<Line> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Line> {
    let (major, rest) = word(line)?;
    let (minor, rest) = word(rest)?;
    let (name, rest) = word(rest)?;
    let number = DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? };
    // The kernel writes '!' in sysfs for a '/' in a device's name (`cciss/c0d0`); the rest of Fathom uses sysfs names.
    Some(Line { number, name: name.replace('/', "!"), counters: Counters::parse(rest)? })
}

fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (!word.is_empty()).then_some((word, rest))
}

/// Reads every device's counters once.
pub fn read(view: &View) -> Result<Vec<Line>> {
    Ok(parse(&view.required(PATH)?))
}

/// All counters and when they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// CLOCK_MONOTONIC in nanoseconds, halfway between the start and the end of the read.
    pub taken_ns: u64,
    /// Half of the duration of the read: the largest error of `taken_ns` for any one line.
    pub uncertainty_ns: u64,
    pub lines: Vec<Line>,
}

impl Sample {
    /// The counters of the device with this number.
    pub fn by_number(&self, number: DeviceNumber) -> Option<&Counters> {
        self.lines.iter().find(|line| line.number == number).map(|line| &line.counters)
    }

    /// The counters of the device with this name.
    pub fn by_name(&self, name: &str) -> Option<&Counters> {
        self.lines.iter().find(|line| line.name == name).map(|line| &line.counters)
    }
}

/// Keeps `/proc/diskstats` open, so that a sample costs only the reads.
#[derive(Debug)]
pub struct DiskSampler {
    file: File,
    path: std::path::PathBuf,
    buffer: Vec<u8>,
}

impl DiskSampler {
    /// Opens the counters of the live machine, or of a snapshot (which never move).
    pub fn open(view: &View) -> Result<Self> {
        let path = view.root().join(PATH);
        let file = File::open(&path).map_err(|e| Error::io("open", &path, e))?;
        Ok(DiskSampler { file, path, buffer: vec![0; 16 * 1024] })
    }

    pub fn sample(&mut self) -> Result<Sample> {
        let before = monotonic_ns();
        let length = self.fill()?;
        let after = monotonic_ns();
        let text = String::from_utf8_lossy(self.buffer.get(..length).unwrap_or_default());
        let half = after.saturating_sub(before) / 2;
        Ok(Sample { taken_ns: before.saturating_add(half), uncertainty_ns: half, lines: parse(&text) })
    }

    /// Reads from the start to the end; the kernel hands out about a page at a time.
    fn fill(&mut self) -> Result<usize> {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                self.buffer.resize(length.saturating_mul(2), 0);
            }
            let free = self.buffer.get_mut(length..).unwrap_or_default();
            match self.file.read_at(free, length as u64) {
                Ok(0) => return Ok(length),
                Ok(count) => length += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", &self.path, error)),
            }
        }
    }
}

/// The time of `CLOCK_MONOTONIC`, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Nanoseconds of a clock that never shows a negative time.
pub(crate) fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use fathom_testkit::{Need, OrSkip, test};
    use proptest::prelude::*;

    use super::*;

    const THREE_AGES: &str = "\
   8       0 sda 11 12 13 14 15 16 17 18 19 20 21
   8      16 sdb 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25
 259       0 nvme0n1 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27
 104       0 cciss/c0d0 1 2 3 4 5 6 7 8 -1 10 11
   8       1 sda1 4 fields only 5
";

    #[test]
    fn each_age_of_kernel_has_its_groups() {
        let lines = parse(THREE_AGES);
        assert_eq!(lines.len(), 4, "the malformed line is passed over");
        let [old, middle, new, negative] = lines.as_slice() else { unreachable!() };
        assert_eq!((old.counters.discards, old.counters.flushes), (None, None));
        assert_eq!(
            middle.counters.discards,
            Some(Discards { discards: 22, merges: 23, sectors: 24, ms: 25 })
        );
        assert_eq!(middle.counters.flushes, None);
        assert_eq!(new.counters.flushes, Some(Flushes { flushes: 26, ms: 27 }));
        assert_eq!((new.counters.reads, new.counters.write_ms, new.counters.weighted_ms), (11, 18, 21));
        assert_eq!(negative.name, "cciss!c0d0");
        assert_eq!(negative.counters.in_flight, 0);
    }

    #[test]
    fn the_sampler_sees_what_one_read_sees() {
        let view = View::live();
        let mut sampler = DiskSampler::open(&view).or_skip(Need::Kernel);
        let first = sampler.sample().unwrap();
        let second = sampler.sample().unwrap();
        assert!(second.taken_ns > first.taken_ns);
        let names = |lines: &[Line]| lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>();
        assert_eq!(second.lines.len(), names(&second.lines).len());
        // Another test may add or remove a loop device meanwhile, so only devices that stay are compared.
        for line in read(&view).unwrap() {
            if let Some(counters) = first.by_number(line.number) {
                assert!(line.counters.reads >= counters.reads);
            }
        }
    }

    #[test]
    fn the_sampler_grows_past_its_first_buffer() {
        let folder = std::env::temp_dir().join(format!("fathom-diskstats-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("proc")).unwrap();
        std::fs::create_dir_all(folder.join("sys")).unwrap();
        let text: String = (0..2000).map(|i| format!("8 {i} sd{i} 1 2 3 4 5 6 7 8 9 10 11\n")).collect();
        std::fs::write(folder.join("proc/diskstats"), text).unwrap();
        let view = View::snapshot(&folder).unwrap();
        let lines = DiskSampler::open(&view).unwrap().sample().unwrap().lines;
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(lines.len(), 2000);
        assert_eq!(lines.last().unwrap().name, "sd1999");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            parse(&text);
        }

        #[test]
        fn no_line_of_numbers_panics(fields in prop::collection::vec("-?[0-9]{1,25}", 0..22)) {
            for line in parse(&format!("8 0 sda {}", fields.join(" "))) {
                prop_assert!(fields.len() >= 11);
                prop_assert_eq!(line.counters.discards.is_some(), fields.len() >= 15);
                prop_assert_eq!(line.counters.flushes.is_some(), fields.len() >= 17);
            }
        }
    }
}
