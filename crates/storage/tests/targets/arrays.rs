//! Arrays by md and LVM. On a kernel without them these tests end as skipped; the guest runs the same tests.

use fathom_errors::Kind;
use fathom_host::View;
use fathom_storage::{Array, ArrayKind, CapLimits, CapPlace, Filesystem, QueueSettings, TargetSpec};
use fathom_testkit::{assert, assert_eq, test};

use crate::{TargetFolder, fact, use_it};

/// Builds, uses and takes down an array; the test ends as skipped where the kernel or a program for it is missing.
pub(crate) fn array(kind: ArrayKind, disks: u32, filesystem: Filesystem) {
    let place = TargetFolder::new();
    let spec = TargetSpec {
        array: Some(Array { kind, chunk_kib: Some(256) }),
        cap: Some(CapLimits::iops(5000)),
        queue: QueueSettings { read_ahead_kib: Some(64), ..Default::default() },
        ..place.loops(disks, 288, filesystem)
    };
    let target = place.prepare(&spec);
    println!("{:#?}", target.facts());
    use_it(target.path());
    let top = target.top_device().unwrap();
    let view = View::live();
    assert_eq!(view.number(&format!("sys/block/{}/queue/minimum_io_size", top.name)), Some(256 << 10));
    assert_eq!(fact(&target, &format!("{} read-ahead (KiB)", top.name)), "64");
    assert_eq!(fact(&target, "cap on"), top.name);
    assert_eq!(target.devices().len(), disks as usize);
    let data_disks = if kind == ArrayKind::MdRaid10 { disks / 2 } else { disks };
    let wanted = match filesystem {
        Filesystem::Xfs => format!("sunit 512, swidth {} sectors of 512 bytes", 512 * data_disks),
        _ => format!("stripe width {} blocks", 64 * data_disks),
    };
    assert_eq!(fact(&target, "file system alignment"), wanted);
    // Every member received writes.
    for device in target.devices() {
        let stat = view.text(&format!("sys/block/{}/stat", device.name)).unwrap();
        let sectors: u64 = stat.split_whitespace().nth(6).unwrap().parse().unwrap();
        assert!(sectors * 512 > 200_000, "{} took {sectors} sectors of a million bytes", device.name);
    }
    target.undo().unwrap();
    assert!(
        !std::path::Path::new("/sys/block")
            .join(&top.name)
            .join("slaves")
            .read_dir()
            .is_ok_and(|mut d| d.next().is_some())
    );
    place.assert_empty();

    let each = TargetSpec { cap_place: CapPlace::EachMember, ..spec };
    let target = each.prepare(&place.ledger).unwrap();
    let names: Vec<_> = target.devices().into_iter().map(|device| device.name).collect();
    assert_eq!(fact(&target, "cap on"), format!("each of {}", names.join(" ")));
    drop(target);
    place.assert_empty();
}

#[test]
fn md_raid0_carries_xfs_aligned_to_its_chunk() {
    array(ArrayKind::MdRaid0, 2, Filesystem::Xfs);
}

#[test]
fn md_raid10_carries_ext4_aligned_to_its_chunk() {
    array(ArrayKind::MdRaid10, 4, Filesystem::Ext4);
}

#[test]
fn lvm_striped_carries_xfs_aligned_to_its_stripe() {
    array(ArrayKind::LvmStriped, 2, Filesystem::Xfs);
}

#[test]
fn an_array_that_passes_the_check_stands_and_any_other_is_refused_with_the_module() {
    let place = TargetFolder::new();
    for (kind, module) in [(ArrayKind::MdRaid0, "raid0"), (ArrayKind::LvmStriped, "dm-mod")] {
        let spec = TargetSpec {
            array: Some(Array { kind, chunk_kib: None }),
            ..place.loops(2, 200, Filesystem::Ext4)
        };
        let Err(error) = spec.check() else {
            // In this case the kernel supports it, and the array is assembled.
            spec.prepare(&place.ledger).unwrap().undo().unwrap();
            continue;
        };
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        let advice = error.advice().unwrap();
        let program = advice.starts_with("apt-get install ");
        assert!(program || advice == format!("modprobe {module}"), "{error}");
    }
    place.assert_empty();
}
