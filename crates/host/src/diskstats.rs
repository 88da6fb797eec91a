//! The block layer's counters, as `/proc/diskstats` gives them.
//!
//! Each line holds a device number, a name, and 11 counters; kernel 4.18 added four for discards and 5.5 two for
//! flushes (torvalds/linux:Documentation/admin-guide/iostats.rst). A group that the kernel does not have is `None`,
//! never zero. Sectors are 512 bytes, whatever the device's block size. [`crate::rates`] computes differences and
//! rates. A line that does not follow the grammar is skipped.
//!
//! A container may hide the file, or lines of it, while sysfs shows the devices: then their counters are read there
//! ([`DiskSampler`]), since a device that one file does not list may well exist.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Result};
use rustix::time::{ClockId, clock_gettime};

pub use crate::disk_counters::{Counters, Discards, Flushes, Line};
use crate::{DeviceNumber, View, sysfs_counters};

/// Bytes in the sector that every counter of sectors counts, whatever the device's block size.
pub const SECTOR_BYTES: u64 = 512;

const PATH: &str = "proc/diskstats";
const SYSFS: &str = "sys";

/// The sentence if no device has counters: the reason, and the parts that still work.
pub const NO_COUNTERS: &str = "this container hides the block devices: /proc/diskstats has no line and /sys/block no \
     counters. The figures of processors (iostat -c), of servers (watch --uri) and the latencies that 'fathom disk' \
     measures itself still work; for those of devices run fathom on the host";

/// The sentence for devices that exist but have no counters here.
pub fn no_counters_of(devices: &[&str]) -> String {
    let devices = devices.join(", ");
    format!(
        "neither /proc/diskstats nor /sys/block has counters of {devices}, as in a container that hides them"
    )
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

/// Reads every device's counters once, from sysfs where `/proc/diskstats` is missing or empty.
pub fn read(view: &View) -> Result<Vec<Line>> {
    let text = view.required(PATH);
    let lines = text.as_deref().map(parse).unwrap_or_default();
    if !lines.is_empty() {
        return Ok(lines);
    }
    let lines = sysfs_counters::read(&view.root().join(SYSFS));
    if lines.is_empty() { text.map(|_| lines) } else { Ok(lines) }
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

/// Keeps `/proc/diskstats` open, so that a sample costs only the reads. If that file lacks a device whose counters sysfs
/// shows, all counters are read from sysfs, one file for each device.
#[derive(Debug)]
pub struct DiskSampler {
    /// `None` if the counters are read from sysfs.
    file: Option<File>,
    path: PathBuf,
    sysfs: PathBuf,
    buffer: Vec<u8>,
    /// The devices that `/proc/diskstats` lacked at the start.
    unlisted: Vec<String>,
}

impl DiskSampler {
    /// Opens the counters of the live machine, or of a snapshot (which never move).
    ///
    /// # Errors
    /// If `/proc/diskstats` cannot be opened and sysfs has no counters either.
    pub fn open(view: &View) -> Result<Self> {
        let (path, sysfs) = (view.root().join(PATH), view.root().join(SYSFS));
        // Sysfs is listed first, and its counters are looked for last: a device that appears or disappears meanwhile is not unlisted.
        let folders = sysfs_counters::folders(&sysfs);
        let file = File::open(&path).map_err(|e| Error::io("open", &path, e));
        let (file, error) = match file {
            Ok(file) => (Some(file), None),
            Err(error) => (None, Some(error)),
        };
        let mut sampler = DiskSampler { file, path, sysfs, buffer: vec![0; 16 * 1024], unlisted: Vec::new() };
        let listed = sampler.listed()?;
        sampler.unlisted = unlisted(folders, &listed);
        if !sampler.unlisted.is_empty() {
            sampler.file = None;
        } else if let Some(error) = error {
            return Err(error);
        }
        Ok(sampler)
    }

    pub fn sample(&mut self) -> Result<Sample> {
        let before = monotonic_ns();
        let lines = if self.file.is_some() { self.listed()? } else { sysfs_counters::read(&self.sysfs) };
        let half = monotonic_ns().saturating_sub(before) / 2;
        Ok(Sample { taken_ns: before.saturating_add(half), uncertainty_ns: half, lines })
    }

    /// A sentence on devices that `/proc/diskstats` does not list here, and on the source of their counters.
    pub fn note(&self) -> Option<String> {
        let [first, others @ ..] = self.unlisted.as_slice() else { return None };
        let others = match others.len() {
            0 => String::new(),
            1 => " and one other device".to_owned(),
            count => format!(" and {count} other devices"),
        };
        Some(format!(
            "/proc/diskstats does not list {first}{others}, as in a container that hides them; counters are read from \
             /sys/block, and are those of the whole host"
        ))
    }

    /// The lines of the file; empty without a file.
    fn listed(&mut self) -> Result<Vec<Line>> {
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        let length = fill(file, &self.path, &mut self.buffer)?;
        Ok(parse(&String::from_utf8_lossy(self.buffer.get(..length).unwrap_or_default())))
    }
}

/// The devices of sysfs with counters that `listed` lacks.
fn unlisted(folders: Vec<(String, PathBuf)>, listed: &[Line]) -> Vec<String> {
    let names: HashSet<&str> = listed.iter().map(|line| line.name.as_str()).collect();
    let lacks = |(name, folder): &(String, PathBuf)| {
        !names.contains(name.as_str()) && sysfs_counters::counters(folder).is_some()
    };
    folders.into_iter().filter(lacks).map(|(name, _)| name).collect()
}

/// Reads a file from its start to its end; the kernel hands out about a page at a time.
fn fill(file: &File, path: &Path, buffer: &mut Vec<u8>) -> Result<usize> {
    let mut length = 0;
    loop {
        if length == buffer.len() {
            buffer.resize(length.saturating_mul(2), 0);
        }
        let free = buffer.get_mut(length..).unwrap_or_default();
        match file.read_at(free, length as u64) {
            Ok(0) => return Ok(length),
            Ok(count) => length += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read", path, error)),
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

    /// A machine whose sysfs shows vda with one partition, with this `/proc/diskstats`.
    fn container(diskstats: Option<&str>) -> (tempfile::TempDir, View) {
        let folder = tempfile::TempDir::new().unwrap();
        let part = folder.path().join("sys/block/vda/vda1");
        std::fs::create_dir_all(folder.path().join("proc")).unwrap();
        std::fs::create_dir_all(&part).unwrap();
        for (folder, dev, reads) in [(part.parent().unwrap(), "254:0\n", 70), (&part, "254:1\n", 60)] {
            std::fs::write(folder.join("dev"), dev).unwrap();
            let stat = format!("{reads} 0 800 9 0 0 0 0 0 1 1 0 0 0 0 0 0\n");
            std::fs::write(folder.join("stat"), stat).unwrap();
        }
        if let Some(text) = diskstats {
            std::fs::write(folder.path().join("proc/diskstats"), text).unwrap();
        }
        let view = View::snapshot(folder.path()).unwrap();
        (folder, view)
    }

    #[test]
    fn a_hidden_device_is_read_from_sysfs() {
        let partly = "254 1 vda1 6 0 48 1 0 0 0 0 0 1 1\n";
        for hidden in [None, Some(""), Some(partly)] {
            let (_folder, view) = container(hidden);
            let mut sampler = DiskSampler::open(&view).unwrap();
            let sample = sampler.sample().unwrap();
            let reads = sample.lines.iter().map(|line| (line.name.as_str(), line.counters.reads));
            assert_eq!(reads.collect::<Vec<_>>(), [("vda", 70), ("vda1", 60)], "{hidden:?}");
            assert_eq!(sample.by_number("254:1".parse().unwrap()).unwrap().reads, 60);
            let note = sampler.note().unwrap();
            assert!(
                note.starts_with("/proc/diskstats does not list vda") && note.contains("container"),
                "{note}"
            );
        }
        let (_folder, view) = container(Some(""));
        assert_eq!(read(&view).unwrap().len(), 2);
    }

    #[test]
    fn a_whole_file_is_preferred_to_sysfs() {
        let whole = "254 0 vda 7 0 80 9 0 0 0 0 0 1 1\n254 1 vda1 6 0 48 1 0 0 0 0 0 1 1\n";
        let (folder, view) = container(Some(whole));
        let mut sampler = DiskSampler::open(&view).unwrap();
        assert_eq!(sampler.note(), None);
        assert_eq!(sampler.sample().unwrap().by_name("vda").unwrap().reads, 7);
        std::fs::remove_dir_all(folder.path().join("sys/block")).unwrap();
        std::fs::remove_file(folder.path().join("proc/diskstats")).unwrap();
        assert!(DiskSampler::open(&view).is_err() && read(&view).is_err());
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
