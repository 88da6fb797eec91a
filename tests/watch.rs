//! Tests `fathom watch` and `fathom explain` as a user or a script runs them, on the lab server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fathom_record::Run;
use fathom_testkit::{
    Bytes, Fathom, LabServer, RunningProgram, Scratch, TIMEOUT, Tmpfs, assert, assert_eq, test,
};
use rustix::process::Signal;
use serde_json::Value;

use crate::clients::{ROCKSDB, WIRED_TIGER, serve, stop};
use crate::ycsb::{url, ycsb};
use crate::ycsb_faults::wait_until;

fn fathom(arguments: &[&str]) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(arguments)
}

fn uri(server: &LabServer) -> String {
    format!("mongodb://127.0.0.1:{}", server.port())
}

/// The only run folder under a folder.
fn only_run(runs: &Path) -> PathBuf {
    let folders: Vec<PathBuf> = std::fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders[0].clone()
}

/// Waits until a program has printed this number of lines.
#[track_caller]
fn wait_for_lines(running: &mut RunningProgram, count: usize) {
    while running.stdout().lines().count() < count {
        assert!(!running.has_ended(), "{}{}", running.stdout(), running.stderr());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether the only run folder below a folder has this number of points of each series by now.
pub(crate) fn has_points(runs: &Path, names: &[&str], count: usize) -> bool {
    let folder = std::fs::read_dir(runs).ok().and_then(|mut entries| entries.next()?.ok());
    let series = folder.and_then(|folder| Run::open(folder.path()).ok()?.series().ok());
    let points = |name: &&str| series.as_ref()?.get(name).map(|one| one.points.len());
    names.iter().all(|name| points(name) >= Some(count))
}

#[test]
fn lines_have_fixed_columns_and_the_run_is_kept() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let runs = scratch.path().join("runs");
    let words = ["watch", "--uri", &uri(&server), "--record", "--plain", "--runs"];
    let mut watching = fathom(&words).arg(&runs).spawn();
    wait_for_lines(&mut watching, 4);
    watching.signal(Signal::TERM);
    let output = watching.wait().expect_code(0);
    let columns: Vec<usize> = output.stdout.lines().map(|line| line.split_whitespace().count()).collect();
    assert!(columns.len() >= 4 && columns.iter().all(|count| *count == columns[0]), "{}", output.stdout);
    let run = Run::open(only_run(&runs)).unwrap();
    let series = run.series().unwrap();
    for name in ["server.0.up", "server.0.cache.used_bytes", "host.cpu.idle_pct"] {
        assert!(
            series.get(name).is_some(),
            "{name}: {:?}",
            series.iter().map(|(name, _)| name).collect::<Vec<_>>()
        );
    }
    assert_eq!(run.manifest.environment["server.0.engine"], "wiredTiger");
    stop(server);
}

#[test]
fn the_page_of_metrics_has_the_servers_series() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let watching =
        fathom(&["watch", "--uri", &uri(&server), "--for", "600s", "--json", "--metrics", "0"]).spawn();
    let until = Instant::now() + TIMEOUT;
    let mut page = String::new();
    while Instant::now() < until && !page.contains("fathom_server_up{member=\"0\"} 1") {
        thread::sleep(Duration::from_millis(200));
        let said = watching.stderr();
        let Some(address) = said.split("http://").nth(1).and_then(|rest| rest.split('/').next()) else {
            continue;
        };
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        page.clear();
        socket.read_to_string(&mut page).unwrap();
    }
    assert!(page.contains("# TYPE fathom_server_reads_operations counter"), "{page}");
    watching.signal(Signal::TERM);
    let output = watching.wait().expect_code(0);
    for line in output.stdout.lines() {
        let screen: Value = serde_json::from_str(line).unwrap();
        assert_eq!(screen["members"][0]["number"], "0", "{line}");
    }
    stop(server);
}

/// Tests the screen on a terminal of `script`, ended by its time or by a signal: in both cases the terminal is restored.
#[test]
fn the_terminal_is_given_back() {
    let scratch = Scratch::new().unwrap();
    for (time, ended_by_key) in [("1s", false), ("600s", true)] {
        let dir = scratch.path();
        let command = format!(
            "stty rows 24 cols 80; exec {} watch --dir {} --for {time}",
            env!("CARGO_BIN_EXE_fathom"),
            dir.display()
        );
        let mut child = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut screen, mut piece) = (Vec::new(), [0; 4096]);
        let mut terminal = child.stdout.take().unwrap();
        while ended_by_key && !String::from_utf8_lossy(&screen).contains("device") {
            let count = terminal.read(&mut piece).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&screen));
            screen.extend(&piece[..count]);
        }
        if ended_by_key {
            // The keys, as a user would press them.
            child.stdin.as_mut().unwrap().write_all(b"mq").unwrap();
        }
        terminal.read_to_end(&mut screen).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&screen);
        let (entered, left) = (text.find("\u{1b}[?1049h"), text.rfind("\u{1b}[?1049l"));
        assert!(entered.is_some() && left > entered, "{text:?}");
        assert!(output.status.success(), "{output:?}");
        assert!(!ended_by_key || text.contains("device"), "{text:?}");
    }
}

#[test]
fn a_watched_load_is_explained() {
    for engine in [WIRED_TIGER, ROCKSDB] {
        let scratch = Scratch::new().unwrap();
        let server = serve(engine, &scratch, &[]);
        let runs = scratch.path().join("runs");
        let url = url(&server, "ycsb", "");
        ycsb("load", "workloada", &url, &["recordcount=2000", "--no-record"]).run().expect_code(0);
        let words = ["recordcount=2000", "operationcount=0", "-threads 4", "--watch"];
        let load = ycsb("run", "workloada", &url, &words).arg("--runs").arg(&runs).spawn();
        let names = [
            "client.user_bytes",
            "client.connections",
            "client.read.service.mean_ns",
            "server.0.reads.operations",
        ];
        wait_until("eight points of each series", || has_points(&runs, &names, 8));
        load.signal(Signal::INT);
        load.wait().expect_code(0);
        let folder = only_run(&runs);
        let output = fathom(&["explain", "--json"]).arg(&folder).run();
        assert!(matches!(output.code, 0 | 1 | 4), "{output:?}");
        let document = output.json();
        assert_eq!(document["state"], "interrupted");
        assert!(document["layers"].is_array() && document["findings"].is_array(), "{document}");
        assert!(document["cost"]["core_share"].as_f64().unwrap() > 0.0, "{document}");
        // A later call that was killed before its first figure is not the newest run.
        let killed = runs.join("99991231T000000Z-disk-1");
        std::fs::create_dir(&killed).unwrap();
        std::fs::copy(folder.join("manifest.json"), killed.join("manifest.json")).unwrap();
        let text = fathom(&["explain", "--runs"]).arg(&runs).run();
        assert!(text.stdout.contains("Run folder: ") && text.stdout.contains(engine), "{}", text.stdout);
        println!("{}", text.stdout);
        let alone = scratch.path().join("alone");
        let words = ["recordcount=2000", "operationcount=2000"];
        ycsb("run", "workloada", &url, &words).arg("--runs").arg(&alone).run().expect_code(0);
        let text = fathom(&["explain", "--runs"]).arg(&alone).run().expect_code(4).stdout;
        assert!(text.starts_with("Not examined: no server was watched in this run."), "{text}");
        let output = fathom(&["explain", "--json"]).arg(only_run(&alone)).run().expect_code(4);
        assert_eq!(output.json()["state"], "complete");
        stop(server);
    }
}

#[test]
fn a_deployment_is_explained_as_it_is() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let runs = scratch.path().join("runs");
    let output =
        fathom(&["explain", "--uri", &uri(&server), "--for", "20s", "--json", "--runs"]).arg(&runs).run();
    assert!(matches!(output.code, 0 | 1 | 4), "{output:?}");
    let document = output.json();
    assert_eq!(document["run_folder"], only_run(&runs).display().to_string());
    assert!(document["window_s"][1].as_f64().unwrap() > 4.0, "{document}");
    stop(server);
}

#[test]
fn a_record_that_does_not_fit_is_an_error_and_the_watching_goes_on() {
    let memory = Tmpfs::new(Bytes(64 << 10));
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let words = ["watch", "--uri", &uri(&server), "--plain", "--record", "--runs"];
    let mut watching = fathom(&words).arg(memory.path()).spawn();
    while !watching.stderr().contains("No space left") {
        assert!(!watching.has_ended(), "{}", watching.stderr());
        thread::sleep(Duration::from_millis(5));
    }
    let shown = watching.stdout().lines().count();
    wait_for_lines(&mut watching, shown + 3);
    watching.signal(Signal::TERM);
    let output = watching.wait().expect_code(3);
    assert!(output.stderr.contains("No space left"), "{}", output.stderr);
    assert!(output.stderr.contains("not kept"), "{}", output.stderr);
    stop(server);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scratch = Scratch::new().unwrap();
    fathom(&["watch", "--interval", "1ms"]).run().expect_code(2);
    fathom(&["watch", "--uri", "nonsense"]).run().expect_code(2);
    // "$(fathom cluster list --uri)" without a cluster.
    for verb in ["watch", "explain"] {
        let empty = fathom(&[verb, "--uri", ""]).run().expect_code(2);
        assert!(empty.stderr.contains("the connection string is empty"), "{verb}: {}", empty.stderr);
    }
    fathom(&["watch", "--uri", "mongodb://127.0.0.1:1/", "--for", "1s"]).run().expect_code(3);
    fathom(&["explain", "--uri", "mongodb://127.0.0.1:1/", "--for", "6s", "--no-record"])
        .run()
        .expect_code(3);
    fathom(&["explain", "--uri", "mongodb://h/", "--for", "1s"]).run().expect_code(2);
    fathom(&["explain", "--uri", "mongodb://h/", "--namespace", "shop"]).run().expect_code(2);
    fathom(&["explain", "somewhere", "--uri", "mongodb://h/"]).run().expect_code(2);
    let nothing = fathom(&["explain", "--for", "6s"]).run().expect_code(2);
    assert!(nothing.stderr.contains("name one with --uri"), "{}", nothing.stderr);
    for missing in [["--device", "nope"], ["--dir", "/no/such/directory"]] {
        let refused = fathom(&["watch", "--for", "1s"]).args(missing).run().expect_code(3);
        assert_eq!((refused.stdout.as_str(), refused.stderr.lines().count()), ("", 1), "{refused:?}");
        assert!(refused.stderr.contains(missing[1]), "{}", refused.stderr);
    }
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let twice = fathom(&["watch", "--for", "1s", "--uri", &uri(&server), "--uri", &uri(&server)]).run();
    assert!(twice.expect_code(2).stderr.contains("two connection strings lead to"));
    stop(server);
    let none = fathom(&["explain", "--runs"]).arg(scratch.path().join("none")).run().expect_code(3);
    assert!(none.stderr.contains("no run folder"), "{}", none.stderr);
}
