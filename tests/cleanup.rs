//! Tests `fathom cleanup` after a kill: all our resources are removed, and no other resources are touched.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fathom_process::{Ledger, ProcessId, Resource};
use fathom_storage::{
    Array, ArrayKind, Backing, Base, Cap, CapLimits, Filesystem, FilesystemOptions, LoopDevice, LoopOptions,
    QueueSettings, TargetSpec, format_and_mount,
};
use fathom_testkit::{
    Fathom, Output, Scratch, TIMEOUT, assert, assert_eq, is_root, leftovers, need_loop_devices, need_root,
    test,
};
use fathom_units::Bytes;

/// The variable with the helper process's folder; the test binary itself is the helper.
const PLACE: &str = "FATHOM_TEST_LEAVE_BEHIND";

/// Not a test itself: makes one of each resource, as any verb would, and waits to be killed.
#[test]
#[ignore = "the helper process of the other tests here"]
fn helper_process() {
    let place = PathBuf::from(std::env::var_os(PLACE).expect("only another test runs this"));
    let ledger = Ledger::open_in(&place.join("state")).unwrap();
    let folder = ledger.create_directory(&place.join("fathom-folder")).unwrap();
    let (_file, file) = ledger.create_file(&place.join("fathom-folder/fathom-file")).unwrap();
    let mut sleeper =
        Command::new("sleep").arg("600").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let process = ledger.will_make(Resource::process(sleeper.id()).unwrap()).unwrap();
    let privileged = is_root().then(|| {
        let options = LoopOptions { direct_io: false, backing: Backing::Sparse, logical_block_size: None };
        let device = LoopDevice::create(&ledger, &place, Bytes(32 << 20), options).unwrap();
        let mounted =
            format_and_mount(&ledger, &device, Filesystem::Ext4, &FilesystemOptions::default()).unwrap();
        let (_, inside) = ledger.create_file(&mounted.path().join("fathom-inside")).unwrap();
        let cap = Cap::new(&ledger, device.number(), CapLimits::iops(100));
        if let Ok(cap) = &cap {
            cap.adopt_process(sleeper.id()).unwrap();
        }
        let base = Base::Loops { folder: place.clone(), count: 2, size: Bytes::mib(128) };
        let target = TargetSpec {
            array: Some(Array { kind: ArrayKind::BtrfsRaid0, chunk_kib: None }),
            filesystem: Some(Filesystem::Btrfs),
            queue: QueueSettings { read_ahead_kib: Some(16), ..QueueSettings::default() },
            loops: options,
            ..TargetSpec::new(base)
        };
        (device, mounted, inside, cap, target.prepare(&ledger).unwrap())
    });
    fs::write(place.join("ready"), sleeper.id().to_string()).unwrap();
    // Until it is killed, or the test has hung.
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT {
        thread::sleep(Duration::from_secs(1));
    }
    drop((folder, file, process, privileged));
    sleeper.wait().unwrap();
}

/// A running helper, killed at the end of the test if not before.
struct Helper {
    child: std::process::Child,
    sleeper: ProcessId,
    scratch: Scratch,
}

impl Helper {
    fn start() -> Helper {
        if is_root() {
            need_loop_devices();
        }
        let scratch = Scratch::new().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cleanup::helper_process", "--ignored", "--nocapture"])
            .env(PLACE, scratch.path())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let ready = scratch.path().join("ready");
        let start = Instant::now();
        let sleeper = loop {
            let text = fs::read_to_string(&ready).unwrap_or_default();
            if let Some(id) = text.parse().ok().and_then(ProcessId::read) {
                break id;
            }
            assert!(child.try_wait().unwrap().is_none(), "the helper could not make its things");
            assert!(start.elapsed() < TIMEOUT, "the helper hangs");
            thread::sleep(Duration::from_millis(10));
        };
        Helper { child, sleeper, scratch }
    }

    fn place(&self) -> PathBuf {
        self.scratch.path()
    }

    fn left(&self) -> Vec<String> {
        leftovers(&self.place(), Some(self.child.id())).unwrap()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fathom_process::ledger::undo_dead_in(&self.place().join("state"));
    }
}

fn cleanup(place: &Path, arguments: &[&str]) -> Output {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("cleanup").args(arguments).state(place.join("state")).run()
}

#[test]
fn after_kill_9_nothing_is_left() {
    let mut helper = Helper::start();
    helper.kill();
    let before = helper.left();
    let wanted = if is_root() { 8 } else { 3 };
    assert!(before.len() >= wanted && helper.sleeper.lives(), "{before:?}");

    let dry = cleanup(&helper.place(), &["--dry-run"]).expect_code(0);
    assert!(dry.stdout.lines().all(|line| line.starts_with("would undo: ")), "{}", dry.stdout);
    assert_eq!(helper.left(), before);

    let output = cleanup(&helper.place(), &[]).expect_code(0);
    assert!(output.stdout.lines().all(|line| line.starts_with("undone: ")), "{}", output.stdout);
    assert_eq!(output.stdout.lines().count(), dry.stdout.lines().count());
    assert_eq!(helper.left(), Vec::<String>::new());
    assert!(!helper.sleeper.lives());
    assert_eq!(cleanup(&helper.place(), &[]).expect_code(0).stdout, "nothing to undo\n");
    // Without root they included no device, mount or group.
    need_root();
}

#[test]
fn what_a_living_process_made_stays() {
    let helper = Helper::start();
    let before = helper.left();
    assert_eq!(cleanup(&helper.place(), &[]).expect_code(0).stdout, "nothing to undo\n");
    assert_eq!(helper.left(), before);
    assert!(helper.sleeper.lives());
}

#[test]
fn two_cleanups_at_once_do_not_disturb_each_other() {
    let mut helper = Helper::start();
    helper.kill();
    let place = helper.place();
    let others: Vec<_> = (0..3)
        .map(|_| {
            let place = place.clone();
            thread::spawn(move || cleanup(&place, &["--json"]).expect_code(0).json())
        })
        .collect();
    let undone: usize = others
        .into_iter()
        .map(|other| other.join().unwrap())
        .map(|json| {
            json["things"].as_array().unwrap().iter().filter(|thing| thing["fate"] == "undone").count()
        })
        .sum();
    assert!(undone >= 3, "{undone}");
    assert_eq!(helper.left(), Vec::<String>::new());
}

#[test]
fn a_file_that_replaced_ours_survives_and_a_folder_with_it_is_a_finding() {
    let mut helper = Helper::start();
    helper.kill();
    let theirs = helper.place().join("fathom-folder/fathom-file");
    fs::remove_file(&theirs).unwrap();
    fs::write(&theirs, "theirs").unwrap();

    let output = cleanup(&helper.place(), &["--json"]).expect_code(1).json();
    let fate = |ending: &str| {
        let things = output["things"].as_array().unwrap();
        let thing = things.iter().find(|thing| thing["name"].as_str().unwrap().ends_with(ending)).unwrap();
        thing["fate"].as_str().unwrap().to_owned()
    };
    assert_eq!(fate("/fathom-file"), "gone");
    assert_eq!(fate("/fathom-folder"), "kept");
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");

    fs::remove_file(&theirs).unwrap();
    cleanup(&helper.place(), &[]).expect_code(0);
    assert_eq!(helper.left(), Vec::<String>::new());
}

#[test]
fn a_state_folder_that_cannot_be_read_is_one_clear_sentence() {
    let scratch = Scratch::new().unwrap();
    let state = scratch.path().join("state");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("undo"), "a file where a folder should be").unwrap();
    let output = cleanup(&scratch.path(), &[]);
    assert_eq!(output.code, 3, "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
}
