//! Tests that `fathom serve` records itself in `diagnostic.data` as mongod does, and that the readers of such recordings accept it.

use std::path::Path;
use std::time::{Duration, Instant};

use bson::doc;
use fathom_client::Connection;
use fathom_testkit::{Fathom, RunningProgram, Scratch, TIMEOUT, assert, assert_eq, test};
use rustix::process::Signal;

use crate::serve_run::{connect, port_in, run, serve};

/// A server that takes ten samples a second, once clients may connect.
fn start(db: &str, more: &[&str]) -> (RunningProgram, Connection) {
    let fast = ["--dbpath", db, "--setParameter", "diagnosticDataCollectionPeriodMillis=100"];
    let mut running = serve(&fast).args(more).args(["--wiredTigerCacheSizeGB", "0.25"]).spawn();
    assert!(running.wait_for_stdout("Waiting for connections"), "{}", running.stdout());
    let connection = connect(port_in(&running.stdout()));
    (running, connection)
}

/// Inserts until a file exists whose content is not `old`, that of an earlier process.
fn work_until(connection: &mut Connection, file: &Path, old: &[u8]) {
    let begun = Instant::now();
    while std::fs::read(file).map_or(true, |content| content == old) {
        assert!(begun.elapsed() < TIMEOUT, "{} does not come", file.display());
        run(connection, &doc! { "insert": "c", "documents": [{ "a": 1 }] });
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn fathom(arguments: &[&str], folder: &Path) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(arguments).arg(folder)
}

#[test]
fn a_recording_survives_a_kill_and_is_read_back() {
    let scratch = Scratch::new().unwrap();
    let db = scratch.path().join("db");
    let folder = db.join("diagnostic.data");
    let path = db.display().to_string();
    let interim = folder.join("metrics.interim");
    let (running, mut connection) = start(&path, &[]);
    work_until(&mut connection, &interim, &[]);
    running.signal(Signal::KILL);
    running.wait();
    let old = std::fs::read(&interim).unwrap();
    let killed = fathom(&["ftdc", "info", "--json"], &folder).run().expect_code(0).json();
    let before = killed["servers"][0]["samples"].as_u64().unwrap();
    assert!(before >= 10, "{killed:#}");
    // The next process takes over what the interim file held, and writes its own samples at its end.
    let (running, mut connection) = start(&path, &[]);
    work_until(&mut connection, &interim, &old);
    running.signal(Signal::TERM);
    assert_eq!(running.wait().code, 0);
    assert!(!interim.exists());
    let whole = fathom(&["ftdc", "info", "--json"], &folder).run().expect_code(0).json();
    let server = &whole["servers"][0];
    assert!(server["samples"].as_u64().unwrap() >= before + 10, "{whole:#}");
    assert_eq!(server["restarts"].as_array().unwrap().len(), 1, "{whole:#}");
    assert_eq!((&server["repeated_samples"], &server["facts"]["process"]), (&0.into(), &"mongod".into()));
    let export = ["ftdc", "export", "--metric", "serverStatus.opcounters.insert"];
    let inserts = fathom(&export, &folder).run().expect_code(0).stdout;
    assert!(inserts.lines().count() >= 21, "{inserts}");
    let judged = fathom(&["explain", "--json"], &folder).run();
    assert!(matches!(judged.code, 0 | 1 | 4), "{judged:?}");
    assert!(judged.json()["servers"][0]["judgement"]["operations"].is_number());
}

#[test]
fn it_is_switched_off_by_its_parameter() {
    let scratch = Scratch::new().unwrap();
    let db = scratch.path().join("db");
    let (running, mut connection) =
        start(&db.display().to_string(), &["--setParameter", "diagnosticDataCollectionEnabled=false"]);
    let read = run(&mut connection, &doc! { "getParameter": 1, "diagnosticDataCollectionEnabled": 1 });
    assert!(!read.get_bool("diagnosticDataCollectionEnabled").unwrap());
    std::thread::sleep(Duration::from_millis(500));
    assert!(!db.join("diagnostic.data").exists());
    run(&mut connection, &doc! { "setParameter": 1, "diagnosticDataCollectionEnabled": true });
    work_until(&mut connection, &db.join("diagnostic.data/metrics.interim"), &[]);
    running.signal(Signal::TERM);
    assert_eq!(running.wait().code, 0);
}
