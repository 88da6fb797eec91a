//! The block devices under a directory, their stack, and the read-ahead that counts for its files.
//!
//! A mount and a device are not one to one. btrfs and bcachefs spread a file system over several devices, and XFS may keep its
//! log on another one, while the mount names a single device. An overlay has no device: its files are in the file system
//! of its upper directory, which may be an overlay too. All code asks here, so that every verb means the same devices.
//!
//! ZFS tells the kernel nothing of its pool's devices: `/proc/spl/kstat/zfs` has counters of pools and data sets, and no names of devices
//! (openzfs/zfs:module/zfs/spa_stats.c). The devices are therefore unknown, and every verb says so.
//!
//! A file system without a device number of its own (btrfs, NFS) has its own read-ahead too, and the one of the device
//! under it has no effect.
//!
//! Sources: torvalds/linux:fs/btrfs/sysfs.c (`devices`, `bdi`); mm/backing-dev.c; fs/super.c (`super_setup_bdi`);
//! Documentation/filesystems/overlayfs.rst; Documentation/admin-guide/xfs.rst (`logdev`, `rtdev`).

use std::fs;
use std::path::Path;

use fathom_errors::Result;

use crate::{BlockTree, Device, Mount, Mounts, View};

/// Overlays that may stand on one another (torvalds/linux:include/linux/fs.h, `FILESYSTEM_MAX_STACK_DEPTH`). In a container an
/// overlay may even seem to stand on itself, since its upper directory is a path of the host.
const MAX_OVERLAYS: usize = 2;

/// The devices under a directory, from its file system down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceStack {
    /// The mount whose file system receives the writes: under an overlay, that of its upper directory. `None` if no mount
    /// is known.
    pub mount: Option<Mount>,
    /// The devices that the file system is on: several for btrfs. Empty if none is visible.
    pub tops: Vec<Device>,
    /// `tops` and every device below them, tops first, each once.
    pub layers: Vec<Device>,
    /// The setting that decides how much the kernel reads ahead of these files; `None` if it cannot be read.
    pub read_ahead: Option<ReadAhead>,
}

/// A setting of read-ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    pub kib: u64,
    /// Its file in a [`View`].
    pub path: String,
    /// The device whose setting it is; `None` if the file system has its own.
    pub device: Option<String>,
}

impl DeviceStack {
    /// Reads the devices under a directory (absolute, without symbolic links).
    ///
    /// # Errors
    /// If the mounts cannot be read.
    pub fn read(view: &View, directory: &Path) -> Result<DeviceStack> {
        Ok(DeviceStack::under(view, &Mounts::read(view)?, &BlockTree::read(view), directory))
    }

    /// The devices under a directory (absolute, without symbolic links), by mounts and devices that were read before.
    pub fn under(view: &View, mounts: &Mounts, tree: &BlockTree, directory: &Path) -> DeviceStack {
        let mount = mounts.containing(directory);
        mount.map_or_else(DeviceStack::default, |mount| DeviceStack::from_mount(view, mounts, tree, mount))
    }

    /// The devices under a mount.
    pub fn from_mount(view: &View, mounts: &Mounts, tree: &BlockTree, mount: &Mount) -> DeviceStack {
        let holders = holders(mounts, mount, MAX_OVERLAYS);
        let mut tops: Vec<&Device> = Vec::new();
        for device in holders.iter().flat_map(|holder| devices_of(view, tree, holder)) {
            if !tops.iter().any(|top| top.name == device.name) {
                tops.push(device);
            }
        }
        let holder = holders.first().copied().unwrap_or(mount);
        DeviceStack {
            mount: Some(holder.clone()),
            read_ahead: read_ahead(view, tree, holder, tops.first().copied()),
            layers: tree.layers(tops.iter().copied()).into_iter().cloned().collect(),
            tops: tops.into_iter().cloned().collect(),
        }
    }

    /// The bottom devices, the only ones whose counters may be summed.
    pub fn leaves(&self) -> impl Iterator<Item = &Device> {
        self.layers.iter().filter(|device| device.below.is_empty())
    }

    /// The names of the devices that the file system is on.
    pub fn top_names(&self) -> Vec<String> {
        self.tops.iter().map(|device| device.name.clone()).collect()
    }

    /// The names of the bottom devices.
    pub fn leaf_names(&self) -> Vec<String> {
        self.leaves().map(|device| device.name.clone()).collect()
    }

    /// The reason that no device is visible, as the end of a sentence; `None` if one is.
    pub fn absence(&self) -> Option<String> {
        if !self.tops.is_empty() {
            return None;
        }
        let Some(mount) = &self.mount else { return Some("no mount is known that holds it".to_owned()) };
        let kind = mount.fs_type.as_str();
        Some(match kind {
            _ if mount.is_in_memory() => format!("{kind} keeps its files in memory"),
            _ if mount.is_remote() => format!("{kind} gets its files over a network or from a process"),
            "zfs" => "ZFS hides its devices from the kernel's lists ('zpool status' shows them)".to_owned(),
            "overlay" => {
                "the file system under the overlay is not visible here, as in a container".to_owned()
            }
            _ => format!("{kind} is on device {}, which /sys/block does not have", mount.number),
        })
    }
}

/// The mounts whose file systems hold the files of `mount`: itself, or those under an overlay. Empty if they are not visible.
fn holders<'m>(mounts: &'m Mounts, mount: &'m Mount, overlays: usize) -> Vec<&'m Mount> {
    if mount.fs_type != "overlay" {
        return vec![mount];
    }
    let Some(overlays) = overlays.checked_sub(1) else { return Vec::new() };
    let below = mount.overlaid().into_iter().filter_map(|directory| mounts.containing(Path::new(directory)));
    below.flat_map(|below| holders(mounts, below, overlays)).collect()
}

/// The devices that a file system is on.
fn devices_of<'t>(view: &View, tree: &'t BlockTree, mount: &Mount) -> Vec<&'t Device> {
    if let Some(device) = tree.by_number(mount.number) {
        let options = ["logdev", "rtdev"].iter().filter_map(|option| mount.option(option));
        return std::iter::once(device).chain(options.filter_map(|path| at(view, tree, path))).collect();
    }
    if mount.is_remote() || mount.is_in_memory() {
        return Vec::new();
    }
    let listed = btrfs_folder(view, tree, mount).map(|folder| view.list(&format!("{folder}/devices")));
    let listed: Vec<&Device> = listed.into_iter().flatten().filter_map(|name| tree.by_name(&name)).collect();
    // bcachefs mounts `/dev/sda:/dev/sdb`.
    if listed.is_empty() {
        mount.source.split(':').filter_map(|path| at(view, tree, path)).collect()
    } else {
        listed
    }
}

/// The device of a node in `/dev`; on a live machine also of a link to one.
fn at<'t>(view: &View, tree: &'t BlockTree, path: &str) -> Option<&'t Device> {
    path.strip_prefix("/dev/")?;
    tree.by_name(path).or_else(|| {
        let node = fs::canonicalize(path).ok().filter(|_| view.is_live())?;
        tree.by_name(node.to_str()?)
    })
}

/// The folder of a btrfs file system in sysfs: the one that has the mounted source among its devices. If no device has the
/// name of the source (`/dev/root`), the only folder.
fn btrfs_folder(view: &View, tree: &BlockTree, mount: &Mount) -> Option<String> {
    if mount.fs_type != "btrfs" {
        return None;
    }
    let folders = view.list("sys/fs/btrfs").into_iter().map(|uuid| {
        let folder = format!("sys/fs/btrfs/{uuid}");
        let devices = view.list(&format!("{folder}/devices"));
        (folder, devices)
    });
    // The folder `features` has no devices.
    let mut folders = folders.filter(|(_, devices)| !devices.is_empty());
    let (folder, _) = match at(view, tree, &mount.source) {
        Some(source) => folders.find(|(_, devices)| devices.contains(&source.name))?,
        None => folders.next().filter(|_| folders.next().is_none())?,
    };
    Some(folder)
}

fn read_ahead(view: &View, tree: &BlockTree, mount: &Mount, top: Option<&Device>) -> Option<ReadAhead> {
    let disk = top.map(|top| tree.whole(top));
    // The file system under such an overlay is not known, and ZFS prefetches by rules of its own.
    if matches!(mount.fs_type.as_str(), "overlay" | "zfs") {
        return None;
    }
    let bdi = |name: &str| format!("sys/class/bdi/{name}/read_ahead_kb");
    let number = mount.number.to_string();
    let mut candidates: Vec<(Option<&Device>, String)> = Vec::new();
    if mount.number.is_anonymous() {
        let own = btrfs_folder(view, tree, mount).map(|folder| format!("{folder}/bdi/read_ahead_kb"));
        let own = own
            .into_iter()
            .chain([bdi(&number)])
            .chain(only_of_kind(view, &mount.fs_type).map(|name| bdi(&name)));
        candidates.extend(own.map(|path| (None, path)));
    } else {
        candidates.push((None, bdi(&format!("{number}-{}", mount.fs_type))));
        candidates.push((disk, bdi(&number)));
        candidates.extend(disk.map(|disk| (Some(disk), bdi(&disk.number.to_string()))));
        candidates.extend(disk.map(|disk| (Some(disk), format!("{}/read_ahead_kb", disk.queue()))));
    }
    candidates.into_iter().find_map(|(device, path)| {
        Some(ReadAhead { kib: view.number(&path)?, path, device: device.map(|device| device.name.clone()) })
    })
}

/// The only entry of a kind of file system whose entries are numbered (`btrfs-1`). With several entries, the mount of each is
/// unknown.
fn only_of_kind(view: &View, kind: &str) -> Option<String> {
    let is_of_kind = |name: &String| {
        let number = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let mut names = view.list("sys/class/bdi").into_iter().filter(is_of_kind);
    names.next().filter(|_| names.next().is_none())
}

#[cfg(test)]
#[path = "device_stack_tests.rs"]
mod tests;
