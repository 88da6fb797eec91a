//! Tests the interruption of `fathom disk`: a usable partial result, nothing left behind, and after a kill a readable
//! run folder and a `fathom cleanup` that finds everything.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fathom_record::{Run, State};
use fathom_testkit::{
    Bytes, Cap, CapLimits, Fathom, Filesystem, Need, OrSkip, Output, RealDisk, RunningProgram, Scratch,
    TIMEOUT, assert, assert_eq, test,
};
use rustix::process::Signal;
use serde_json::Value;

use crate::disk::Probe;

/// With steps of a minute, or without a reader of its lines, no signal of these tests comes after its end.
const LONG: [&str; 9] =
    ["--pattern", "randrw", "--depth", "1..1024", "--block", "4K", "--size", "64M", "--verify"];
const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// The signal of a step. Under `nohup`, which children inherit, a hang-up is rightly ignored, so that step is
/// interrupted instead.
fn signal_of(step: u32) -> Signal {
    let signal = SIGNALS[step as usize % SIGNALS.len()];
    if signal == Signal::HUP && hang_up_is_ignored() { Signal::INT } else { signal }
}

/// Bit 0 of SigIgn in /proc/self/status is SIGHUP (proc(5)).
fn hang_up_is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1
}

/// Waits for `seen`; returns false if the program ended or hung first.
fn wait_for(running: &mut RunningProgram, seen: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !seen() {
        if running.has_ended() || start.elapsed() > TIMEOUT {
            return seen();
        }
        thread::sleep(Duration::from_millis(2));
    }
    true
}

fn is_file_begun(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

/// The last document on standard output, whatever the format.
fn last_document(output: &Output) -> Value {
    for line in output.stdout.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("not JSON: {e}: {line}"));
    }
    serde_json::from_str(output.stdout.lines().last().expect("a document")).unwrap()
}

/// Asserts that a program is reported as interrupted everywhere, and left nothing behind.
#[track_caller]
fn assert_interrupted(probe: &Probe, output: &Output) {
    assert!(output.code == 0 || output.code == 1, "{output:?}");
    assert!(!output.stderr.contains("panicked") && !output.stderr.contains("fathom:"), "{}", output.stderr);
    let document = last_document(output);
    assert_eq!([&document["state"], &document["error"]], [&Value::from("interrupted"), &Value::Null]);
    let run = probe.last_run();
    assert_eq!(run.manifest.state, State::Interrupted);
    assert!(run.manifest.finished.is_some());
    assert!(!run.results().unwrap().is_empty());
    run.readings().unwrap();
    for name in run.latency_names().unwrap() {
        assert!(!run.latency(&name).unwrap().is_empty(), "{name}");
    }
    probe.assert_clean();
}

/// Starts `fathom disk`, sends `signal` after `delay` from its first trace, and checks the remains.
fn interrupt_after(delay: Duration, signal: Signal, format: &str) {
    let scratch = Scratch::new().unwrap();
    let probe = Probe::new(&scratch.path());
    let call = probe.disk().args(LONG).arg(format);
    let is_lines = format == "--json=lines";
    let call = if is_lines { call.args(["--time", "1s"]).hold_stdout() } else { call.args(["--time", "1m"]) };
    let mut running = call.spawn();
    // Before that, nothing is made, and a signal may end it in its default way.
    assert!(wait_for(&mut running, || probe.data_file().exists()), "{}", running.stderr());
    thread::sleep(delay);
    running.signal(signal);
    let output = running.wait();
    assert_interrupted(&probe, &output);
}

#[test]
fn a_signal_at_any_moment_leaves_a_partial_result() {
    for step in 0..10_u32 {
        let format = if step % 2 == 0 { "--json" } else { "--json=lines" };
        interrupt_after(Duration::from_millis(150) * step, signal_of(step), format);
    }
}

#[test]
#[ignore = "a soak: 120 moments, some two minutes"]
fn a_signal_at_any_of_many_moments_leaves_a_partial_result() {
    for step in 0..120_u32 {
        let format = if step % 2 == 0 { "--json" } else { "--json=lines" };
        interrupt_after(Duration::from_micros(12_345) * step, signal_of(step), format);
    }
}

#[test]
fn the_profile_and_every_format_end_early_too() {
    let scratch = Scratch::new().unwrap();
    for format in ["--json", "--json=lines", "--json=fio"] {
        let probe = Probe::new(&scratch.path());
        let mut running = probe.disk().args(["--size", "32M", format]).spawn();
        let begun =
            || probe.run_folders().last().is_some_and(|run| is_file_begun(&run.join("results.jsonl")));
        assert!(wait_for(&mut running, begun), "{}", running.stderr());
        running.signal(Signal::INT);
        let output = running.wait();
        if format == "--json=fio" {
            assert!(output.code <= 1 && output.json()["jobs"].is_array(), "{output:?}");
            probe.assert_clean();
            assert_eq!(probe.last_run().manifest.state, State::Interrupted);
        } else {
            assert_interrupted(&probe, &output);
        }
    }
    let probe = Probe::new(&scratch.path());
    let mut running = probe.disk().args(["--size", "32M"]).spawn();
    assert!(running.wait_for_stdout("random reads"), "{}", running.stderr());
    running.signal(Signal::TERM);
    let output = running.wait();
    assert!(output.code <= 1 && output.stdout.contains("Interrupted: the figures above"), "{output:?}");
    probe.assert_clean();
}

/// A disk, and a cap under which all its bytes take more than ten minutes.
fn slow_disk() -> (RealDisk, Cap) {
    let disk = RealDisk::in_memory(Filesystem::Ext4, Bytes::mib(700));
    let per_s = Some(1 << 20);
    let limits = CapLimits { read_bytes_per_s: per_s, write_bytes_per_s: per_s, ..CapLimits::default() };
    let cap = Cap::new(disk.ledger(), disk.device_number(), limits).or_skip(Need::Cgroup);
    (disk, cap)
}

#[test]
fn a_signal_during_the_layout_pass_ends_it() {
    let (disk, cap) = slow_disk();
    let probe = Probe::new(disk.path());
    let size = ["--size", "512M", "--pattern", "randread", "--depth", "1", "--time", "1h", "--json"];
    let mut running = probe.disk().args(size).args(["--verify"]).under_cap(cap.processes_file()).spawn();
    assert!(wait_for(&mut running, || is_file_begun(&probe.data_file())), "{}", running.stderr());
    running.signal(Signal::INT);
    let output = running.wait();
    assert_interrupted(&probe, &output);
    let document = output.json();
    let layout = &crate::disk::results(&document, "layout")[0];
    assert!(layout["cut_short"] == true && layout["bytes"].as_u64().unwrap() < 512 << 20, "{layout}");
    assert!(crate::disk::results(&document, "step").is_empty());
}

#[test]
fn a_signal_while_all_is_read_back_ends_that() {
    let (disk, cap) = slow_disk();
    let probe = Probe::new(disk.path());
    let size = ["--size", "512M", "--pattern", "randwrite", "--depth", "4", "--time", "50ms", "--json=lines"];
    let mut running = probe.hold_after_a_step(probe.disk().args(size).args(["--verify"]));
    cap.adopt_process(running.pid()).unwrap();
    running.release_stdout();
    assert!(running.wait_for_stdout("\"step\""), "{}", running.stderr());
    running.signal(Signal::TERM);
    let output = running.wait();
    assert_interrupted(&probe, &output);
    assert!(!output.stderr.contains("131072 blocks"), "{}", output.stderr);
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let scratch = Scratch::new().unwrap();
    for format in ["--no-record", "--json=lines"] {
        let probe = Probe::new(&scratch.path());
        let arguments = ["--pattern", "randrw", "--depth", "1..64", "--time", "100ms", "--size", "16M"];
        let mut running = probe.disk().args(arguments).arg(format).spawn();
        running.close_stdout();
        let output = running.wait().expect_code(0);
        assert_eq!(output.stderr, "");
        probe.assert_clean();
    }
    // The reader of the final document has closed its pipe.
    let probe = Probe::new(&scratch.path());
    let script = "{ \"$0\" \"$@\"; echo \"code $?\" >&2; } | true";
    let call = Fathom::new("/bin/sh").args(["-c", script, env!("CARGO_BIN_EXE_fathom"), "disk", "--dir"]);
    let short = ["--pattern", "randread", "--depth", "2", "--time", "100ms", "--size", "16M", "--json"];
    let output = call.arg(&probe.dir).args(short).state(probe.state()).run();
    assert_eq!(output.stderr, "code 0\n");
    probe.assert_clean();
    // A full output device is a failure, though, with one sentence.
    let script = "\"$0\" \"$@\" > /dev/full";
    let call = Fathom::new("/bin/sh").args(["-c", script, env!("CARGO_BIN_EXE_fathom"), "disk", "--dir"]);
    let output = call.arg(&probe.dir).args(short).state(probe.state()).run().expect_code(3);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    probe.assert_clean();
}

#[test]
fn after_kill_9_the_run_is_readable_and_cleanup_takes_the_rest() {
    let scratch = Scratch::new().unwrap();
    for delay in [Some(0), Some(400), None] {
        let probe = Probe::new(&scratch.path());
        let call = probe.disk().args(["--quick", "--size", "16M", "--json=lines"]);
        // The third has a result, and waits to print it.
        let running = if let Some(delay) = delay {
            let mut running = call.hold_stdout().spawn();
            assert!(wait_for(&mut running, || is_file_begun(&probe.data_file())), "{}", running.stderr());
            thread::sleep(Duration::from_millis(delay));
            running
        } else {
            probe.hold_after_a_step(call)
        };
        running.signal(Signal::KILL);
        assert_eq!(running.wait().code, 128 + 9);
        assert!(probe.data_file().exists());
        let left = probe.left();
        assert!(left.iter().any(|name| name == "fathom-probe.dat") && left.len() >= 2, "{left:?}");

        let run: Run = probe.last_run();
        assert_eq!((run.manifest.state, &run.manifest.finished), (State::Running, &None));
        run.readings().unwrap();
        run.findings().unwrap();
        run.latency_names().unwrap().iter().for_each(|name| drop(run.latency(name).unwrap()));
        assert!(delay.is_some() || !run.results().unwrap().is_empty());

        let output = probe.fathom("cleanup").run().expect_code(0);
        assert!(output.stdout.contains("fathom-probe.dat"), "{}", output.stdout);
        probe.assert_clean();
    }
}

#[test]
fn what_a_killed_probe_left_is_used_and_removed_by_the_next() {
    let scratch = Scratch::new().unwrap();
    let probe = Probe::new(&scratch.path());
    let append = ["--pattern", "append", "--size", "16M", "--json=lines", "--time"];
    let mut running = probe.disk().args(append).arg("1h").spawn();
    assert!(wait_for(&mut running, || probe.dir.join("fathom-probe.journal").exists()));
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, 128 + 9);
    let output = probe.disk().args(append).arg("100ms").run();
    assert!(output.code <= 1, "{output:?}");
    assert!(!probe.dir.join("fathom-probe.journal").exists());
    probe.fathom("cleanup").run().expect_code(0);
    probe.assert_clean();
}
