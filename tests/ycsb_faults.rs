//! Tests `fathom ycsb` with servers that die, hang or send invalid replies, and users who interrupt it: it continues or ends with its report.

use std::path::Path;
use std::time::{Duration, Instant};

use bson::rawdoc;
use fathom_record::{Run, State};
use fathom_testkit::{
    Bytes, Fathom, Manner, NullResponder, Output, Ports, RunningProgram, Scratch, TIMEOUT, Tmpfs, assert,
    assert_eq, fill, test,
};
use rustix::process::Signal;

use crate::serve_run::connect;
use crate::ycsb::{report, ycsb};
use crate::ycsb_run::loaded;

/// A server on a port, up.
pub(crate) fn serve_on(port: u16, db: &Path) -> RunningProgram {
    let mut running = Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["serve", "--wiredTigerCacheSizeGB", "0.25", "--port", &port.to_string(), "--dbpath"])
        .arg(db)
        .spawn();
    assert!(running.wait_for_stdout("Waiting for connections"), "{}", running.stdout());
    running
}

fn to(port: u16) -> String {
    format!("mongodb.url=mongodb://127.0.0.1:{port}/y")
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut seen: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !seen() {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The seconds that a run has printed so far in which operations of a kind ended, or none did.
fn seconds(load: &RunningProgram, kind: &str, is_busy: bool) -> usize {
    let text = load.stderr();
    let lines = text.lines().filter(|line| line.contains(&format!("[{kind}: Count=")));
    lines.filter(|line| line.contains(&format!("[{kind}: Count=0,")) != is_busy).count()
}

/// Kills the server in the middle of a run and starts it again once the run has idle seconds; ends the run after two seconds with
/// operations of `kind`.
pub(crate) fn kill_and_restart(
    load: &RunningProgram,
    kind: &str,
    server: RunningProgram,
    (port, db): (u16, &Path),
) -> RunningProgram {
    wait_until("it works", || seconds(load, kind, true) > 0);
    server.signal(Signal::KILL);
    server.wait();
    let idle = seconds(load, kind, false);
    wait_until("it stands still", || seconds(load, kind, false) > idle + 1);
    let again = serve_on(port, db);
    let busy = seconds(load, kind, true);
    wait_until("it works again", || seconds(load, kind, true) > busy + 1);
    load.signal(Signal::INT);
    again
}

fn killed_and_restarted(more: &[&str]) {
    let scratch = Scratch::new().unwrap();
    let db = scratch.path().join("db");
    let ports = Ports::reserve(1).unwrap();
    let port = ports.first();
    let server = serve_on(port, &db);
    let words = ["recordcount=500", "--no-record", "-threads 6", "-s", "status.interval=1"];
    ycsb("load", "workloada", &to(port), &words).run().expect_code(0);
    let endless = [&words[..], &["operationcount=0", "noprogress=500"], more].concat();
    let load = ycsb("run", "workloada", &to(port), &endless).spawn();
    let again = kill_and_restart(&load, "READ", server, (port, &db));
    let output = load.wait();
    println!(
        "{more:?}: {}",
        output.stderr.lines().filter(|line| line.starts_with("fathom")).collect::<Vec<_>>().join("\n")
    );
    let report = report(&output);
    let failed = report.returned("READ", "ERROR") + report.returned("UPDATE", "ERROR");
    // One operation was in progress on each connection, or with a rate perhaps on none, and a starting server may close some more.
    let fewest = u64::from(more.is_empty());
    assert!((fewest..=30).contains(&failed), "{failed}");
    let output = output.expect_code(i32::from(failed > 0));
    assert!(
        output.stderr.contains("x connection ") && output.stderr.contains("x cannot connect"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("connections were established again"), "{}", output.stderr);
    drop(connect(port));
    again.signal(Signal::TERM);
    again.wait().expect_code(0);
}

#[test]
fn a_killed_server_is_survived_in_a_closed_loop() {
    killed_and_restarted(&[]);
}

#[test]
fn a_killed_server_is_survived_at_a_rate() {
    killed_and_restarted(&["-target 300"]);
}

#[test]
fn a_server_that_never_comes_back_ends_the_run() {
    for more in [&[][..], &["-target 50"]] {
        let scratch = Scratch::new().unwrap();
        let server = loaded(&scratch, 100, &[]);
        let url = to(server.port());
        let words =
            ["recordcount=100", "operationcount=0", "noprogress=5", "-s", "status.interval=1", "--no-record"];
        let load = ycsb("run", "workloada", &url, &[&words, more].concat()).spawn();
        wait_until("it works", || seconds(&load, "READ", true) > 0);
        server.kill();
        let output = load.wait().expect_code(1);
        assert!(
            output.stderr.contains("nothing was answered for 5s, so the run was given up"),
            "{}",
            output.stderr
        );
        assert!(report(&output).returned("READ", "OK") > 0);
    }
}

/// A run of reads against a responder with a manner.
fn against(manner: Manner, words: &[&str]) -> Output {
    let responder = NullResponder::with_manner(&rawdoc! { "_id": "user1", "field0": "x" }, manner).unwrap();
    let words = [&["recordcount=100", "-threads 3", "--no-record"], words].concat();
    ycsb("run", "workloadc", &to(responder.port()), &words).run()
}

#[test]
fn a_server_that_never_answers() {
    // Each operation's own deadline counts it, and the client connects again.
    let late = against(Manner::Silent, &["operationcount=6", "operationdeadline=0.5"]).expect_code(1);
    assert_eq!((report(&late).returned("READ", "ERROR"), report(&late).all_returned()), (6, 6));
    assert!(late.stderr.contains("fathom: 6 x no reply: no reply within 500ms"), "{}", late.stderr);
    assert!(report(&late).number("READ-FAILED", "MinLatency(us)") >= 500_000.0);
    // Lost operations are not progress.
    for more in
        [&["operationdeadline=0.4"][..], &["operationdeadline=0"], &["operationdeadline=0.4", "-target 20"]]
    {
        let words = [&["operationcount=0", "noprogress=1.5"], more].concat();
        let given_up = against(Manner::Silent, &words).expect_code(1);
        assert!(given_up.stderr.contains("nothing was answered for 1.5s"), "{}", given_up.stderr);
        assert!(given_up.stdout.contains("[OVERALL], RunTime(ms)"), "{}", given_up.stdout);
    }
}

#[test]
fn servers_that_talk_nonsense() {
    for (manner, kind) in [
        (Manner::Cuts(50), "x connection "),
        (Manner::Rubbish(50), "protocol: "),
        (Manner::WrongRequest(50), "protocol: the server answers another request than the oldest"),
    ] {
        for depth in ["pipelinedepth=1", "pipelinedepth=4"] {
            let output = against(manner, &["operationcount=1000", depth]).expect_code(1);
            let report = report(&output);
            let (good, failed) = (report.returned("READ", "OK"), report.returned("READ", "ERROR"));
            println!("{manner:?}, {depth}: {good} and {failed}");
            assert_eq!(good + failed, 1000);
            assert!((15..=100).contains(&failed), "{failed}");
            assert!(output.stderr.contains(kind), "{kind}: {}", output.stderr);
        }
    }
}

#[test]
fn signals_end_a_run_with_its_report_and_run_folder() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 100, &[]);
    for (signal, more) in [(Signal::INT, "-threads 4"), (Signal::TERM, "-target 200")] {
        let state = scratch.path().join(format!("state-{signal:?}"));
        let words = ["recordcount=100", "operationcount=0", "-s", "status.interval=1", more];
        let load = ycsb("run", "workloadb", &to(server.port()), &words).state(&state).spawn();
        wait_until("two seconds", || seconds(&load, "READ", true) > 1);
        load.signal(signal);
        let output = load.wait().expect_code(0);
        let returned = report(&output).all_returned();
        let run = Run::open(folder(&output)).unwrap();
        assert_eq!(run.manifest.state, State::Interrupted);
        assert_kept(&run, returned);
    }
}

/// The run folder that a run printed.
fn folder(output: &Output) -> &Path {
    let line = output.stderr.lines().find_map(|line| line.strip_prefix("Run folder: "));
    Path::new(line.unwrap_or_else(|| panic!("{}", output.stderr)))
}

/// Both clocks of each operation, second by second.
fn assert_kept(run: &Run, returned: u64) {
    let names = run.latency_names().unwrap();
    for name in ["read.service", "read.response", "update.service", "update.response"] {
        assert!(names.iter().any(|one| one == name), "{names:?}");
    }
    let count = |clock: &str| {
        ["read", "update"]
            .map(|name| run.latency(&format!("{name}.{clock}")).unwrap().len())
            .iter()
            .sum::<u64>()
    };
    assert_eq!((count("service"), count("response")), (returned, returned));
    let readings = run.readings().unwrap();
    let of = |name: &str| readings.iter().filter(|reading| reading.name == name).count();
    assert!(of("client.read.per_s") >= 2, "{}", of("client.read.per_s"));
    assert_eq!(of("client.read.per_s"), of("client.read.response.mean_ns"));
    let whole: f64 =
        readings.iter().filter(|one| one.name == "client.operations.per_s").map(|one| one.value).sum();
    assert!((whole - returned as f64).abs() < 0.5, "{whole} and {returned}");
}

#[test]
fn a_disk_that_fills_under_the_run_folder_does_not_end_the_run() {
    let disk = Tmpfs::new(Bytes::mib(2));
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 100, &[]);
    let words = ["recordcount=100", "operationcount=0", "-s", "status.interval=1"];
    let load = ycsb("run", "workloada", &to(server.port()), &words).arg("--runs").arg(disk.path()).spawn();
    wait_until("a second", || seconds(&load, "READ", true) > 0);
    fill(disk.path()).unwrap();
    wait_until("the disk is full", || load.stderr().contains("No space left"));
    let busy = seconds(&load, "READ", true);
    wait_until("it goes on", || seconds(&load, "READ", true) > busy + 1);
    load.signal(Signal::INT);
    let output = load.wait().expect_code(0);
    assert!(
        output.stderr.contains("fathom: the run folder is") && output.stderr.contains("No space left"),
        "{}",
        output.stderr
    );
    let report = report(&output);
    assert!(report.all_returned() > 0, "{}", output.stdout);
    assert_eq!(output.stderr.matches("No space left").count(), 1, "{}", output.stderr);
}
