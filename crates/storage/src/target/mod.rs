//! Storage as data: what a study says of the storage under one of its cells, built, used and taken down.
//!
//! A target is a folder, or a file system on loop devices of our own, or on whole disks whose names were typed twice (one, or
//! an array of several); with limits and queue settings if wanted. Everything that can be refused is refused before anything
//! is made ([`TargetSpec::check`]). A folder or a disk that is not ours is never more than borrowed.

mod check;
mod disk;
mod facts;
mod prepare;

use std::path::PathBuf;

use fathom_units::Bytes;

use crate::{Array, CapLimits, Filesystem, FilesystemOptions, LoopOptions, QueueSettings};

pub use prepare::{PreparedTarget, TargetDevice};

/// What the target stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// A folder of a file system that is there; what is put into it goes into a new folder of ours.
    Directory(PathBuf),
    /// Files dressed as disks, in a folder.
    Loops {
        /// Where the files are made.
        folder: PathBuf,
        /// How many; more than one only for an array.
        count: u32,
        /// The size of each.
        size: Bytes,
    },
    /// Whole disks that are lent; more than one only for an array. What is on them is lost only if [`TargetSpec::wipe`] says so.
    Disks(Vec<NamedDisk>),
}

/// A whole disk of the machine that may be overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDisk {
    /// Its node, `/dev/sdb`.
    pub path: PathBuf,
    /// The same name, with or without `/dev/`, typed a second time by whoever answers for it.
    pub typed_name: String,
}

/// Which devices of an array a cap limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CapPlace {
    /// The uppermost device, as the limit of one cloud disk; each member where there is no device above them (btrfs).
    #[default]
    Top,
    /// Each member for itself, as a limit of each disk of an array.
    EachMember,
}

/// A target as data.
#[derive(Clone, Debug)]
pub struct TargetSpec {
    /// What it stands on.
    pub base: Base,
    /// How the disks of the base are joined.
    pub array: Option<Array>,
    /// The file system to make; none for a folder, which has one.
    pub filesystem: Option<Filesystem>,
    /// How the file system is made and mounted. Access times are off unless asked for.
    pub filesystem_options: FilesystemOptions,
    /// What the processes that are put in may do each second.
    pub cap: Option<CapLimits>,
    /// Which devices the cap limits.
    pub cap_place: CapPlace,
    /// Settings of the devices' request queues.
    pub queue: QueueSettings,
    /// How loop devices are set up.
    pub loops: LoopOptions,
    /// Whether a disk that holds something is overwritten all the same.
    pub wipe: bool,
}

impl TargetSpec {
    /// The target that has nothing but a base.
    pub fn new(base: Base) -> TargetSpec {
        TargetSpec {
            base,
            array: None,
            filesystem: None,
            filesystem_options: FilesystemOptions::default(),
            cap: None,
            cap_place: CapPlace::default(),
            queue: QueueSettings::default(),
            loops: LoopOptions::default(),
            wipe: false,
        }
    }

    /// One line for people: `xfs on md RAID0 of 2 loop devices of 512 MiB in /data, chunk 256 KiB, read_iops=300`.
    pub fn describe(&self) -> String {
        let mut text = self.filesystem.map_or_else(String::new, |filesystem| format!("{filesystem} on "));
        if let Some(array) = self.array {
            text += &format!("{} of ", array.kind);
        }
        text += &match &self.base {
            Base::Directory(path) => format!("the folder {}", path.display()),
            Base::Loops { folder, count: 1, size } => {
                format!("a loop device of {size} in {}", folder.display())
            }
            Base::Loops { folder, count, size } => {
                format!("{count} loop devices of {size} in {}", folder.display())
            }
            Base::Disks(disks) => listed(disks),
        };
        if let Some(array) = self.array {
            text += &format!(", chunk {} KiB", array.chunk_kib());
        }
        let options = &self.filesystem_options;
        let mut more = vec![options.mkfs.join(" "), options.mount.clone()];
        more.push(self.cap.map_or_else(String::new, |cap| cap.to_string()));
        if self.cap.is_some() && self.cap_place == CapPlace::EachMember {
            more.push("each member capped".to_owned());
        }
        more.extend(self.queue.read_ahead_kib.map(|kib| format!("read-ahead {kib} KiB")));
        more.extend(self.queue.scheduler.as_ref().map(|name| format!("scheduler {name}")));
        more.extend(self.queue.nr_requests.map(|requests| format!("nr_requests {requests}")));
        for part in more.into_iter().filter(|part| !part.is_empty()) {
            text += &format!(", {part}");
        }
        text
    }

    /// How many disks the base has.
    fn disks(&self) -> u32 {
        match &self.base {
            Base::Directory(_) => 1,
            Base::Loops { count, .. } => *count,
            Base::Disks(disks) => u32::try_from(disks.len()).unwrap_or(u32::MAX),
        }
    }
}

/// `the disk /dev/sdb`, or `the disks /dev/sdb, /dev/sdc and /dev/sdd`.
fn listed(disks: &[NamedDisk]) -> String {
    let mut names: Vec<String> = disks.iter().map(|disk| disk.path.display().to_string()).collect();
    let last = names.pop().unwrap_or_default();
    if names.is_empty() {
        format!("the disk {last}")
    } else {
        format!("the disks {} and {last}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArrayKind;

    #[test]
    fn a_target_is_told_in_one_line() {
        let base = Base::Loops { folder: "/data".into(), count: 2, size: Bytes::mib(512) };
        let spec = TargetSpec {
            array: Some(Array { kind: ArrayKind::MdRaid0, chunk_kib: Some(256) }),
            filesystem: Some(Filesystem::Xfs),
            cap: Some(CapLimits::iops(300)),
            queue: QueueSettings { read_ahead_kib: Some(16), ..Default::default() },
            ..TargetSpec::new(base)
        };
        let wanted = "xfs on md RAID0 of 2 loop devices of 512 MiB in /data, chunk 256 KiB, \
                      read_iops=300 write_iops=300, read-ahead 16 KiB";
        assert_eq!(spec.describe(), wanted);
        let folder = TargetSpec::new(Base::Directory("/data".into()));
        assert_eq!(folder.describe(), "the folder /data");
        let disk = |name: &str| NamedDisk { path: format!("/dev/{name}").into(), typed_name: name.into() };
        let one = TargetSpec::new(Base::Disks(vec![disk("sdb")]));
        assert_eq!(one.describe(), "the disk /dev/sdb");
        let array = Some(Array { kind: ArrayKind::LvmStriped, chunk_kib: None });
        let base = Base::Disks(["sdb", "sdc", "sdd"].map(disk).to_vec());
        let three = TargetSpec { array, filesystem: Some(Filesystem::Xfs), ..TargetSpec::new(base) };
        let wanted = "xfs on LVM striped of the disks /dev/sdb, /dev/sdc and /dev/sdd, chunk 64 KiB";
        assert_eq!(three.describe(), wanted);
    }
}
