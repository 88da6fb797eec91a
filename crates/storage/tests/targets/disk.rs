//! Whole disks, alone and joined; foreign loop devices take the place of disks.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fathom_errors::Kind;
use fathom_host::View;
use fathom_process::{Tool, signatures};
use fathom_storage::{
    Array, ArrayKind, Base, Filesystem, FilesystemOptions, NamedDisk, QueueSettings, TargetSpec,
    format_and_mount,
};
use fathom_testkit::{assert, assert_eq, test};

use crate::{TargetFolder, fact, use_it};

/// A file system on the disk, with the mount point in `folder`.
pub(crate) fn on_disk(device: &Path, folder: &Path) -> TargetSpec {
    on_disks(&[device.to_owned()], folder)
}

/// The same on several disks.
fn on_disks(devices: &[PathBuf], folder: &Path) -> TargetSpec {
    let named =
        |path: &PathBuf| NamedDisk { path: path.clone(), typed_name: path.to_string_lossy().into_owned() };
    let base = Base::Disks(devices.iter().map(named).collect());
    TargetSpec {
        filesystem: Some(Filesystem::Ext4),
        filesystem_options: FilesystemOptions { beside: Some(folder.to_owned()), ..Default::default() },
        queue: QueueSettings {
            read_ahead_kib: Some(16),
            scheduler: Some("mq-deadline".into()),
            nr_requests: Some(32),
        },
        ..TargetSpec::new(base)
    }
}

/// An array of disks, with the mount point in `folder`.
pub(crate) fn joined(
    kind: ArrayKind,
    filesystem: Filesystem,
    disks: &[PathBuf],
    folder: &Path,
) -> TargetSpec {
    let array = Some(Array { kind, chunk_kib: None });
    TargetSpec { array, filesystem: Some(filesystem), ..on_disks(disks, folder) }
}

/// Builds, uses and takes down an array of whole disks; the test ends as skipped where the kernel or a program for it is missing.
pub(crate) fn lent_array(kind: ArrayKind, filesystem: Filesystem, disks: &[PathBuf]) {
    let place = TargetFolder::new();
    let spec = joined(kind, filesystem, disks, &place.path());
    let names: Vec<String> =
        disks.iter().map(|disk| disk.file_name().unwrap().to_string_lossy().into_owned()).collect();
    let before: Vec<_> = names.iter().map(|name| settings(name)).collect();
    let target = place.prepare(&spec);
    println!("{:#?}", target.facts());
    use_it(target.path());
    let leaves: Vec<_> = target.devices().into_iter().map(|device| device.name).collect();
    assert_eq!(leaves, names);
    assert_eq!(fact(&target, "array"), format!("{kind} of {}", names.join(" ")));
    for name in &names {
        assert_eq!(fact(&target, &format!("{name} scheduler")), "mq-deadline");
    }
    // None of the disks is free for another holder meanwhile.
    for disk in disks {
        let error = on_disk(disk, &place.path()).check().unwrap_err();
        assert!([Kind::Busy, Kind::NotOurs].contains(&error.kind()), "{error}");
    }
    target.undo().unwrap();
    for disk in disks {
        assert_eq!(signatures(disk).unwrap(), [], "{} was given back with something on it", disk.display());
    }
    assert_eq!(names.iter().map(|name| settings(name)).collect::<Vec<_>>(), before);
    place.assert_empty();
}

/// The settings of a device's queue that a target may change.
pub(crate) fn settings(name: &str) -> [Option<String>; 3] {
    ["scheduler", "nr_requests", "read_ahead_kb"]
        .map(|file| View::live().choice(&format!("sys/block/{name}/queue/{file}")))
}

/// The number of requests of a queue, restored when this is dropped.
struct QueueRequestsGuard(std::path::PathBuf, Vec<u8>);

impl QueueRequestsGuard {
    fn read(queue: &Path) -> QueueRequestsGuard {
        let path = queue.join("nr_requests");
        let value = fs::read(&path).unwrap();
        QueueRequestsGuard(path, value)
    }
}

impl Drop for QueueRequestsGuard {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, &self.1);
    }
}

#[test]
fn a_disk_is_borrowed_and_given_back_empty_with_its_own_settings() {
    let place = TargetFolder::new();
    let disk = place.disk(64);
    // The owner's settings, which must come back. A loop device keeps some of them for the next user of its number.
    let queue = Path::new("/sys/block").join(disk.name()).join("queue");
    let as_found = QueueRequestsGuard::read(&queue);
    for (file, value) in [("scheduler", "none"), ("nr_requests", "100"), ("read_ahead_kb", "256")] {
        fs::write(queue.join(file), value).unwrap();
    }
    let before = settings(&disk.name());
    let target = on_disk(disk.path(), &place.path()).prepare(&place.ledger).unwrap();
    use_it(target.path());
    let wanted = ["mq-deadline", "32", "16"].map(|value| Some(value.to_owned()));
    assert_eq!(settings(&disk.name()), wanted);
    assert_eq!(target.devices()[0].name, disk.name());
    target.undo().unwrap();
    assert_eq!(settings(&disk.name()), before);
    assert_eq!(signatures(disk.path()).unwrap(), []);
    // Once more, as the next cell of a study does.
    on_disk(disk.path(), &place.path()).prepare(&place.ledger).unwrap().undo().unwrap();
    drop(as_found);
    disk.undo().unwrap();
    place.assert_empty();
}

#[test]
fn a_disk_with_something_on_it_is_refused_unless_it_may_be_wiped() {
    let place = TargetFolder::new();
    let disk = place.disk(64);
    Tool::new("mkfs.ext4", "e2fsprogs").unwrap().arg("-q").arg(disk.path()).run().unwrap();
    let spec = on_disk(disk.path(), &place.path());
    let error = spec.check().unwrap_err();
    assert_eq!(error.kind(), Kind::NotOurs, "{error}");
    assert!(error.to_string().contains("(ext4)"), "{error}");
    assert_eq!(spec.prepare(&place.ledger).unwrap_err().kind(), Kind::NotOurs);
    assert_eq!(signatures(disk.path()).unwrap()[0].kind, "ext4", "nothing was changed");
    let wiped = TargetSpec { wipe: true, ..spec };
    wiped.prepare(&place.ledger).unwrap().undo().unwrap();
    disk.undo().unwrap();
    place.assert_empty();
}

#[test]
fn a_disk_with_a_partition_table_is_refused() {
    let place = TargetFolder::new();
    let disk = place.disk(16);
    // One Linux partition from sector 2048 on, as a DOS label has it.
    let mut sector = [0_u8; 512];
    sector[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 3, 0, 0, 8, 0, 0, 0, 16, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    let file = OpenOptions::new().write(true).open(disk.path()).unwrap();
    file.write_all_at(&sector, 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let error = on_disk(disk.path(), &place.path()).check().unwrap_err();
    assert_eq!(error.kind(), Kind::NotOurs, "{error}");
    let text = error.to_string();
    assert!(text.contains("(dos)") || text.contains("partitions"), "{error}");
    disk.undo().unwrap();
}

#[test]
fn a_disk_in_use_is_refused_even_if_it_may_be_wiped() {
    let place = TargetFolder::new();
    let disk = place.disk(32);
    let spec = TargetSpec { wipe: true, ..on_disk(disk.path(), &place.path()) };
    let options = FilesystemOptions { beside: Some(place.path()), ..Default::default() };
    let mounted = format_and_mount(&place.ledger, &disk, Filesystem::Ext4, &options).unwrap();
    let error = spec.check().unwrap_err();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    assert!(error.to_string().contains("is mounted at"), "{error}");
    mounted.undo().unwrap();
    // Held by a program alone, just as md, swap and device mapper hold their disks.
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let held = OpenOptions::new().read(true).custom_flags(exclusive).open(disk.path()).unwrap();
    let error = spec.check().unwrap_err();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    drop(held);
    spec.check().unwrap();
    disk.undo().unwrap();
    place.assert_empty();
}

/// Joins two foreign disks.
fn join_two(kind: ArrayKind, filesystem: Filesystem) {
    let place = TargetFolder::new();
    let disks = [place.disk(300), place.disk(310)];
    let nodes = disks.each_ref().map(|disk| disk.path().to_owned());
    lent_array(kind, filesystem, &nodes);
    for disk in disks {
        disk.undo().unwrap();
    }
    place.assert_empty();
}

#[test]
fn whole_disks_joined_by_btrfs_are_borrowed_and_given_back_empty() {
    join_two(ArrayKind::BtrfsRaid0, Filesystem::Btrfs);
}

/// The kernel of the guest certainly has md.
#[test]
fn whole_disks_joined_by_md_are_borrowed_and_given_back_empty() {
    join_two(ArrayKind::MdRaid0, Filesystem::Xfs);
}

/// The kernel of the guest certainly has device mapper.
#[test]
fn whole_disks_joined_by_lvm_are_borrowed_and_given_back_empty() {
    join_two(ArrayKind::LvmStriped, Filesystem::Xfs);
}

#[test]
fn a_disk_under_two_names_and_one_of_two_that_is_not_free_are_refused() {
    let place = TargetFolder::new();
    let (first, second) = (place.disk(120), place.disk(120));
    let link = place.path().join("link");
    std::os::unix::fs::symlink(first.path(), &link).unwrap();
    let check = |disks: &[&Path], wipe: bool| {
        let disks: Vec<PathBuf> = disks.iter().map(|&disk| disk.to_owned()).collect();
        let spec = joined(ArrayKind::BtrfsRaid0, Filesystem::Btrfs, &disks, &place.path());
        TargetSpec { wipe, ..spec }.check()
    };
    let error = check(&[first.path(), &link], false).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    assert!(error.to_string().contains("are one disk"), "{error}");
    check(&[first.path(), second.path()], false).unwrap();
    Tool::new("mkfs.ext4", "e2fsprogs").unwrap().arg("-q").arg(second.path()).run().unwrap();
    let error = check(&[first.path(), second.path()], false).unwrap_err();
    assert_eq!(error.kind(), Kind::NotOurs, "{error}");
    check(&[first.path(), second.path()], true).unwrap();
    let small = place.disk(32);
    let error = check(&[first.path(), small.path()], false).unwrap_err();
    assert!(error.to_string().contains("109 MiB"), "{error}");
    for disk in [first, second, small] {
        disk.undo().unwrap();
    }
    fs::remove_file(link).unwrap();
    place.assert_empty();
}

#[test]
fn what_is_no_disk_or_not_there_is_refused() {
    let place = TargetFolder::new();
    let absent = on_disk(Path::new("/dev/no-such-disk"), &place.path()).check().unwrap_err();
    assert_eq!(absent.kind(), Kind::NotFound, "{absent}");
    let no_disk = on_disk(Path::new("/dev/null"), &place.path()).check().unwrap_err();
    assert_eq!(no_disk.kind(), Kind::Usage, "{no_disk}");
}
