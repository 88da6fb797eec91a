//! Tests real file systems on loop devices, and limits on them: made, used, undone.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use fathom_errors::Kind;
use fathom_host::{Mounts, View};
use fathom_process::Ledger;
use fathom_storage::{
    Backing, Cap, CapLimits, Filesystem, FilesystemOptions, LoopDevice, LoopOptions, format_and_mount,
};
use fathom_testkit::{
    FuseMount, Need, OrSkip, RealDisk, Scratch, Tmpfs, assert, assert_eq, leftovers, need_loop_devices, test,
};
use fathom_units::Bytes;

fn made_used_undone(filesystem: Filesystem) {
    let size = Bytes(filesystem.least_size_mib() << 20);
    let disk = RealDisk::new(filesystem, size);
    let path = disk.path().to_owned();
    let mounts = Mounts::read(&View::live()).unwrap();
    let mount = mounts.containing(&path).unwrap();
    assert_eq!(mount.fs_type, filesystem.name());
    assert!(mount.has_option("noatime"));
    assert_eq!(mount.source, disk.device_path().to_string_lossy());

    let data: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
    let mut file = File::create_new(path.join("data")).unwrap();
    file.write_all(&data).unwrap();
    file.sync_all().unwrap();
    let mut back = Vec::new();
    File::open(path.join("data")).unwrap().read_to_end(&mut back).unwrap();
    assert!(back == data);
    drop(file);

    let scratch = path.parent().unwrap().to_owned();
    disk.undo().unwrap();
    assert!(!path.exists());
    assert_eq!(leftovers(&scratch, None).unwrap(), Vec::<String>::new());
}

#[test]
fn ext4_is_made_used_and_undone() {
    made_used_undone(Filesystem::Ext4);
}

#[test]
fn xfs_is_made_used_and_undone() {
    made_used_undone(Filesystem::Xfs);
}

#[test]
fn btrfs_is_made_used_and_undone() {
    made_used_undone(Filesystem::Btrfs);
}

#[test]
fn a_loop_device_has_the_block_size_and_space_asked_for() {
    need_loop_devices();
    let scratch = Scratch::new().unwrap();
    let ledger = Ledger::open_in(&scratch.path().join("state")).unwrap();
    let options =
        LoopOptions { direct_io: false, logical_block_size: Some(4096), backing: Backing::Preallocated };
    let device = LoopDevice::create(&ledger, &scratch.path(), Bytes(16 << 20), options).unwrap();
    let queue = format!("sys/block/{}/queue/logical_block_size", device.name());
    assert_eq!(View::live().number(&queue), Some(4096));
    let folder = scratch.path();
    let disk =
        fs::read_dir(&folder).unwrap().flatten().find(|e| e.path().extension().is_some_and(|x| x == "disk"));
    assert!(disk.unwrap().metadata().unwrap().blocks() * 512 >= 16 << 20);

    let error = LoopDevice::create(&ledger, &folder, Bytes(5000), options).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    let small =
        format_and_mount(&ledger, &device, Filesystem::Xfs, &FilesystemOptions::default()).unwrap_err();
    assert_eq!(small.kind(), Kind::Usage);
    let wrong = FilesystemOptions { mount: "no-such-option".into(), ..Default::default() };
    format_and_mount(&ledger, &device, Filesystem::Ext4, &wrong).unwrap_err();

    device.undo().unwrap();
    assert_eq!(leftovers(&folder, None).unwrap(), Vec::<String>::new());
}

#[test]
fn many_loop_devices_at_once_are_no_race() {
    need_loop_devices();
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let ledger = Ledger::open_in(&folder.join("state")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let options = LoopOptions { direct_io: false, ..Default::default() };
                LoopDevice::create(&ledger, &folder, Bytes(1 << 20), options).unwrap().undo().unwrap();
            });
        }
    });
    assert_eq!(leftovers(&folder, None).unwrap(), Vec::<String>::new());
}

#[test]
fn a_panic_takes_the_disk_down() {
    let disk = RealDisk::new(Filesystem::Ext4, Bytes(16 << 20));
    let path = disk.path().to_owned();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _disk = disk;
        std::panic::resume_unwind(Box::new("as a failed assertion would"));
    }));
    assert!(panicked.is_err() && !path.exists());
    assert_eq!(leftovers(path.parent().unwrap(), None).unwrap(), Vec::<String>::new());
}

#[test]
fn a_full_disk_takes_nothing_more() {
    let disk = RealDisk::full(Filesystem::Ext4, Bytes(16 << 20));
    let error = fs::write(disk.path().join("more"), [1; 4096]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn a_disk_mounted_read_only_takes_nothing() {
    let disk = RealDisk::read_only(Filesystem::Ext4, Bytes(16 << 20));
    let error = fs::write(disk.path().join("x"), "x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}

/// The kind of the file system that a folder is on.
fn filesystem_of(path: &Path) -> String {
    Mounts::read(&View::live()).unwrap().containing(path).unwrap().fs_type.clone()
}

#[test]
fn memory_is_a_tmpfs_of_its_size() {
    let memory = Tmpfs::new(Bytes(1 << 20));
    assert_eq!(filesystem_of(memory.path()), "tmpfs");
    assert!(fs::write(memory.path().join("x"), vec![1; 2 << 20]).is_err());
}

#[test]
fn a_mount_in_user_space_is_one_of_fuse() {
    let fuse = FuseMount::mount();
    assert!(filesystem_of(fuse.path()).starts_with("fuse"));
    fs::write(fuse.path().join("x"), "x").unwrap();
}

#[test]
fn a_cap_holds_its_processes_and_lets_them_go() {
    let disk = RealDisk::new(Filesystem::Ext4, Bytes(32 << 20));
    let cap = Cap::new(disk.ledger(), disk.device_number(), CapLimits::iops(100)).or_skip(Need::Cgroup);
    let mut sleeper = Command::new("sleep").arg("600").spawn().unwrap();
    let adopted = cap.adopt_process(sleeper.id());
    let inside = fs::read_to_string(cap.processes_file()).unwrap();
    let group = cap.path().to_owned();
    let lifted = cap.lift();
    let alive = sleeper.try_wait().unwrap().is_none();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    adopted.unwrap();
    lifted.unwrap();
    assert_eq!(inside.trim(), sleeper.id().to_string());
    assert!(alive && !group.exists());
}

#[test]
fn a_cap_on_nothing_is_an_error_and_leaves_no_group() {
    let disk = RealDisk::new(Filesystem::Ext4, Bytes(16 << 20));
    let nowhere = fathom_host::DeviceNumber { major: 7, minor: 1_048_575 };
    assert!(Cap::new(disk.ledger(), nowhere, CapLimits::iops(100)).is_err());
}
