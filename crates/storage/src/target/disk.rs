//! Decides whether whole disks of the machine may be overwritten.
//!
//! A disk may be overwritten if it is unused and empty. A disk is refused if it is mounted, used as swap, held by an array or by any program, divided
//! into partitions, or marked by a file system, md or LVM; only the last refusal can be overridden.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use fathom_host::{BlockTree, Device, DeviceKind, DeviceNumber, DeviceStack, Mount, Mounts, View};
use fathom_process::signatures;
use fathom_units::Bytes;
use rustix::fs::OFlags;

use super::NamedDisk;
use crate::loop_device::device_number;

/// Refuses the disks if one may not be overwritten, or if one disk is given under two names.
pub(super) fn check_all(disks: &[NamedDisk], wipe: bool) -> Result<()> {
    let mut seen: Vec<(DeviceNumber, &Path)> = Vec::new();
    for NamedDisk { path, .. } in disks {
        let number = find(path)?.number;
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == number) {
            let what = format!("{} and {} are one disk", other.display(), path.display());
            return Err(Error::usage(what).advise("name each disk of an array once"));
        }
        check(path, wipe)?;
        seen.push((number, path));
    }
    Ok(())
}

/// Refuses a disk that may not be overwritten; `wipe` allows a disk that only holds signatures.
fn check(path: &Path, wipe: bool) -> Result<()> {
    let device = find(path)?;
    let view = View::live();
    let shown = path.display();
    if device.kind == DeviceKind::Partition {
        return Err(Error::usage(format!("{shown} is a partition, and a target takes a whole disk")));
    }
    if view.number(&format!("{}/ro", device.sysfs())) == Some(1) {
        return Err(Error::new(Kind::ReadOnly, format!("{shown} is read-only")));
    }
    if size(&device).0 == 0 {
        return Err(Error::new(Kind::NotFound, format!("{shown} is a disk of no size; nothing is in it")));
    }
    let tree = BlockTree::read(&view);
    let parts: Vec<_> = tree.iter().filter(|part| part.disk.as_deref() == Some(&device.name)).collect();
    let mounts = Mounts::read(&view)?;
    let ours = |name: &str| name == device.name || parts.iter().any(|part| part.name == name);
    let stands_on_it = |mount: &&Mount| {
        let stack = DeviceStack::from_mount(&view, &mounts, &tree, mount);
        stack.tops.iter().any(|under| ours(&under.name))
    };
    let mounted = mounts.iter().find(stands_on_it);
    if let Some(mount) = mounted {
        return Err(busy(format!("{shown} is mounted at {}", mount.mount_point.display())));
    }
    if let Some(above) =
        tree.iter().find(|above| above.disk.is_none() && above.below.iter().any(|name| ours(name)))
    {
        return Err(busy(format!("{shown} is in use by {}", above.name)));
    }
    let swaps = view.text("proc/swaps").unwrap_or_default();
    if swaps.lines().any(|line| {
        line.split_whitespace().next().and_then(|path| path.strip_prefix("/dev/")).is_some_and(ours)
    }) {
        return Err(busy(format!("{shown} is swapped to")));
    }
    if let Some(part) = parts.first() {
        let what = format!("{shown} holds partitions, {} among them", part.name);
        return Err(
            Error::new(Kind::NotOurs, what).advise("remove them by hand if nothing on them is needed")
        );
    }
    open_alone(path)?;
    let found = signatures(path)?;
    if let Some(first) = found.first().filter(|_| !wipe) {
        let what = format!("{shown} holds something already ({})", first.kind);
        return Err(
            Error::new(Kind::NotOurs, what).advise("ask for it to be wiped if nothing on it is needed")
        );
    }
    Ok(())
}

/// The device behind a node.
pub(super) fn find(path: &Path) -> Result<Device> {
    path.metadata().map_err(|e| Error::io("look at the disk", path, e))?;
    let number = device_number(path).map_err(|error| error.with_kind(Kind::Usage))?;
    let tree = BlockTree::read(&View::live());
    let absent = || Error::new(Kind::NotFound, format!("the kernel shows no disk {}", path.display()));
    tree.by_number(number).cloned().ok_or_else(absent)
}

/// The size of a device, which the kernel counts in sectors of 512 bytes.
pub(super) fn size(device: &Device) -> Bytes {
    Bytes(View::live().number(&format!("{}/size", device.sysfs())).unwrap_or(0) * 512)
}

/// Opens a disk as the kernel does before it mounts it (open(2), `O_EXCL` without `O_CREAT`), which fails while another holder has it open so.
fn open_alone(path: &Path) -> Result<()> {
    let exclusive = i32::try_from(OFlags::EXCL.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).write(true).custom_flags(exclusive).open(path);
    opened.map(drop).map_err(|e| {
        let error = Error::io("open for ourselves", path, e);
        if error.kind() == Kind::Busy { busy(format!("{} is in use", path.display())) } else { error }
    })
}

fn busy(what: String) -> Error {
    Error::new(Kind::Busy, what).advise("a target needs a disk that is not in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_disk_is_refused() {
        assert_eq!(check(Path::new("/dev/null"), false).unwrap_err().kind(), Kind::Usage);
        assert_eq!(check(Path::new("/dev/no-such-disk"), false).unwrap_err().kind(), Kind::NotFound);
    }
}
