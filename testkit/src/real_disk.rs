//! A file system of a chosen kind and size on a loop device.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::DeviceNumber;
use fathom_process::{Ledger, Tool};
use fathom_storage::{Filesystem, FilesystemOptions, LoopDevice, LoopOptions, MountGuard, format_and_mount};
use fathom_units::Bytes;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::scratch::{Scratch, fill, fixture_ledger, need_root, root_fixture};
use crate::skip::{Need, OrSkip};
use crate::tmpfs::Tmpfs;

/// A mounted file system on a loop device of its own.
#[derive(Debug)]
pub struct RealDisk {
    // Taken down in this order.
    mounted: MountGuard,
    device: LoopDevice,
    _folder: Folder,
    ledger: Ledger,
}

/// The place of the file behind it.
#[derive(Debug)]
enum Folder {
    Scratch(Scratch),
    Memory(Box<Tmpfs>),
}

impl RealDisk {
    /// A new, empty one. The test ends as skipped if this machine does not support it.
    #[track_caller]
    pub fn new(filesystem: Filesystem, size: Bytes) -> RealDisk {
        RealDisk::with(filesystem, size, &FilesystemOptions::default())
    }

    /// The same with its bytes in memory, so that this machine's own disk cannot delay a request.
    #[track_caller]
    pub fn in_memory(filesystem: Filesystem, size: Bytes) -> RealDisk {
        // The file system around a full file needs some pages for itself.
        let memory = Tmpfs::new(Bytes(size.0 + size.0 / 16));
        root_fixture(Need::Disk, move || {
            make(Folder::Memory(Box::new(memory)), filesystem, size, &FilesystemOptions::default())
        })
    }

    /// The same, mounted read-only.
    #[track_caller]
    pub fn read_only(filesystem: Filesystem, size: Bytes) -> RealDisk {
        RealDisk::with(filesystem, size, &FilesystemOptions { read_only: true, ..Default::default() })
    }

    /// The same without any free space.
    #[track_caller]
    pub fn full(filesystem: Filesystem, size: Bytes) -> RealDisk {
        let disk = RealDisk::new(filesystem, size);
        fill(disk.path()).unwrap_or_else(|error| panic!("{error}"));
        disk
    }

    /// The same with options.
    #[track_caller]
    pub fn with(filesystem: Filesystem, size: Bytes, options: &FilesystemOptions) -> RealDisk {
        root_fixture(Need::Disk, || make(Folder::Scratch(Scratch::new()?), filesystem, size, options))
    }

    /// The top folder of the file system.
    pub fn path(&self) -> &Path {
        self.mounted.path()
    }

    /// The number of the loop device; that of the files differs on btrfs.
    pub fn device_number(&self) -> DeviceNumber {
        self.device.number()
    }

    /// The kernel's name, `loopN`.
    pub fn device_name(&self) -> String {
        self.device.name()
    }

    /// The node, such as `/dev/loop0`.
    pub fn device_path(&self) -> PathBuf {
        self.device.path().to_owned()
    }

    /// The ledger that records it, for caps on it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Cuts the power: what the file system (XFS) has not written by now never reaches the disk, its own log included, and
    /// every further call on its files fails. [`RealDisk::power_on`] brings it back. The test ends as skipped if `xfs_io` is
    /// missing.
    #[track_caller]
    pub fn power_off(&self) {
        let cut = Tool::new("xfs_io", "xfsprogs")
            .and_then(|tool| tool.args(["-x", "-c", "shutdown"]).arg(self.path()).run());
        cut.or_skip(Need::Program);
    }

    /// Unmounts it and mounts it again, as a machine that starts does; nothing may use it. Fails if the kernel lost an inode
    /// of the top directory in the cut.
    pub fn power_on(&self, filesystem: Filesystem) -> Result<()> {
        unmount(self.path(), UnmountFlags::empty()).map_err(|e| Error::io("unmount", self.path(), e))?;
        mount(self.device.path(), self.path(), filesystem.name(), MountFlags::NOATIME, None)
            .map_err(|e| Error::io("mount again at", self.path(), e))?;
        let entries = fs::read_dir(self.path()).map_err(|e| Error::io("list", self.path(), e))?;
        for entry in entries {
            let path = entry.map_err(|e| Error::io("list", self.path(), e))?.path();
            fs::metadata(&path).map_err(|e| Error::io("read after the cut", &path, e))?;
        }
        Ok(())
    }

    /// Removes it now, and returns any error.
    pub fn undo(self) -> Result<()> {
        self.mounted.undo()?;
        self.device.undo()
    }
}

/// Ends the test as skipped for a user who is not root, and if no loop device is free.
#[track_caller]
pub fn need_loop_devices() {
    need_root();
    let attempt = || {
        let (scratch, ledger) = (Scratch::new()?, fixture_ledger()?);
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        LoopDevice::create(&ledger, &scratch.path(), Bytes::mib(1), options)?.undo()
    };
    attempt().or_skip(Need::Disk);
}

fn make(
    folder: Folder,
    filesystem: Filesystem,
    size: Bytes,
    options: &FilesystemOptions,
) -> Result<RealDisk> {
    let ledger = fixture_ledger()?;
    let path = match &folder {
        Folder::Scratch(scratch) => scratch.path(),
        Folder::Memory(memory) => memory.path().to_owned(),
    };
    let direct = LoopDevice::create(&ledger, &path, size, LoopOptions::default());
    let device = match direct {
        // A folder in memory: the tests still hold, through the page cache.
        Err(error) if error.kind() == Kind::Unsupported => {
            let buffered = LoopOptions { direct_io: false, ..LoopOptions::default() };
            LoopDevice::create(&ledger, &path, size, buffered)?
        }
        device => device?,
    };
    let mounted = format_and_mount(&ledger, &device, filesystem, options)?;
    Ok(RealDisk { mounted, device, _folder: folder, ledger })
}
