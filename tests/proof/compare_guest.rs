//! `fathom compare` over arrays of whole disks, in a guest under QEMU whose kernel has md and device mapper: the built program
//! makes both arrays of virtio disks, probes them, is killed over each, and gives the disks back empty.
//!
//! No other test runs at the same time as an emulated machine. The test is skipped if QEMU or the guest is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use fathom_process::{lvm_tool, signatures};
use fathom_testkit::{Bytes, Drive, Fathom, Guest, Scratch, assert, assert_eq, leftovers, packed, test};
use rustix::process::Signal;
use serde_json::Value;

/// Holds the program and its libraries, in the guest.
const PROGRAM: &str = "/dev/vdc";
/// The disks that are lent.
const DISKS: [&str; 2] = ["/dev/vdd", "/dev/vde"];

const STUDY: &str = "\
name: arrays-of-disks
question: Do both arrays stand?
measures: probe
factors:
  variant: [{name: md, array: md-raid0}, {name: lvm, array: lvm-striped}]
settings:
  device: [{path: /dev/vdd, name: /dev/vdd}, {path: /dev/vde, name: vde}]
  filesystem: xfs
  chunk: 64K
  file_size: 16M
  depth: 4
  probe_time: 1s
design: {blocks: 2, twin: false}
";

/// A folder of the guest with the program, the study, state and runs.
struct GuestFolder(Scratch);

impl GuestFolder {
    fn new() -> GuestFolder {
        let folder = GuestFolder(Scratch::new().unwrap());
        let unpacked =
            Command::new("tar").args(["-xf", PROGRAM, "-C"]).arg(folder.path("")).status().unwrap();
        assert!(unpacked.success());
        fs::write(folder.path("study.yaml"), STUDY).unwrap();
        for name in ["work", "state"] {
            fs::create_dir(folder.path(name)).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn fathom(&self, arguments: &[&str]) -> Fathom {
        let fathom = Fathom::new(self.path("fathom")).args(arguments).state(self.path("state"));
        fathom.env("LD_LIBRARY_PATH", self.path("lib")).limit(Duration::from_secs(600))
    }

    fn compare(&self, more: &[&str]) -> Fathom {
        let fathom = self.fathom(&["compare"]).args(more).args(["--runs"]).arg(self.path("runs"));
        if more.contains(&"--resume") {
            return fathom;
        }
        fathom.arg(self.path("study.yaml")).args(["--dir"]).arg(self.path("work"))
    }

    /// Kills the study when `exists` returns true, and cleans up after it.
    fn kill_when(&self, more: &[&str], exists: fn() -> bool) {
        let mut running = self.compare(more).spawn();
        let start = Instant::now();
        while !exists() {
            assert!(
                !running.has_ended() && start.elapsed() < Duration::from_secs(300),
                "{}",
                running.stderr()
            );
            thread::sleep(Duration::from_millis(20));
        }
        running.signal(Signal::KILL);
        drop(running.wait());
        let cleaned = self.fathom(&["cleanup"]).run().expect_code(0);
        assert!(!cleaned.stdout.contains("nothing to undo"), "{}", cleaned.stdout);
        self.assert_empty();
    }

    /// Nothing of ours is there, and the disks are as empty as they were.
    fn assert_empty(&self) {
        let cleaned = self.fathom(&["cleanup"]).run().expect_code(0);
        assert!(cleaned.stdout.contains("nothing to undo"), "{}", cleaned.stdout);
        assert!(!has_md() && !has_volume(), "an array still exists");
        let devices = DISKS.map(PathBuf::from);
        for device in &devices {
            assert_eq!(signatures(device).unwrap(), [], "{}", device.display());
        }
        let groups =
            lvm_tool("vgs", &devices).unwrap().args(["--noheadings", "-o", "vg_name"]).run().unwrap();
        assert_eq!(groups.trim(), "");
        for name in ["work", "state"] {
            assert_eq!(leftovers(&self.path(name), None).unwrap(), Vec::<String>::new());
        }
    }
}

fn has_md() -> bool {
    fs::read_to_string("/proc/mdstat").is_ok_and(|text| text.contains(" : active "))
}

fn has_volume() -> bool {
    Path::new("/sys/block/dm-0").exists()
}

/// Not a test of its own: what runs in the guest.
#[test]
#[ignore = "runs in the guest of the test below"]
fn helper_process() {
    assert!(Guest::is_here(), "this runs in the guest of the test below only");
    let guest_folder = GuestFolder::new();
    Guest::say("the program is unpacked");
    let plan = guest_folder.compare(&["--dry-run"]).run().expect_code(0).stdout;
    let wanted = "storage: xfs on md RAID0 of the disks /dev/vdd and /dev/vde, chunk 64 KiB";
    assert!(plan.contains(wanted), "{plan}");
    guest_folder.assert_empty();
    guest_folder.kill_when(&[], has_md);
    Guest::say("killed over md, and cleaned up");
    guest_folder.kill_when(&["--resume"], has_volume);
    Guest::say("killed over LVM, and cleaned up");
    let document = guest_folder.compare(&["--resume", "--json"]).run().expect_code(0).json();
    let study = &document["study"];
    assert_eq!((&document["state"], &study["blocks_complete"]), (&"complete".into(), &2.into()));
    let metrics = study["metrics"].as_array().unwrap();
    let iops = metrics.iter().position(|metric| metric["name"] == "iops").unwrap();
    for cell in study["cells"].as_array().unwrap() {
        assert_eq!(cell["broken"], Value::Null, "{cell}");
        let values = cell["values"][iops].as_array().unwrap();
        assert!(values.len() == 2 && values.iter().all(|value| value.as_f64().unwrap() > 0.0), "{values:?}");
        Guest::say(&format!("{} brought {values:?} IOPS", cell["levels"]));
    }
    let folder = PathBuf::from(document["run_folder"].as_str().unwrap());
    let trials = fs::read_to_string(folder.join("trials.jsonl")).unwrap();
    assert!(trials.contains("md RAID0 of vdd vde") && trials.contains("LVM striped of vdd vde"), "{trials}");
    guest_folder.assert_empty();
    Guest::say("verdict: both arrays stood, and nothing of them is left");
}

#[test]
fn a_study_over_arrays_of_whole_disks_gives_them_back_empty() {
    let guest = Guest::find();
    let scratch = Scratch::new().unwrap();
    let disk = Drive::Empty(Bytes::mib(320));
    let program = packed(Path::new(env!("CARGO_BIN_EXE_fathom")), &scratch.path()).unwrap();
    let drives = [Drive::Holding(program), disk.clone(), disk];
    let said = guest.run("proof::compare_guest::helper_process", &drives).unwrap();
    println!("{}", said.join("\n"));
    assert!(said.iter().any(|line| line.starts_with("verdict: both arrays stood")), "{said:?}");
}
