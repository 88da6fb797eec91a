//! `fathom checkup` in a container, for a user without rights and without a home, on a remote device, and when it is interrupted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use fathom_process::Ledger;
use fathom_record::Run;
use fathom_record::capacity::{Capacity, CapacityLimit, CapacityLoad};
use fathom_record::disk::Entry;
use fathom_storage::{FilesystemOptions, LoopDevice, LoopOptions, format_and_mount};
use fathom_testkit::{
    Bytes, Fathom, Filesystem, FuseMount, LabServer, LimitGroup, Output, Scratch, SlowDisk, Speed, Tmpfs,
    assert, assert_eq, need_loop_devices, need_root, test,
};
use rustix::process::Signal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fathom");

fn quick(call: Fathom, directory: &Path, runs: &Path) -> Fathom {
    let words = ["checkup", "--quick", "--size", "32M", "--no-report", "--runs"];
    call.args(words).arg(runs).arg("--dir").arg(directory).limit(Duration::from_secs(300))
}

/// The only run below a folder.
fn only_run(runs: &Path) -> Run {
    let folders: Vec<_> = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    Run::open(&folders[0]).unwrap()
}

fn capacities(runs: &Path) -> Vec<Capacity> {
    let results = only_run(runs).results().unwrap();
    let capacity = |entry| if let Entry::Capacity(one) = entry { Some(*one) } else { None };
    results.into_iter().filter_map(capacity).collect()
}

fn of(capacities: &[Capacity], load: CapacityLoad) -> &Capacity {
    capacities.iter().find(|one| one.load == load).unwrap_or_else(|| panic!("no {load:?} in {capacities:#?}"))
}

/// The answer without the ends of its lines.
fn words(output: &Output) -> String {
    output.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_quota_of_a_container_is_its_processors() {
    need_loop_devices();
    let memory = Tmpfs::new(Bytes(2 << 30));
    let scratch = Scratch::new().unwrap();
    let ledger = Ledger::open_in(&scratch.path().join("ledger")).unwrap();
    let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
    let device = LoopDevice::create(&ledger, memory.path(), Bytes(1900 << 20), options).unwrap();
    let mounted =
        format_and_mount(&ledger, &device, Filesystem::Ext4, &FilesystemOptions::default()).unwrap();
    let group = LimitGroup::new("cpu");
    group.set_processors(Some(0.5)).unwrap();
    let runs = scratch.path().join("runs");
    let call = quick(Fathom::new(PROGRAM), mounted.path(), &runs).under_cap(group.processes_file());
    let output = call.run();
    println!("{}\n{}", output.stdout, output.stderr);
    assert!(matches!(output.code, 0 | 4), "{output:?}");
    let text = words(&output);
    assert!(text.contains("with 0.5 of "), "{text}");
    for one in capacities(&runs) {
        assert_eq!(one.limit, CapacityLimit::Processors, "{one:#?}");
        assert!(one.limit_reason.contains("quota of 0.5 processors"), "{one:#?}");
    }
    assert!(text.contains("The quota of 0.5 processors was "), "{text}");
    let manifest = only_run(&runs).manifest;
    assert!(manifest.environment["machine.limits"].contains("with 0.5 of "), "{manifest:?}");
    mounted.undo().unwrap();
    device.undo().unwrap();
}

#[test]
fn a_user_without_rights_and_without_a_home_gets_an_answer() {
    need_root();
    let place = Scratch::new().unwrap();
    let folder = |name: &str, mode| {
        let path = place.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (data, temporary) = (folder("data", 0o777), folder("temporary", 0o777));
    let read_only = folder("state", 0o555);
    let program = place.path().join("program");
    fs::copy(PROGRAM, &program).unwrap();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--"];
    let call = Fathom::new("setpriv").args(nobody).arg(&program).current_dir("/");
    let output = call
        .args(["checkup", "--quick", "--size", "32M", "--no-report", "--dir"])
        .arg(&data)
        .env("FATHOM_STATE", "")
        .env("HOME", "/nonexistent")
        .env("XDG_STATE_HOME", &read_only)
        .env("TMPDIR", &temporary)
        .limit(Duration::from_secs(300))
        .run();
    println!("{}\n{}", output.stdout, output.stderr);
    assert!(matches!(output.code, 0 | 1 | 4), "{output:?}");
    let notes: Vec<&str> = output.stderr.lines().filter(|line| line.contains("cannot be written")).collect();
    assert_eq!(notes.len(), 1, "{}", output.stderr);
    let runs = temporary.join("fathom-65534/runs");
    let capacities = capacities(&runs);
    assert_eq!(capacities.len(), 2, "{capacities:#?}");
    let reads = of(&capacities, CapacityLoad::Reads);
    assert!(reads.rate_per_s.is_some() || reads.withheld.is_some(), "{reads:#?}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&read_only).unwrap().count(), 0);
}

#[test]
fn reads_of_a_file_system_without_a_device_are_counted_by_the_process() {
    let mount = FuseMount::mount();
    let scratch = Scratch::new().unwrap();
    let runs = scratch.path().join("runs");
    let output = quick(Fathom::new(PROGRAM), mount.path(), &runs).run();
    println!("{}\n{}", output.stdout, output.stderr);
    assert!(matches!(output.code, 0 | 4), "{output:?}");
    let capacities = capacities(&runs);
    let reads = of(&capacities, CapacityLoad::Reads);
    assert!(reads.is_counted_by_process, "{reads:#?}");
    assert!(reads.device_reads_per_page.is_some_and(|reads| reads > 0.9), "{reads:#?}");
    if reads.rate_per_s.is_some() {
        let sentence = "The device is not on this host; the server's own reads were counted.";
        assert!(words(&output).contains(sentence), "{}", output.stdout);
    }
}

#[test]
fn a_device_slower_than_any_of_its_class_is_named() {
    let speed = Speed { service: Duration::from_millis(70), parallel: 4 };
    let disk = SlowDisk::new(Filesystem::Ext4, Bytes(512 << 20), speed);
    let call = Fathom::new(PROGRAM).args(["checkup", "--quick", "--no-load", "--no-record", "--json"]);
    let call = call.args(["--size", "32M", "--dir"]).arg(disk.path()).limit(Duration::from_secs(400));
    let output = call.run().expect_code(1);
    let document = output.json();
    let found = document["disk_findings"].as_array().unwrap();
    assert!(found.iter().any(|finding| finding["id"] == "slower-than-class"), "{found:#?}");
}

#[test]
fn a_signal_in_a_search_leaves_what_was_measured() {
    let scratch = Scratch::new().unwrap();
    let (data, runs) = (scratch.path().join("data"), scratch.path().join("runs"));
    fs::create_dir(&data).unwrap();
    // The first rate that is tried misses this objective, so that another step follows.
    let call = quick(Fathom::new(PROGRAM), &data, &runs).args(["--verbose", "--slo", "p99<1ms"]);
    let mut running = call.spawn();
    // The first capacity is there, and the second search has ended a step.
    assert!(running.wait_for_stdout("\n  journaled writes  "), "{}", running.stdout());
    running.signal(Signal::INT);
    let output = running.wait();
    println!("{}\n{}", output.stdout, output.stderr);
    let capacities = capacities(&runs);
    let expected = if capacities[0].rate_per_s.is_some() { 0 } else { 4 };
    // A cap that was found on the machine's disk is 1.
    assert!(capacities.len() == 1 && (output.code == expected || output.code == 1), "{output:?}");
    let text = words(&output);
    assert!(text.contains("Interrupted: the figures above"), "{text}");
    assert!(text.contains("The search for journaled writes is incomplete: "), "{text}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "the test file and the server's data are gone");
}

#[test]
fn a_deployment_and_a_directory_are_answered_together() {
    let scratch = Scratch::new().unwrap();
    let (data, runs) = (scratch.path().join("data"), scratch.path().join("runs"));
    fs::create_dir(&data).unwrap();
    let server = LabServer::start(PROGRAM, "wiredTiger", &scratch.path().join("db"), &[]).unwrap();
    let uri = format!("mongodb://127.0.0.1:{}", server.port());
    let output = quick(Fathom::new(PROGRAM), &data, &runs).args(["--uri", &uri, "--for", "6s"]).run();
    println!("{}\n{}", output.stdout, output.stderr);
    let capacities = capacities(&runs);
    assert_eq!(capacities.len(), 2, "{capacities:#?}");
    // An idle deployment says nothing of itself, unless the directory has a cause of its own.
    assert!(matches!(output.code, 1 | 4), "{output:?}");
    let text = words(&output);
    let (deployment, capacity) = (text.find("Not examined"), text.find("reads past memory "));
    assert!(deployment.is_some() && deployment < text.rfind("journaled writes"), "{text}");
    assert!(capacity.is_some(), "{text}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    server.stop().expect_code(0);
}
