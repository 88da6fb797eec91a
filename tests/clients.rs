//! Tests the program on both engines with foreign clients, in their published versions.
//!
//! Their programs below `clients/` print one line for each check. A client that is not in the cache (`setup/clients.sh`)
//! ends its test as skipped. The name of each check must be in docs/clients.md, or the test fails.

use std::path::{Path, PathBuf};
use std::process::Command;

use fathom_testkit::{
    Fathom, LabServer, Need, Output, RunningProgram, Scratch, assert, assert_eq, skip, test,
};

pub(crate) const WIRED_TIGER: &str = "wiredTiger";
pub(crate) const ROCKSDB: &str = "rocksdb";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folder of a client in the cache; the test ends as skipped if it is not installed.
pub(crate) fn client(name: &str) -> PathBuf {
    let output = Command::new(root().join("setup/clients.sh")).args(["path", name]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    if output.status.success() {
        return PathBuf::from(text.trim_end());
    }
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    skip!(Need::Program, "{}", text.trim_end())
}

/// A server for one test, with a small cache and impatient expiry.
pub(crate) fn serve(engine: &str, scratch: &Scratch, flags: &[&str]) -> LabServer {
    let always = [
        ["--setParameter", "enableTestCommands=1"],
        ["--setParameter", "ttlMonitorSleepSecs=1"],
        ["--wiredTigerCacheSizeGB", "0.25"],
        ["--rocksdbCacheSizeGB", "0.25"],
    ];
    let flags: Vec<&str> = always.iter().flatten().chain(flags).copied().collect();
    LabServer::start(env!("CARGO_BIN_EXE_fathom"), engine, &scratch.path().join("db"), &flags)
        .unwrap_or_else(|output| panic!("{output:?}"))
}

/// Stops a server, which must not have reported a fault.
pub(crate) fn stop(server: LabServer) {
    let output = server.stop().expect_code(0);
    let faults = output.stdout.lines().filter(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        matches!(line["s"].as_str(), Some("E" | "F"))
    });
    assert_eq!(faults.collect::<Vec<_>>(), Vec::<&str>::new());
}

/// The names of the clients in docs/clients.md.
const LABELS: [(&str, &str); 5] =
    [("python", "pymongo"), ("node", "Node"), ("go", "Go"), ("java", "Java"), ("mongosh", "mongosh")];

/// The task of a client, and the server that it needs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Plain,
    Auth,
    Tls,
    Compression,
    /// The Go driver of version 1.
    Old,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Plain => "plain",
            Mode::Auth => "auth",
            Mode::Tls => "tls",
            Mode::Compression => "compression",
            Mode::Old => "old",
        }
    }
}

/// A driver's program, built in a scratch folder; the test ends as skipped if the driver is not installed.
pub(crate) fn program(name: &str, scratch: &Path) -> Fathom {
    let programs = root().join("tests/clients").join(name);
    let installed = client(name);
    match name {
        "python" => Fathom::new("python3")
            .env("PYTHONPATH", &installed)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .arg(programs.join("main.py")),
        "node" => {
            // A module finds its packages only in its own folder.
            std::os::unix::fs::symlink(installed.join("node_modules"), scratch.join("node_modules")).unwrap();
            for file in std::fs::read_dir(&programs).unwrap() {
                let file = file.unwrap();
                if file.file_type().unwrap().is_file() {
                    std::fs::copy(file.path(), scratch.join(file.file_name())).unwrap();
                }
            }
            Fathom::new("node").arg(scratch.join("main.mjs"))
        }
        "go" => Fathom::new(installed.join("client")),
        "java" => {
            let classes = format!("{0}/jars/*:{0}/classes", installed.display());
            Fathom::new("java").args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &classes, "Main"])
        }
        other => panic!("no client {other}"),
    }
}

/// Runs mongosh on a connection string, with its home in a scratch folder; the test ends as skipped if it is not installed.
pub(crate) fn mongosh(uri: &str, home: &Path) -> Fathom {
    let installed = client("node");
    Fathom::new("node")
        .env("HOME", home)
        .arg(installed.join("node_modules/@mongosh/cli-repl/bin/mongosh.js"))
        .args(["--quiet", "--norc", uri])
}

/// Makes mongosh run one of our programs, with their shared code loaded first.
pub(crate) fn with_program(call: Fathom, name: &str) -> Fathom {
    let programs = root().join("tests/clients/mongosh");
    call.arg("--file").arg(programs.join("harness.js")).arg("--file").arg(programs.join(format!("{name}.js")))
}

/// The call of a client's program for one mode.
fn call(name: &str, mode: Mode, port: u16, scratch: &Path) -> Fathom {
    if name == "mongosh" {
        let mut call = mongosh(&format!("mongodb://localhost:{port}/test"), scratch);
        if mode == Mode::Tls {
            call = call.args(["--tls", "--tlsCAFile"]).arg(pem("ca.pem"));
        }
        return with_program(call, mode.name());
    }
    let call = program(name, scratch).arg(mode.name()).arg(port.to_string());
    if mode == Mode::Tls { call.arg(pem("ca.pem")) } else { call }
}

fn pem(file: &str) -> PathBuf {
    root().join("crates/client/tests/client/pem").join(file)
}

/// Runs one client's program against a server of its own.
fn drive(name: &str, mode: Mode, engine: &str) {
    let scratch = Scratch::new().unwrap();
    let certificate = pem("server.pem").display().to_string();
    let flags: &[&str] = match mode {
        Mode::Auth => &["--auth"],
        Mode::Tls => &["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", &certificate],
        Mode::Plain | Mode::Compression | Mode::Old => &[],
    };
    let server = serve(engine, &scratch, flags);
    let output = call(name, mode, server.port(), &scratch.path()).run();
    assert_passed(name, &output);
    assert!(name != "mongosh" || output.stderr.is_empty(), "mongosh complains: {}", output.stderr);
    stop(server);
}

/// Asserts that all checks passed and are in the docs.
pub(crate) fn assert_passed(name: &str, output: &Output) {
    let failed: Vec<&str> = output.stdout.lines().filter(|line| !line.starts_with("ok ")).collect();
    let passed = output.stdout.lines().filter_map(|line| line.strip_prefix("ok "));
    let passed: Vec<&str> = passed.collect();
    eprintln!("{name}: {} checks passed, {} failed", passed.len(), failed.len());
    assert!(
        output.code == 0 && failed.is_empty() && !passed.is_empty(),
        "exit code {} after {} checks that passed, overstayed: {}\n{}\n{}",
        output.code,
        passed.len(),
        output.timed_out,
        failed.join("\n"),
        output.stderr
    );
    let docs = std::fs::read_to_string(root().join("docs/clients.md")).unwrap();
    let label = LABELS.iter().find(|(client, _)| *client == name).unwrap().1;
    let told = |check: &str| {
        docs.lines().any(|row| row.starts_with(&format!("| `{check}` | ")) && row.contains(label))
    };
    let unknown: Vec<_> = passed.iter().filter(|check| !told(check)).collect();
    assert!(unknown.is_empty(), "docs/clients.md does not say of {label}: {unknown:?}");
}

macro_rules! clients {
    ($($test:ident: $name:literal, $mode:ident, $engine:ident;)*) => {
        $(#[test]
        fn $test() {
            drive($name, Mode::$mode, $engine);
        })*
    };
}

// The smoke test of `make test`; `make proof` has the other clients.
clients! {
    pymongo_on_wired_tiger: "python", Plain, WIRED_TIGER;
}

mod proof {
    use fathom_testkit::test;

    use super::{Mode, ROCKSDB, WIRED_TIGER, drive};

    clients! {
        pymongo_on_rocksdb: "python", Plain, ROCKSDB;
        pymongo_with_users: "python", Auth, WIRED_TIGER;
        pymongo_over_tls: "python", Tls, WIRED_TIGER;
        pymongo_compressed: "python", Compression, WIRED_TIGER;
        node_on_wired_tiger: "node", Plain, WIRED_TIGER;
        node_on_rocksdb: "node", Plain, ROCKSDB;
        node_with_users: "node", Auth, ROCKSDB;
        node_over_tls: "node", Tls, ROCKSDB;
        node_compressed: "node", Compression, ROCKSDB;
        go_on_wired_tiger: "go", Plain, WIRED_TIGER;
        go_on_rocksdb: "go", Plain, ROCKSDB;
        go_with_users: "go", Auth, WIRED_TIGER;
        go_over_tls: "go", Tls, WIRED_TIGER;
        go_compressed: "go", Compression, WIRED_TIGER;
        go_of_version_1: "go", Old, WIRED_TIGER;
        java_on_wired_tiger: "java", Plain, WIRED_TIGER;
        java_on_rocksdb: "java", Plain, ROCKSDB;
        java_with_users: "java", Auth, ROCKSDB;
        java_over_tls: "java", Tls, ROCKSDB;
        java_compressed: "java", Compression, ROCKSDB;
        mongosh_on_wired_tiger: "mongosh", Plain, WIRED_TIGER;
        mongosh_on_rocksdb: "mongosh", Plain, ROCKSDB;
        mongosh_with_users: "mongosh", Auth, WIRED_TIGER;
        mongosh_over_tls: "mongosh", Tls, WIRED_TIGER;
    }
}

/// Starts FerretDB, another server, on any port; the test ends as skipped if it is not installed.
fn ferretdb(scratch: &Scratch) -> (RunningProgram, u16) {
    let ferretdb = client("ferretdb");
    let data = scratch.path().join("ferretdb");
    std::fs::create_dir(&data).unwrap();
    let mut server = Fathom::new(ferretdb.join("ferretdb")).arg(&data).current_dir(scratch.path()).spawn();
    if !server.wait_for_stdout("\n") {
        panic!("{:?}", server.wait());
    }
    let port = server.stdout().trim_end().parse().unwrap();
    (server, port)
}

/// `fathom ycsb` loads a server that is not ours.
#[test]
#[ignore = "FerretDB is installed for the long tests only: make soak"]
fn ycsb_on_ferretdb() {
    let scratch = Scratch::new().unwrap();
    let (_server, port) = ferretdb(&scratch);
    let workloads = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/");
    for (phase, workload) in
        [("load", "workloada"), ("run", "workloada"), ("run", "workloadc"), ("run", "workloadf")]
    {
        let file = format!("{workloads}{workload}");
        let url = format!("mongodb.url=mongodb://127.0.0.1:{port}/ycsb");
        let output = Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .args(["ycsb", phase, "mongodb", "--no-record", "-P", &file, "-p", &url, "-threads", "4"])
            .args(["-p", "recordcount=300", "-p", "operationcount=100"])
            .run()
            .expect_code(0);
        assert!(output.stdout.contains("Return=OK"), "{}", output.stdout);
    }
}

/// Runs the same program on FerretDB, another server: it lacks some features, and the list is only printed.
#[test]
#[ignore = "a comparison, not a test: make soak"]
fn pymongo_on_ferretdb() {
    let scratch = Scratch::new().unwrap();
    let (_server, port) = ferretdb(&scratch);
    let output = call("python", Mode::Plain, port, &scratch.path()).run();
    eprintln!("{}", output.stdout);
    let passed = output.stdout.lines().filter(|line| line.starts_with("ok ")).count();
    eprintln!("FerretDB: {passed} checks passed of {}", output.stdout.lines().count());
    assert!(passed > 20, "{}", output.stderr);
}
