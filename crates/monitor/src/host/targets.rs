//! Selects the block devices to watch: those that the data's file system is on, and the bottom devices below them.
//!
//! Counters of a stack's layers must not be added up, so each device is watched under its own name, and the bottom devices
//! are marked, since only they have their own queue.

use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::diskstats::{self, Counters};
use fathom_host::{BlockTree, Device, DeviceKind, DeviceNumber, DeviceStack, View};

/// The choice of devices to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// The devices under the data directory.
    Under(PathBuf),
    /// The devices with these names (`sda`, `/dev/mapper/vg0-data`), each with the bottom devices below it.
    Named(Vec<String>),
    /// Every bottom device that has a size.
    All,
}

/// A device that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedDevice {
    pub(crate) name: String,
    pub(crate) number: DeviceNumber,
    /// Its folder in a [`View`].
    pub(crate) sysfs: String,
    /// The folder of its queue.
    pub(crate) queue: String,
    pub(crate) kind: DeviceKind,
    /// True if no device is below it.
    pub(crate) bottom: bool,
    /// True if its empty flushes are also counted as writes.
    pub(crate) volatile_cache: bool,
    /// True if it can write through its cache without a flush.
    pub(crate) has_fua: bool,
    /// The device and every device above it; any of them may have a file system.
    pub(crate) above: Vec<String>,
}

impl Devices {
    /// Checks that the devices exist.
    ///
    /// # Errors
    /// When there is no such device, or no device under the directory.
    pub fn check(&self, view: &View) -> Result<()> {
        self.find(view).map(drop)
    }

    /// Finds the devices to watch.
    ///
    /// # Errors
    /// As [`Devices::check`].
    pub(crate) fn find(&self, view: &View) -> Result<Vec<WatchedDevice>> {
        let tree = BlockTree::read(view);
        let mut found: Vec<WatchedDevice> = Vec::new();
        let mut add = |device: &Device| {
            if !found.iter().any(|target| target.name == device.name) {
                found.push(target(view, &tree, device));
            }
        };
        match self {
            Devices::Under(directory) => {
                let stack = under(view, directory)?;
                stack.tops.iter().chain(stack.leaves()).for_each(&mut add);
            }
            Devices::Named(names) => {
                for name in names {
                    let device = tree.by_name(name).ok_or_else(|| unknown(view, name))?;
                    std::iter::once(device).chain(tree.leaves([device])).for_each(&mut add);
                }
            }
            Devices::All => tree
                .iter()
                .filter(|device| device.below.is_empty())
                .filter(|device| view.number(&format!("{}/size", device.sysfs())) != Some(0))
                .for_each(add),
        }
        Ok(found)
    }
}

/// The error for a device that was named and is not in the tree. A container may hide it, or what it is stacked on.
fn unknown(view: &View, name: &str) -> Error {
    let is_hidden = view.list("sys/block").is_empty();
    let what = format!("there is no block device called {name} here");
    match (is_hidden, diskstats::read(view).unwrap_or_default().is_empty()) {
        (true, true) => Error::new(Kind::Unsupported, format!("the counters of {name} cannot be read"))
            .advise(diskstats::NO_COUNTERS),
        (true, false) => Error::new(Kind::NotFound, what)
            .advise("/sys/block is hidden, as in a container, so only disks and partitions can be named"),
        (false, _) => Error::new(Kind::NotFound, what).advise("name one of those that lsblk shows"),
    }
}

fn under(view: &View, directory: &Path) -> Result<DeviceStack> {
    let path = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let stack = DeviceStack::read(view, &path)?;
    match stack.absence() {
        None => Ok(stack),
        Some(absence) => {
            let what = format!("{} has no block device here: {absence}", directory.display());
            Err(Error::new(Kind::NotFound, what).advise("name devices to watch with --device"))
        }
    }
}

/// Whether zeros of a target mean nothing, by the present counters ([`BlockTree::is_silent`]).
pub(crate) fn is_silent<'c>(
    view: &View,
    tree: &BlockTree,
    target: &WatchedDevice,
    counters: impl Fn(&str) -> Option<&'c Counters>,
) -> bool {
    let has_counted = |name: &str| counters(name).is_some_and(Counters::any_io);
    let device = tree.by_name(&target.name);
    device.is_some_and(|device| tree.is_silent(device, &|one| one.is_frozen(view), &has_counted))
}

fn target(view: &View, tree: &BlockTree, device: &Device) -> WatchedDevice {
    let stands_on = |other: &&Device| tree.layers([*other]).iter().any(|layer| layer.name == device.name);
    WatchedDevice {
        name: device.name.clone(),
        number: device.number,
        sysfs: device.sysfs(),
        queue: device.queue(),
        kind: device.kind,
        bottom: device.below.is_empty(),
        volatile_cache: device.has_volatile_cache(view),
        has_fua: view.number(&format!("{}/fua", device.queue())) == Some(1),
        above: tree.iter().filter(stands_on).map(|other| other.name.clone()).collect(),
    }
}
