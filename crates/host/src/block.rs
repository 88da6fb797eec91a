//! The tree of block devices: disks, partitions, and the md, device-mapper and loop devices stacked on them.
//!
//! Advice and counters belong to one layer each: read-ahead counts at the top device, the scheduler at the bottom one,
//! and adding up a stack's layers counts every request twice. All code therefore asks this tree for the layer of a
//! device. Read from `sys/block` (torvalds/linux:Documentation/ABI/stable/sysfs-block).

use std::fmt;
use std::str::FromStr;

use fathom_errors::Error;

use crate::View;

/// A device number, written `major:minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    pub major: u32,
    /// The device within the driver.
    pub minor: u32,
}

impl FromStr for DeviceNumber {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let (major, minor) = text.trim().split_once(':')?;
            Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
        };
        parse().ok_or_else(|| Error::usage(format!("'{text}' is not a device number (major:minor)")))
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

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
    /// The devices that this one is stacked on (`slaves/`), or a partition's disk.
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
    /// Reads `sys/block`; a machine without it (some containers) has an empty tree.
    pub fn read(view: &View) -> Self {
        let mut devices = Vec::new();
        for name in view.list("sys/block") {
            let folder = format!("sys/block/{name}");
            let Some(number) = view.value(&format!("{folder}/dev")).and_then(|dev| dev.parse().ok()) else {
                continue;
            };
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
        BlockTree { devices }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter()
    }

    /// The device called `name` (`sda1`, `dm-0`, a mapper name, or either with `/dev/` before it).
    pub fn by_name(&self, name: &str) -> Option<&Device> {
        let name = name.strip_prefix("/dev/").unwrap_or(name);
        let name = name.strip_prefix("mapper/").unwrap_or(name);
        self.devices.iter().find(|device| device.name == name || device.mapper_name.as_deref() == Some(name))
    }

    /// The device with this number.
    pub fn by_number(&self, number: DeviceNumber) -> Option<&Device> {
        self.devices.iter().find(|device| device.number == number)
    }

    /// `top` and all devices below it, top first, each once.
    pub fn layers<'a>(&'a self, top: &'a Device) -> Vec<&'a Device> {
        let mut layers = vec![top];
        let mut next = 0;
        while let Some(device) = layers.get(next).copied() {
            next += 1;
            for below in device.below.iter().filter_map(|name| self.by_name(name)) {
                if !layers.iter().any(|seen| seen.name == below.name) {
                    layers.push(below);
                }
            }
        }
        layers
    }

    /// The bottom devices under `top`: the only layer whose counters may be summed.
    pub fn leaves<'a>(&'a self, top: &'a Device) -> Vec<&'a Device> {
        self.layers(top).into_iter().filter(|device| device.below.is_empty()).collect()
    }
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

    #[test]
    fn numbers_parse_and_print() {
        let number: DeviceNumber = "259:3\n".parse().unwrap();
        assert_eq!(number.to_string(), "259:3");
        assert!("x:1".parse::<DeviceNumber>().is_err());
    }
}
