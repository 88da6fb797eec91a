//! A fresh file system on a loop device, mounted.
//!
//! Work that mkfs would leave to the kernel's idle time (inode tables, journal) is done at once, since it would
//! disturb a measurement; blocks are not discarded, since that would undo a preallocation. Only loop devices that
//! we made are formatted.

use std::ffi::CString;
use std::fmt;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_process::{Guard, Ledger, Thing, Tool};
use rustix::mount::MountFlags;

use crate::LoopDevice;

/// The file systems that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filesystem {
    /// The usual one.
    Ext4,
    /// What MongoDB's vendor advises for WiredTiger.
    Xfs,
    /// Copy on write.
    Btrfs,
}

impl Filesystem {
    /// Every one of them.
    pub const ALL: [Filesystem; 3] = [Filesystem::Ext4, Filesystem::Xfs, Filesystem::Btrfs];

    /// The kernel's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "ext4",
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
        }
    }

    /// The Debian package with its mkfs.
    fn package(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "e2fsprogs",
            Filesystem::Xfs => "xfsprogs",
            Filesystem::Btrfs => "btrfs-progs",
        }
    }

    /// The least size that its mkfs takes: mkfs.xfs(8) asks for 300 MiB since xfsprogs 5.19, mkfs.btrfs(8) for
    /// 109 MiB, and an ext4 below 8 MiB has hardly room for its journal.
    pub fn least_size_mib(self) -> u64 {
        match self {
            Filesystem::Ext4 => 8,
            Filesystem::Xfs => 300,
            Filesystem::Btrfs => 109,
        }
    }

    /// Quiet, over whatever is there, at once, without discarding.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Filesystem::Ext4 => &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
            Filesystem::Xfs => &["-q", "-f", "-K"],
            Filesystem::Btrfs => &["-q", "-f", "-K"],
        }
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a file system is made and mounted. Access times are off, as MongoDB's vendor advises, unless asked for.
#[derive(Clone, Debug, Default)]
pub struct FilesystemOptions {
    /// Further arguments of its mkfs (`-m`, `reflink=0`).
    pub mkfs: Vec<String>,
    /// Options of its own for the mount, separated by commas (`nobarrier`, `compress=zstd`).
    pub mount: String,
    /// Mounted read-only.
    pub read_only: bool,
    /// Whether reading a file updates its access time.
    pub access_times: bool,
    /// The folder in which the mount point is made; where the device's file is, if absent.
    pub beside: Option<PathBuf>,
}

/// A mounted file system; unmounted when this goes. Let it go before its device.
#[derive(Debug)]
pub struct Mounted {
    // Undone in this order: the mount before its folder.
    mount: Guard,
    folder: Guard,
    path: PathBuf,
}

impl Mounted {
    /// The top folder of the file system.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts it now and tells whether that worked.
    pub fn undo(self) -> Result<()> {
        let Mounted { mount, folder, .. } = self;
        mount.undo()?;
        folder.undo()
    }
}

/// Makes `filesystem` on `device` and mounts it in a new folder, beside the device's file unless told otherwise. Needs root.
pub fn format_and_mount(
    ledger: &Ledger,
    device: &LoopDevice,
    filesystem: Filesystem,
    options: &FilesystemOptions,
) -> Result<Mounted> {
    let least = filesystem.least_size_mib();
    if device.size().0 < least << 20 {
        let what = format!("{filesystem} needs {least} MiB, and the device has {}", device.size());
        return Err(Error::usage(what));
    }
    let tool = Tool::new(&format!("mkfs.{filesystem}"), filesystem.package())?;
    tool.args(filesystem.arguments()).args(&options.mkfs).arg(device.path()).run()?;

    let parent = options.beside.as_deref().unwrap_or_else(|| device.folder());
    let path = parent.join(ledger.unique_name() + ".mnt");
    let folder = ledger.create_directory(&path)?.guard();
    let source = device.path().to_string_lossy().into_owned();
    let entry = ledger.will_make(Thing::Mount { target: path.clone(), source })?;
    if let Err(error) = mount(device.path(), &path, filesystem, options) {
        let _ = entry.undo();
        return Err(error);
    }
    Ok(Mounted { mount: entry.guard(), folder, path })
}

fn mount(device: &Path, target: &Path, filesystem: Filesystem, options: &FilesystemOptions) -> Result<()> {
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::NOATIME, !options.access_times);
    flags.set(MountFlags::RDONLY, options.read_only);
    let data = CString::new(options.mount.as_str())
        .map_err(|e| Error::usage("a mount option holds a zero byte").because(e))?;
    rustix::mount::mount(device, target, filesystem.name(), flags, data.as_c_str()).map_err(|e| {
        let error = Error::io(&format!("mount {filesystem} at"), target, e);
        match error.kind() {
            Kind::Permission => error.advise("mounting needs root"),
            // ENODEV: the kernel does not know the file system.
            Kind::NotFound => error.with_kind(Kind::Unsupported).advise(format!("modprobe {filesystem}")),
            _ => error,
        }
    })
}
