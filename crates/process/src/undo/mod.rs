//! Undoes each kind of resource, for its maker or long after its maker's death.
//!
//! Every kind checks first that the present object is the one that was recorded, and treats a missing one as undone.
//! The maker is not needed.

mod device;
mod file;
mod kernel;

use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Kind, Result};

use crate::{ComponentDisk, Resource};

/// The known facts about the record of a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoContext {
    /// True if the machine has been up since the record was written.
    pub(crate) same_boot: bool,
    /// The time at which the record was written.
    pub(crate) recorded_unix_ns: u64,
}

/// The way in which a resource was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoOutcome {
    /// Undone by this call.
    Now,
    /// It no longer existed, was never made, or another object is in its place.
    Before,
}

pub(crate) fn undo(thing: &Resource, circumstances: UndoContext) -> Result<UndoOutcome> {
    if !circumstances.same_boot && !outlives_boot(thing) {
        return Ok(UndoOutcome::Before);
    }
    let same_boot = circumstances.same_boot;
    match thing {
        Resource::File { path, identity } => file::unlink(path, *identity, circumstances),
        Resource::Directory { path, identity } => file::remove_folder(path, *identity, circumstances),
        Resource::Tree { path, identity } => file::remove_tree(path, *identity, circumstances),
        Resource::Loop { device, backing } => device::detach_loop(device.as_deref(), backing),
        Resource::Mount { target, source, others } => file::unmount(target, source, others),
        Resource::MdArray { uuid, members } => device::dismantle_array(uuid, members, same_boot),
        Resource::VolumeGroup { name, members } => device::remove_volume_group(name, members, same_boot),
        Resource::Format { device, uuid } => device::erase_format(device, uuid, same_boot),
        Resource::Setting { path, previous, value } => {
            kernel::put_back_setting(path, previous, value.as_deref())
        }
        Resource::Cgroup { path } => kernel::remove_cgroup(path),
        Resource::Process(id) => kernel::end_process(*id),
    }
}

/// Returns whether it still exists after a reboot; the kernel forgets everything else.
fn outlives_boot(thing: &Resource) -> bool {
    match thing {
        Resource::File { .. }
        | Resource::Directory { .. }
        | Resource::Tree { .. }
        | Resource::Format { .. } => true,
        // The metadata on a lent disk remain there, and udev assembles the array again.
        Resource::MdArray { members, .. } | Resource::VolumeGroup { members, .. } => {
            members.iter().any(|member| matches!(member, ComponentDisk::Disk { .. }))
        }
        _ => false,
    }
}

/// The time for which a busy resource is retried: a program that scans each new device (udev, blkid) is soon done.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Retries until it succeeds, fails for another reason than being busy, or [`BUSY_TIMEOUT`] ends.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.kind() == Kind::Busy && start.elapsed() < BUSY_TIMEOUT => {
                thread::sleep(PAUSE)
            }
            result => return result,
        }
    }
}

/// Waits until `done`, at most [`BUSY_TIMEOUT`]; returns whether it became true.
fn comes_true(mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() >= BUSY_TIMEOUT {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}
