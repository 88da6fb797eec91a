//! Tests `fathom serve` in the foreground: it starts, keeps its data, begins new logs, and stops correctly.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bson::{Document, doc};
use fathom_client::{Address, Connection, Target};
use fathom_testkit::{Fathom, RunningProgram, Scratch, TIMEOUT};
use rustix::process::Signal;

/// The log text that shows that clients may connect.
const WAITING: &str = "Waiting for connections";

/// `fathom serve` with a port of its own choice.
pub(crate) fn serve(arguments: &[&str]) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(["serve", "--port", "0"]).args(arguments)
}

/// The port of the last start in a log.
#[track_caller]
pub(crate) fn port_in(log: &str) -> u16 {
    let line = log.lines().rfind(|line| line.contains(WAITING)).expect("it listens");
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    u16::try_from(line["attr"]["port"].as_u64().unwrap()).unwrap()
}

pub(crate) fn connect(port: u16) -> Connection {
    Connection::connect(&Target::at(Address::new("127.0.0.1", port))).unwrap()
}

pub(crate) fn run(connection: &mut Connection, command: &Document) -> Document {
    Document::try_from(&*connection.run("admin", command).unwrap()).unwrap()
}

pub(crate) fn count(connection: &mut Connection) -> usize {
    connection.cursor("admin", &doc! { "find": "c" }).unwrap().map(Result::unwrap).count()
}

/// Starts it and waits until clients may connect.
#[track_caller]
fn start(arguments: &[&str]) -> (RunningProgram, Connection) {
    let mut running = serve(arguments).spawn();
    assert!(running.wait_for_stdout(WAITING), "{}{}", running.stdout(), running.stderr());
    let connection = connect(port_in(&running.stdout()));
    (running, connection)
}

fn path(scratch: &Scratch, name: &str) -> (PathBuf, String) {
    let path = scratch.path().join(name);
    let text = path.display().to_string();
    (path, text)
}

#[test]
fn what_was_written_is_there_after_sigterm_and_another_start() {
    for engine in ["wiredTiger", "rocksdb"] {
        let scratch = Scratch::new().unwrap();
        let (_, db) = path(&scratch, "db");
        let arguments = ["--dbpath", &db, "--storageEngine", engine, "--wiredTigerCacheSizeGB", "0.25"];
        let begun = Instant::now();
        let (running, mut connection) = start(&arguments);
        println!("{engine}: {} ms from the start to a connection", begun.elapsed().as_millis());
        let documents: Vec<Document> = (0..100).map(|n| doc! { "_id": n }).collect();
        run(&mut connection, &doc! { "insert": "c", "documents": documents });
        let options = run(&mut connection, &doc! { "getCmdLineOpts": 1 });
        let storage = options.get_document("parsed").unwrap().get_document("storage").unwrap();
        assert_eq!(storage.get_str("engine").unwrap(), engine);
        running.signal(Signal::TERM);
        let output = running.wait().expect_code(0);
        assert!(output.stdout.contains("Now exiting") && output.stderr.is_empty(), "{}", output.stderr);
        // The lock file shows whether the last owner stopped cleanly.
        assert_eq!(fs::read_to_string(scratch.path().join("db/mongod.lock")).unwrap(), "");

        let (running, mut connection) = start(&arguments);
        assert_eq!(count(&mut connection), 100);
        run(&mut connection, &doc! { "shutdown": 1 });
        running.wait().expect_code(0);
    }
}

#[test]
fn a_configuration_file_and_flags_make_one_server() {
    let scratch = Scratch::new().unwrap();
    let (_, db) = path(&scratch, "db");
    let (log, log_text) = path(&scratch, "log");
    let (pid, pid_text) = path(&scratch, "pid");
    let (file, file_text) = path(&scratch, "serve.yaml");
    let yaml = format!(
        "storage:\n  dbPath: {db}\n  engine: ephemeralForTest\n  syncPeriodSecs: 7\nnet:\n  port: 1\n\
         processManagement:\n  pidFilePath: {pid_text}\nsetParameter:\n  enableTestCommands: 1\n"
    );
    fs::write(&file, yaml).unwrap();
    let running = serve(&["-f", &file_text, "--logpath", &log_text, "-vv"]).spawn();
    wait_for(&log, WAITING);
    let mut connection = connect(port_in(&fs::read_to_string(&log).unwrap()));
    let names = doc! { "getParameter": 1, "syncdelay": 1, "enableTestCommands": 1, "logLevel": 1 };
    let expected = doc! { "enableTestCommands": true, "logLevel": 2, "syncdelay": 7.0, "ok": 1.0 };
    assert_eq!(run(&mut connection, &names), expected);
    assert_eq!(fs::read_to_string(&pid).unwrap().trim(), running.pid().to_string());

    running.signal(Signal::USR1);
    let old = || {
        fs::read_dir(scratch.path())
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("log.20"))
    };
    let begun = Instant::now();
    while !old() && begun.elapsed() < TIMEOUT {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(old(), "no log was moved aside");
    run(&mut connection, &doc! { "setParameter": 1, "quiet": true });
    assert!(!fs::read_to_string(&log).unwrap().contains(WAITING));
    running.signal(Signal::INT);
    let output = running.wait().expect_code(0);
    assert_eq!(output.stdout, "");
    assert!(fs::read_to_string(&log).unwrap().contains("Now exiting") && !pid.exists());
}

/// Waits until a file holds `text`.
#[track_caller]
pub(crate) fn wait_for(file: &Path, text: &str) {
    let begun = Instant::now();
    while !fs::read_to_string(file).is_ok_and(|found| found.contains(text)) {
        assert!(begun.elapsed() < TIMEOUT, "{} without '{text}'", file.display());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn help_and_version_are_what_launchers_look_for() {
    let fathom = || Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("serve");
    let version = fathom().arg("--version").run().expect_code(0).stdout;
    assert!(version.starts_with("db version v4.4.29\n"), "{version}");
    let claimed = fathom().args(["--version", "--claimedVersion", "4.0"]).run().expect_code(0).stdout;
    assert!(claimed.starts_with("db version v4.0.28\n"), "{claimed}");
    insta::assert_snapshot!("serve_help", fathom().arg("--help").run().expect_code(0).stdout);
}
