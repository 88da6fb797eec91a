//! Storage as data: the description of the storage under one cell of a study, which can be built, used and taken down.
//!
//! A target is a folder, or a file system on our own loop devices or on whole disks whose names were typed twice (one disk,
//! or an array of several), optionally with limits and queue settings. All refusals come before anything is made
//! ([`TargetSpec::check`]). A folder or a disk that is not ours is only borrowed.

mod check;
mod disk;
mod facts;
mod prepare;

use std::path::PathBuf;

use fathom_units::Bytes;

use crate::{Array, CapLimits, Filesystem, FilesystemOptions, LoopOptions, QueueSettings};

pub use prepare::{PreparedTarget, TargetDevice};

/// The place of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// A folder of an existing file system. All files are put into a new folder inside it.
    Directory(PathBuf),
    /// Files that serve as disks, in a folder.
    Loops {
        /// The folder in which the files are made.
        folder: PathBuf,
        /// The number of files; more than one only for an array.
        count: u32,
        /// The size of each file.
        size: Bytes,
    },
    /// Whole disks that are lent; more than one only for an array. Their contents are lost only if [`TargetSpec::wipe`] allows it.
    Disks(Vec<NamedDisk>),
}

/// A whole disk of the machine that may be overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDisk {
    /// The node, such as `/dev/sdb`.
    pub path: PathBuf,
    /// The same name, with or without `/dev/`, typed a second time as a confirmation.
    pub typed_name: String,
}

/// The devices of an array that a cap limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CapPlace {
    /// The uppermost device, as the limit of one cloud disk; each member if there is no device above them (btrfs).
    #[default]
    Top,
    /// Each member separately, as a limit of each disk of an array.
    EachMember,
}

/// A target as data.
#[derive(Clone, Debug)]
pub struct TargetSpec {
    /// The place of the target.
    pub base: Base,
    /// The way the disks of the base are joined.
    pub array: Option<Array>,
    /// The file system to make; `None` for a folder, which already has one.
    pub filesystem: Option<Filesystem>,
    /// The options for making and mounting the file system. Access times are off unless asked for.
    pub filesystem_options: FilesystemOptions,
    /// The limits per second for the processes of the target.
    pub cap: Option<CapLimits>,
    /// The devices that the cap limits.
    pub cap_place: CapPlace,
    /// Settings of the devices' request queues.
    pub queue: QueueSettings,
    /// The options of the loop devices.
    pub loops: LoopOptions,
    /// Whether a disk that holds something may be overwritten.
    pub wipe: bool,
}

impl TargetSpec {
    /// A target with nothing but a base.
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

    /// The target in one line: `xfs on md RAID0 of 2 loop devices of 512 MiB in /data, chunk 256 KiB, read_iops=300`.
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

    /// The number of disks of the base.
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
