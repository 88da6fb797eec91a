//! Tests the refusals of `fathom serve` to start: one clear sentence, the right exit code, nothing left behind.

use std::fs;
use std::net::TcpListener;

use fathom_testkit::{Fathom, Output, Scratch};
use rustix::process::Signal;

use crate::disk::assert_sentence;
use crate::serve_run::serve;

#[track_caller]
fn refused(output: Output, code: i32, words: &str) {
    let output = output.expect_code(code);
    assert_sentence(&output);
    assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
}

#[test]
fn nonsense_is_a_usage_error_before_anything_is_made() {
    let scratch = Scratch::new().unwrap();
    let db = scratch.path().join("db").display().to_string();
    let file = scratch.path().join("bad.yaml");
    fs::write(&file, "storage:\n  dbpath: /x\n").unwrap();
    let file = file.display().to_string();
    for (arguments, words) in [
        (vec!["--syncdelay", "-1"], "--syncdelay takes a number from 0"),
        (vec!["--storageEngine", "mmapv1"], "one of wiredTiger, rocksdb"),
        (vec!["--replSet", "/a,b"], "--replSet takes the name of a set"),
        (vec!["--shardsvr", "--configsvr"], "--shardsvr and --configsvr cannot both be given"),
        (vec!["--directoryperdb"], "all tables are in one directory"),
        (vec!["--timeZoneInfo", "/usr/share/zoneinfo"], "no time zones"),
        (vec!["--fork"], "--fork needs --logpath"),
        (
            vec!["--config", &file],
            "'storage.dbpath' is no option of fathom serve; did you mean 'storage.dbPath'?",
        ),
        (vec!["--setParameter", "nope=1"], "Unknown --setParameter 'nope'"),
        (vec!["--claimedVersion", "8.0"], "4.0, 4.2 or 4.4"),
        (vec!["--tlsMode", "requireTLS"], "--tlsCertificateKeyFile"),
        (vec!["--wiredTigerEngineConfigString", "nope=1"], "nope"),
        (vec!["--rocksdbConfigString", "nope=1", "--storageEngine", "rocksdb"], "nope"),
    ] {
        let output = serve(&["--dbpath", &db]).args(&arguments).run();
        refused(output, 2, words);
        assert!(!scratch.path().join("db").exists(), "{words}");
    }
    let typo = serve(&["--dbpth", &db]).run().expect_code(2);
    assert!(typo.stderr.contains("--dbpath"), "{}", typo.stderr);
}

#[test]
fn what_stands_in_the_way_is_named() {
    let scratch = Scratch::new().unwrap();
    let foreign = scratch.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("WiredTiger"), "a real mongod's").unwrap();
    let text = foreign.display().to_string();
    refused(serve(&["--dbpath", &text]).run(), 3, "did not make");
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);

    let file = format!("{text}/WiredTiger");
    refused(serve(&["--dbpath", &file]).run(), 3, "WiredTiger is not a directory");
    refused(serve(&["--dbpath", "/proc/nowhere"]).run(), 3, "/proc/nowhere");
    let missing = scratch.path().join("missing.yaml").display().to_string();
    refused(serve(&["--config", &missing]).run(), 3, "missing.yaml");
    let log = scratch.path().join("no/such/log").display().to_string();
    let fresh = scratch.path().join("fresh");
    let text = fresh.display().to_string();
    refused(serve(&["--dbpath", &text, "--logpath", &log]).run(), 3, "no/such/log");

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output =
        Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(["serve", "--dbpath", &text, "--port", &port]).run();
    refused(output, 3, "cannot listen on 127.0.0.1");
    assert!(!fresh.exists());

    let mut first = serve(&["--dbpath", &text, "--wiredTigerCacheSizeGB", "0.25"]).spawn();
    assert!(first.wait_for_stdout("Waiting for connections"));
    refused(
        serve(&["--dbpath", &text]).run(),
        3,
        &format!("in use by another server (process {})", first.pid()),
    );
    refused(serve(&["--dbpath", &text, "--storageEngine", "rocksdb"]).run(), 3, "in use");
    first.signal(Signal::TERM);
    first.wait().expect_code(0);
    refused(
        serve(&["--dbpath", &text, "--storageEngine", "rocksdb"]).run(),
        2,
        "made by the storage engine 'wiredTiger'",
    );
}
