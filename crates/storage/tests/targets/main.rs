//! Storage targets in earnest: built as described, used, taken down; refused; killed half-way; and in a guest whose
//! kernel has md and device mapper.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking and says why it was skipped"
)]

mod arrays;
mod built;
mod disk;
mod guest;
mod killed;
mod refused;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::Kind;
use fathom_storage::{
    Array, ArrayKind, Base, Filesystem, LoopDevice, LoopOptions, PreparedTarget, TargetSpec,
};
use fathom_testkit::{Ledger, Need, Scratch, TIMEOUT, assert_eq, leftovers, need_loop_devices, skip};
use fathom_units::Bytes;

/// A folder and a ledger for one test.
pub(crate) struct TargetFolder {
    pub(crate) ledger: Ledger,
    pub(crate) scratch: Scratch,
}

impl TargetFolder {
    /// Makes the folder; the test ends as skipped without root or loop devices.
    pub(crate) fn new() -> TargetFolder {
        need_loop_devices();
        let scratch = Scratch::new().unwrap();
        let ledger = Ledger::open_in(&scratch.path().join("state")).unwrap();
        TargetFolder { ledger, scratch }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.scratch.path()
    }

    pub(crate) fn loops(&self, count: u32, mib: u64, filesystem: Filesystem) -> TargetSpec {
        loops(&self.path(), count, mib, filesystem)
    }

    /// Builds a target; the test ends as skipped if the kernel does not support it.
    pub(crate) fn prepare(&self, spec: &TargetSpec) -> PreparedTarget {
        match spec.prepare(&self.ledger) {
            Ok(target) => target,
            Err(error) if error.kind() == Kind::Unsupported => skip!(need_of(spec), "{error}"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Asserts that nothing is left. A program that looks at every device (udev, another test) may have one open for a
    /// moment, and the kernel detaches it when that program closes it.
    pub(crate) fn assert_empty(&self) {
        let deadline = Instant::now() + TIMEOUT;
        let left = || leftovers(&self.path(), None).unwrap();
        while !left().is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(left(), Vec::<String>::new());
    }

    /// A loop device that serves as a disk of the machine: it is not part of the target, and exists before and after it.
    pub(crate) fn disk(&self, mib: u64) -> LoopDevice {
        let folder = self.path().join("theirs");
        fs::create_dir_all(&folder).unwrap();
        let ledger = Ledger::open_in(&folder.join("state")).unwrap();
        LoopDevice::create(&ledger, &folder, Bytes::mib(mib), loop_options(&folder)).unwrap()
    }
}

/// The feature that a kernel lacks if it cannot build the target: md or device mapper for most arrays, otherwise the throttle.
fn need_of(spec: &TargetSpec) -> Need {
    match spec.array {
        Some(Array { kind: ArrayKind::MdRaid0 | ArrayKind::MdRaid10 | ArrayKind::LvmStriped, .. }) => {
            Need::Kernel
        }
        _ => Need::Cgroup,
    }
}

/// A file system on `count` loop devices.
pub(crate) fn loops(folder: &Path, count: u32, mib: u64, filesystem: Filesystem) -> TargetSpec {
    let base = Base::Loops { folder: folder.to_owned(), count, size: Bytes::mib(mib) };
    TargetSpec { filesystem: Some(filesystem), loops: loop_options(folder), ..TargetSpec::new(base) }
}

/// Options that bypass the page cache if the folder's file system supports it.
fn loop_options(folder: &Path) -> LoopOptions {
    let probe = folder.join("direct");
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let opened =
        fs::OpenOptions::new().write(true).create(true).truncate(true).custom_flags(direct).open(&probe);
    let _ = fs::remove_file(&probe);
    LoopOptions { direct_io: opened.is_ok(), ..LoopOptions::default() }
}

/// Writes a file, syncs it to the disk, and reads it again.
pub(crate) fn use_it(folder: &Path) {
    let data: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
    let path = folder.join("data");
    let mut file = File::create_new(&path).unwrap();
    file.write_all(&data).unwrap();
    file.sync_all().unwrap();
    let mut back = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut back).unwrap();
    assert!(back == data, "what was read is not what was written");
}

/// The value of a fact.
pub(crate) fn fact(target: &PreparedTarget, name: &str) -> String {
    let facts = target.facts();
    let found = facts.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    found.unwrap_or_else(|| panic!("no fact {name} in {facts:#?}"))
}
