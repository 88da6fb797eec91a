//! Which device stands on which, so that a request is shown at every layer and counted at one.
//!
//! [`BlockTree`] knows partitions, device mapper and md. A loop device stands on the disk under its backing file,
//! which only the mounts tell; without it a total would count a loop device's requests twice.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{BlockTree, Device, DeviceKind, Mounts, View};

/// The machine's block devices with loop devices placed on their disks.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    tree: BlockTree,
    backing: BTreeMap<String, String>,
    frozen: Vec<String>,
    detached: Vec<String>,
}

impl Stack {
    /// Reads the tree; a machine without sysfs has an empty one.
    pub fn read(view: &View) -> Self {
        let tree = BlockTree::read(view);
        let mounts = Mounts::read(view).unwrap_or_default();
        let (mut backing, mut detached) = (BTreeMap::new(), Vec::new());
        for device in tree.iter().filter(|device| device.kind == DeviceKind::Loop) {
            let Some(file) = view.value(&format!("{}/loop/backing_file", device.sysfs())) else {
                detached.push(device.name.clone());
                continue;
            };
            let disk = mounts.containing(Path::new(&file)).and_then(|mount| tree.under(mount));
            backing.extend(disk.map(|disk| (device.name.clone(), disk.name.clone())));
        }
        let frozen = |device: &&Device| view.number(&format!("{}/iostats", device.queue())) == Some(0);
        let frozen = tree.iter().filter(frozen).map(|device| device.name.clone()).collect();
        Stack { tree, backing, frozen, detached }
    }

    /// The device of that name.
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.tree.iter().find(|device| device.name == name)
    }

    /// Every device.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.tree.iter()
    }

    /// The device that a person means by `name` (`/dev/sda`, a mapper name).
    pub fn find(&self, name: &str) -> Option<&Device> {
        self.tree.by_name(name)
    }

    /// What a device stands on directly; nothing for a bottom device or an unknown one.
    pub fn below(&self, name: &str) -> Vec<&str> {
        match self.backing.get(name) {
            Some(disk) => vec![disk.as_str()],
            None => self.device(name).map_or_else(Vec::new, |d| d.below.iter().map(String::as_str).collect()),
        }
    }

    /// Whether the device's counters stand still because `queue/iostats` is 0.
    pub fn is_frozen(&self, name: &str) -> bool {
        self.frozen.iter().any(|frozen| frozen == name)
    }

    /// Whether it is a loop device without a file, which keeps its counters but is no disk.
    pub fn is_detached(&self, name: &str) -> bool {
        self.detached.iter().any(|detached| detached == name)
    }
}
