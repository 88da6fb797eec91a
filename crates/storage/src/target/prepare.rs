//! A target built from the bottom up, and taken down from the top.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::{BlockTree, Device, DeviceKind, DeviceNumber, Mounts, View};
use fathom_process::{Guard, Ledger, Thing, Tool, signatures};
use fathom_units::Bytes;

use super::{Base, CapPlace, NamedDisk, TargetSpec, disk};
use crate::array::{Built, Part};
use crate::filesystem::{Mounted, make_and_mount};
use crate::mkfs::Volume;
use crate::queue::Applied;
use crate::{Cap, Filesystem, LoopDevice, kernel};

/// A device under a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetDevice {
    /// The kernel's name: `loop3`, `nvme0n1`.
    pub name: String,
    /// Its number.
    pub number: DeviceNumber,
}

/// A target that stands; taken down, and what was borrowed given back as it was, when this goes.
#[derive(Debug)]
pub struct PreparedTarget {
    // Undone in this order: from the top down.
    pub(super) cap: Option<Cap>,
    late_settings: Applied,
    place: Place,
    formats: Vec<Guard>,
    settings: Applied,
    pub(super) array: Option<Built>,
    pub(super) loops: Vec<LoopDevice>,
    pub(super) leaves: Vec<TargetDevice>,
    /// The uppermost device; none for btrfs over several, and for a folder on no device.
    pub(super) top: Option<TargetDevice>,
    /// The UUID of the file system that was made.
    pub(super) uuid: Option<String>,
    pub(super) spec: TargetSpec,
}

/// Where data is put.
#[derive(Debug)]
enum Place {
    /// A folder of ours in a folder that is not.
    Folder {
        guard: Guard,
        path: PathBuf,
    },
    Mounted(Mounted),
}

impl TargetSpec {
    /// Builds it, each part recorded before it is made. What failed half-way is taken down again.
    pub fn prepare(&self, ledger: &Ledger) -> Result<PreparedTarget> {
        self.check()?;
        match &self.base {
            Base::Directory(path) => self.prepare_folder(ledger, path),
            Base::Loops { folder, count, size } => self.prepare_loops(ledger, folder, *count, *size),
            Base::Disks(disks) => self.prepare_disks(ledger, disks),
        }
    }

    fn prepare_folder(&self, ledger: &Ledger, folder: &Path) -> Result<PreparedTarget> {
        let folder = folder.canonicalize().map_err(|e| Error::io("open", folder, e))?;
        let view = View::live();
        let mounts = Mounts::read(&view)?;
        let tree = BlockTree::read(&view);
        let under = mounts.containing(&folder).and_then(|mount| tree.written_under(mount, &mounts));
        // Requests are limited and counted by whole disks.
        let disk = under.map(|device| match (device.kind, &device.disk) {
            (DeviceKind::Partition, Some(disk)) => tree.by_name(disk).unwrap_or(device),
            _ => device,
        });
        let leaves = disk.map_or_else(Vec::new, |disk| tree.leaves(disk)).into_iter().map(named).collect();
        let path = folder.join(ledger.unique_name());
        let guard = ledger.create_tree(&path)?.guard();
        let stack = Stack { leaves, top: disk.map(named), ..Stack::default() };
        self.finish(ledger, stack, Place::Folder { guard, path })
    }

    fn prepare_loops(
        &self,
        ledger: &Ledger,
        folder: &Path,
        count: u32,
        size: Bytes,
    ) -> Result<PreparedTarget> {
        let mut stack = Stack::default();
        for _ in 0..count {
            let device = LoopDevice::create(ledger, folder, size, self.loops)?;
            stack.leaves.push(TargetDevice { name: device.name(), number: device.number() });
            stack.loops.push(device);
        }
        let parts: Vec<Part> = stack.loops.iter().map(LoopDevice::part).collect();
        let folder = stack.loops.first().map_or_else(|| folder.to_owned(), |first| first.folder().to_owned());
        self.stand(ledger, stack, &parts, &folder)
    }

    fn prepare_disks(&self, ledger: &Ledger, disks: &[NamedDisk]) -> Result<PreparedTarget> {
        let mut stack = Stack::default();
        let mut parts = Vec::new();
        for NamedDisk { path, .. } in disks {
            let path = path.canonicalize().map_err(|e| Error::io("open", path, e))?;
            let device = disk::find(&path)?;
            stack.leaves.push(named(&device));
            parts.push(Part { path, name: device.name.clone(), size: disk::size(&device), backing: None });
        }
        for Part { path, .. } in &parts {
            if self.wipe && !signatures(path)?.is_empty() {
                Tool::new("wipefs", "util-linux")?.arg("--all").arg(path).run()?;
            }
        }
        self.stand(ledger, stack, &parts, &env::temp_dir())
    }

    /// Everything above the disks: the array, the settings of their queues, the file system, mounted in `folder`.
    fn stand(
        &self,
        ledger: &Ledger,
        mut stack: Stack,
        parts: &[Part],
        folder: &Path,
    ) -> Result<PreparedTarget> {
        if let Some(array) = self.array {
            stack.array = array.build(ledger, parts)?;
        }
        let (device, size, others) = match &stack.array {
            Some(array) => (array.path.clone(), array.size, Vec::new()),
            None => {
                let mut paths = parts.iter().map(|part| part.path.clone());
                let first = paths.next().ok_or_else(|| Error::usage("a target needs one disk or more"))?;
                (first, Bytes(parts.iter().map(|part| part.size.0).sum()), paths.collect())
            }
        };
        stack.top = match &stack.array {
            Some(array) => Some(TargetDevice { name: array.name.clone(), number: array.number }),
            None => stack.leaves.first().filter(|_| others.is_empty()).cloned(),
        };
        self.set_queues(ledger, &mut stack)?;
        let uuid = kernel::new_uuid()?;
        // What is written on a loop device goes with its file.
        if parts.iter().any(|part| part.backing.is_none()) {
            for device in std::iter::once(&device).chain(&others) {
                let format = Thing::Format { device: device.clone(), uuid: uuid.clone() };
                stack.formats.push(ledger.will_make(format)?.guard());
            }
        }
        let volume = Volume {
            device: &device,
            others: &others,
            size,
            folder,
            stripe: self.array.and_then(|array| array.stripe(self.disks())),
            uuid: Some(&uuid),
        };
        let mounted = make_and_mount(ledger, &volume, self.made_filesystem()?, &self.filesystem_options)?;
        stack.uuid = Some(uuid);
        self.finish(ledger, stack, Place::Mounted(mounted))
    }

    /// [`TargetSpec::check`] has seen to it that there is one.
    fn made_filesystem(&self) -> Result<Filesystem> {
        self.filesystem.ok_or_else(|| Error::usage("a device needs a file system to put data into"))
    }

    /// What can be set before the file system is made: all but the read-ahead of btrfs, which has its own.
    fn set_queues(&self, ledger: &Ledger, stack: &mut Stack) -> Result<()> {
        for leaf in &stack.leaves {
            stack.settings.set_leaf(ledger, &leaf.name, &self.queue)?;
        }
        let own = self.filesystem == Some(Filesystem::Btrfs);
        match (self.queue.read_ahead_kib, &stack.top) {
            (Some(kib), Some(top)) if !own => {
                let path = format!("/sys/block/{}/queue/read_ahead_kb", top.name);
                stack.settings.set(ledger, PathBuf::from(path), &kib.to_string())
            }
            _ => Ok(()),
        }
    }

    /// What comes last: btrfs' read-ahead, which exists while it is mounted, and the cap, so that mkfs is not held up.
    fn finish(&self, ledger: &Ledger, stack: Stack, place: Place) -> Result<PreparedTarget> {
        let Stack { leaves, top, settings, formats, array, loops, uuid } = stack;
        let mut target = PreparedTarget {
            cap: None,
            late_settings: Applied::default(),
            place,
            formats,
            settings,
            array,
            loops,
            leaves,
            top,
            uuid,
            spec: self.clone(),
        };
        if let (Some(kib), Some(path)) = (self.queue.read_ahead_kib, target.own_read_ahead()) {
            target.late_settings.set(ledger, path, &kib.to_string())?;
        }
        if let Some(limits) = self.cap {
            let devices = target.capped();
            if devices.is_empty() {
                let what = format!("{} stands on no disk that a cap could limit", self.describe());
                return Err(Error::new(Kind::Unsupported, what));
            }
            let numbers: Vec<_> = devices.iter().map(|device| device.number).collect();
            target.cap = Some(Cap::on_each(ledger, &numbers, limits)?);
        }
        Ok(target)
    }
}

/// The parts below the file system, while they are put together; undone from the top down.
#[derive(Debug, Default)]
struct Stack {
    formats: Vec<Guard>,
    settings: Applied,
    array: Option<Built>,
    loops: Vec<LoopDevice>,
    leaves: Vec<TargetDevice>,
    top: Option<TargetDevice>,
    uuid: Option<String>,
}

impl PreparedTarget {
    /// The folder to put data into.
    pub fn path(&self) -> &Path {
        match &self.place {
            Place::Folder { path, .. } => path,
            Place::Mounted(mounted) => mounted.path(),
        }
    }

    /// Puts a running process under the cap, with all its threads; its later children follow it. Without a cap it does
    /// nothing.
    pub fn adopt_process(&self, pid: u32) -> Result<()> {
        self.cap.as_ref().map_or(Ok(()), |cap| cap.adopt_process(pid))
    }

    /// The file that takes the number of a process to put it under the cap; `None` without a cap.
    pub fn cgroup_processes_file(&self) -> Option<PathBuf> {
        self.cap.as_ref().map(Cap::processes_file)
    }

    /// The lowest devices, the only ones whose counters may be summed.
    pub fn devices(&self) -> Vec<TargetDevice> {
        self.leaves.clone()
    }

    /// The device that the file system is on; `None` for btrfs over several, and where no device is below a folder.
    pub fn top_device(&self) -> Option<TargetDevice> {
        self.top.clone()
    }

    /// The devices that a cap on this target limits.
    pub(super) fn capped(&self) -> Vec<TargetDevice> {
        match (&self.top, self.spec.cap_place) {
            (Some(top), CapPlace::Top) => vec![top.clone()],
            _ => self.leaves.clone(),
        }
    }

    /// The file with btrfs' own read-ahead; `None` for file systems that have their device's.
    pub(super) fn own_read_ahead(&self) -> Option<PathBuf> {
        let uuid = self.uuid.as_deref().filter(|_| self.spec.filesystem == Some(Filesystem::Btrfs))?;
        let link = Path::new("/sys/fs/btrfs").join(uuid).join("bdi");
        fs::canonicalize(link).ok().map(|folder| folder.join("read_ahead_kb"))
    }

    /// Takes it down now and tells whether that worked. What failed stays in the ledger.
    pub fn undo(self) -> Result<()> {
        // Where one part cannot be undone, the rest still goes from the top down: the last named is dropped first.
        let PreparedTarget { loops, array, settings, formats, place, late_settings, cap, .. } = self;
        cap.map_or(Ok(()), Cap::lift)?;
        late_settings.undo()?;
        match place {
            Place::Folder { guard, .. } => guard.undo()?,
            Place::Mounted(mounted) => mounted.undo()?,
        }
        formats.into_iter().rev().try_for_each(Guard::undo)?;
        settings.undo()?;
        array.map_or(Ok(()), Built::undo)?;
        loops.into_iter().rev().try_for_each(LoopDevice::undo)
    }
}

fn named(device: &Device) -> TargetDevice {
    TargetDevice { name: device.name.clone(), number: device.number }
}
