//! Tests the refusals of `fathom disk`: one clear sentence, the right exit code, and no data lost.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use bson::rawdoc;
use fathom_record::State;
use fathom_storage::{Filesystem, FilesystemOptions, LoopDevice, LoopOptions, format_and_mount};
use fathom_testkit::{
    Fathom, FuseMount, Ledger, Need, NullResponder, Output, RealDisk, RefusalList, Scratch, Tmpfs, assert,
    assert_eq, fill, is_root, need_loop_devices, skip, test,
};
use fathom_units::Bytes;

use crate::disk::{Probe, assert_probed, assert_sentence, finding, results};
use crate::ycsb_faults::wait_until;

/// A short probe, for tests in which something else is wrong.
const SHORT: [&str; 8] = ["--pattern", "randrw", "--depth", "2", "--time", "100ms", "--json", "-v"];
/// The duration of a probe that the test ends.
const ENDLESS: [&str; 2] = ["--time", "1h"];

/// A refusal in one sentence, with this exit code and id, of a call with `-v`.
#[track_caller]
fn refused(output: Output, code: i32, id: &str) -> Output {
    let output = output.expect_refusal(code, id);
    assert_sentence(&output);
    assert_eq!(output.stdout, "");
    output
}

#[test]
fn nonsense_on_the_command_line_is_refused_before_anything_is_made() {
    let scratch = Scratch::new().unwrap();
    let probe = Probe::new(&scratch.path());
    let nonsense: &[(&[&str], &str)] = &[
        (&["--depth", "0"], "usage.invalid-value"),
        (&["--depth", "1025"], "usage.invalid-value"),
        (&["--depth", "8..4"], "usage.invalid-value"),
        (&["--depth", "-1"], "usage.unknown-argument"),
        (&["--depth", "x"], "usage.invalid-value"),
        (&["--block", "0"], "usage"),
        (&["--block", "100"], "usage"),
        (&["--block", "4097"], "usage"),
        (&["--block", "1P"], "usage"),
        (&["--time", "0"], "usage"),
        (&["--time", "5s"], "usage"),
        (&["--time", "0", "--pattern", "randread"], "usage"),
        (&["--time", "9ms", "--depth", "4"], "usage"),
        (&["--time", "1000000h", "--depth", "4"], "usage.invalid-value"),
        (&["--time", "soon"], "usage.invalid-value"),
        (&["--rate", "0"], "usage"),
        (&["--rate", "-1"], "usage"),
        (&["--rate", "nan"], "usage"),
        (&["--rate", "inf"], "usage"),
        (&["--rate", "1e300"], "usage"),
        (&["--rate", "fast"], "usage.invalid-value"),
        (&["--size", "-5"], "usage.unknown-argument"),
        (&["--size", "99999999999999999999"], "usage.invalid-value"),
        (&["--pattern", "randomread"], "usage.invalid-value"),
        (&["--engine", "libaio"], "usage.invalid-value"),
        (&["--profile", "postgres"], "usage.invalid-value"),
        (&["--durable", "fsync"], "usage.invalid-value"),
        (&["--slo", "nonsense"], "usage.invalid-value"),
        (&["--slo", "p99<0ms"], "usage.invalid-value"),
        (&["--slo", "p200<5ms"], "usage.invalid-value"),
        (&["--slo", "p99<5ms", "--rate", "5"], "usage.argument-conflict"),
        (&["--slo", "p99<5ms", "--depth", "1..4"], "usage"),
        (&["--slo", "p99<5ms", "--pattern", "checkpoint"], "usage"),
        (&["--rate", "5", "--depth", "1..4"], "usage"),
        (&["--rate", "5", "--pattern", "checkpoint"], "usage"),
        (&["--durable", "fdatasync", "--pattern", "randread"], "usage"),
        (&["--durable", "fdatasync", "--pattern", "checkpoint"], "usage"),
        (&["--durable", "dsync", "--engine", "mmap"], "usage"),
        (&["--documents", "0"], "usage.invalid-value"),
        (&["--document-size", "0"], "usage"),
        (&["--seed", "x"], "usage.invalid-value"),
        (&["--json=xml"], "usage.invalid-value"),
        (&["--dir"], "usage.invalid-value"),
        (&["more"], "usage.unknown-argument"),
    ];
    let mut refusals = RefusalList::new();
    for (arguments, id) in nonsense {
        let output = refused(probe.disk().arg("-v").args(*arguments).run(), 2, id);
        refusals.add(arguments, &output, 2, id);
        assert!(probe.run_folders().is_empty(), "{arguments:?} left a run folder");
    }
    insta::assert_snapshot!("disk_refusals", refusals.text());
    assert_eq!(probe.left(), Vec::<String>::new());
}

#[test]
fn what_does_not_fit_the_file_is_refused_before_it_is_laid_out() {
    let scratch = Scratch::new().unwrap();
    let probe = Probe::new(&scratch.path());
    let misfits: &[(&[&str], &str)] = &[
        (&["--block", "1M", "--depth", "1024"], "file-too-small"),
        (&["--block", "64K", "--depth", "1..1024"], "file-too-small"),
        (&["--block", "512", "--verify"], "usage"),
        (&["--block", "16M"], "file-too-small"),
        (&["--size", "1"], "file-too-small"),
        (&["--size", "0"], "file-too-small"),
    ];
    for (arguments, id) in misfits {
        let size: &[&str] = if arguments.contains(&"--size") { &[] } else { &["--size", "16M"] };
        refused(probe.disk().arg("-v").args(size).args(*arguments).run(), 2, id);
        probe.assert_clean();
    }
    // A ladder without a requested depth ends where the file has no more blocks.
    let short = ["--block", "512K", "--size", "16M", "--pattern", "randrw", "--time", "20ms", "--json"];
    let document = assert_probed(&probe.run(&short));
    let depths = results(&document, "step");
    assert!(depths.iter().all(|step| step["streams"][0]["depth"].as_u64().unwrap() <= 32));
    probe.assert_clean();
}

#[test]
fn what_is_no_directory_to_probe_is_refused() {
    let scratch = Scratch::new().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "theirs").unwrap();
    refused(Probe::new(&scratch.path().join("missing")).run(&SHORT), 3, "not-found");
    refused(Probe::new(&file).run(&SHORT), 3, "not-a-directory");
    refused(Probe::new(&file.join("below")).run(&SHORT), 3, "not-found");
    refused(Probe::new(Path::new("/dev/null")).run(&SHORT), 3, "not-a-directory");
    refused(Probe::new(Path::new("/proc")).run(&SHORT), 3, "not-found");
    assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
}

/// `fathom explain` takes the newest run folder: one without a measurement would hide those that have one.
#[test]
fn a_call_that_measured_nothing_leaves_no_run_folder() {
    let scratch = Scratch::new().unwrap();
    let probe = Probe::new(&scratch.path());
    let responder = NullResponder::start(&rawdoc! { "_id": "user1", "field0": "x" }).unwrap();
    let uri = format!("mongodb://127.0.0.1:{}/y", responder.port());
    let url = format!("mongodb.url={uri}");
    let ycsb = ["run", "mongodb", "-p", &url, "-p", "recordcount=10", "-p", "operationcount=10"];
    let nowhere = ["--metrics", "no.such.host:1"];
    let calls: &[(&str, &[&[&str]])] = &[
        ("disk", &[&["--dir", "/nonexistent"]]),
        ("disk", &[&["--dir", "/nonexistent"], &["--pattern", "randread", "--verify"]]),
        ("disk", &[&["--size", "1", "--pattern", "randread", "--dir"], &[probe.dir.to_str().unwrap()]]),
        ("checkup", &[&["--dir", "/nonexistent"]]),
        ("checkup", &[&["--size", "1", "--dir"], &[probe.dir.to_str().unwrap()]]),
        ("watch", &[&["--record", "--dir", "/nonexistent"]]),
        ("watch", &[&["--record", "--uri", "mongodb://127.0.0.1:1/"]]),
        ("watch", &[&["--record"], &nowhere]),
        ("explain", &[&["--dir", "/nonexistent"]]),
        ("explain", &[&["--uri", "mongodb://127.0.0.1:1/"]]),
        ("ycsb", &[&ycsb, &nowhere]),
        ("ycsb", &[&ycsb, &["--watch", "--watch-dir", "/nonexistent"]]),
    ];
    for (verb, arguments) in calls {
        let output = probe.fathom(verb).args(arguments.concat()).run();
        assert!([2, 3].contains(&output.code), "{verb} {arguments:?}: {output:?}");
        assert_eq!(probe.run_folders(), Vec::<PathBuf>::new(), "{verb} {arguments:?} left a run folder");
    }
    probe.fathom("explain").arg("-v").run().expect_refusal(3, "no-run-folder");
}

#[test]
fn a_file_system_mounted_read_only_is_refused() {
    let disk = RealDisk::read_only(Filesystem::Ext4, Bytes::mib(16));
    refused(Probe::new(disk.path()).run(&SHORT), 3, "read-only");
}

#[test]
fn a_full_file_system_is_refused_for_the_file_and_for_the_state() {
    let disk = RealDisk::full(Filesystem::Ext4, Bytes::mib(64));
    let probe = Probe::new(disk.path());
    refused(probe.run(&SHORT), 3, "file-does-not-fit");
    refused(probe.disk().args(SHORT).args(["--size", "16M"]).run(), 3, "file-does-not-fit");
    probe.assert_clean();
    // A state folder on it does not work either; this is an error of the environment, not a crash.
    let elsewhere = Scratch::new().unwrap();
    let call = Probe::new(&elsewhere.path()).disk().args(SHORT).args(["--size", "16M"]);
    let output = call.state(disk.path().join("state")).run().expect_refusal(3, "no-space");
    assert!(!output.stderr.contains("panicked"));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn a_file_larger_than_what_is_free_is_refused() {
    let disk = RealDisk::new(Filesystem::Ext4, Bytes::mib(64));
    let probe = Probe::new(disk.path());
    for size in ["60M", "10G", "9000P"] {
        refused(probe.disk().args(SHORT).args(["--size", size]).run(), 3, "file-does-not-fit");
    }
    probe.assert_clean();
}

#[test]
fn a_file_system_in_user_space_is_refused_unless_asked_for() {
    let mount = FuseMount::mount();
    let probe = Probe::new(mount.path());
    refused(probe.run(&SHORT), 3, "not-a-local-disk");
    let insisted = probe.disk().args(SHORT).args(["--size", "16M", "--any-fs", "--buffered"]).run();
    assert_eq!(results(&assert_probed(&insisted), "step").len(), 1);
    // FUSE hides a file that is removed while open, and removes it a moment after the last close.
    wait_until("FUSE removes the file", || probe.left().is_empty());
}

#[test]
fn memory_is_probed_and_called_memory() {
    let memory = Tmpfs::new(Bytes::mib(64));
    let probe = Probe::new(memory.path());
    let mut output = probe.disk().args(SHORT).args(["--size", "16M"]).run();
    if output.stderr.contains("no direct I/O") {
        // Before Linux 6.6; the sentence says what to do.
        let refusal = refused(output, 3, "no-direct-io");
        assert!(refusal.stderr.contains("--buffered"), "{}", refusal.stderr);
        output = probe.disk().args(SHORT).args(["--size", "16M", "--buffered"]).run();
    }
    let document = assert_probed(&output.expect_code(1));
    assert!(finding(&document, "memory-not-disk").is_some(), "{}", document["findings"]);
    assert_eq!(results(&document, "step").len(), 1);
    probe.assert_clean();
}

#[test]
fn what_is_not_ours_stays_as_it_was() {
    for name in ["fathom-probe.dat", "fathom-probe.journal"] {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().join(name);
        let append = ["--pattern", "append", "--time", "100ms", "--size", "16M", "-v"];
        let refuse = || {
            let probe = Probe::new(&scratch.path());
            refused(probe.run(&append), 3, "file-not-ours");
            probe.assert_clean();
        };
        for content in ["theirs".to_owned(), "theirs, and long ".repeat(10_000)] {
            fs::write(&path, &content).unwrap();
            refuse();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        fs::remove_file(&path).unwrap();
        let target = scratch.path().join("target");
        fs::write(&target, "").unwrap();
        symlink(&target, &path).unwrap();
        refuse();
        assert_eq!(fs::read_to_string(&target).unwrap(), "");
        assert_eq!(fs::read_link(&path).unwrap(), target);
        fs::remove_file(&path).unwrap();
        symlink("nowhere", &path).unwrap();
        refuse();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refuse();
        fs::remove_dir(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        refuse();
        assert!(path.symlink_metadata().is_ok());
    }
}

#[test]
fn two_probes_in_one_directory_do_not_meet() {
    let scratch = Scratch::new().unwrap();
    let first = Probe::new(&scratch.path());
    let short = ["--pattern", "randrw", "--depth", "2", "--size", "16M", "--time", "200ms", "--json=lines"];
    let running = first.hold_after_a_step(first.disk().args(short).arg("--verify"));
    // The first has its files, and reads them back only after the second was refused.
    let second = Probe::new(&scratch.path());
    refused(second.run(&SHORT), 3, "probe-running");
    assert_eq!(second.left(), Vec::<String>::new());
    assert!(first.data_file().exists());
    let output = running.wait();
    assert!(output.code <= 1 && output.stderr.starts_with("verified"), "{output:?}");
    first.assert_clean();

    // Started at the same moment, one of them wins and none spoils it.
    for _ in 0..4 {
        let probes: Vec<Probe> = (0..3).map(|_| Probe::new(&scratch.path())).collect();
        let running: Vec<_> =
            probes.iter().map(|probe| probe.disk().args(SHORT).args(["--size", "16M"]).spawn()).collect();
        let outputs: Vec<Output> = running.into_iter().map(|running| running.wait()).collect();
        for lost in outputs.iter().filter(|output| output.code > 1) {
            assert_eq!(lost.code, 3);
            assert_sentence(lost);
        }
        assert!(outputs.iter().any(|output| output.code <= 1), "{outputs:?}");
        probes.iter().for_each(Probe::assert_clean);
    }
}

#[test]
fn a_folder_without_permission_is_refused() {
    let (theirs, state) = (Scratch::new().unwrap(), Scratch::new().unwrap());
    let allow = |folder: &Path, mode| fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    // Root runs the program as another user and closes its own folders; any other user closes them to himself too.
    let (read_only, closed) = if is_root() { (0o755, 0o700) } else { (0o555, 0o000) };
    // An unprivileged user may open the test's files; only the folder to probe is closed.
    allow(&state.path(), 0o777);
    let folder = theirs.path();
    allow(&folder, read_only);
    let program = state.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_fathom"), &program).unwrap();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let call = || {
        let call =
            if is_root() { Fathom::new("setpriv").args(nobody).arg(&program) } else { Fathom::new(&program) };
        call.arg("disk").state(state.path())
    };
    let output = call().arg("--dir").arg(&folder).args(SHORT).args(["--size", "16M"]).run();
    if output.stderr.contains("setpriv:") {
        skip!(Need::Root, "{}", output.stderr);
    }
    refused(output, 3, "permission");
    allow(&folder, closed);
    let output = call().arg("--dir").arg(&folder).args(SHORT).args(["--size", "16M"]).run();
    allow(&folder, 0o700);
    refused(output, 3, "permission");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    // If it may, it works without root.
    let own = state.path().join("own");
    fs::create_dir(&own).unwrap();
    allow(&own, 0o777);
    assert_probed(&call().arg("--dir").arg(&own).args(SHORT).args(["--size", "16M"]).run());
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
}

#[test]
fn a_block_device_is_written_to_only_when_it_is_blank_and_named() {
    need_loop_devices();
    let scratch = Scratch::new().unwrap();
    let ledger = Ledger::open_in(&scratch.path().join("state")).unwrap();
    let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
    let device = LoopDevice::create(&ledger, &scratch.path(), Bytes::mib(32), options).unwrap();
    let probe = Probe::new(device.path());
    let destroy = |name: &str| probe.disk().args(SHORT).args(["--destroy", name]).run();
    // Blank, but not named, or not by its name.
    let output = refused(probe.run(&SHORT), 3, "device-not-named");
    assert!(output.stderr.contains(&format!("--destroy {}", device.name())), "{}", output.stderr);
    refused(destroy("sda"), 2, "device-not-named");
    assert!(fs::read(device.path()).unwrap().iter().all(|byte| *byte == 0));
    let document = assert_probed(&destroy(&device.name()));
    assert_eq!(results(&document, "subject")[0]["file_system"], "block device");
    assert_eq!(results(&document, "step").len(), 1);

    // With a file system it is not written to, even when named.
    assert!(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(device.path()).status().unwrap().success());
    let before = fs::read(device.path()).unwrap();
    let output = refused(destroy(&device.name()), 3, "device-not-blank");
    assert!(output.stderr.contains("ext4"), "{}", output.stderr);
    refused(probe.run(&SHORT), 3, "device-not-blank");
    refused(probe.run(&["--quick", "-v"]), 3, "device-not-blank");
    let reads = ["--pattern", "randread", "--depth", "2", "--time", "100ms", "--json", "-v"];
    let document = assert_probed(&probe.run(&reads));
    assert_eq!(results(&document, "step").len(), 1);
    assert!(results(&document, "layout").is_empty());
    refused(probe.disk().args(reads).arg("--verify").run(), 2, "usage");
    refused(probe.disk().args(reads).args(["--size", "64M"]).run(), 2, "file-does-not-fit");
    assert!(fs::read(device.path()).unwrap() == before, "the device was written to");

    // Mounted, it is in use; reading does it no harm.
    let mounted =
        format_and_mount(&ledger, &device, Filesystem::Ext4, &FilesystemOptions::default()).unwrap();
    refused(destroy(&device.name()), 3, "device-in-use");
    assert_probed(&probe.run(&reads));
    mounted.undo().unwrap();
    assert_eq!(probe.left(), Vec::<String>::new());
}

#[test]
fn an_input_output_error_midway_is_told_and_cleaned_up() {
    let below = RealDisk::new(Filesystem::Ext4, Bytes::mib(256));
    let state = Scratch::new().unwrap();
    let ledger = Ledger::open_in(&state.path()).unwrap();
    let device = LoopDevice::create(&ledger, below.path(), Bytes::mib(128), LoopOptions::default()).unwrap();
    // Without a journal of its own, the file system outlives the failed writes.
    let filesystem =
        FilesystemOptions { mkfs: vec!["-O".into(), "^has_journal".into()], ..Default::default() };
    let mounted = format_and_mount(&ledger, &device, Filesystem::Ext4, &filesystem).unwrap();
    let probe = Probe::new(mounted.path());
    let shape = ["--pattern", "randrw", "--depth", "4", "--size", "16M", "--json=lines"];
    let mut running = probe.disk().args(shape).args(ENDLESS).spawn();
    assert!(running.wait_for_stdout("layout"), "{}", running.stderr());
    // The file system fails from now on, as one does whose controller died.
    below.power_off();
    let output = running.wait().expect_code(1);
    assert_sentence(&output);
    assert!(output.stderr.contains("Input/output error"), "{}", output.stderr);
    assert!(
        output.stderr.contains("fathom-probe.dat") && output.stderr.contains("offset"),
        "{}",
        output.stderr
    );
    let last: serde_json::Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!([&last["type"], &last["state"]], ["end", "failed"]);
    assert_eq!(probe.last_run().manifest.state, State::Failed);
    probe.assert_clean();
    // The layout pass of the next probe fails too.
    refused(probe.disk().args(SHORT).args(["--size", "16M"]).run(), 1, "io");
    probe.assert_clean();
}

#[test]
fn a_file_system_that_dies_is_an_error_and_no_crash() {
    let disk = RealDisk::new(Filesystem::Xfs, Bytes::mib(300));
    let probe = Probe::new(disk.path());
    let shape = ["--pattern", "append", "--size", "16M", "--json=lines"];
    let mut running = probe.disk().args(shape).args(ENDLESS).spawn();
    assert!(running.wait_for_stdout("layout"), "{}", running.stderr());
    disk.power_off();
    let output = running.wait().expect_code(1);
    assert_sentence(&output);
    assert!(output.stderr.contains("Input/output error"), "{}", output.stderr);
    // The files cannot be removed, and remain in the undo journal.
    assert!(!probe.left().is_empty());
}

#[test]
fn a_thin_disk_that_runs_out_is_told_and_cleaned_up() {
    need_loop_devices();
    let memory = Tmpfs::new(Bytes::mib(64));
    let state = Scratch::new().unwrap();
    let ledger = Ledger::open_in(&state.path()).unwrap();
    let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
    let device = LoopDevice::create(&ledger, memory.path(), Bytes::mib(256), options).unwrap();
    let filesystem =
        FilesystemOptions { mkfs: vec!["-O".into(), "^has_journal".into()], ..Default::default() };
    let mounted = format_and_mount(&ledger, &device, Filesystem::Ext4, &filesystem).unwrap();
    let probe = Probe::new(mounted.path());
    // Its file system has space, but the one below is full. The kernel reports "no space" or an input/output error,
    // depending on its version.
    let output = probe.disk().args(SHORT).args(["--size", "96M"]).run();
    assert!(output.code == 1 || output.code == 3, "{output:?}");
    assert_sentence(&output);
    assert!(
        output.stderr.contains("cannot lay out") && output.stderr.contains("offset"),
        "{}",
        output.stderr
    );
    probe.assert_clean();
    assert_eq!(probe.last_run().manifest.state, State::Failed);
}

#[test]
fn a_disk_that_fills_up_midway_is_told_and_cleaned_up() {
    let disk = RealDisk::in_memory(Filesystem::Ext4, Bytes::mib(128));
    let probe = Probe::new(disk.path());
    let call = probe.disk().args(["--quick", "--size", "16M", "--json=lines"]);
    let running = probe.hold_after_a_step(call);
    // The append file comes late in the profile, and the probe waits in its first step's line until the space is used up.
    fill(disk.path()).unwrap();
    let output = running.wait().expect_code(3);
    assert_sentence(&output);
    assert!(output.stderr.contains("No space left"), "{}", output.stderr);
    let last: serde_json::Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!([&last["type"], &last["state"]], ["end", "failed"]);
    let run = probe.last_run();
    assert_eq!(run.manifest.state, State::Failed);
    assert!(run.results().unwrap().len() > 5, "what was measured before stands");
    fs::remove_file(disk.path().join("filler")).unwrap();
    probe.assert_clean();
}
