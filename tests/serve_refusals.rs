//! Tests the refusals of `fathom serve` to start: one clear sentence, the right exit code, nothing left behind.

use std::fs;
use std::net::TcpListener;

use fathom_testkit::{Fathom, RefusalList, Scratch};
use rustix::process::Signal;

use crate::disk::assert_sentence;
use crate::serve_run::serve;

/// A call with `-v` that is refused with this exit code and id, and with words that only this test knows.
#[track_caller]
fn refused(arguments: &[&str], code: i32, id: &str, words: &str) {
    let output = serve(arguments).arg("-v").run().expect_refusal(code, id);
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
    let mut refusals = RefusalList::new().hiding(scratch.path().display(), "DIR");
    for (arguments, id) in [
        (vec!["--syncdelay", "-1"], "usage"),
        (vec!["--storageEngine", "mmapv1"], "usage"),
        (vec!["--replSet", "/a,b"], "usage"),
        (vec!["--shardsvr", "--configsvr"], "usage"),
        (vec!["--directoryperdb"], "usage"),
        (vec!["--timeZoneInfo", "/usr/share/zoneinfo"], "usage"),
        (vec!["--fork"], "usage"),
        (vec!["--config", &file], "unknown-server-option"),
        (vec!["--setParameter", "nope=1"], "usage"),
        (vec!["--claimedVersion", "8.0"], "usage"),
        (vec!["--tlsMode", "requireTLS"], "usage"),
        (vec!["--wiredTigerEngineConfigString", "nope=1"], "usage"),
        (vec!["--rocksdbConfigString", "nope=1", "--storageEngine", "rocksdb"], "usage"),
    ] {
        let output = serve(&["--dbpath", &db]).args(&arguments).arg("-v").run();
        let output = refusals.expect(&arguments, output, 2, id);
        assert_sentence(&output);
        assert!(!scratch.path().join("db").exists(), "{arguments:?}");
    }
    insta::assert_snapshot!("serve_refusals", refusals.text());
    let typo = serve(&["--dbpth", &db, "-v"]).run().expect_refusal(2, "usage.unknown-argument");
    assert!(typo.stderr.contains("--dbpath"), "{}", typo.stderr);
}

#[test]
fn what_stands_in_the_way_is_named() {
    let scratch = Scratch::new().unwrap();
    let foreign = scratch.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("WiredTiger"), "a real mongod's").unwrap();
    let text = foreign.display().to_string();
    refused(&["--dbpath", &text], 3, "directory-not-ours", "did not make");
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);

    let file = format!("{text}/WiredTiger");
    refused(&["--dbpath", &file], 3, "not-a-directory", "WiredTiger");
    refused(&["--dbpath", "/proc/nowhere"], 3, "not-found", "/proc/nowhere");
    let missing = scratch.path().join("missing.yaml").display().to_string();
    refused(&["--config", &missing], 3, "not-found", "missing.yaml");
    let log = scratch.path().join("no/such/log").display().to_string();
    let fresh = scratch.path().join("fresh");
    let text = fresh.display().to_string();
    refused(&["--dbpath", &text, "--logpath", &log], 3, "not-found", "no/such/log");

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let call =
        Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(["serve", "-v", "--dbpath", &text, "--port", &port]);
    assert_sentence(&call.run().expect_refusal(3, "port-taken"));
    assert!(!fresh.exists());

    let mut first = serve(&["--dbpath", &text, "--wiredTigerCacheSizeGB", "0.25"]).spawn();
    assert!(first.wait_for_stdout("Waiting for connections"));
    refused(&["--dbpath", &text], 3, "dbpath-in-use", &format!("(process {})", first.pid()));
    refused(&["--dbpath", &text, "--storageEngine", "rocksdb"], 3, "dbpath-in-use", &text);
    first.signal(Signal::TERM);
    first.wait().expect_code(0);
    refused(&["--dbpath", &text, "--storageEngine", "rocksdb"], 2, "other-engine", "'wiredTiger'");
}
