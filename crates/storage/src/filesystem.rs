//! Makes and mounts a new file system on a volume: a loop device, an array, or whole disks that were named twice.
//!
//! The list of file systems and the command of each mkfs are in `mkfs`. A volume that is too small is refused. The caller must make sure that the
//! volume holds no user data.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_process::{Guard, Ledger, Resource, Tool};
use rustix::mount::MountFlags;

use crate::mkfs::{self, Volume};
use crate::{Filesystem, LoopDevice};

/// The options for making and mounting a file system. Access times are off by default, as MongoDB's vendor advises.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesystemOptions {
    /// Further arguments of its mkfs (`-m`, `reflink=0`). A stripe given here (`-d su=`, `-E stride=`) is used in place
    /// of the array's own.
    pub mkfs: Vec<String>,
    /// Further mount options, separated by commas (`nobarrier`, `compress=zstd`).
    pub mount: String,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// Whether reading a file updates its access time.
    pub access_times: bool,
    /// The folder in which the mount point is made; the folder of the device's file if absent.
    pub beside: Option<PathBuf>,
}

/// A mounted file system, which is unmounted when this is dropped. Drop it before its device.
#[derive(Debug)]
pub struct MountGuard {
    // Undone in this order: the mount before its folder.
    mount: Guard,
    folder: Guard,
    path: PathBuf,
}

impl MountGuard {
    /// The top folder of the file system.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts it now and returns whether that worked.
    pub fn undo(self) -> Result<()> {
        let MountGuard { mount, folder, .. } = self;
        mount.undo()?;
        folder.undo()
    }
}

/// Makes `filesystem` on `device` and mounts it in a new folder, in the folder of the device's file unless another is given. Needs root.
pub fn format_and_mount(
    ledger: &Ledger,
    device: &LoopDevice,
    filesystem: Filesystem,
    options: &FilesystemOptions,
) -> Result<MountGuard> {
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
) -> Result<MountGuard> {
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
    // Without symbolic links, as the kernel shows it.
    let path = path.canonicalize().map_err(|e| Error::io("open", &path, e))?;
    let name = |device: &Path| device.to_string_lossy().into_owned();
    let others = volume.others.iter().map(|device| name(device)).collect();
    let thing = Resource::Mount { target: path.clone(), source: name(volume.device), others };
    let entry = ledger.will_make(thing)?;
    if let Err(error) = mount(volume, &path, filesystem, options) {
        let _ = entry.undo();
        return Err(error);
    }
    Ok(MountGuard { mount: entry.guard(), folder, path })
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
    // The kernel learns of the other devices only from a mount option (btrfs(5), `device=`).
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
