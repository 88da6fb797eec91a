//! The checks of a target before anything is made. Each refusal is one sentence.
//!
//! The checks come in three steps: contradictions in the target itself, then what the machine lacks (rights, programs, kernel), then what the
//! location lacks (space, an empty disk). In this order a study can be checked even if it cannot run here.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_process::Tool;
use fathom_units::Bytes;

use super::{Base, NamedDisk, TargetSpec, disk};
use crate::{ArrayKind, Filesystem, QueueSettings, kernel};

impl TargetSpec {
    /// Refuses targets that cannot be built, or only at the risk of user data. Makes nothing.
    pub fn check(&self) -> Result<()> {
        self.check_combination()?;
        self.check_machine()?;
        match &self.base {
            Base::Directory(path) => is_folder(path),
            Base::Loops { folder, .. } => self.check_room(folder),
            Base::Disks(disks) => {
                disk::check_all(disks, self.wipe)?;
                let sizes = disks.iter().map(|named| disk::find(&named.path).map(|found| disk::size(&found)));
                // An array of unequal disks holds at least as much as the same number of its smallest disk.
                let least = sizes.collect::<Result<Vec<Bytes>>>()?.into_iter().min().unwrap_or_default();
                self.check_capacity(least)
            }
        }
    }

    /// Rejects options that contradict each other.
    fn check_combination(&self) -> Result<()> {
        if let Some(cap) = self.cap {
            cap.check()?;
        }
        if let Base::Directory(path) = &self.base {
            return self.check_folder(path);
        }
        let Some(filesystem) = self.filesystem else {
            let what = format!("{} needs a file system to put data into", self.describe());
            return Err(Error::usage(what).advise("name ext4, xfs or btrfs"));
        };
        match &self.base {
            Base::Loops { count: 0, .. } => {
                return Err(Error::usage("a target needs one loop device or more"));
            }
            Base::Loops { count, .. } if *count > 1 && self.array.is_none() => {
                return Err(Error::usage(format!("{count} loop devices need an array that joins them")));
            }
            Base::Disks(disks) => self.check_names(disks)?,
            _ => {}
        }
        if self.array.is_some_and(|array| array.kind == ArrayKind::BtrfsRaid0)
            && filesystem != Filesystem::Btrfs
        {
            let what = format!("btrfs raid0 is made by btrfs itself, and cannot carry {filesystem}");
            return Err(Error::usage(what).advise("name btrfs as the file system, or md RAID0 as the array"));
        }
        let sets_uuid = |word: &String| word.starts_with("-U") || word.contains("uuid=");
        if self.filesystem_options.mkfs.iter().any(sets_uuid) {
            return Err(Error::usage(
                "the options of mkfs set a UUID, but Fathom chooses the UUID of a target's file system, by which it finds it again",
            ));
        }
        self.queue.check(&[])
    }

    /// Checks that each name was typed twice and each disk is named once.
    fn check_names(&self, disks: &[NamedDisk]) -> Result<()> {
        if disks.is_empty() {
            return Err(Error::usage("a target needs one disk or more"));
        }
        for (at, NamedDisk { path, typed_name }) in disks.iter().enumerate() {
            let shown = path.display();
            // With or without the folder, as the probe accepts it too.
            if Path::new(typed_name) != path && path.file_name() != Some(OsStr::new(typed_name)) {
                let what =
                    format!("the study would erase {shown}, but the name given with it is '{typed_name}'");
                return Err(Error::usage(what)
                    .advise(format!("repeat {shown} as the name to confirm that it may be erased")));
            }
            if disks.iter().take(at).any(|other| other.path == *path) {
                return Err(Error::usage(format!("{shown} is named more than once")));
            }
        }
        if disks.len() > 1 && self.array.is_none() {
            return Err(Error::usage(format!("{} disks need an array that joins them", disks.len())));
        }
        Ok(())
    }

    /// Refuses options that a folder cannot have, since its file system and its disk exist already.
    fn check_folder(&self, path: &Path) -> Result<()> {
        let path = path.display();
        let refuse = |what: &str| Err(Error::usage(format!("{path} is a folder, and {what}")));
        if self.filesystem.is_some() || self.array.is_some() {
            return refuse("has its file system already; loop devices or a disk can be given one");
        }
        if self.queue != QueueSettings::default() {
            return refuse("its disk's queue is not ours to set; loop devices or a disk can be named");
        }
        Ok(())
    }

    /// Checks the rights, the programs and the kernel's features.
    fn check_machine(&self) -> Result<()> {
        let makes_devices = !matches!(self.base, Base::Directory(_));
        if (makes_devices || self.cap.is_some()) && !rustix::process::geteuid().is_root() {
            let what = format!("{} cannot be made without root", self.describe());
            return Err(Error::new(Kind::Permission, what).advise("use sudo, or a folder without a cap"));
        }
        if matches!(self.base, Base::Loops { .. }) {
            Tool::new("losetup", "mount")?;
        }
        if matches!(self.base, Base::Disks(_)) {
            Tool::new("wipefs", "util-linux")?;
        }
        if let Some(filesystem) = self.filesystem {
            Tool::new(&format!("mkfs.{filesystem}"), filesystem.package())?;
            if !kernel::has_filesystem(&View::live(), filesystem.name()) {
                return Err(kernel::lacks(filesystem.name(), filesystem.name()));
            }
        }
        if let Some(array) = self.array {
            array.check(self.disks())?;
        }
        self.queue.check(&self.queue_owners())
    }

    /// The devices whose schedulers are known before anything is made: the disks, or any loop device as a sample.
    fn queue_owners(&self) -> Vec<String> {
        let Base::Disks(disks) = &self.base else {
            let loops = View::live().list("sys/block").into_iter().find(|name| name.starts_with("loop"));
            return loops.into_iter().collect();
        };
        // A disk may be named by a link; a disk that does not exist is refused later.
        let nodes = disks.iter().filter_map(|disk| fs::canonicalize(&disk.path).ok());
        nodes.filter_map(|node| Some(node.file_name()?.to_string_lossy().into_owned())).collect()
    }

    /// Checks that the members fit into the folder, and the file system onto the members.
    fn check_room(&self, folder: &Path) -> Result<()> {
        let Base::Loops { count, size, .. } = self.base else { return Ok(()) };
        is_folder(folder)?;
        let too_large =
            || Error::usage(format!("{count} loop devices of {size} are more than any disk holds"));
        let together = size.0.checked_mul(u64::from(count)).ok_or_else(too_large)?;
        let room = rustix::fs::statvfs(folder).map_err(|e| Error::io("look at the room in", folder, e))?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        if together > free {
            let (wanted, free) = (Bytes(together), Bytes(free));
            let what =
                format!("{} has {free} free, and {} takes {wanted}", folder.display(), self.describe());
            return Err(Error::new(Kind::NoSpace, what));
        }
        self.check_capacity(size)
    }

    /// Checks that the file system fits onto disks of `size`.
    fn check_capacity(&self, size: Bytes) -> Result<()> {
        let Some(filesystem) = self.filesystem else { return Ok(()) };
        let (capacity, least) = match self.array {
            None => (size, filesystem.least_size_mib()),
            // Its mkfs requires this size of each disk.
            Some(array) if array.kind == ArrayKind::BtrfsRaid0 => (size, filesystem.least_size_mib()),
            Some(array) => (array.least_capacity(self.disks(), size), filesystem.least_striped_size_mib()),
        };
        if capacity.0 < least << 20 {
            let what = format!("{filesystem} needs {least} MiB, and {} holds {capacity}", self.describe());
            return Err(Error::usage(what));
        }
        Ok(())
    }
}

fn is_folder(path: &Path) -> Result<()> {
    let metadata = path.metadata().map_err(|e| Error::io("look at the folder", path, e))?;
    if metadata.is_dir() { Ok(()) } else { Err(Error::usage(format!("{} is not a folder", path.display()))) }
}
