//! The tree of block devices: disks, partitions, and the md, device-mapper and loop devices stacked on them.
//!
//! Advice and counters belong to one layer each: read-ahead counts at the top device, the scheduler at the bottom one,
//! and adding up a stack's layers counts every request twice. All code therefore asks this tree for the layer of a
//! device. Read from `sys/block` (torvalds/linux:Documentation/ABI/stable/sysfs-block).
//!
//! Two kinds of stack are not in `slaves/`. Native NVMe multipath shows a namespace (`nvme0n1`, the head) and hides a disk
//! without a device node for each path to it (`nvme0c1n1`: subsystem 0, controller 1); the paths have the queues, and on
//! many kernels only they count requests (torvalds/linux:drivers/nvme/host/multipath.c). A bcache device lies on its
//! backing device and on the cache of its set (torvalds/linux:drivers/md/bcache/super.c).

use crate::{DeviceNumber, View, diskstats};

/// The kind of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A whole disk, physical or virtual.
    Disk,
    /// A partition of a disk.
    Partition,
    /// Device mapper: LVM, dm-crypt, multipath.
    Mapper,
    Raid,
    /// A loop device on a file.
    Loop,
}

/// One block device and the devices below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The kernel's name (`sda1`, `dm-0`).
    pub name: String,
    pub number: DeviceNumber,
    pub kind: DeviceKind,
    /// For a partition, the disk's name.
    pub disk: Option<String>,
    /// For device mapper, the name people know (`vg0-data`).
    pub mapper_name: Option<String>,
    /// The devices that this one is stacked on (`slaves/`, paths, a cache), or a partition's disk.
    pub below: Vec<String>,
}

impl Device {
    /// Its folder in a [`View`].
    pub fn sysfs(&self) -> String {
        match &self.disk {
            Some(disk) => format!("sys/block/{disk}/{}", self.name),
            None => format!("sys/block/{}", self.name),
        }
    }

    /// The folder of its request queue; a partition shares its disk's.
    pub fn queue(&self) -> String {
        format!("sys/block/{}/queue", self.disk.as_deref().unwrap_or(&self.name))
    }

    /// The number of its NVMe controller (`nvme0c1n1`: 1); `None` for other devices.
    pub fn nvme_controller(&self) -> Option<&str> {
        let disk = self.disk.as_deref().unwrap_or(&self.name);
        let numbers = disk.strip_prefix("nvme")?;
        let controller = numbers.split_once('c').map_or(numbers, |(_, path)| path);
        controller.split_once('n').map(|(number, _)| number)
    }

    /// Whether its counters are switched off (`queue/iostats` is 0).
    pub fn is_frozen(&self, view: &View) -> bool {
        view.number(&format!("{}/iostats", self.queue())) == Some(0)
    }

    /// Returns whether the kernel takes its write cache for volatile (`write back`): then each flush is counted among its writes too.
    pub fn has_volatile_cache(&self, view: &View) -> bool {
        view.value(&format!("{}/write_cache", self.queue())).as_deref() == Some("write back")
    }
}

/// All block devices of a machine.
#[derive(Clone, Debug, Default)]
pub struct BlockTree {
    devices: Vec<Device>,
}

impl BlockTree {
    /// Reads `sys/block`. Some containers hide it: the tree then has the disks and partitions of `proc/diskstats`, and no stack.
    pub fn read(view: &View) -> Self {
        let mut devices = Vec::new();
        for name in view.list("sys/block") {
            let folder = format!("sys/block/{name}");
            let number = view.value(&format!("{folder}/dev")).and_then(|dev| dev.parse().ok());
            let Some(number) = number.or_else(|| hidden_number(view, &name)) else { continue };
            for part in view.list(&folder).iter().filter(|part| part.starts_with(&name)) {
                let number = view.value(&format!("{folder}/{part}/dev")).and_then(|dev| dev.parse().ok());
                devices.extend(number.map(|number| Device {
                    name: part.clone(),
                    number,
                    kind: DeviceKind::Partition,
                    disk: Some(name.clone()),
                    mapper_name: None,
                    below: vec![name.clone()],
                }));
            }
            devices.push(Device {
                kind: kind_of(view, &folder, &name),
                mapper_name: view.value(&format!("{folder}/dm/name")),
                below: view.list(&format!("{folder}/slaves")),
                disk: None,
                number,
                name,
            });
        }
        if devices.is_empty() {
            devices = from_counters(view);
        }
        let hidden: Vec<(String, String)> =
            devices.iter().filter_map(|device| Some((head_of(&device.name)?, device.name.clone()))).collect();
        let caches = caches(view, &devices);
        for (above, below) in hidden.into_iter().chain(caches) {
            let above = devices.iter_mut().find(|device| device.name == above);
            if let Some(above) = above.filter(|above| !above.below.contains(&below)) {
                above.below.push(below);
            }
        }
        BlockTree { devices }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter()
    }

    /// The device called `name` (`sda1`, `dm-0`, a mapper name, or either with `/dev/` before it).
    pub fn by_name(&self, name: &str) -> Option<&Device> {
        let name = name.strip_prefix("/dev/").unwrap_or(name);
        let name = name.strip_prefix("mapper/").unwrap_or(name);
        // The kernel writes '!' in sysfs for a '/' in a device's name (`cciss/c0d0`).
        let kernel_name = name.replace('/', "!");
        let is_called = |device: &&Device| {
            device.name == kernel_name || device.mapper_name.as_deref().is_some_and(|mapper| mapper == name)
        };
        self.devices.iter().find(is_called)
    }

    /// The device with this number.
    pub fn by_number(&self, number: DeviceNumber) -> Option<&Device> {
        self.devices.iter().find(|device| device.number == number && !number.is_anonymous())
    }

    /// A partition's disk; any other device itself.
    pub fn whole<'d>(&'d self, device: &'d Device) -> &'d Device {
        device.disk.as_deref().and_then(|disk| self.by_name(disk)).unwrap_or(device)
    }

    /// `tops` and all devices below them, tops first, each once.
    pub fn layers<'a>(&'a self, tops: impl IntoIterator<Item = &'a Device>) -> Vec<&'a Device> {
        let mut layers: Vec<&Device> = Vec::new();
        let add = |layers: &mut Vec<&'a Device>, device: &'a Device| {
            if !layers.iter().any(|seen| seen.name == device.name) {
                layers.push(device);
            }
        };
        tops.into_iter().for_each(|top| add(&mut layers, top));
        let mut next = 0;
        while let Some(device) = layers.get(next).copied() {
            next += 1;
            device
                .below
                .iter()
                .filter_map(|name| self.by_name(name))
                .for_each(|below| add(&mut layers, below));
        }
        layers
    }

    /// The bottom devices under `tops`: the only layer whose counters may be summed.
    pub fn leaves<'a>(&'a self, tops: impl IntoIterator<Item = &'a Device>) -> Vec<&'a Device> {
        self.layers(tops).into_iter().filter(|device| device.below.is_empty()).collect()
    }

    /// Whether zeros in a device's counters say nothing about its use: they are switched off, or it never counted a request
    /// although a device below it alone did. A partition is counted together with its disk.
    ///
    /// `is_frozen` tells whether a device's counters are switched off, `has_counted` whether the device of that name ever
    /// counted a request.
    pub fn is_silent(
        &self,
        device: &Device,
        is_frozen: &dyn Fn(&Device) -> bool,
        has_counted: &dyn Fn(&str) -> bool,
    ) -> bool {
        if is_frozen(device) {
            return true;
        }
        if has_counted(&device.name) {
            return false;
        }
        let explains = |other: &Device, below: &Device| {
            other.name != device.name && other.below.contains(&below.name) && has_counted(&other.name)
        };
        device.below.iter().filter_map(|name| self.by_name(name)).any(|below| match device.kind {
            DeviceKind::Partition => self.is_silent(below, is_frozen, has_counted),
            _ => has_counted(&below.name) && !self.devices.iter().any(|other| explains(other, below)),
        })
    }
}

/// The disks and partitions that have counters. The devices that md, device mapper and loop devices are stacked on are not known without
/// `sys/block`, so these are left out: they would pass for disks of their own.
fn from_counters(view: &View) -> Vec<Device> {
    const STACKED: [&str; 7] = ["dm-", "md", "loop", "bcache", "zram", "ram", "zd"];
    let lines = diskstats::read(view).unwrap_or_default();
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let is_disk = |name: &&str| !STACKED.iter().any(|stacked| name.starts_with(stacked));
    let device = |(name, number): (&str, DeviceNumber)| {
        let disk = names.iter().find(|disk| is_partition(name, disk)).map(|disk| (*disk).to_owned());
        let kind = if disk.is_some() { DeviceKind::Partition } else { DeviceKind::Disk };
        let (name, below) = (name.to_owned(), disk.iter().cloned().collect());
        Device { name, number, kind, disk, mapper_name: None, below }
    };
    let numbers = lines.iter().map(|line| line.number);
    names.iter().copied().zip(numbers).filter(|(name, _)| is_disk(name)).map(device).collect()
}

/// Whether a name is that of a partition of a disk: a number follows, after a `p` if the disk's name ends in a digit.
fn is_partition(name: &str, disk: &str) -> bool {
    let Some(number) = name.strip_prefix(disk) else { return false };
    let number = match disk.ends_with(|last: char| last.is_ascii_digit()) {
        true => number.strip_prefix('p').unwrap_or_default(),
        false => number,
    };
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The namespace (`nvme0n1`) that a hidden path of NVMe multipath (`nvme0c1n1`) leads to; `None` for other devices.
fn head_of(name: &str) -> Option<String> {
    let (subsystem, path) = name.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = path.split_once('n')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_path = [subsystem, controller, namespace].into_iter().all(is_number);
    is_path.then(|| format!("nvme{subsystem}n{namespace}"))
}

/// The number of a hidden path, which has no `dev` file: that of its counters, which is 0:0 on older kernels.
fn hidden_number(view: &View, name: &str) -> Option<DeviceNumber> {
    head_of(name)?;
    let line = diskstats::read(view).unwrap_or_default().into_iter().find(|line| line.name == name);
    Some(line.map_or(DeviceNumber { major: 0, minor: 0 }, |line| line.number))
}

/// Each bcache device with each cache of its set.
fn caches(view: &View, devices: &[Device]) -> Vec<(String, String)> {
    let set = |device: &Device, link: &str| view.link_name(&format!("{}/bcache/{link}", device.sysfs()));
    let mut found = Vec::new();
    for above in devices.iter().filter(|device| device.name.starts_with("bcache")) {
        let Some(its) = set(above, "cache") else { continue };
        let caches = devices.iter().filter(|device| set(device, "set").as_ref() == Some(&its));
        found.extend(caches.map(|cache| (above.name.clone(), cache.name.clone())));
    }
    found
}

fn kind_of(view: &View, folder: &str, name: &str) -> DeviceKind {
    if view.exists(&format!("{folder}/md")) {
        DeviceKind::Raid
    } else if view.exists(&format!("{folder}/dm")) || name.starts_with("dm-") {
        DeviceKind::Mapper
    } else if name.starts_with("loop") {
        DeviceKind::Loop
    } else {
        DeviceKind::Disk
    }
}

/// `host:channel:target:lun` of a SCSI disk; `None` for other devices.
fn address(view: &View, device: &Device) -> Option<String> {
    let folder = format!("sys/block/{}/device/scsi_disk", device.disk.as_deref().unwrap_or(&device.name));
    view.list(&folder).into_iter().next()
}

/// The SCSI host's name (`host2`), if that host is an iSCSI initiator.
pub(crate) fn iscsi_host(view: &View, device: &Device) -> Option<String> {
    let address = address(view, device)?;
    let host = format!("host{}", address.split(':').next()?);
    view.list("sys/class/iscsi_host").contains(&host).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The disk of `watch --device` was said not to exist, though its counters can be read.
    #[test]
    fn without_sysfs_the_disks_and_partitions_are_those_of_the_counters() {
        let folder = tempfile::tempdir().unwrap();
        ["proc", "sys"].iter().for_each(|name| std::fs::create_dir(folder.path().join(name)).unwrap());
        let line = |number: &str, name: &str| format!("{number} {name} 1 0 8 1 1 0 8 1 0 2 2\n");
        let text = [
            ("8 0", "sda"),
            ("8 1", "sda1"),
            ("8 10", "sda10"),
            ("259 0", "nvme0n1"),
            ("259 1", "nvme0n1p1"),
            ("259 2", "nvme0n10"),
            ("253 0", "dm-0"),
            ("9 0", "md0"),
            ("7 0", "loop0"),
        ]
        .map(|(number, name)| line(number, name));
        std::fs::write(folder.path().join("proc/diskstats"), text.concat()).unwrap();
        let tree = BlockTree::read(&View::snapshot(folder.path()).unwrap());
        let shown: Vec<(&str, Option<&str>)> =
            tree.iter().map(|device| (device.name.as_str(), device.disk.as_deref())).collect();
        let expected = [
            ("sda", None),
            ("sda1", Some("sda")),
            ("sda10", Some("sda")),
            ("nvme0n1", None),
            ("nvme0n1p1", Some("nvme0n1")),
            ("nvme0n10", None),
        ];
        assert_eq!(shown, expected);
        assert_eq!(tree.by_number("8:10".parse().unwrap()).unwrap().name, "sda10");
    }

    #[test]
    fn numbers_parse_and_print() {
        let number: DeviceNumber = "259:3\n".parse().unwrap();
        assert_eq!(number.to_string(), "259:3");
        assert!("x:1".parse::<DeviceNumber>().is_err());
    }
}
