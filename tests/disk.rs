//! Shared code of the tests of `fathom disk`: a probe of one directory with its own state folder.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_record::Run;
use fathom_testkit::{Fathom, Output, RealDisk, RunningProgram, Scratch, leftovers};
use serde_json::Value;

use crate::ycsb_faults::wait_until;

/// One directory to probe, and the program's state folder for it.
pub(crate) struct Probe {
    pub(crate) dir: PathBuf,
    state: Scratch,
    before: Vec<String>,
}

impl Probe {
    /// Probes of `dir`; its present contents are not the program's.
    pub(crate) fn new(dir: &Path) -> Probe {
        Probe { dir: dir.to_owned(), state: Scratch::new().unwrap(), before: names(dir) }
    }

    /// The program: `fathom disk --dir DIR`.
    pub(crate) fn disk(&self) -> Fathom {
        self.fathom("disk").arg("--dir").arg(&self.dir)
    }

    /// The program with another verb, in the same state folder.
    pub(crate) fn fathom(&self, verb: &str) -> Fathom {
        Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg(verb).state(self.state())
    }

    /// Runs `fathom disk` with these arguments.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.disk().args(arguments).run()
    }

    /// Starts a call with `--json=lines` and waits until its run folder holds a step. The program waits in the line of that step until
    /// [`RunningProgram::wait`] or [`RunningProgram::release_stdout`] reads it.
    #[track_caller]
    pub(crate) fn hold_after_a_step(&self, call: Fathom) -> RunningProgram {
        let earlier = self.run_folders();
        let has_step = || {
            let mut folders = self.run_folders().into_iter().filter(|folder| !earlier.contains(folder));
            let results = folders.find_map(|folder| fs::read_to_string(folder.join("results.jsonl")).ok());
            results.is_some_and(|results| results.contains(r#""type":"step""#))
        };
        let mut running = call.hold_stdout().spawn();
        wait_until("a step", || running.has_ended() || has_step());
        assert!(has_step() && !running.has_ended(), "{}", running.stderr());
        running
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.state.path()
    }

    /// The file under test.
    pub(crate) fn data_file(&self) -> PathBuf {
        self.dir.join("fathom-probe.dat")
    }

    /// The new files, and the entries that remain in the undo journals.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left = names(&self.dir);
        left.retain(|name| !self.before.contains(name));
        left.extend(leftovers(&self.state().join("undo"), None).unwrap());
        left
    }

    /// Fails if anything is left.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.left(), Vec::<String>::new(), "something is left");
    }

    /// The folders of the runs, oldest first.
    pub(crate) fn run_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state().join("runs")).into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        folders.sort();
        folders
    }

    #[track_caller]
    pub(crate) fn last_run(&self) -> Run {
        Run::open(self.run_folders().last().expect("a run folder")).unwrap()
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The results of one type in a document of `--json`.
pub(crate) fn results<'a>(document: &'a Value, kind: &str) -> Vec<&'a Value> {
    document["results"].as_array().unwrap().iter().filter(|entry| entry["type"] == kind).collect()
}

/// The findings by name.
pub(crate) fn finding<'a>(document: &'a Value, id: &str) -> Option<&'a Value> {
    document["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id)
}

/// Operations of one kind in the first stream of a step.
pub(crate) fn operations<'a>(step: &'a Value, kind: &str) -> Option<&'a Value> {
    step["streams"][0]["operations"].as_array().unwrap().iter().find(|operations| operations["kind"] == kind)
}

/// Asserts that a message is readable: one or few sentences, no panic, no debug dump.
#[track_caller]
pub(crate) fn assert_sentence(output: &Output) {
    let stderr = &output.stderr;
    assert!(!stderr.contains("panicked") && !stderr.contains("RUST_BACKTRACE"), "{stderr}");
    let is_error = |line: &&str| line.starts_with("fathom: ") || line.starts_with("error: ");
    let errors = stderr.lines().filter(is_error).filter(|line| !line.starts_with("fathom: refusal ["));
    assert_eq!(errors.count(), 1, "one sentence: {stderr}");
}

/// Asserts that the probe completed: a finding is not a failure (a busy test machine causes one).
#[track_caller]
pub(crate) fn assert_probed(output: &Output) -> Value {
    assert!(output.code == 0 || output.code == 1, "{output:?}");
    let document = output.json();
    assert_eq!(document["error"], Value::Null, "{}", output.stderr);
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
    document
}

/// Returns whether the machine was too busy for the figures of a step to be the disk's.
pub(crate) fn is_cpu_bound(step: &Value) -> bool {
    step["run_queue_wait_pct"].as_f64().is_some_and(|pct| pct > 5.0)
}

/// The kernel's name of a device under a step, as the probe saw it.
#[track_caller]
pub(crate) fn assert_device(document: &Value, disk: &RealDisk) {
    assert_eq!(results(document, "subject")[0]["device"], disk.device_name());
    for step in results(document, "step") {
        let devices = step["devices"].as_array().unwrap();
        assert!(devices.iter().any(|device| device["name"] == disk.device_name()), "{step}");
    }
}
