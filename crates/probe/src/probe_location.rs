//! Inspects the directory (or device) to be probed, before anything is created there, and refuses unsuitable ones.
//!
//! Refused are paths that do not exist, files, network or FUSE file systems (their latency is a network's, not a disk's) and block
//! devices with content, unless the name is typed. Memory file systems are probed, and reported as memory.
//!
//! The contents of a block device are recognised by its first bytes, so that the probe never overwrites them. fio overwrites an
//! unmounted file system without a warning (axboe/fio#1007, #1637). Offsets are those that util-linux's blkid documents for each
//! format.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::{BlockTree, Device, DeviceNumber, DeviceStack, Mount, Mounts, View};
use rustix::fs::{AtFlags, StatxFlags, statvfs, statx};
use serde::{Deserialize, Serialize};

/// The location that the probe uses and the devices under it.
#[derive(Clone, Debug)]
pub struct ProbeLocation {
    /// The directory, or the device node, without symbolic links.
    pub path: PathBuf,
    /// Whether it is a block device to be probed itself.
    pub is_device: bool,
    /// `ext4`, `xfs`… or `block device`.
    pub file_system: String,
    /// The mount it lies on, for a directory.
    pub mount: Option<Mount>,
    /// The mount whose file system has its data: another one than `mount` under an overlay.
    pub holder: Option<Mount>,
    /// The devices that it is on, by the kernel's names: several for btrfs.
    pub devices: Vec<String>,
    /// The devices at the bottom of its stack, whose counters may be summed.
    pub leaves: Vec<String>,
    /// Bytes that may still be written there; for a device, its size.
    pub free_bytes: u64,
    pub total_bytes: u64,
}

/// Permission for targets that are refused by default.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Permits {
    /// Probe a network or FUSE file system nevertheless.
    pub any_file_system: bool,
    /// The name of the block device whose content may be destroyed, as typed.
    pub destroy: Option<String>,
}

impl ProbeLocation {
    /// Inspects the location `path`.
    ///
    /// # Errors
    /// When it does not exist, may not be used, or is refused (see the head of this file).
    pub fn look(path: &Path, writes: bool, permits: &Permits) -> Result<ProbeLocation> {
        let canonical = fs::canonicalize(path).map_err(|e| {
            Error::io("open", path, e).advise("name an existing directory on the disk to probe with --dir")
        })?;
        let metadata = fs::metadata(&canonical).map_err(|e| Error::io("look at", &canonical, e))?;
        let view = View::live();
        if metadata.file_type().is_block_device() {
            return look_at_device(canonical, device_number(metadata.rdev()), &view, writes, permits);
        }
        if !metadata.is_dir() {
            let what = format!("{} is a file, not a directory", path.display());
            return Err(Error::new(Kind::NotOurs, what)
                .with_id("not-a-directory")
                .advise("name the directory; the probe makes its own files there"));
        }
        let place = look_at_directory(canonical, &view, permits)?;
        if place.mount.as_ref().is_some_and(|mount| mount.has_option("ro")) {
            let what = format!("{} is mounted read-only", place.path.display());
            return Err(
                Error::new(Kind::ReadOnly, what).advise("the probe needs a directory that it can write to")
            );
        }
        Ok(place)
    }

    /// The file system that keeps its data in memory; `None` on a disk.
    pub fn in_memory(&self) -> Option<&str> {
        self.holder.as_ref().filter(|holder| holder.is_in_memory()).map(|holder| holder.fs_type.as_str())
    }

    /// The names of the devices that it is on, for a report; `None` if none is visible.
    pub fn device_names(&self) -> Option<String> {
        (!self.devices.is_empty()).then(|| self.devices.join(", "))
    }

    /// The alignment that direct I/O on `file` needs, in bytes: the value of statx(2) (Linux 6.1), otherwise the device's logical
    /// block size, otherwise 4096.
    pub fn alignment(&self, file: &File) -> u64 {
        let said = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
            .ok()
            .filter(|statx| statx.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
            .map(|statx| u64::from(statx.stx_dio_offset_align))
            .filter(|align| *align > 0);
        let logical = || {
            let (view, tree) = (View::live(), BlockTree::read(&View::live()));
            let devices = self.devices.iter().filter_map(|name| tree.by_name(name));
            devices.filter_map(|device| view.number(&format!("{}/logical_block_size", device.queue()))).max()
        };
        said.or_else(logical).unwrap_or(4096)
    }
}

fn device_number(number: u64) -> DeviceNumber {
    DeviceNumber { major: rustix::fs::major(number), minor: rustix::fs::minor(number) }
}

fn look_at_directory(path: PathBuf, view: &View, permits: &Permits) -> Result<ProbeLocation> {
    let mounts = Mounts::read(view).unwrap_or_default();
    let mount = mounts.containing(&path).cloned();
    let file_system = mount.as_ref().map_or_else(|| "unknown".to_owned(), |mount| mount.fs_type.clone());
    if mount.as_ref().is_some_and(Mount::is_remote) && !permits.any_file_system {
        let what = format!(
            "{} is on {file_system}, so the figures would be a network's or a process's, not a disk's",
            path.display()
        );
        return Err(Error::new(Kind::Unsupported, what)
            .with_id("not-a-local-disk")
            .advise("probe the disk on its own machine, or use --any-fs"));
    }
    let room = statvfs(&path).map_err(|e| Error::io("look at", &path, e))?;
    let stack = DeviceStack::under(view, &mounts, &BlockTree::read(view), &path);
    Ok(ProbeLocation {
        is_device: false,
        leaves: stack.leaf_names(),
        devices: stack.top_names(),
        holder: stack.mount,
        free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
        total_bytes: room.f_blocks.saturating_mul(room.f_frsize),
        file_system,
        mount,
        path,
    })
}

fn names<'d>(devices: impl IntoIterator<Item = &'d Device>) -> Vec<String> {
    devices.into_iter().map(|device| device.name.clone()).collect()
}

fn look_at_device(
    path: PathBuf,
    number: DeviceNumber,
    view: &View,
    writes: bool,
    permits: &Permits,
) -> Result<ProbeLocation> {
    let tree = BlockTree::read(view);
    let device = tree.by_number(number);
    let name = device.map_or_else(|| number.to_string(), |device| device.name.clone());
    // O_EXCL on a block device fails while it is mounted or part of something (open(2)).
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(if writes { rustix::fs::OFlags::EXCL.bits() as i32 } else { 0 });
    let mut file = options.open(&path).map_err(|e| {
        Error::io("open", &path, e)
            .with_id("device-in-use")
            .advise("a device that is mounted or part of a RAID or LVM is in use; name a directory on it")
    })?;
    let size = file.seek(SeekFrom::End(0)).map_err(|e| Error::io("measure", &path, e))?;
    if writes {
        refuse_to_destroy(&mut file, &path, &name, size, permits)?;
    }
    Ok(ProbeLocation {
        is_device: true,
        file_system: "block device".into(),
        mount: None,
        holder: None,
        leaves: names(tree.leaves(device)),
        devices: names(device),
        free_bytes: size,
        total_bytes: size,
        path,
    })
}

/// Refuses to write to a device unless its name was typed, and always while it holds known content.
fn refuse_to_destroy(file: &mut File, path: &Path, name: &str, size: u64, permits: &Permits) -> Result<()> {
    let mut head = vec![0; HEAD_BYTES.min(usize::try_from(size).unwrap_or(usize::MAX))];
    file.rewind().and_then(|()| file.read_exact(&mut head)).map_err(|e| Error::io("read", path, e))?;
    if let Some(found) = find(&head) {
        let what = format!("{} holds {found}, which writing would destroy", path.display());
        return Err(Error::new(Kind::NotOurs, what).with_id("device-not-blank").advise(
            "name a directory on it, probe it with --pattern randread, or wipe it yourself (wipefs -a) first",
        ));
    }
    match &permits.destroy {
        Some(typed) if typed == name => Ok(()),
        Some(typed) => {
            let what = format!("--destroy {typed} is not the device at {} ({name})", path.display());
            Err(Error::usage(what).with_id("device-not-named"))
        }
        None => {
            let what = format!("writing to the device {} would destroy what is on it", path.display());
            Err(Error::new(Kind::NotOurs, what)
                .with_id("device-not-named")
                .advise(format!("to probe it and lose what is on it, add --destroy {name}")))
        }
    }
}

/// The bytes at the start of the device that must be read.
pub(crate) const HEAD_BYTES: usize = 128 << 10;

/// (the format, the offset in bytes, the bytes at it). A table: one row per format.
const SIGNATURES: &[(&str, usize, &[u8])] = &[
    ("an ext2, ext3 or ext4 file system", 1080, &[0x53, 0xef]),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 65_600, b"_BHRfS_M"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("an LVM physical volume", 0, b"LABELONE"),
    ("an md RAID member", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("an md RAID member", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a ZFS member", 16_384, &[0x0c, 0xb1, 0xba, 0x00, 0, 0, 0, 0]),
    ("an F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("a bcache device", 4120, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca]),
    ("a partition table or boot sector", 510, &[0x55, 0xaa]),
];

/// The signature in the head of a device; `None` if it has no known one.
pub(crate) fn find(head: &[u8]) -> Option<&'static str> {
    let hit =
        |(_, offset, bytes): &&(&str, usize, &[u8])| head.get(*offset..offset + bytes.len()) == Some(*bytes);
    SIGNATURES.iter().find(hit).map(|(what, _, _)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_formats_are_found_and_blank_is_blank() {
        let blank = vec![0; HEAD_BYTES];
        assert_eq!(find(&blank), None);
        assert_eq!(find(&[]), None);
        for (what, offset, bytes) in SIGNATURES {
            let mut head = blank.clone();
            head[*offset..offset + bytes.len()].copy_from_slice(bytes);
            assert_eq!(find(&head), Some(*what));
        }
    }
}
