//! Loop devices: detached by `losetup`, and only from the backing file that was recorded.
//!
//! `losetup` (util-linux, on every Debian) rather than our own ioctl: it is called a few times in a run, and keeps
//! this crate free of unsafe code.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

use super::{Undone, comes_true};
use crate::Tool;

/// What the kernel adds to the name of a backing file that was unlinked.
const DELETED: &str = " (deleted)";

pub(super) fn detach(device: Option<&Path>, backing: &Path) -> Result<Undone> {
    let mut undone = Undone::Before;
    for found in devices_on(backing)? {
        // Somebody may have put another device on the same file; where ours is known, that one is not our affair.
        if device.is_none_or(|device| device == found) {
            detach_one(&found, backing)?;
            undone = Undone::Now;
        }
    }
    Ok(undone)
}

fn detach_one(device: &Path, backing: &Path) -> Result<()> {
    if let Err(error) = Tool::new("losetup", "mount")?.arg("--detach").arg(device).run() {
        return if stands_on(device, backing) { Err(error) } else { Ok(()) };
    }
    // Of a device in use the kernel takes note, and detaches it with its last user. A program that looks at every
    // device is gone in a moment; with any other the device is no longer owed.
    if comes_true(|| !stands_on(device, backing)) || goes_by_itself(device) {
        return Ok(());
    }
    let what = format!("{} is still in use and could not be detached", device.display());
    Err(Error::new(Kind::Busy, what).advise("end the programs that use it, then run 'fathom cleanup'"))
}

/// Every loop device that stands on `backing`.
fn devices_on(backing: &Path) -> Result<Vec<PathBuf>> {
    let folder = "/sys/block";
    let entries = fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))?;
    let names = entries.flatten().map(|entry| Path::new("/dev").join(entry.file_name()));
    Ok(names.filter(|device| stands_on(device, backing)).collect())
}

/// Whether the loop device stands on that file now.
pub(super) fn stands_on(device: &Path, backing: &Path) -> bool {
    let found = attribute(device, "backing_file").unwrap_or_default();
    let found = found.strip_suffix('\n').unwrap_or(&found);
    Path::new(found.strip_suffix(DELETED).unwrap_or(found)) == backing
}

fn goes_by_itself(device: &Path) -> bool {
    attribute(device, "autoclear").is_some_and(|value| value.trim() == "1")
}

fn attribute(device: &Path, name: &str) -> Option<String> {
    let folder = Path::new("/sys/block").join(device.file_name()?);
    fs::read_to_string(folder.join("loop").join(name)).ok()
}
