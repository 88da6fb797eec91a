//! `fathom compare` under kill -9 at random points of a whole study, from its first moment to its last: `fathom cleanup` leaves
//! nothing of it and touches nothing that others made, and `--resume` runs every trial once.
//!
//! `FATHOM_KILLS=50` kills so often, `FATHOM_SEED=7` at the points of seed 7.

use std::env;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fathom_process::ledger::undo_dead_in;
use fathom_stats::SeededRandom;
use fathom_testkit::{
    Bytes, Cap, CapLimits, Filesystem, Need, OrSkip, RealDisk, assert, assert_eq, is_root, leftovers,
    need_root, test,
};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::compare::{StudyFixture, names, processes};

/// Kills unless `$FATHOM_KILLS` says how many.
const USUAL: u64 = 6;
/// The study is resumed after every so many kills.
const RESUMED: u64 = 3;

const LOAD: &str = "\
name: killed-load
question: What is left of servers?
measures: load
factors:
  engine: [wiredTiger, rocksdb]
settings: {records: 200, operations: 1000000, time: 1s, threads: 4, cache: 256M}
design: {blocks: 1, twin: false}
";

const PROBE: &str = "\
name: killed-probe
question: What is left of an array?
measures: probe
factors:
  depth: [1, 8]
settings: {filesystem: btrfs, array: btrfs-raid0, disks: 2, disk_size: 128M, file_size: 16M, probe_time: 500ms}
design: {blocks: 2, twin: false}
";

/// A study that is killed again and again.
struct KilledStudy {
    place: StudyFixture,
    length: Duration,
    trials: u64,
}

impl KilledStudy {
    /// Runs it twice to its end, to know how long that takes once the programs are in memory: on a cold machine the first run
    /// took nearly twice as long as the second.
    fn new(text: &str, trials: u64) -> KilledStudy {
        let place = StudyFixture::new(text);
        fs::write(place.path("work/theirs"), "theirs").unwrap();
        let length = || {
            let _ = fs::remove_dir_all(place.path("runs"));
            let start = Instant::now();
            place.compare(&[]).run().expect_code(0);
            start.elapsed()
        };
        let length = length().min(length());
        let killed = KilledStudy { place, length, trials };
        killed.assert_clean(None, "whole");
        killed
    }

    /// Starts the study again and kills it after a share of its length. If it ends earlier, it was faster than the runs that gave the
    /// length; then it is started once more and killed by its own length. Returns the id of the process.
    fn kill_after(&mut self, share: f64, with_tools: bool) -> u32 {
        let mut running = self.start();
        let begun = Instant::now();
        let end = self.length.mul_f64(share);
        while begun.elapsed() < end && running.0.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(2).min(end.saturating_sub(begun.elapsed())));
        }
        if share < 1.0 && running.0.try_wait().unwrap().is_some() {
            self.length = begun.elapsed().min(self.length);
            self.assert_clean(None, "faster than before");
            running = self.start();
            thread::sleep(self.length.mul_f64(share));
        }
        running.kill(with_tools);
        running.0.id()
    }

    fn start(&self) -> StudyProcess {
        let _ = fs::remove_dir_all(self.place.path("runs"));
        let log = |name: &str| File::create(self.place.path(name)).unwrap();
        StudyProcess(
            Command::new(env!("CARGO_BIN_EXE_fathom"))
                .arg("compare")
                .arg(self.place.path("study.yaml"))
                .arg("--dir")
                .arg(self.place.path("work"))
                .arg("--runs")
                .arg(self.place.path("runs"))
                .env("FATHOM_STATE", self.place.path("state"))
                .stdin(Stdio::null())
                .stdout(log("stdout"))
                .stderr(log("stderr"))
                .process_group(0)
                .spawn()
                .unwrap(),
        )
    }

    /// Undoes what a kill left, and nothing else. Returns the number of things undone.
    fn clean_up(&self, pid: u32, context: &str) -> usize {
        let cleaned = self.place.fathom(&["cleanup"]).run();
        assert_eq!(cleaned.code, 0, "{context}:\n{}{}", cleaned.stdout, cleaned.stderr);
        self.assert_clean(Some(pid), context);
        cleaned.stdout.matches("undone: ").count()
    }

    fn assert_clean(&self, pid: Option<u32>, context: &str) {
        for name in ["work", "state"] {
            let left = leftovers(&self.place.path(name), pid).unwrap();
            assert_eq!(left, Vec::<String>::new(), "{context}");
        }
        assert_eq!(names(&self.place.path("work")), ["theirs"], "{context}");
        assert_eq!(processes(&self.place.path("")), Vec::<u32>::new(), "{context}");
    }

    /// Resumes the study, and checks that each trial ran once. Returns false if it had not begun, or had ended.
    fn resume(&self, context: &str) -> bool {
        if names(&self.place.path("runs")).is_empty() {
            return false;
        }
        let before = self.place.trials().len() as u64;
        let output = self.place.compare(&["--resume", "--json"]).run();
        if output.code == 3 && output.stderr.contains("no interrupted study") {
            assert!(
                before == 0 || before == self.trials,
                "{context}: {before} trials were left where they are"
            );
            return false;
        }
        let document = output.expect_code(0).json();
        assert_eq!(document["state"], "complete", "{context}");
        let trials = self.place.trials();
        let mut numbers: Vec<u64> = trials.iter().map(|trial| trial["number"].as_u64().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..self.trials).collect::<Vec<_>>(), "{context}");
        self.assert_clean(None, context);
        true
    }
}

impl Drop for KilledStudy {
    fn drop(&mut self) {
        // After a failure the folder is deleted with the test.
        let _ = undo_dead_in(&self.place.path("state"));
    }
}

/// A running study; killed and waited for on drop.
struct StudyProcess(Child);

impl StudyProcess {
    /// Kills the process alone, whose programs (`mkfs`) then run on; or these with it.
    fn kill(&mut self, with_tools: bool) {
        // Its number may be another's by now.
        if self.0.try_wait().unwrap().is_some() {
            return;
        }
        if with_tools {
            let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).unwrap();
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

impl Drop for StudyProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The storage that this machine can make for servers: a plain folder for a user who is not root.
fn storage(disk: Option<&RealDisk>) -> String {
    disk.map_or_else(String::new, |disk| {
        let capped = if try_cap(disk).is_ok() { ", cap: {iops: 20000}" } else { "" };
        format!(", filesystem: ext4, disk_size: 512M{capped}")
    })
}

fn try_cap(disk: &RealDisk) -> fathom_errors::Result<Cap> {
    Cap::new(disk.ledger(), disk.device_number(), CapLimits::iops(1000))
}

#[test]
fn a_study_killed_at_random_points_leaves_nothing_and_goes_on() {
    kill_studies(USUAL);
}

#[test]
#[ignore = "the long form of the test above"]
fn a_study_killed_at_50_points_leaves_nothing_and_goes_on() {
    kill_studies(50);
}

fn kill_studies(kills: u64) {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let kills = number("FATHOM_KILLS").unwrap_or(kills);
    let seed = number("FATHOM_SEED").unwrap_or(1);
    println!(
        "{kills} kills at the points of seed {seed}; again with FATHOM_KILLS={kills} FATHOM_SEED={seed}"
    );
    // A loop device and a mount of another user, by a ledger in another folder.
    let theirs = is_root().then(|| RealDisk::new(Filesystem::Ext4, Bytes::mib(16)));
    if let Some(disk) = &theirs {
        fs::write(disk.path().join("theirs"), "theirs").unwrap();
    }
    let load = LOAD.replace(", cache: 256M", &format!(", cache: 256M{}", storage(theirs.as_ref())));
    let mut studies = vec![KilledStudy::new(&load, 2)];
    if is_root() {
        studies.push(KilledStudy::new(PROBE, 4));
    }
    let mut random = SeededRandom::from_seed(seed);
    let (mut owing, mut resumed) = (0_u64, 0_u64);
    for point in 0..kills {
        let count = studies.len();
        let study = &mut studies[usize::try_from(point).unwrap() % count];
        // A little more than the whole, so that its very end is met too.
        let share = random.below(1_000_000) as f64 / 1e6 * 1.05;
        let with_tools = random.below(2) == 1;
        let context = format!("kill {point} of seed {seed}, at {share:.3} of {:.1?}", study.length);
        let pid = study.kill_after(share, with_tools);
        let undone = study.clean_up(pid, &context);
        owing += u64::from(undone > 0);
        println!("{context}{}: {undone} things undone", if with_tools { ", its programs too" } else { "" });
        if point % RESUMED == RESUMED - 1 {
            resumed += u64::from(study.resume(&context));
        }
        if let Some(disk) = &theirs {
            assert_eq!(fs::read_to_string(disk.path().join("theirs")).unwrap(), "theirs", "{context}");
            assert!(Path::new("/sys/block").join(disk.device_name()).join("loop").exists(), "{context}");
        }
        assert_eq!(fs::read_to_string(study.place.path("work/theirs")).unwrap(), "theirs", "{context}");
    }
    println!("{kills} kills; {owing} of them left something, {resumed} studies were resumed");
    // The others meet it before its first device and after its last.
    assert!(owing * 3 >= kills, "a third of the kills at least should meet a study at work");
    // The kills above passed; the parts that need rights or a throttle are reported as skipped.
    need_root();
    theirs.iter().for_each(|disk| drop(try_cap(disk).or_skip(Need::Cgroup)));
}
