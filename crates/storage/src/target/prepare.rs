//! Builds a target from the bottom up, and takes it down from the top.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::{BlockTree, Device, DeviceNumber, DeviceStack, Mounts, View};
use fathom_process::{Guard, Ledger, Resource, Tool, signatures};
use fathom_units::Bytes;

use super::{Base, CapPlace, NamedDisk, TargetSpec, disk};
use crate::array::{ArrayGuard, ArrayPart};
use crate::filesystem::{MountGuard, make_and_mount};
use crate::mkfs::Volume;
use crate::queue::QueueSettingsGuard;
use crate::{Cap, Filesystem, LoopDevice, kernel};

/// A device under a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetDevice {
    /// The kernel's name: `loop3`, `nvme0n1`.
    pub name: String,
    pub number: DeviceNumber,
}

/// A prepared target. Dropping it takes it down and gives borrowed disks back as they were.
#[derive(Debug)]
pub struct PreparedTarget {
    // Undone in this order: from the top down.
    pub(super) cap: Option<Cap>,
    late_settings: QueueSettingsGuard,
    place: DataLocation,
    formats: Vec<Guard>,
    settings: QueueSettingsGuard,
    pub(super) array: Option<ArrayGuard>,
    pub(super) loops: Vec<LoopDevice>,
    pub(super) leaves: Vec<TargetDevice>,
    /// The uppermost device; `None` for btrfs over several devices, and for a folder that is on no device.
    pub(super) top: Option<TargetDevice>,
    /// The UUID of the file system that was made.
    pub(super) uuid: Option<String>,
    pub(super) spec: TargetSpec,
}

/// The location of the data.
#[derive(Debug)]
enum DataLocation {
    /// A folder of ours in a folder that is not.
    Folder {
        guard: Guard,
        path: PathBuf,
    },
    Mounted(MountGuard),
}

impl TargetSpec {
    /// Builds the target and records each part before it is made. After a failure the parts made so far are taken down again.
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
        let (mounts, tree) = (Mounts::read(&view)?, BlockTree::read(&view));
        let under = DeviceStack::under(&view, &mounts, &tree, &folder);
        let leaves = under.leaves().map(named).collect();
        // Requests are limited and counted on whole disks.
        let top = match under.tops.as_slice() {
            [only] => Some(tree.whole(only)),
            _ => None,
        };
        let path = folder.join(ledger.unique_name());
        let guard = ledger.create_tree(&path)?.guard();
        let stack = TargetStack { leaves, top: top.map(named), ..TargetStack::default() };
        self.finish(ledger, stack, DataLocation::Folder { guard, path })
    }

    fn prepare_loops(
        &self,
        ledger: &Ledger,
        folder: &Path,
        count: u32,
        size: Bytes,
    ) -> Result<PreparedTarget> {
        let mut stack = TargetStack::default();
        for _ in 0..count {
            let device = LoopDevice::create(ledger, folder, size, self.loops)?;
            stack.leaves.push(TargetDevice { name: device.name(), number: device.number() });
            stack.loops.push(device);
        }
        let parts: Vec<ArrayPart> = stack.loops.iter().map(LoopDevice::part).collect();
        let folder = stack.loops.first().map_or_else(|| folder.to_owned(), |first| first.folder().to_owned());
        self.stand(ledger, stack, &parts, &folder)
    }

    fn prepare_disks(&self, ledger: &Ledger, disks: &[NamedDisk]) -> Result<PreparedTarget> {
        let mut stack = TargetStack::default();
        let mut parts = Vec::new();
        for NamedDisk { path, .. } in disks {
            let path = path.canonicalize().map_err(|e| Error::io("open", path, e))?;
            let device = disk::find(&path)?;
            stack.leaves.push(named(&device));
            parts.push(ArrayPart {
                path,
                name: device.name.clone(),
                size: disk::size(&device),
                backing: None,
            });
        }
        for ArrayPart { path, .. } in &parts {
            if self.wipe && !signatures(path)?.is_empty() {
                Tool::new("wipefs", "util-linux")?.arg("--all").arg(path).run()?;
            }
        }
        self.stand(ledger, stack, &parts, &env::temp_dir())
    }

    /// Builds everything above the disks: the array, the settings of their queues, and the file system, mounted in `folder`.
    fn stand(
        &self,
        ledger: &Ledger,
        mut stack: TargetStack,
        parts: &[ArrayPart],
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
        // The data on a loop device is deleted with its file.
        if parts.iter().any(|part| part.backing.is_none()) {
            for device in std::iter::once(&device).chain(&others) {
                let format = Resource::Format { device: device.clone(), uuid: uuid.clone() };
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
        self.finish(ledger, stack, DataLocation::Mounted(mounted))
    }

    /// The file system; [`TargetSpec::check`] guarantees that the target has one.
    fn made_filesystem(&self) -> Result<Filesystem> {
        self.filesystem.ok_or_else(|| Error::usage("a device needs a file system to put data into"))
    }

    /// Makes the settings that precede the file system: all but the read-ahead of btrfs, which is its own.
    fn set_queues(&self, ledger: &Ledger, stack: &mut TargetStack) -> Result<()> {
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

    /// Makes the last settings: btrfs' read-ahead, which exists only while it is mounted, and the cap, which would slow mkfs down.
    fn finish(&self, ledger: &Ledger, stack: TargetStack, place: DataLocation) -> Result<PreparedTarget> {
        let TargetStack { leaves, top, settings, formats, array, loops, uuid } = stack;
        let mut target = PreparedTarget {
            cap: None,
            late_settings: QueueSettingsGuard::default(),
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
                let what = format!("{} is not on a disk that a cap could limit", self.describe());
                return Err(Error::new(Kind::Unsupported, what));
            }
            let numbers: Vec<_> = devices.iter().map(|device| device.number).collect();
            target.cap = Some(Cap::on_each(ledger, &numbers, limits)?);
        }
        Ok(target)
    }
}

/// The parts below the file system while they are being put together; undone from the top down.
#[derive(Debug, Default)]
struct TargetStack {
    formats: Vec<Guard>,
    settings: QueueSettingsGuard,
    array: Option<ArrayGuard>,
    loops: Vec<LoopDevice>,
    leaves: Vec<TargetDevice>,
    top: Option<TargetDevice>,
    uuid: Option<String>,
}

impl PreparedTarget {
    /// The folder to put data into.
    pub fn path(&self) -> &Path {
        match &self.place {
            DataLocation::Folder { path, .. } => path,
            DataLocation::Mounted(mounted) => mounted.path(),
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

    /// The device that the file system is on; `None` for btrfs over several devices, and if a folder is on no device.
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

    /// The file with btrfs' own read-ahead; `None` for file systems that use their device's.
    pub(super) fn own_read_ahead(&self) -> Option<PathBuf> {
        let uuid = self.uuid.as_deref().filter(|_| self.spec.filesystem == Some(Filesystem::Btrfs))?;
        let link = Path::new("/sys/fs/btrfs").join(uuid).join("bdi");
        fs::canonicalize(link).ok().map(|folder| folder.join("read_ahead_kb"))
    }

    /// Takes the target down now and returns whether that worked. Parts that could not be undone stay in the ledger.
    pub fn undo(self) -> Result<()> {
        // If one part cannot be undone, the rest is still taken down from the top: the variable declared last is dropped first.
        let PreparedTarget { loops, array, settings, formats, place, late_settings, cap, .. } = self;
        cap.map_or(Ok(()), Cap::lift)?;
        late_settings.undo()?;
        match place {
            DataLocation::Folder { guard, .. } => guard.undo()?,
            DataLocation::Mounted(mounted) => mounted.undo()?,
        }
        formats.into_iter().rev().try_for_each(Guard::undo)?;
        settings.undo()?;
        array.map_or(Ok(()), ArrayGuard::undo)?;
        loops.into_iter().rev().try_for_each(LoopDevice::undo)
    }
}

fn named(device: &Device) -> TargetDevice {
    TargetDevice { name: device.name.clone(), number: device.number }
}
