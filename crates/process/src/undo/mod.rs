//! How each kind of thing is undone, by its maker or long after its maker's death.
//!
//! Every kind checks first that what stands there now is what was recorded, and takes a thing already gone as
//! undone. None asks who made it.

mod cgroup;
mod file;
mod format;
mod loop_device;
mod md_array;
mod mount;
mod process;
mod setting;
mod volume_group;

use std::fs;
use std::path::Path;
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
    // The kernel forgets these when it goes down.
    let outlives_boot = matches!(
        thing,
        Thing::File { .. } | Thing::Directory { .. } | Thing::Tree { .. } | Thing::Format { .. }
    );
    if !circumstances.same_boot && !outlives_boot {
        return Ok(Undone::Before);
    }
    match thing {
        Thing::File { path, identity } => file::unlink(path, *identity, circumstances),
        Thing::Directory { path, identity } => file::remove_folder(path, *identity, circumstances),
        Thing::Tree { path, identity } => file::remove_tree(path, *identity, circumstances),
        Thing::Loop { device, backing } => loop_device::detach(device.as_deref(), backing),
        Thing::Mount { target, source, others } => mount::unmount(target, source, others),
        Thing::MdArray { uuid, members } => md_array::dismantle(uuid, members),
        Thing::VolumeGroup { name, members } => volume_group::remove(name, members),
        Thing::Format { device, uuid } => format::erase(device, uuid),
        Thing::Setting { path, previous, value } => setting::put_back(path, previous, value.as_deref()),
        Thing::Cgroup { path } => cgroup::remove(path),
        Thing::Process(id) => process::end(*id),
    }
}

/// Those of the members that are still the loop devices that were recorded.
fn still_ours(members: &[Member]) -> Vec<&Member> {
    members.iter().filter(|member| loop_device::stands_on(&member.device, &member.backing)).collect()
}

/// The kernel's name of a device: `loop3` for `/dev/loop3`.
fn kernel_name(device: &Path) -> String {
    device.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The devices of `/sys/block` that stand on any of `members`, by the kernel's name.
fn stacked_on(members: &[&Member]) -> Result<Vec<String>> {
    let folder = "/sys/block";
    let entries = fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names
        .filter(|name| {
            let slaves = Path::new(folder).join(name).join("slaves");
            members.iter().any(|member| slaves.join(kernel_name(&member.device)).exists())
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
