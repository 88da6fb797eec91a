//! Finds the database's disk among those of a host, because a recording does not name it.
//!
//! All writes of the engine must arrive at its disk. A disk that receives fewer bytes in the minutes in which the engine writes most cannot be
//! it. If several could be, it is the one whose writes follow the engine's (docs/methods.md#the-disk-of-a-recorded-database). Recordings do not
//! contain device mapper, software RAID, loop devices and network volumes, so possibly none of the recorded disks is it.

use std::collections::BTreeSet;

use super::bins::Bins;

/// Bins that are compared as one: the kernel writes back within 30 s.
const BLOCK_BINS: usize = 6;
/// The fewest bytes that the engine must have written in a block for it to count.
const MIN_BLOCK_BYTES: f64 = 1_048_576.0;
/// The most blocks that are compared, which are those in which the engine writes most.
const MAX_BLOCKS: usize = 30;
/// The least part of the engine's bytes that its disk is written: the file system may compress, and neighbouring blocks share writes.
const MIN_WRITTEN_PART: f64 = 0.7;
/// The least share of the blocks in which that holds.
const MIN_BLOCKS_SHARE: f64 = 0.7;
/// A disk wins over another if its writes follow the engine's more closely by this much.
const MIN_LEAD: f64 = 0.2;

/// The disk of the database, if one is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DatabaseDisk {
    Known(String),
    /// None of the recorded disks takes the engine's writes.
    Unlisted,
    /// Too little was written, or several disks take as much.
    Unknown,
    /// No disk was recorded.
    NoneRecorded,
}

impl DatabaseDisk {
    /// The disk of a server's database: the one of this device if its user named one, else the one that takes what the engine writes.
    pub(super) fn find(bins: &Bins, member: usize, device: Option<&str>) -> DatabaseDisk {
        let Some(device) = device else { return database_disk(bins, member) };
        let disks = disks(bins);
        match disks.iter().find(|disk| is_on_disk(device, disk)) {
            Some(disk) => DatabaseDisk::Known(disk.clone()),
            None if disks.is_empty() => DatabaseDisk::NoneRecorded,
            None => DatabaseDisk::Unlisted,
        }
    }

    pub(super) fn name(&self) -> Option<&str> {
        match self {
            DatabaseDisk::Known(name) => Some(name),
            _ => None,
        }
    }
}

/// The disks of a recording.
pub(super) fn disks(bins: &Bins) -> BTreeSet<String> {
    bins.names()
        .filter_map(|name| name.strip_prefix("device.")?.strip_suffix(".written_bytes"))
        .map(str::to_owned)
        .collect()
}

/// Returns whether a device is a recorded disk: the disk itself, a partition of it, or a drive letter of Windows.
fn is_on_disk(device: &str, disk: &str) -> bool {
    let device = device.strip_prefix("/dev/").unwrap_or(device);
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    // Disks whose names end in a digit have a `p` before the number of a partition.
    let before_number = match disk.ends_with(|c: char| c.is_ascii_digit()) {
        true => "p",
        false => "",
    };
    let partition = device.strip_prefix(disk).and_then(|rest| rest.strip_prefix(before_number));
    device == disk || partition.is_some_and(is_number) || disk.split(' ').any(|letter| letter == device)
}

/// Finds the disk of a server's database.
fn database_disk(bins: &Bins, member: usize) -> DatabaseDisk {
    let disks = disks(bins);
    if disks.is_empty() {
        return DatabaseDisk::NoneRecorded;
    }
    let engine =
        ["engine.written_bytes", "journal.written_bytes"].map(|name| format!("server.{member}.{name}"));
    let blocks: Vec<Vec<usize>> = (0..bins.len() / BLOCK_BINS)
        .map(|block| (block * BLOCK_BINS..(block + 1) * BLOCK_BINS).collect())
        .collect();
    let mut written: Vec<(f64, &Vec<usize>)> = blocks
        .iter()
        .filter_map(|block| Some((bins.sum_of(&engine, block)?, block)))
        .filter(|(bytes, _)| *bytes >= MIN_BLOCK_BYTES)
        .collect();
    written.sort_by(|one, other| other.0.total_cmp(&one.0));
    written.truncate(MAX_BLOCKS);
    if written.len() < 2 {
        return DatabaseDisk::Unknown;
    }
    let follows = |disk: &String| -> Option<(String, f64)> {
        let name = format!("device.{disk}.written_bytes");
        let pairs: Vec<(f64, f64)> =
            written.iter().filter_map(|(bytes, block)| Some((*bytes, bins.sum(&name, block)?))).collect();
        let enough = pairs.iter().filter(|(engine, disk)| *disk >= MIN_WRITTEN_PART * engine).count();
        (enough as f64 >= MIN_BLOCKS_SHARE * pairs.len() as f64 && !pairs.is_empty())
            .then(|| (disk.clone(), correlation(&pairs).unwrap_or(0.0)))
    };
    let mut found: Vec<(String, f64)> = disks.iter().filter_map(follows).collect();
    found.sort_by(|one, other| other.1.total_cmp(&one.1));
    match found.as_slice() {
        [] => DatabaseDisk::Unlisted,
        [(disk, _)] => DatabaseDisk::Known(disk.clone()),
        [(disk, first), (_, second), ..] if first - second >= MIN_LEAD => DatabaseDisk::Known(disk.clone()),
        _ => DatabaseDisk::Unknown,
    }
}

/// Pearson's correlation coefficient of pairs.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| pairs.iter().map(pick).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (x, y) = (x - mean_x, y - mean_y);
        xy += x * y;
        xx += x * x;
        yy += y * y;
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet};

    use super::*;
    use crate::recording::bins::BIN_NS;

    /// Bytes of the engine and of two disks, a minute each.
    fn found(minutes: &[(f64, f64, f64)]) -> DatabaseDisk {
        let mut series = SeriesSet::default();
        for (minute, (engine, sda, sdb)) in minutes.iter().enumerate() {
            let begin_ns = (minute * BLOCK_BINS) as u64 * BIN_NS;
            let end_ns = begin_ns + BLOCK_BINS as u64 * BIN_NS;
            let names =
                ["server.0.engine.written_bytes", "device.sda.written_bytes", "device.sdb.written_bytes"];
            for (name, mib) in names.iter().zip([engine, sda, sdb]) {
                series.extend(name, "bytes", [Point { begin_ns, end_ns, value: mib * 1_048_576.0 }]);
            }
        }
        let mut bins = Bins::default();
        bins.add(&series, &|_| true);
        database_disk(&bins, 0)
    }

    #[test]
    fn it_takes_what_the_engine_writes() {
        let known = |name: &str| DatabaseDisk::Known(name.to_owned());
        assert_eq!(found(&[(100.0, 120.0, 5.0), (50.0, 60.0, 500.0), (10.0, 20.0, 0.0)]), known("sda"));
        // Another program writes much more to the other one, without a relation.
        assert_eq!(found(&[(100.0, 120.0, 900.0), (50.0, 60.0, 950.0), (10.0, 20.0, 930.0)]), known("sda"));
        assert_eq!(found(&[(100.0, 5.0, 1.0), (50.0, 2.0, 7.0)]), DatabaseDisk::Unlisted);
        assert_eq!(found(&[(0.0, 5.0, 1.0), (0.1, 2.0, 7.0)]), DatabaseDisk::Unknown);
        assert_eq!(database_disk(&Bins::default(), 0), DatabaseDisk::NoneRecorded);
    }

    #[test]
    fn a_named_device_is_its_disk_and_one_that_is_not_recorded_is_unlisted() {
        let on = |device: &str, disk: &str| is_on_disk(device, disk);
        assert!(on("sda", "sda") && on("/dev/sda", "sda") && on("sda1", "sda") && on("C:", "0 C: D:"));
        assert!(on("nvme0n1p2", "nvme0n1") && !on("nvme0n12", "nvme0n1"));
        assert!(!on("sdab", "sda") && !on("dm-0", "sda") && !on("", "sda"));
        let mut series = SeriesSet::default();
        let point = Point { begin_ns: 0, end_ns: BIN_NS, value: 1.0 };
        series.extend("device.sda.written_bytes", "bytes", [point]);
        let mut bins = Bins::default();
        bins.add(&series, &|_| true);
        let find = |device| DatabaseDisk::find(&bins, 0, device);
        assert_eq!(find(Some("sda1")), DatabaseDisk::Known("sda".to_owned()));
        assert_eq!((find(Some("dm-0")), find(None)), (DatabaseDisk::Unlisted, DatabaseDisk::Unknown));
        let none = DatabaseDisk::find(&Bins::default(), 0, Some("sda"));
        assert_eq!(none, DatabaseDisk::NoneRecorded);
    }
}
