//! Builds targets on this machine's kernel: the result matches the request, and nothing of it remains.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fathom_errors::Kind;
use fathom_host::View;
use fathom_storage::{
    Array, ArrayKind, Base, CapLimits, Filesystem, FilesystemOptions, QueueSettings, TargetSpec,
    storage_class,
};
use fathom_testkit::{assert, assert_eq, assert_ne, test};
use fathom_units::Bytes;

use crate::{TargetFolder, fact, use_it};

fn one_loop(filesystem: Filesystem) {
    let place = TargetFolder::new();
    let spec = place.loops(1, filesystem.least_size_mib() + 20, filesystem);
    let target = spec.prepare(&place.ledger).unwrap();
    use_it(target.path());
    let leaf = target.devices().remove(0);
    assert_eq!(fact(&target, "file system"), format!("{filesystem} from /dev/{}", leaf.name));
    assert!(fact(&target, "mount options").contains("noatime"));
    assert_eq!(target.top_device(), Some(leaf));
    assert_eq!(target.cgroup_processes_file(), None);
    target.adopt_process(std::process::id()).unwrap();
    target.undo().unwrap();
    place.assert_empty();
}

#[test]
fn ext4_stands_on_a_loop_device() {
    one_loop(Filesystem::Ext4);
}

#[test]
fn xfs_stands_on_a_loop_device() {
    one_loop(Filesystem::Xfs);
}

#[test]
fn btrfs_stands_on_a_loop_device() {
    one_loop(Filesystem::Btrfs);
}

#[test]
fn btrfs_raid0_joins_two_loop_devices_caps_each_and_reads_ahead_as_told() {
    let place = TargetFolder::new();
    let spec = TargetSpec {
        array: Some(Array { kind: ArrayKind::BtrfsRaid0, chunk_kib: None }),
        cap: Some(CapLimits::iops(5000)),
        queue: QueueSettings { read_ahead_kib: Some(32), ..Default::default() },
        ..place.loops(2, 128, Filesystem::Btrfs)
    };
    let target = place.prepare(&spec);
    use_it(target.path());
    assert_eq!(target.devices().len(), 2);
    assert_eq!(target.top_device(), None);
    assert_eq!(fact(&target, "array data profile"), "raid0");
    assert_eq!(fact(&target, "array metadata profile"), "raid0");
    assert_eq!(fact(&target, "btrfs read-ahead (KiB)"), "32");
    let names: Vec<_> = target.devices().into_iter().map(|device| device.name).collect();
    assert_eq!(fact(&target, "cap on"), format!("each of {}", names.join(" ")));
    for device in target.devices() {
        assert!(fact(&target, "cap in force").contains(&device.number.to_string()));
    }
    target.undo().unwrap();
    place.assert_empty();
}

#[test]
fn a_dropped_target_is_taken_down_too() {
    let place = TargetFolder::new();
    let spec = TargetSpec {
        array: Some(Array { kind: ArrayKind::BtrfsRaid0, chunk_kib: None }),
        cap: Some(CapLimits::iops(5000)),
        ..place.loops(2, 128, Filesystem::Btrfs)
    };
    let target = place.prepare(&spec);
    use_it(target.path());
    let group = target.cgroup_processes_file().unwrap();
    drop(target);
    assert!(!group.exists());
    place.assert_empty();
}

#[test]
fn stripes_that_the_caller_gives_reach_the_file_system() {
    let place = TargetFolder::new();
    let told = |words: &[&str]| FilesystemOptions {
        mkfs: words.iter().map(|&word| word.to_owned()).collect(),
        ..Default::default()
    };
    let spec = TargetSpec {
        filesystem_options: told(&["-d", "su=64k,sw=4"]),
        ..place.loops(1, 560, Filesystem::Xfs)
    };
    let target = spec.prepare(&place.ledger).unwrap();
    assert_eq!(fact(&target, "file system alignment"), "sunit 128, swidth 512 sectors of 512 bytes");
    assert!(fact(&target, "XFS allocation groups").parse::<u32>().unwrap() >= 2);
    target.undo().unwrap();
    let spec = TargetSpec {
        filesystem_options: told(&["-b", "4096", "-E", "stride=16,stripe_width=64"]),
        ..place.loops(1, 64, Filesystem::Ext4)
    };
    let target = spec.prepare(&place.ledger).unwrap();
    assert_eq!(fact(&target, "file system alignment"), "stripe width 64 blocks");
    target.undo().unwrap();
    place.assert_empty();
}

#[test]
fn queue_settings_hold_and_the_loop_device_gets_its_own_back() {
    let place = TargetFolder::new();
    let queue = QueueSettings {
        read_ahead_kib: Some(16),
        scheduler: Some("mq-deadline".into()),
        nr_requests: Some(48),
    };
    let spec = TargetSpec { queue, ..place.loops(1, 32, Filesystem::Ext4) };
    let ledger = place.path().join("state/undo");
    let target = spec.prepare(&place.ledger).unwrap();
    let name = target.devices().remove(0).name;
    let settings = ["scheduler", "nr_requests", "read_ahead_kb"];
    let now = || settings.map(|file| View::live().choice(&format!("sys/block/{name}/queue/{file}")).unwrap());
    assert_eq!(now(), ["mq-deadline", "48", "16"]);
    assert_eq!(fact(&target, &format!("{name} scheduler")), "mq-deadline");
    assert_eq!(fact(&target, &format!("{name} read-ahead (KiB)")), "16");
    // The journal holds the previous value, for a later cleanup.
    let journal = fs::read_dir(ledger).unwrap().flatten().next().unwrap().path();
    let journal = fs::read_to_string(journal).unwrap();
    let previous = |file: &str| {
        let line = journal.lines().find(|line| line.contains(&format!("{name}/queue/{file}\"")))?;
        Some(line.split_once("\"previous\":\"")?.1.split_once('"')?.0.to_owned())
    };
    let before = settings.map(|file| previous(file).unwrap());
    assert_ne!(before, now());
    // Another test may take the number as soon as it is free, so the device is held open until the check is done.
    let holder = fs::File::open(format!("/dev/{name}")).unwrap();
    let undone = target.undo();
    let after = now();
    drop(holder);
    undone.unwrap();
    assert_eq!(after, before);
    place.assert_empty();
}

#[test]
fn a_cap_holds_the_processes_put_under_it() {
    let place = TargetFolder::new();
    let class = storage_class("azure-100").unwrap();
    let spec = TargetSpec { cap: Some(class.limits), ..place.loops(1, 64, Filesystem::Ext4) };
    let target = place.prepare(&spec);
    assert!(fact(&target, "cap in force").contains(" 100"), "{:?}", target.facts());
    // A shell puts itself under the cap before it begins: 200 reads past the page cache take two seconds.
    fs::write(target.path().join("file"), vec![7; 1 << 20]).unwrap();
    let group = target.cgroup_processes_file().unwrap();
    let script = format!(
        "echo $$ > {} && exec dd if={} of=/dev/null bs=4k count=200 iflag=direct",
        group.display(),
        target.path().join("file").display()
    );
    let begun = std::time::Instant::now();
    let status = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().unwrap();
    let took = begun.elapsed();
    target.undo().unwrap();
    place.assert_empty();
    assert!(status.success() && !group.exists());
    assert!(took.as_millis() >= 1000, "200 reads at 100 each second took {took:?}");
}

#[test]
fn a_folder_under_a_cap_is_borrowed_and_left_as_it_was() {
    let place = TargetFolder::new();
    let folder = folder_with_theirs(&place);
    let spec =
        TargetSpec { cap: Some(CapLimits::iops(5000)), ..TargetSpec::new(Base::Directory(folder.clone())) };
    // A file system in memory has no disk to limit.
    let target = place.prepare(&spec);
    use_it(target.path());
    assert!(!target.devices().is_empty());
    target.undo().unwrap();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    place.assert_empty();
}

/// A folder that already holds a foreign file.
fn folder_with_theirs(place: &TargetFolder) -> PathBuf {
    let folder = place.path().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("theirs"), "theirs").unwrap();
    folder
}

#[test]
fn a_folder_is_borrowed_and_left_as_it_was() {
    let place = TargetFolder::new();
    let folder = folder_with_theirs(&place);
    let spec = TargetSpec::new(Base::Directory(folder.clone()));
    let target = spec.prepare(&place.ledger).unwrap();
    use_it(target.path());
    assert!(target.path().starts_with(&folder) && target.path() != folder);
    target.undo().unwrap();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    place.assert_empty();
}

#[test]
fn what_fails_half_way_is_taken_down_again() {
    let place = TargetFolder::new();
    let options = FilesystemOptions { mount: "no-such-option".into(), ..Default::default() };
    let queue = QueueSettings { read_ahead_kib: Some(16), ..Default::default() };
    let spec = TargetSpec { filesystem_options: options, queue, ..place.loops(1, 32, Filesystem::Ext4) };
    spec.prepare(&place.ledger).unwrap_err();
    place.assert_empty();
    // The limit of a scheduler shows only when the value is set.
    let queue = QueueSettings { nr_requests: Some(u64::from(u32::MAX)), ..Default::default() };
    let spec = TargetSpec { queue, ..place.loops(2, 128, Filesystem::Btrfs) };
    let spec = TargetSpec { array: Some(Array { kind: ArrayKind::BtrfsRaid0, chunk_kib: None }), ..spec };
    spec.prepare(&place.ledger).unwrap_err();
    place.assert_empty();
    let tiny = Bytes::mib(1);
    let base = Base::Loops { folder: place.path(), count: 1, size: tiny };
    let spec = TargetSpec { base, ..place.loops(1, 1, Filesystem::Ext4) };
    assert_eq!(spec.prepare(&place.ledger).unwrap_err().kind(), Kind::Usage);
    place.assert_empty();
}
