//! The block layer's counters from sysfs: one `stat` file for each device.
//!
//! `/proc/diskstats` has the same figures in one file, but a container may get an empty or partial one (lxcfs), or none,
//! while `/sys/block` still shows the machine's devices. Programs that drive a device from user space write folders of
//! the same layout (`iostat -f`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::DeviceNumber;
use crate::disk_counters::{Counters, Line};

/// Every device below `sysfs` with its folder: the disks by name, each before its partitions.
pub(crate) fn folders(sysfs: &Path) -> Vec<(String, PathBuf)> {
    let block = sysfs.join("block");
    let mut found = Vec::new();
    for disk in names(&block) {
        let folder = block.join(&disk);
        let mut parts = names(&folder);
        parts.retain(|part| part.starts_with(&disk));
        // In the order of their numbers, as the kernel lists them.
        parts.sort_by_key(|part| part.len());
        let parts = parts.into_iter().map(|part| (part.clone(), folder.join(part))).collect::<Vec<_>>();
        found.push((disk, folder));
        found.extend(parts);
    }
    found
}

/// The counters of every device below `sysfs` (`/sys`, or a folder of the same layout).
pub(crate) fn read(sysfs: &Path) -> Vec<Line> {
    let line = |(name, folder): (String, PathBuf)| {
        let number = fs::read_to_string(folder.join("dev")).ok().and_then(|text| text.parse().ok());
        let number = number.unwrap_or(DeviceNumber { major: 0, minor: 0 });
        Some(Line { number, name, counters: counters(&folder)? })
    };
    folders(sysfs).into_iter().filter_map(line).collect()
}

/// The counters of the device with this folder.
pub(crate) fn counters(folder: &Path) -> Option<Counters> {
    Counters::parse(&fs::read_to_string(folder.join("stat")).ok()?)
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_follow_their_disk_by_number() {
        let folder = tempfile::TempDir::new().unwrap();
        for (path, stat) in [
            ("block/sdb", "1 0 8 1 0 0 0 0 0 1 1"),
            ("block/sda", "5 0 40 5 0 0 0 0 0 5 5 0 0 0 0 2 1"),
            ("block/sda/sda10", "1 0 8 1 0 0 0 0 0 1 1"),
            ("block/sda/sda9", "2 0 16 2 0 0 0 0 0 2 2"),
            ("block/sda/queue", "none of ours"),
        ] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
            fs::write(folder.path().join(path).join("stat"), stat).unwrap();
        }
        fs::write(folder.path().join("block/sda/dev"), "8:0\n").unwrap();
        let lines = read(folder.path());
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["sda", "sda9", "sda10", "sdb"]);
        assert_eq!((lines[0].number.to_string(), lines[0].counters.reads), ("8:0".to_owned(), 5));
        assert!(read(&folder.path().join("nothing")).is_empty());
    }
}
