//! A fresh file system on a volume, mounted: a loop device, an array of them, or whole disks that were named twice.
//!
//! Which file systems there are, and how each mkfs is called, stands in `mkfs`. It refuses a volume that is too small; that nothing of anybody's is on it
//! is the business of whoever hands the volume over.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_process::{Guard, Ledger, Thing, Tool};
use rustix::mount::MountFlags;

use crate::mkfs::{self, Volume};
use crate::{Filesystem, LoopDevice};

/// How a file system is made and mounted. Access times are off, as MongoDB's vendor advises, unless asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesystemOptions {
    /// Further arguments of its mkfs (`-m`, `reflink=0`). A stripe given here (`-d su=`, `-E stride=`) is used in place
    /// of the array's own.
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
    let volume = Volume {
        device: device.path(),
        others: &[],
        size: device.size(),
        folder: device.folder(),
        stripe: None,
        uuid: None,
    };
    make_and_mount(ledger, &volume, filesystem, options)
}

/// The same on any volume.
pub(crate) fn make_and_mount(
    ledger: &Ledger,
    volume: &Volume<'_>,
    filesystem: Filesystem,
    options: &FilesystemOptions,
) -> Result<Mounted> {
    let striped = volume.stripe.is_some();
    let least = if striped { filesystem.least_striped_size_mib() } else { filesystem.least_size_mib() };
    if volume.size.0 < least << 20 {
        let what = format!("{filesystem} needs {least} MiB, and the device has {}", volume.size);
        return Err(Error::usage(what));
    }
    let tool = Tool::new(&format!("mkfs.{filesystem}"), filesystem.package())?;
    tool.args(mkfs::arguments(filesystem, volume, &options.mkfs))
        .arg(volume.device)
        .args(volume.others)
        .run()?;

    let parent = options.beside.as_deref().unwrap_or(volume.folder);
    let path = parent.join(ledger.unique_name() + ".mnt");
    let folder = ledger.create_directory(&path)?.guard();
    // Free of symbolic links, as the kernel shows it.
    let path = path.canonicalize().map_err(|e| Error::io("open", &path, e))?;
    let name = |device: &Path| device.to_string_lossy().into_owned();
    let others = volume.others.iter().map(|device| name(device)).collect();
    let thing = Thing::Mount { target: path.clone(), source: name(volume.device), others };
    let entry = ledger.will_make(thing)?;
    if let Err(error) = mount(volume, &path, filesystem, options) {
        let _ = entry.undo();
        return Err(error);
    }
    Ok(Mounted { mount: entry.guard(), folder, path })
}

fn mount(
    volume: &Volume<'_>,
    target: &Path,
    filesystem: Filesystem,
    options: &FilesystemOptions,
) -> Result<()> {
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::NOATIME, !options.access_times);
    flags.set(MountFlags::RDONLY, options.read_only);
    // The kernel knows a device of several only if it is told (btrfs(5), `device=`).
    let members = if volume.others.is_empty() { &[][..] } else { &[volume.device.to_owned()][..] };
    let members = members.iter().chain(volume.others).map(|path| format!("device={}", path.display()));
    let own = Some(options.mount.clone()).filter(|options| !options.is_empty());
    let data = members.chain(own).collect::<Vec<_>>().join(",");
    let data = CString::new(data).map_err(|e| Error::usage("a mount option holds a zero byte").because(e))?;
    rustix::mount::mount(volume.device, target, filesystem.name(), flags, data.as_c_str()).map_err(|e| {
        let error = Error::io(&format!("mount {filesystem} at"), target, e);
        match error.kind() {
            Kind::Permission => error.advise("mounting needs root"),
            // ENODEV: the kernel does not know the file system.
            Kind::NotFound => error.with_kind(Kind::Unsupported).advise(format!("modprobe {filesystem}")),
            _ => error,
        }
    })
}
