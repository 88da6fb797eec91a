//! Tests the refusals of `fathom compare` before it makes anything: one sentence each with the line and the right exit code.

use std::fs;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fathom_testkit::{Fathom, Need, RefusalList, Scratch, assert, assert_eq, is_root, need_root, skip, test};

const STUDY: &str = "\
name: refused
question: What is refused?
measures: load
factors:
  engine: [wiredTiger, rocksdb]
settings:
  records: 100
  operations: 100
design: {blocks: 1, twin: false}
";

fn compare(folder: &Scratch, text: &str, more: &[&str]) -> fathom_testkit::Output {
    let file = folder.path().join("study.yaml");
    fs::write(&file, text).unwrap();
    let work = folder.path().join("work");
    fs::create_dir_all(&work).unwrap();
    Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["compare"])
        .arg(&file)
        .args(["--dir"])
        .arg(&work)
        .args(["--runs"])
        .arg(folder.path().join("runs"))
        .args(more)
        .run()
}

/// A change of the study, the exit code and the id of the refusal.
const REFUSED: &[(&str, &str, i32, &str)] = &[
    ("engine: [wiredTiger, rocksdb]", "engin: [wiredTiger]", 2, "bad-study"),
    ("engine: [wiredTiger, rocksdb]", "engine: [mmapv1]", 2, "bad-study"),
    ("records: 100", "array: lvm-striped", 2, "bad-study"),
    ("records: 100", "write_concern: 3", 2, "bad-study"),
    ("records: 100", "threads: 101", 2, "bad-study"),
    ("records: 100", "workload: no-such-workload", 2, "bad-study"),
    ("records: 100", "device: {path: /dev/sdb}", 2, "bad-study"),
    (
        "records: 100",
        "filesystem: xfs\n  device: [{path: /dev/sdb, name: sdb}, {path: /dev/sdc, name: sdc}]",
        2,
        "bad-study",
    ),
    (
        "records: 100",
        "array: md-raid0\n  filesystem: xfs\n  device: {path: /dev/sdb, name: sdb}",
        2,
        "bad-study",
    ),
    (
        "records: 100",
        "array: md-raid0\n  filesystem: xfs\n  device: [{path: /dev/sdb, name: sdb}, {path: /dev/sdb, name: sdb}]",
        2,
        "bad-study",
    ),
    (
        "records: 100",
        "array: md-raid0\n  filesystem: xfs\n  device: [{path: /dev/sdb, name: sdb}, {path: /dev/sdc, name: sdd}]",
        2,
        "bad-study",
    ),
    ("records: 100", "records: 100000000000", 3, "trial-does-not-fit"),
    ("records: 100", "filesystem: xfs\n  disk_size: 90000G", 3, "no-space"),
    ("records: 100", "filesystem: xfs\n  disk_size: 100M", 2, "bad-study"),
    ("records: 100", "binaries: /no/such/folder", 3, "no-program"),
    ("name: refused", "name: [", 2, "bad-study"),
];

/// Returns whether the study makes storage: only root can, and any other user gets that error first.
fn makes_storage(to: &str) -> bool {
    to.starts_with("filesystem")
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_made() {
    assert_refused("compare_refusals", |to| !makes_storage(to));
}

#[test]
fn storage_that_cannot_be_made_is_refused_before_anything_is_made() {
    need_root();
    assert_refused("compare_refusals_of_storage", makes_storage);
}

fn assert_refused(golden: &str, is_chosen: impl Fn(&str) -> bool) {
    let folder = Scratch::new().unwrap();
    let mut refusals = RefusalList::new().hiding(folder.path().display(), "DIR");
    for (from, to, code, id) in REFUSED.iter().filter(|(_, to, ..)| is_chosen(to)) {
        assert!(STUDY.contains(from), "{from}");
        let output = compare(&folder, &STUDY.replace(from, to), &["-v"]);
        // The space that is free differs from machine to machine.
        let output = match *code {
            3 if *id != "no-program" => output.expect_refusal(3, id),
            code => refusals.expect(&[to], output, code, id),
        };
        assert_eq!(output.stderr.lines().count(), 1, "{to}: {}", output.stderr);
        assert!(!folder.path().join("runs").exists(), "{to}: a run folder was made");
        assert_eq!(fs::read_dir(folder.path().join("work")).unwrap().count(), 0, "{to}");
    }
    insta::assert_snapshot!(golden, refusals.text());
}

/// The same bound as that of `fathom disk`, reported before the first trial.
#[test]
fn a_test_file_that_no_probe_takes_is_refused() {
    let folder = Scratch::new().unwrap();
    let study = |size: &str| {
        format!(
            "name: small\nquestion: How small?\nmeasures: probe\nfactors:\n  depth: [1, 2]\n\
             settings: {{file_size: {size}, probe_time: 100ms, buffered: on}}\ndesign: {{blocks: 1, twin: false}}\n"
        )
    };
    let output = compare(&folder, &study("15M"), &["-v"]).expect_refusal(2, "bad-study");
    assert!(output.stderr.contains("at least 16 MiB, not 15 MiB (line 6)"), "{}", output.stderr);
    compare(&folder, &study("16M"), &[]).expect_code(0);
}

/// Two metrics and four levels against the first: eight comparisons of one block.
#[test]
fn a_study_with_too_few_blocks_says_so_before_its_first_trial() {
    let folder = Scratch::new().unwrap();
    let study = |blocks: usize| {
        format!(
            "name: few\nquestion: How few?\nmeasures: probe\nfactors:\n  depth: [1, 2, 3, 4, 5]\n\
             settings: {{file_size: 16M, probe_time: 20ms, buffered: on}}\n\
             metrics: {{primary: [iops, request_latency]}}\ndesign: {{blocks: {blocks}, twin: false}}\n"
        )
    };
    let sentence = "With one block and 8 comparisons no difference can be distinguished from chance at 5 percent; 9 blocks are the fewest that could";
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let planned = compare(&folder, &study(1), &["--dry-run"]).expect_code(0);
    assert!(flat(&planned.stdout).contains(sentence), "{}", planned.stdout);
    let planned = compare(&folder, &study(1), &["--dry-run", "--json"]).expect_code(0).json();
    assert_eq!((&planned["blocks"], &planned["fewest_blocks"]), (&1.into(), &9.into()));
    let enough = compare(&folder, &study(9), &["--dry-run"]).expect_code(0);
    assert!(!enough.stdout.contains("no difference"), "{}", enough.stdout);
    let ran = compare(&folder, &study(1), &[]).expect_code(0);
    let (before, _) = ran.stderr.split_once("trial 1 of").unwrap();
    assert!(before.contains(sentence), "{}", ran.stderr);
    // The study says the same at its end.
    assert!(flat(&ran.stdout).contains(sentence), "{}", ran.stdout);
}

#[test]
fn a_busy_machine_is_told_before_the_first_trial() {
    let folder = Scratch::new().unwrap();
    let study = "name: busy\nquestion: Is it?\nmeasures: probe\nfactors:\n  depth: [1, 2]\n\
                 settings: {file_size: 16M, probe_time: 20ms, buffered: on}\n";
    let is_over = AtomicBool::new(false);
    let planned = thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let planned = compare(&folder, study, &["--dry-run"]);
        is_over.store(true, Ordering::Relaxed);
        planned
    });
    let text = planned.expect_code(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("The processors are busy for"), "{text}");
}

#[test]
fn the_device_under_the_root_is_never_taken() {
    need_root();
    // The device of the root file system is mounted, whatever it is called.
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let Some(device) =
        mounts.lines().find_map(|line| line.split(' ').next().filter(|word| word.starts_with("/dev/")))
    else {
        skip!(Need::Kernel, "no mounted device is seen here");
    };
    let name = device.trim_start_matches("/dev/");
    let folder = Scratch::new().unwrap();
    let text = STUDY
        .replace("records: 100", &format!("device: {{path: {device}, name: {name}}}\n  filesystem: xfs"));
    let output = compare(&folder, &text, &[]);
    assert!([2, 3].contains(&output.code), "{}: {}", output.code, output.stderr);
    assert!(output.stderr.contains(device) && output.stderr.contains("(line 7)"), "{}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
}

#[test]
fn names_and_sizes_that_do_not_exist_are_told_with_those_that_do() {
    let folder = Scratch::new().unwrap();
    compare(&folder, STUDY, &["--size", "huge", "-v"]).expect_refusal(2, "unknown-size");
    let fathom =
        |words: &[&str]| Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(["compare", "-v"]).args(words).run();
    let output = fathom(&["xfs-against-ext5"]).expect_refusal(2, "unknown-study");
    assert!(output.stderr.contains("--list"), "{}", output.stderr);
    let output = fathom(&["no/such/study.yaml"]).expect_refusal(3, "not-found");
    assert!(output.stderr.contains("no/such/study.yaml"), "{}", output.stderr);
    fathom(&["--resume"]).expect_refusal(3, "no-interrupted-study");
    fathom(&[]).expect_refusal(2, "usage.missing-argument");
}

#[test]
fn every_included_study_can_be_listed_printed_and_planned() {
    let fathom =
        |arguments: &[&str]| Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("compare").args(arguments).run();
    let listed = fathom(&["--list"]).expect_code(0).stdout;
    let names: Vec<&str> = listed.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(names.len(), 5, "{listed}");
    let folder = Scratch::new().unwrap();
    for name in names {
        let text = fathom(&[name, "--print"]).expect_code(0).stdout;
        assert!(text.contains(&format!("name: {name}\n")), "{text}");
        let work = folder.path();
        let plan = fathom(&[name, "--quick", "--dry-run", "--json", "--dir", &work.to_string_lossy()]);
        if !is_root() && plan.code != 0 {
            let refusal = plan.expect_code(3).stderr;
            assert!(refusal.contains("root"), "{name}: {refusal}");
        } else {
            let plan = plan.expect_code(0).json();
            assert!(plan["trials"].as_array().unwrap().len() > 8, "{plan}");
        }
        assert_eq!(fs::read_dir(work).unwrap().count(), 0, "a dry run makes nothing");
    }
    let factors = fathom(&["--factors"]).expect_code(0).stdout;
    for word in ["filesystem", "write_concern", "syncdelay", "update_p99", "iops"] {
        assert!(factors.contains(word), "{factors}");
    }
    assert!(factors.lines().all(|line| line.chars().count() <= 80), "{factors}");
    let studies = fathom(&["--list", "--json"]).expect_code(0).json();
    assert_eq!(studies["studies"].as_array().unwrap().len(), 5, "{studies}");
    let document = fathom(&["--factors", "--json"]).expect_code(0).json();
    assert!(document["factors"].as_array().unwrap().len() > 10, "{document}");
    assert!(document["metrics"].as_array().unwrap().iter().any(|one| one["name"] == "iops"), "{document}");
    fathom(&["--list", "--quick"]).expect_code(2);
}
