//! How each kind of thing is undone, by its maker or long after its maker's death.
//!
//! Every kind checks first that what stands there now is what was recorded, and takes a thing already gone as
//! undone. None asks who made it.

mod device;
mod file;
mod kernel;

use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Kind, Result};

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
        Thing::Loop { device, backing } => device::detach_loop(device.as_deref(), backing),
        Thing::Mount { target, source, others } => file::unmount(target, source, others),
        Thing::MdArray { uuid, members } => device::dismantle_array(uuid, members, same_boot),
        Thing::VolumeGroup { name, members } => device::remove_volume_group(name, members, same_boot),
        Thing::Format { device, uuid } => device::erase_format(device, uuid, same_boot),
        Thing::Setting { path, previous, value } => {
            kernel::put_back_setting(path, previous, value.as_deref())
        }
        Thing::Cgroup { path } => kernel::remove_cgroup(path),
        Thing::Process(id) => kernel::end_process(*id),
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
