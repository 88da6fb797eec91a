//! Targets that are refused, with one sentence each, before anything is made.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use fathom_errors::{Error, Kind};
use fathom_storage::{
    Array, ArrayKind, Base, CapLimits, Filesystem, FilesystemOptions, NamedDisk, QueueSettings, TargetSpec,
};
use fathom_testkit::{Scratch, assert, assert_eq, is_root, test};
use fathom_units::Bytes;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use crate::{TargetFolder, loops};

/// The refusal of a target that left nothing in its folder.
fn refusal(spec: &TargetSpec, folder: &Path) -> Error {
    let before = fs::read_dir(folder).unwrap().count();
    let error = spec.check().unwrap_err();
    let sentence = error.to_string();
    assert!(!sentence.contains('\n') && !sentence.ends_with('.'), "{sentence}");
    assert_eq!(fs::read_dir(folder).unwrap().count(), before);
    error
}

#[test]
fn what_contradicts_itself_is_refused_also_without_root() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let ext4 = || loops(&folder, 1, 64, Filesystem::Ext4);
    let array = |kind, chunk_kib| Some(Array { kind, chunk_kib });
    let queue = QueueSettings { read_ahead_kib: Some(16), ..Default::default() };
    let in_folder = || TargetSpec::new(Base::Directory(folder.clone()));
    let disks = |typed: &[&str]| {
        let named = |typed: &&str| NamedDisk { path: "/dev/sdx".into(), typed_name: (*typed).to_owned() };
        TargetSpec { base: Base::Disks(typed.iter().map(named).collect()), ..ext4() }
    };
    let two = ["/dev/sdx", "/dev/sdy"]
        .map(|path| NamedDisk { path: path.into(), typed_name: path.into() })
        .to_vec();
    let mkfs = |words: &[&str]| FilesystemOptions {
        mkfs: words.iter().map(|&word| word.to_owned()).collect(),
        ..Default::default()
    };
    let cases = [
        (TargetSpec { filesystem: None, ..ext4() }, "needs a file system"),
        (loops(&folder, 0, 64, Filesystem::Ext4), "one loop device or more"),
        (loops(&folder, 2, 64, Filesystem::Ext4), "need an array"),
        (
            TargetSpec {
                array: array(ArrayKind::BtrfsRaid0, None),
                ..loops(&folder, 2, 200, Filesystem::Ext4)
            },
            "cannot carry ext4",
        ),
        (TargetSpec { filesystem: Some(Filesystem::Xfs), ..in_folder() }, "file system already"),
        (TargetSpec { array: array(ArrayKind::MdRaid0, None), ..in_folder() }, "file system already"),
        (TargetSpec { queue: queue.clone(), ..in_folder() }, "queue is not ours"),
        (TargetSpec { cap: Some(CapLimits::iops(0)), ..ext4() }, "must be above 0"),
        (TargetSpec { cap: Some(CapLimits::default()), ..ext4() }, "at least one limit"),
        (disks(&["/dev/sdy"]), "the name given with it is '/dev/sdy'"),
        (disks(&["sdx", "sdy"]), "the name given with it is 'sdy'"),
        (disks(&["sdx", "/dev/sdx"]), "/dev/sdx is named more than once"),
        (disks(&[]), "one disk or more"),
        (TargetSpec { base: Base::Disks(two), ..ext4() }, "2 disks need an array"),
        (TargetSpec { filesystem_options: mkfs(&["-U", "random"]), ..ext4() }, "chooses the UUID"),
        (
            TargetSpec { queue: QueueSettings { read_ahead_kib: Some(5), ..Default::default() }, ..ext4() },
            "page",
        ),
    ];
    for (spec, wanted) in cases {
        let error = refusal(&spec, &folder);
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains(wanted), "'{error}' should say '{wanted}'");
    }
}

#[test]
fn without_root_devices_and_caps_are_refused_and_a_folder_is_not() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let (devices, in_folder, capped) = as_ordinary_user(|| {
        let devices = refusal(&loops(&folder, 1, 64, Filesystem::Ext4), &folder);
        let in_folder = TargetSpec::new(Base::Directory(folder.clone()));
        let checked = in_folder.check();
        let capped = TargetSpec { cap: Some(CapLimits::iops(100)), ..in_folder };
        (devices, checked, refusal(&capped, &folder))
    });
    assert_eq!(devices.kind(), Kind::Permission, "{devices}");
    in_folder.unwrap();
    assert_eq!(capped.kind(), Kind::Permission);
}

/// Runs `work` without the rights of root, which a thread can drop for itself alone.
fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let nobody = Uid::from_raw(65534);
    let dropped = || {
        if is_root() {
            set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        assert!(!is_root());
        work()
    };
    thread::scope(|scope| scope.spawn(dropped).join().unwrap())
}

#[test]
fn one_disk_is_no_array_and_an_odd_chunk_is_no_chunk() {
    let place = TargetFolder::new();
    let folder = place.path();
    for (kind, chunk_kib, disks, wanted) in [
        (ArrayKind::MdRaid0, None, 1, "two disks"),
        (ArrayKind::MdRaid10, None, 3, "even number"),
        (ArrayKind::MdRaid0, Some(96), 2, "power of two"),
        (ArrayKind::LvmStriped, Some(3), 2, "power of two"),
    ] {
        let spec = TargetSpec {
            array: Some(Array { kind, chunk_kib }),
            ..loops(&folder, disks, 200, Filesystem::Ext4)
        };
        let error = refusal(&spec, &folder);
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let btrfs = TargetSpec {
        array: Some(Array { kind: ArrayKind::BtrfsRaid0, chunk_kib: Some(256) }),
        ..loops(&folder, 2, 200, Filesystem::Btrfs)
    };
    assert!(refusal(&btrfs, &folder).to_string().contains("64 KiB always"));
}

#[test]
fn too_little_room_is_refused_for_all_members_together_with_what_is_free() {
    let place = TargetFolder::new();
    let folder = place.path();
    let room = rustix::fs::statvfs(&folder).unwrap();
    let free = room.f_bavail * room.f_frsize;
    // Each alone would fit; both together do not.
    let size = Bytes((free / 3 * 2) >> 20 << 20);
    let spec = TargetSpec {
        base: Base::Loops { folder: folder.clone(), count: 2, size },
        array: Some(Array { kind: ArrayKind::BtrfsRaid0, chunk_kib: None }),
        ..loops(&folder, 2, 200, Filesystem::Btrfs)
    };
    let error = refusal(&spec, &folder);
    assert_eq!(error.kind(), Kind::NoSpace, "{error}");
    assert!(error.to_string().contains(" free"), "{error}");
    let huge = TargetSpec {
        base: Base::Loops { folder: folder.clone(), count: 2, size: Bytes(u64::MAX - 511) },
        ..spec
    };
    assert_eq!(refusal(&huge, &folder).kind(), Kind::Usage);
}

#[test]
fn a_size_that_the_file_system_cannot_live_in_is_refused() {
    let place = TargetFolder::new();
    let folder = place.path();
    let error = refusal(&loops(&folder, 1, 200, Filesystem::Xfs), &folder);
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    assert!(error.to_string().contains("300 MiB"), "{error}");
    let btrfs = TargetSpec {
        array: Some(Array { kind: ArrayKind::BtrfsRaid0, chunk_kib: None }),
        ..loops(&folder, 2, 64, Filesystem::Btrfs)
    };
    assert!(refusal(&btrfs, &folder).to_string().contains("109 MiB"));
}

#[test]
fn a_folder_that_is_not_there_or_none_is_refused() {
    let place = TargetFolder::new();
    let folder = place.path();
    let error = refusal(&loops(&folder.join("absent"), 1, 64, Filesystem::Ext4), &folder);
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
    fs::write(folder.join("file"), "").unwrap();
    let error = refusal(&TargetSpec::new(Base::Directory(folder.join("file"))), &folder);
    assert_eq!(error.kind(), Kind::Usage, "{error}");
}

#[test]
fn a_scheduler_that_the_device_does_not_offer_is_refused() {
    let place = TargetFolder::new();
    let folder = place.path();
    let queue = QueueSettings { scheduler: Some("no-such".into()), ..Default::default() };
    let error = refusal(&TargetSpec { queue, ..loops(&folder, 1, 64, Filesystem::Ext4) }, &folder);
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    assert!(error.to_string().contains("no scheduler no-such"), "{error}");
}
