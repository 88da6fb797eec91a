//! Tests `fathom compare` with studies on real storage and servers, in sizes of seconds.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fathom_testkit::{Fathom, Need, Output, Scratch, assert, assert_eq, need_root, test};
use rustix::process::Signal;
use serde_json::Value;

/// A folder with a study, a place to work, runs and state.
pub(crate) struct StudyFixture(Scratch);

impl StudyFixture {
    pub(crate) fn new(text: &str) -> StudyFixture {
        let place = StudyFixture(Scratch::new().unwrap());
        fs::write(place.path("study.yaml"), text).unwrap();
        fs::create_dir(place.path("work")).unwrap();
        fs::create_dir(place.path("state")).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn fathom(&self, arguments: &[&str]) -> Fathom {
        let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(arguments);
        fathom.state(self.path("state")).limit(Duration::from_secs(600))
    }

    pub(crate) fn compare(&self, more: &[&str]) -> Fathom {
        let fathom = self.fathom(&["compare"]).args(more).args(["--runs"]).arg(self.path("runs"));
        if more.contains(&"--resume") {
            return fathom;
        }
        fathom.arg(self.path("study.yaml")).args(["--dir"]).arg(self.path("work"))
    }

    /// Runs it, and checks that only its record is left.
    fn run(&self) -> Value {
        let document = self.compare(&["--json"]).run().expect_code(0).json();
        self.nothing_is_left();
        document
    }

    fn nothing_is_left(&self) {
        assert_eq!(names(&self.path("work")), Vec::<String>::new());
        let cleaned = self.fathom(&["cleanup"]).run().expect_code(0);
        assert!(cleaned.stdout.contains("nothing to undo"), "{}", cleaned.stdout);
        assert_eq!(processes(&self.0.path()), Vec::<u32>::new());
    }

    /// The folder of the one study.
    fn study(&self) -> PathBuf {
        let runs = names(&self.path("runs"));
        assert_eq!(runs.len(), 1, "{runs:?}");
        self.path("runs").join(&runs[0])
    }

    pub(crate) fn trials(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.study().join("trials.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Processes that name a folder on their command lines.
pub(crate) fn processes(folder: &Path) -> Vec<u32> {
    let folder = folder.display().to_string();
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(&folder)
        })
        .collect()
}

fn metric(study: &Value, name: &str) -> usize {
    let metrics = study["metrics"].as_array().unwrap();
    metrics.iter().position(|metric| metric["name"] == name).unwrap_or_else(|| panic!("{name}: {metrics:?}"))
}

/// The value of a metric in the first block of a cell.
fn value(study: &Value, cell: usize, name: &str) -> f64 {
    let row = &study["cells"][cell]["values"][metric(study, name)];
    row[0].as_f64().unwrap_or_else(|| panic!("{name} of cell {cell}: {row}"))
}

const ENGINES: &str = "\
name: engines
question: Which engine?
measures: load
factors:
  engine: [wiredTiger, rocksdb]
settings: {records: 500, operations: 1000000, time: 3s, threads: 4, cache: 256M}
metrics: {primary: [throughput], others: [update_p99, device_written_per_operation, server_cpu_per_operation]}
design: {blocks: 2, twin: false}
";

#[test]
fn a_study_runs_and_leaves_only_its_record() {
    let place = StudyFixture::new(ENGINES);
    let document = place.run();
    let study = &document["study"];
    assert_eq!((&document["state"], &study["blocks_complete"]), (&"complete".into(), &2.into()));
    for cell in 0..2 {
        assert!(
            value(study, cell, "throughput") > 50.0 && value(study, cell, "server_cpu_per_operation") > 1.0
        );
        // Each trial can be examined by itself.
        let trial = place.study().join(study["cells"][cell]["runs"][0].as_str().unwrap()).join("run");
        let run = trial.join(names(&trial).into_iter().find(|name| name.contains("ycsb")).unwrap());
        let explained = place.fathom(&["explain"]).arg(&run).run();
        assert!([0, 1, 4].contains(&explained.code), "{}", explained.stderr);
    }
    let one = &study["comparisons"][0];
    assert_eq!(
        (&one["level"], &one["baseline"], &one["verdict"]),
        (&"rocksdb".into(), &"wiredTiger".into(), &"undecided".into())
    );
    assert!(!place.study().join("report.html").exists(), "a document for a script has no page beside it");
    let page = place.path("page.html");
    place.fathom(&["report"]).arg(place.study()).args(["-o"]).arg(&page).run().expect_code(0);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Which engine?") && page.contains("rocksdb"), "the page does not show the study");
}

/// A study that is killed, cleaned up and resumed loses no trial and runs none twice.
#[test]
fn a_study_that_is_killed_goes_on() {
    let place = StudyFixture::new(&ENGINES.replace("time: 3s", "time: 1s"));
    for round in 0..2 {
        let arguments: &[&str] = if round == 0 { &[] } else { &["--resume"] };
        let running = place.compare(arguments).spawn();
        let before = if round == 0 { 0 } else { place.trials().len() };
        for _ in 0..1000 {
            let runs = names(&place.path("runs"));
            if runs.len() == 1 && place.trials().len() > before {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(400));
        // Its children are in their own groups and survive.
        running.signal(Signal::KILL);
        drop(running.wait());
        place.fathom(&["cleanup"]).run().expect_code(0);
        place.nothing_is_left();
    }
    let document = place.compare(&["--resume", "--json"]).run().expect_code(0).json();
    assert_eq!(document["study"]["blocks_complete"], 2);
    let mut numbers: Vec<u64> =
        place.trials().iter().map(|trial| trial["number"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3]);
    place.nothing_is_left();
}

#[test]
fn ctrl_c_keeps_what_ran() {
    let place = StudyFixture::new(ENGINES);
    let running = place.compare(&[]).spawn();
    for _ in 0..1000 {
        if names(&place.path("runs")).len() == 1 && !place.trials().is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    running.signal(Signal::INT);
    let Output { code, stderr, stdout, .. } = running.wait();
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("'fathom compare --resume' continues") && stdout.contains("Which engine?"),
        "{stderr}\n{stdout}"
    );
    place.nothing_is_left();
}

/// A server that does not start fails its trials and no others.
#[test]
fn a_broken_cell_is_reported_and_the_rest_goes_on() {
    let text = ENGINES.replace(
        "engine: [wiredTiger, rocksdb]",
        "variant: [{name: good, engine: wiredTiger}, {name: bad, parameters: {noSuchParameter: 1}}]",
    );
    let place = StudyFixture::new(&text.replace("time: 3s", "time: 1s"));
    let output = place.compare(&["--json"]).run().expect_code(1);
    let study = &output.json()["study"];
    assert_eq!(study["cells"][0]["broken"], Value::Null);
    let broken = study["cells"][1]["broken"].as_array().unwrap();
    assert_eq!(broken.len(), 2);
    assert!(broken[0][1].as_str().unwrap().contains("noSuchParameter"), "{}", broken[0]);
    assert!(study["comparisons"].as_array().unwrap().is_empty());
    place.nothing_is_left();
}

mod proof {
    use super::*;
    use fathom_testkit::{assert, assert_eq, skip, test};

    /// Two equal caps and one of twice as much, so that the true effect is known.
    #[test]
    fn what_is_known_is_found_and_equal_things_are_called_the_same() {
        need_root();
        let place = StudyFixture::new(
            "name: caps\nquestion: Which cap?\nmeasures: probe\n\
             factors:\n  variant: [{name: a, cap: {iops: 300}}, {name: b, cap: {iops: 300}}, {name: c, cap: {iops: 600}}]\n\
             settings: {filesystem: ext4, disk_size: 64M, file_size: 16M, depth: 8, probe_time: 1500ms}\n\
             design: {blocks: 7, seed: 3}\n",
        );
        let output = place.compare(&["--json"]).run();
        if output.code != 0 {
            assert!(
                output.stderr.contains("cannot be made here") || output.stderr.contains("cap"),
                "{}",
                output.stderr
            );
            skip!(Need::Cgroup, "{}", output.stderr);
        }
        let document = output.json();
        let comparisons = document["study"]["comparisons"].as_array().unwrap();
        let of = |level: &str| {
            comparisons.iter().find(|one| one["level"] == level && one["metric"] == "iops").unwrap()
        };
        // A busy machine may be too noisy for "the same"; its twins must then show it.
        let noise = document["study"]["noise"].as_array().unwrap();
        let floor = noise.iter().find(|one| one["metric"] == "iops").unwrap()["floor"].as_f64().unwrap();
        let verdict = of("b")["verdict"].as_str().unwrap();
        assert!(verdict == "same" || (verdict == "undecided" && floor > 0.002), "noise {floor}: {}", of("b"));
        assert_eq!(of("c")["verdict"], "better", "{}", of("c"));
        let ratio = of("c")["ratio"].as_f64().unwrap();
        assert!((1.8..2.2).contains(&ratio), "{ratio}");
        assert!(
            of("c")["adjusted_p"].as_f64().unwrap() < 0.05 + 1e-9
                || of("c")["smallest_p"].as_f64().unwrap() > 0.025
        );
        place.nothing_is_left();
    }

    /// Article 2 in seconds: a set of three, one member on RocksDB, each on a disk of its own; w and j crossed.
    #[test]
    fn an_lsm_member_stands_beside_its_siblings() {
        need_root();
        let place = StudyFixture::new(
            "name: mixed\nquestion: What do w and j cost?\nmeasures: load\n\
             factors:\n  write_concern: [majority, 1]\n  journaled: [off, on]\n\
             settings:\n  engine: [wiredTiger, wiredTiger, rocksdb]\n  members: 3\n  per_member: on\n  filesystem: ext4\n  disk_size: 400M\n\
             \x20 cache: 256M\n  records: 300\n  operations: 1000000\n  time: 3s\n  threads: 4\n  properties: {readproportion: 0.1, updateproportion: 0.9}\n\
             metrics: {primary: [throughput], others: [update_latency, device_written_per_operation, device_ios_per_operation, device_write_latency]}\n\
             design: {blocks: 1, twin: false}\n",
        );
        let document = place.run();
        let study = &document["study"];
        assert_eq!(study["cells"].as_array().unwrap().len(), 4);
        let mut written = std::collections::BTreeSet::new();
        for cell in 0..4 {
            assert!(
                value(study, cell, "throughput") > 20.0
                    && value(study, cell, "device_written_per_operation") > 100.0
            );
            let members = study["cells"][cell]["members"].as_array().unwrap();
            let engines: Vec<&str> = members.iter().filter_map(|member| member["engine"].as_str()).collect();
            assert_eq!(engines, ["wiredTiger", "wiredTiger", "rocksdb"], "{members:?}");
            let is_written = |member: &&Value| member["device_write_us"].as_f64().is_some_and(|us| us > 0.0);
            written.extend(members.iter().filter(is_written).map(|member| member["member"].to_string()));
            assert!(
                members.iter().all(|member| member["shared_devices"].as_array().is_none_or(Vec::is_empty))
            );
        }
        // On a busy machine a lagging member may write nothing in one window of three seconds, but not in four of them.
        assert_eq!(written.len(), 3, "each member's disk is seen by itself: {study}");
        assert_eq!(study["interactions"].as_array().unwrap().len(), 1);
    }

    /// Article 4 in seconds: two scenarios on one shard and on two, as one table with speed-ups.
    #[test]
    fn micro_shards_make_one_table() {
        let place = StudyFixture::new(
            "name: shards\nquestion: Do shards pay?\nmeasures: load\n\
             factors:\n  workload: [S2, S5]\n  shards: [1, 2]\n\
             settings: {cache: 256M, chunks: 8, records: 300, operations: 1000000, time: 2s, threads: 4}\n\
             compare: [shards]\nacross: shards\nmetrics: {primary: [throughput], others: [latency]}\n\
             design: {blocks: 1, twin: false}\n",
        );
        let document = place.run();
        let study = &document["study"];
        let scalings = study["scalings"].as_array().unwrap();
        assert_eq!(scalings.len(), 2, "{scalings:?}");
        for scaling in scalings {
            let points = scaling["points"].as_array().unwrap();
            assert_eq!(points.len(), 2);
            assert!(
                points.iter().all(|point| point["throughput_per_s"].as_f64().unwrap() > 20.0),
                "{points:?}"
            );
            assert!(points[1]["speedup"].as_f64().unwrap() > 0.05);
        }
    }
}
