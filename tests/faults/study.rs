//! A server on a real disk, a load on it that is watched, and what `fathom explain` makes of the run folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bson::{Document, doc};
use fathom_record::Run;
use fathom_record::disk::Entry;
use fathom_testkit::{Fathom, LabServer, Output, Scratch};
use serde_json::Value;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_fathom");

/// Flags of a server whose cache is far smaller than the data, with the kernel's page cache left out, so that reads reach the disk.
pub(crate) const NO_CACHE: [&str; 2] = ["--wiredTigerEngineConfigString", "cache_size=12M,direct_io=[data]"];

/// Flags of a load that only reads, each record as often as any other.
pub(crate) const UNIFORM_READS: &str =
    "-p requestdistribution=uniform -p readproportion=1 -p updateproportion=0";

/// Flags of a load that only updates, each record as often as any other.
pub(crate) const UNIFORM_UPDATES: &str =
    "-p requestdistribution=uniform -p readproportion=0 -p updateproportion=1";

/// One study at a time: each wants the machine's processors for itself.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server with records in it, and where its runs are kept.
pub(crate) struct Study {
    scratch: Scratch,
    pub(crate) server: LabServer,
    records: u64,
    runs: AtomicU64,
}

impl Study {
    /// Starts a server on `folder` and loads records of about 1 KB.
    pub(crate) fn start(engine: &str, folder: &Path, flags: &[&str], records: u64) -> Study {
        let server =
            LabServer::start(PROGRAM, engine, &folder.join("db"), flags).expect("the server comes up");
        let study = Study { scratch: Scratch::new().unwrap(), server, records, runs: AtomicU64::new(0) };
        let words = ["-p", "workload=CoreWorkload", "-threads", "4", "--no-record"];
        study.ycsb("load", study.server.port(), &words).run().expect_code(0);
        study
    }

    fn ycsb(&self, phase: &str, port: u16, words: &[&str]) -> Fathom {
        Fathom::new(PROGRAM)
            .args(["ycsb", phase, "mongodb"])
            .args(["-p", &format!("mongodb.url=mongodb://127.0.0.1:{port}/ycsb")])
            .args(["-p", &format!("recordcount={}", self.records)])
            .args(words)
            .limit(Duration::from_secs(600))
    }

    /// A watched run through `port` for some seconds, with the flags in `words`, and its judgement. Where somebody else's work on the machine withholds
    /// it, or a stop of the machine made the mean, there is a second run and a third.
    pub(crate) fn watched(&self, port: u16, seconds: u64, words: &str) -> Judged {
        let mut judged = self.watched_once(port, seconds, words);
        for _ in 0..2 {
            if !judged.is_disturbed() && !judged.stood_still() {
                break;
            }
            judged = self.watched_once(port, seconds, words);
        }
        judged
    }

    /// The same, once, whatever else the machine does.
    pub(crate) fn watched_once(&self, port: u16, seconds: u64, words: &str) -> Judged {
        let runs = self.scratch.path().join(format!("runs-{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        let output = self
            .ycsb(
                "run",
                port,
                &["-p", "workload=CoreWorkload", "-p", "operationcount=0", "--watch", "--runs"],
            )
            .arg(&runs)
            .args(["-p", &format!("maxexecutiontime={seconds}")])
            .args(words.split_whitespace())
            .run();
        let output = output.expect_code(0);
        let folder = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
        Judged::of(&folder, output)
    }

    /// A run for some seconds that nobody watches, with the flags in `words`.
    pub(crate) fn unwatched(&self, seconds: u64, words: &str) {
        let time = format!("maxexecutiontime={seconds}");
        let own = ["-p", "workload=CoreWorkload", "-p", "operationcount=0", "--no-record", "-p", &time];
        self.ycsb("run", self.server.port(), &own).args(words.split_whitespace()).run().expect_code(0);
    }

    /// A probe of the disk at `folder`: random reads of 32 KiB at rising depths. Its run folder; `None` where the processors were too short for one
    /// three times, by the tool's own account of its steps.
    pub(crate) fn probed(&self, folder: &Path) -> Option<PathBuf> {
        let found = (0..3).map(|_| self.probed_once(folder)).find(|probe| {
            let results = Run::open(probe).unwrap().results().unwrap();
            !results.iter().any(|entry| matches!(entry, Entry::Step(step) if step.cpu_bound()))
        });
        if found.is_none() {
            println!("skipped: somebody else's work keeps the processors from the probe");
        }
        found
    }

    fn probed_once(&self, folder: &Path) -> PathBuf {
        let runs = self.scratch.path().join(format!("probes-{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        let words =
            ["--pattern", "randread", "--block", "32K", "--depth", "1..64", "--size", "64M", "--time", "1s"];
        let output = Fathom::new(PROGRAM)
            .arg("disk")
            .arg("--dir")
            .arg(folder)
            .args(words)
            .arg("--runs")
            .arg(&runs)
            .run();
        assert!(output.code <= 1, "{}\n{}", output.stdout, output.stderr);
        fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path()
    }

    /// A command to the server's `admin`.
    pub(crate) fn command(&self, command: &Document) {
        self.server.connect().unwrap().run("admin", command).unwrap();
    }

    /// Sets how often checkpoints come.
    pub(crate) fn set_syncdelay(&self, seconds: i32) {
        self.command(&doc! { "setParameter": 1, "syncdelay": seconds });
    }

    /// Stops the server.
    pub(crate) fn stop(self) {
        self.server.stop().expect_code(0);
    }
}

/// What `fathom explain RUN --json` said.
pub(crate) struct Judged {
    pub(crate) folder: PathBuf,
    pub(crate) document: Value,
    pub(crate) load: Output,
}

impl Judged {
    fn of(folder: &Path, load: Output) -> Judged {
        Judged::by(folder, load, &[])
    }

    /// The same run judged again, with the curve of its device from a probe.
    pub(crate) fn with_probe(self, probe: &Path) -> Judged {
        Judged::by(&self.folder.clone(), self.load, &["--probe", &probe.to_string_lossy()])
    }

    fn by(folder: &Path, load: Output, words: &[&str]) -> Judged {
        let output = Fathom::new(PROGRAM).arg("explain").arg(folder).arg("--json").args(words).run();
        assert!(output.code <= 1, "{}\n{}", output.stdout, output.stderr);
        Judged { folder: folder.to_owned(), document: output.json(), load }
    }

    /// Whether the processors were too short for a verdict, by the tool's own guard; a test then has nothing to judge.
    pub(crate) fn is_disturbed(&self) -> bool {
        let disturbed = self.finding("processor-is-short").is_some();
        if disturbed {
            println!("skipped: somebody else's work keeps the processors busy");
        }
        disturbed
    }

    /// Whether operations stood still in a few seconds that make the mean, by the tool's own finding; no study that is watched so makes them.
    fn stood_still(&self) -> bool {
        let stalls = self.finding("stalls");
        if let Some(stalls) = stalls {
            println!("once more: {stalls:#}");
        }
        stalls.is_some()
    }

    /// What a series of the run adds up to.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        let series = Run::open(&self.folder).unwrap().series().unwrap();
        let series = series.get(name).unwrap_or_else(|| panic!("no {name}"));
        series.points.iter().map(|point| point.value).sum()
    }

    /// The finding of this name, if there is one.
    pub(crate) fn finding(&self, id: &str) -> Option<&Value> {
        self.findings().find(|finding| finding["id"] == id)
    }

    pub(crate) fn findings(&self) -> impl Iterator<Item = &Value> {
        self.document["findings"].as_array().into_iter().flatten()
    }

    /// The names of those that are alarms.
    pub(crate) fn alarms(&self) -> Vec<&str> {
        let alarm = |finding: &&Value| finding["severity"] == "warning" || finding["severity"] == "critical";
        self.findings().filter(alarm).filter_map(|finding| finding["id"].as_str()).collect()
    }

    /// The budget of some operations (`reads`, `writes`, `all`).
    pub(crate) fn budget(&self, operations: &str) -> &Value {
        let layers = self.document["layers"].as_array().unwrap();
        let found = layers.iter().find(|budget| budget["operations"] == operations);
        found.unwrap_or_else(|| panic!("no budget of {operations} in {layers:#?}"))
    }

    /// Milliseconds of the mean operation in a layer; 0 where it is not among them.
    pub(crate) fn layer_ms(&self, operations: &str, layer: &str) -> f64 {
        self.of_layer(operations, layer, "mean_us") / 1000.0
    }

    /// The share of a layer in the mean operation; 0 where it is not among them.
    pub(crate) fn share(&self, operations: &str, layer: &str) -> f64 {
        self.of_layer(operations, layer, "share")
    }

    fn of_layer(&self, operations: &str, layer: &str, field: &str) -> f64 {
        let layers = self.budget(operations)["layers"].as_array().unwrap();
        let found = layers.iter().find(|one| one["name"] == layer);
        found.map_or(0.0, |one| one[field].as_f64().unwrap())
    }

    /// The layers of some operations by name, in milliseconds.
    pub(crate) fn layers(&self, operations: &str) -> Vec<(String, f64)> {
        let layers = self.budget(operations)["layers"].as_array().unwrap();
        layers
            .iter()
            .map(|one| (one["name"].as_str().unwrap().to_owned(), one["mean_us"].as_f64().unwrap() / 1000.0))
            .collect()
    }
}
