//! How each kind of thing is undone, by its maker or long after its maker's death.
//!
//! Every kind checks first that what stands there now is what was recorded, and takes a thing already gone as
//! undone. None asks who made it.

mod cgroup;
mod file;
mod format;
mod loop_device;
mod mark;
mod md_array;
mod mount;
mod process;
mod setting;
mod volume_group;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};

use crate::{Member, Thing};

/// What is known about the record of a thing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    /// Whether the machine has been up since the record was written.
    pub(crate) same_boot: bool,
    /// When the record was written.
    pub(crate) recorded_unix_ns: u64,
}

/// How a thing came to be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// By this call.
    Now,
    /// It was no longer there, or never made, or another's stands in its place.
    Before,
}

/// Undoes `thing`.
pub(crate) fn undo(thing: &Thing, circumstances: Circumstances) -> Result<Undone> {
    if !circumstances.same_boot && !outlives_boot(thing) {
        return Ok(Undone::Before);
    }
    let same_boot = circumstances.same_boot;
    match thing {
        Thing::File { path, identity } => file::unlink(path, *identity, circumstances),
        Thing::Directory { path, identity } => file::remove_folder(path, *identity, circumstances),
        Thing::Tree { path, identity } => file::remove_tree(path, *identity, circumstances),
        Thing::Loop { device, backing } => loop_device::detach(device.as_deref(), backing),
        Thing::Mount { target, source, others } => mount::unmount(target, source, others),
        Thing::MdArray { uuid, members } => md_array::dismantle(uuid, members, same_boot),
        Thing::VolumeGroup { name, members } => volume_group::remove(name, members, same_boot),
        Thing::Format { device, uuid } => format::erase(device, uuid, same_boot),
        Thing::Setting { path, previous, value } => setting::put_back(path, previous, value.as_deref()),
        Thing::Cgroup { path } => cgroup::remove(path),
        Thing::Process(id) => process::end(*id),
    }
}

/// Whether it is still there after the machine went down; the kernel forgets everything else.
fn outlives_boot(thing: &Thing) -> bool {
    match thing {
        Thing::File { .. } | Thing::Directory { .. } | Thing::Tree { .. } | Thing::Format { .. } => true,
        // What was written on a lent disk stays there, and udev puts it together again.
        Thing::MdArray { members, .. } | Thing::VolumeGroup { members, .. } => {
            members.iter().any(|member| matches!(member, Member::Disk { .. }))
        }
        _ => false,
    }
}

/// The nodes of those members that are still what was recorded: loop devices on their files, lent disks that bear our mark.
fn still_ours(members: &[Member], same_boot: bool) -> Result<Vec<PathBuf>> {
    let mut devices = Vec::new();
    for member in members {
        match member {
            Member::Loop { device, backing } if loop_device::stands_on(device, backing) => {
                devices.push(device.clone());
            }
            Member::Loop { .. } => {}
            Member::Disk { device, mark } => devices.extend(mark::bearers(device, mark, same_boot)?),
        }
    }
    // After a boot the disks of an md array are sought by the one UUID that all bear.
    devices.sort_unstable();
    devices.dedup();
    Ok(devices)
}

/// The kernel's name of a device: `loop3` for `/dev/loop3`.
fn kernel_name(device: &Path) -> String {
    device.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The devices of `/sys/block` that stand on any of `devices`, by the kernel's name.
fn stacked_on(devices: &[PathBuf]) -> Result<Vec<String>> {
    let folder = "/sys/block";
    let entries = fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names
        .filter(|name| {
            let slaves = Path::new(folder).join(name).join("slaves");
            devices.iter().any(|device| slaves.join(kernel_name(device)).exists())
        })
        .collect())
}

/// How long something busy is asked again: a program that looks at each new device (udev, blkid) is soon done.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Tries until it works, fails for another reason than being busy, or [`PATIENCE`] ends.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.kind() == Kind::Busy && start.elapsed() < PATIENCE => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

/// Waits until `done`, at most [`PATIENCE`]; tells whether it came.
fn comes_true(mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() >= PATIENCE {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}
