//! md and LVM in earnest, independent of this machine's kernel: Debian's own kernel is booted under QEMU with this very test
//! program inside (`fathom_testkit::Guest`), builds the arrays, uses them, takes them down and reports on its serial console.

use std::path::{Path, PathBuf};
use std::process::Command;

use fathom_errors::Kind as ErrorKind;
use fathom_process::{ComponentDisk, Ledger, Resource, Tool, lvm_tool, signatures};
use fathom_storage::{ArrayKind, Filesystem, TargetSpec};
use fathom_testkit::{Drive, Guest, assert, assert_eq, test};
use fathom_units::Bytes;

use crate::arrays::array;
use crate::disk::{lent_array, on_disk};
use crate::killed::{Kind, kill_at};
use crate::{TargetFolder, use_it};

/// The disks of the guest, and their sizes in MiB: two for a foreign array, one that is lent and later part of a foreign group,
/// two that are lent for arrays, one that is lent and taken over.
const DISKS: [(&str, u64); 6] = [
    ("/dev/vdc", 64),
    ("/dev/vdd", 64),
    ("/dev/vde", 400),
    ("/dev/vdf", 300),
    ("/dev/vdg", 320),
    ("/dev/vdh", 64),
];

fn disk(at: usize) -> PathBuf {
    PathBuf::from(DISKS[at].0)
}

/// Not a test of its own: the program that runs in the guest.
#[test]
#[ignore = "runs in the guest of the test below"]
fn helper_process() {
    assert!(Guest::is_here(), "this runs in the guest of the test below only");
    let place = TargetFolder::new();
    // A whole disk, before it gets another use.
    let spec = TargetSpec { filesystem: Some(Filesystem::Xfs), ..on_disk(&disk(2), &place.path()) };
    let target = spec.prepare(&place.ledger).unwrap();
    use_it(target.path());
    target.undo().unwrap();
    Guest::say("a whole disk was formatted, used and given back empty");
    make_theirs(&place);

    // First without udev, as in a container; then with it, as on most machines, where its rules inspect each new device
    // and assemble arrays.
    array(ArrayKind::MdRaid0, 2, Filesystem::Xfs);
    Guest::say("md RAID0 was built, used and taken down");
    array(ArrayKind::MdRaid10, 4, Filesystem::Ext4);
    Guest::say("md RAID10 was built, used and taken down");
    array(ArrayKind::LvmStriped, 2, Filesystem::Xfs);
    Guest::say("LVM striped was built, used and taken down");
    lend_disks(Filesystem::Xfs);
    Guest::say("whole disks were joined by md, LVM and btrfs and given back empty");
    kill_at(4, &[Kind::Md, Kind::Lvm], 8, None);
    Guest::say("4 kills left nothing");
    start_udev();
    array(ArrayKind::MdRaid0, 2, Filesystem::Ext4);
    array(ArrayKind::LvmStriped, 2, Filesystem::Ext4);
    Guest::say("md RAID0 and LVM striped were built, used and taken down beside udev");
    lend_disks(Filesystem::Ext4);
    Guest::say("whole disks were joined and given back empty beside udev");
    kill_at(4, &[Kind::Md, Kind::Lvm], 9, None);
    kill_at(6, &[Kind::MdDisks, Kind::LvmDisks], 10, Some([disk(3), disk(4)]));
    Guest::say("10 kills beside udev left nothing, 6 of them over lent disks");

    let only = [disk(2)];
    let groups = lvm_tool("vgs", &only).unwrap().args(["--noheadings", "-o", "vg_name"]).run().unwrap();
    assert_eq!(groups.trim(), "theirs");
    let state = std::fs::read_to_string("/proc/mdstat").unwrap();
    assert_eq!(state.matches(" : active ").count(), 1, "{state}");
    Guest::say("verdict: theirs untouched, nothing of ours left");
}

/// Makes a foreign array and a foreign group. They are refused, and left alone even if a journal of ours names their disk.
fn make_theirs(place: &TargetFolder) {
    Tool::new("mdadm", "mdadm")
        .unwrap()
        .args(["--create", "/dev/md/theirs", "--run", "--level=raid0", "--raid-devices=2"])
        .args([disk(0), disk(1)])
        .run()
        .unwrap();
    let only = [disk(2)];
    lvm_tool("vgcreate", &only).unwrap().arg("theirs").arg(disk(2)).run().unwrap();
    for taken in [disk(0), disk(2)] {
        let error = on_disk(&taken, &place.path()).check().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Busy | ErrorKind::NotOurs), "{error}");
        Guest::say(&format!("refused: {error}"));
    }
    let owed = |ledger: &Ledger, thing: Resource| ledger.will_make(thing).unwrap().undo().unwrap();
    let uuid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
    let members = [0, 1].map(|at| ComponentDisk::Disk { device: disk(at), mark: uuid.into() }).to_vec();
    owed(&place.ledger, Resource::MdArray { uuid: uuid.into(), members });
    // A label of ours that a foreign group has come to use.
    let label = "0a1b2c-3d4e-5f60-7182-93a4-b5c6-d7e8f9";
    let taken = [disk(5)];
    let tool = lvm_tool("pvcreate", &taken).unwrap().args(["--yes", "--norestorefile", "--uuid", label]);
    tool.arg(disk(5)).run().unwrap();
    let members = vec![ComponentDisk::Disk { device: disk(5), mark: label.into() }];
    let ours = Resource::VolumeGroup { name: "fathom-1-1-1".into(), members };
    lvm_tool("vgcreate", &taken).unwrap().arg("taken").arg(disk(5)).run().unwrap();
    owed(&place.ledger, ours.clone());
    assert_eq!(signatures(&disk(5)).unwrap()[0].uuid.as_deref(), Some(label));
    // Without the group the label is ours again.
    lvm_tool("vgremove", &taken).unwrap().args(["--yes", "taken"]).run().unwrap();
    owed(&place.ledger, ours);
    assert_eq!(signatures(&disk(5)).unwrap(), []);
    Guest::say("what took the place of ours was left alone");
}

fn lend_disks(filesystem: Filesystem) {
    let disks = [disk(3), disk(4)];
    lent_array(ArrayKind::MdRaid0, filesystem, &disks);
    lent_array(ArrayKind::LvmStriped, filesystem, &disks);
    lent_array(ArrayKind::BtrfsRaid0, Filesystem::Btrfs, &disks);
}

fn start_udev() {
    for words in [
        &["/lib/systemd/systemd-udevd", "--daemon"][..],
        &["udevadm", "trigger", "--subsystem-match=block"],
        &["udevadm", "settle"],
    ] {
        assert!(Command::new(words[0]).args(&words[1..]).status().unwrap().success(), "{words:?}");
    }
    assert!(Path::new("/run/udev/control").exists());
}

mod proof {
    use super::*;
    use fathom_testkit::{assert, test};

    #[test]
    fn md_and_lvm_stand_in_a_guest_and_nothing_of_them_stays() {
        let guest = Guest::find();
        let said =
            guest.run("guest::helper_process", &DISKS.map(|(_, mib)| Drive::Empty(Bytes::mib(mib)))).unwrap();
        println!("{}", said.join("\n"));
        assert!(
            said.iter().any(|line| line == "verdict: theirs untouched, nothing of ours left"),
            "{said:?}"
        );
    }
}
