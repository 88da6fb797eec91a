//! A file that serves as a block device (loop(4)).
//!
//! `losetup` sets it up instead of a `LOOP_CONFIGURE` of our own: it is part of every Debian, retries its own races for
//! the next free number, and spares this crate its only unsafe code. We check afterwards what the kernel reports of the
//! device, since both fall back from direct I/O silently.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use fathom_host::{DeviceNumber, View};
use fathom_process::{Guard, Ledger, Resource, Tool};
use fathom_units::Bytes;
use rustix::fs::FallocateFlags;

use crate::array::ArrayPart;

/// The allocation of the backing file's space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// Block by block, as the device is written: quick to make, but a first write costs an allocation.
    #[default]
    Sparse,
    /// All at once (fallocate(2)); the space is guaranteed.
    Preallocated,
}

/// The options for setting up a loop device.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// Whether the device bypasses the page cache when it reads and writes its file. Otherwise the memory of the host
    /// hides the disk. Refused if the file system under the file does not support it.
    pub direct_io: bool,
    /// 512 or 4096; the kernel's choice if absent.
    pub logical_block_size: Option<u32>,
    /// The allocation of the file's space.
    pub backing: Backing,
}

impl Default for LoopOptions {
    fn default() -> Self {
        LoopOptions { direct_io: true, logical_block_size: None, backing: Backing::Sparse }
    }
}

/// A loop device on a file of its own; both are removed when this is dropped. A file system still mounted on it keeps
/// the device until it is unmounted.
#[derive(Debug)]
pub struct LoopDevice {
    // Undone in this order: the device before its file.
    attached: Guard,
    file: Guard,
    path: PathBuf,
    folder: PathBuf,
    backing: PathBuf,
    number: DeviceNumber,
    size: Bytes,
}

/// The number of retries after a lost race for a free device; the parallel tests of a few cores need far fewer.
const MAX_ATTEMPTS: u32 = 20;

impl LoopDevice {
    /// Makes a file of `size` in `folder` and a loop device on it. Needs root.
    pub fn create(ledger: &Ledger, folder: &Path, size: Bytes, options: LoopOptions) -> Result<LoopDevice> {
        let block = u64::from(options.logical_block_size.unwrap_or(512));
        if size.0 == 0 || block == 0 || !size.0.is_multiple_of(block) {
            let what = format!("a loop device of {} bytes cannot be divided into blocks of {block}", size.0);
            return Err(Error::usage(what));
        }
        let folder = folder.canonicalize().map_err(|e| Error::io("open", folder, e))?;
        let backing = folder.join(ledger.unique_name() + ".disk");
        let (file, entry) = ledger.create_file(&backing)?;
        let file_guard = entry.guard();
        file.set_len(size.0).map_err(|e| Error::io("enlarge", &backing, e))?;
        if options.backing == Backing::Preallocated {
            let allocated = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.0);
            allocated.map_err(|e| Error::io("allocate", &backing, e))?;
        }
        let mut entry = ledger.will_make(Resource::Loop { device: None, backing: backing.clone() })?;
        let attached = attach(&backing, options);
        let path = match attached {
            Ok(path) => path,
            Err(error) => {
                // This also covers a losetup that failed after the kernel had set the device up; if the undo fails, the entry stays recorded.
                let _ = entry.undo();
                return Err(error);
            }
        };
        let recorded = entry.made_as(Resource::Loop { device: Some(path.clone()), backing: backing.clone() });
        let attached = entry.guard();
        recorded?;
        let number = device_number(&path)?;
        let device = LoopDevice { attached, file: file_guard, path, folder, backing, number, size };
        device.check_direct_io(options)?;
        Ok(device)
    }

    /// The node, such as `/dev/loop0`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's name, `loopN`.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub fn number(&self) -> DeviceNumber {
        self.number
    }

    pub fn size(&self) -> Bytes {
        self.size
    }

    /// The folder that holds the backing file.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The device as a part of what is built on it.
    pub(crate) fn part(&self) -> ArrayPart {
        let backing = Some(self.backing.clone());
        ArrayPart { path: self.path.clone(), name: self.name(), size: self.size, backing }
    }

    /// Detaches the device and removes its file now, and returns whether that worked.
    pub fn undo(self) -> Result<()> {
        let LoopDevice { attached, file, .. } = self;
        attached.undo()?;
        file.undo()
    }

    /// Whether the device bypasses the page cache, as `sysfs-block-loop` shows.
    fn check_direct_io(&self, options: LoopOptions) -> Result<()> {
        let direct = View::live().number(&format!("sys/block/{}/loop/dio", self.name())) == Some(1);
        if options.direct_io && !direct {
            let what = format!("a loop device on a file in {} cannot use direct I/O", self.folder.display());
            return Err(Error::new(Kind::Unsupported, what).advise("choose a folder on ext4, XFS or btrfs"));
        }
        Ok(())
    }
}

/// Runs `losetup`, which chooses a device and sets it up on `backing`.
fn attach(backing: &Path, options: LoopOptions) -> Result<PathBuf> {
    let mut attempt = 1;
    loop {
        let mut tool = Tool::new("losetup", "mount")?.args(["--find", "--show"]);
        tool = tool.arg(if options.direct_io { "--direct-io=on" } else { "--direct-io=off" });
        if let Some(size) = options.logical_block_size {
            tool = tool.arg("--sector-size").arg(size.to_string());
        }
        match tool.arg(backing).run() {
            Ok(shown) => return Ok(PathBuf::from(shown.trim())),
            // Another process took the number that the kernel had just offered.
            Err(error) if error.kind() == Kind::Busy && attempt < MAX_ATTEMPTS => attempt += 1,
            Err(error) => return Err(advise(error)),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn advise(error: Error) -> Error {
    match error.kind() {
        Kind::Permission => error.advise("loop devices need root"),
        Kind::NotFound => error.advise("a container needs /dev/loop-control and the loop devices passed in"),
        _ => error,
    }
}

pub(crate) fn device_number(path: &Path) -> Result<DeviceNumber> {
    let metadata = fs::metadata(path).map_err(|e| Error::io("look at", path, e))?;
    if !metadata.file_type().is_block_device() {
        return Err(Error::new(Kind::NotFound, format!("{} is not a block device", path.display())));
    }
    let number = metadata.rdev();
    Ok(DeviceNumber { major: rustix::fs::major(number), minor: rustix::fs::minor(number) })
}
