//! The devices that `doctor` and `watch` name for a directory, on a btrfs of two devices and on an overlay over it.

use std::ffi::CString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use fathom_errors::Error;
use fathom_process::{Ledger, Resource};
use fathom_storage::{Array, ArrayKind, Base, TargetSpec};
use fathom_testkit::{
    Bytes, Fathom, Filesystem, Need, OrSkip, Scratch, assert_eq, need_loop_devices, need_root, test,
};
use rustix::mount::{MountFlags, mount};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fathom");

/// The devices in the head of `doctor`'s report.
fn judged_devices(directory: &Path) -> Vec<String> {
    let output = Fathom::new(PROGRAM).args(["doctor", "--dir"]).arg(directory).run();
    let named = output.stdout.lines().find_map(|line| line.strip_prefix("devices"));
    let named = named.unwrap_or_else(|| panic!("no devices in {output:?}"));
    sorted(named.split(',').map(|name| name.trim().to_owned()))
}

/// The loop devices that have lines in `watch`.
fn watched_devices(directory: &Path) -> Vec<String> {
    let call = Fathom::new(PROGRAM).args(["watch", "--plain", "--for", "3s", "--dir"]).arg(directory);
    let output = call.limit(Duration::from_secs(60)).run().expect_code(0);
    let words = output.stdout.split_whitespace().filter(|word| word.starts_with("loop"));
    sorted(words.map(str::to_owned))
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_btrfs_of_two_devices_and_an_overlay_over_it_are_on_both() {
    need_root();
    need_loop_devices();
    let scratch = Scratch::new().unwrap();
    let ledger = Ledger::open_in(&scratch.path().join("ledger")).unwrap();
    let base = Base::Loops { folder: scratch.path(), count: 2, size: Bytes::mib(256) };
    let spec = TargetSpec {
        array: Some(Array { kind: ArrayKind::BtrfsRaid0, chunk_kib: None }),
        filesystem: Some(Filesystem::Btrfs),
        ..TargetSpec::new(base)
    };
    // Without mkfs.btrfs, or without btrfs in the kernel, the test is counted as skipped.
    let target = spec.prepare(&ledger).or_skip(Need::Disk);
    let expected = sorted(target.devices().into_iter().map(|device| device.name));
    assert_eq!(expected.len(), 2);
    assert_eq!(judged_devices(target.path()), expected);
    assert_eq!(watched_devices(target.path()), expected);

    let parts = ["lower", "upper", "work"].map(|name| target.path().join(name));
    parts.iter().for_each(|part| fs::create_dir(part).unwrap());
    let [lower, upper, work] = parts.each_ref().map(|part| part.display());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    let options = CString::new(options).unwrap();
    let place = scratch.path().join("overlay");
    let folder = ledger.create_directory(&place).unwrap().guard();
    let name = ledger.unique_name();
    let mounted = ledger.will_make(Resource::mount(&place, name.clone())).unwrap().guard();
    mount(name.as_str(), &place, "overlay", MountFlags::empty(), options.as_c_str())
        .map_err(|error| Error::io("mount an overlay at", &place, error))
        .or_skip(Need::Disk);
    assert_eq!(judged_devices(&place), expected);
    assert_eq!(watched_devices(&place), expected);
    drop((mounted, folder));
    target.undo().unwrap();
}
