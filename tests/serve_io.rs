//! Tests the lab server's disk I/O and its timing, as far as a test of seconds can; `cargo measure io-fidelity` does the
//! rest.

use std::thread;
use std::time::{Duration, Instant};

use bson::{RawDocument, doc};
use fathom_client::Connection;
use fathom_testkit::{LabServer, Scratch, TIMEOUT};

use crate::proof::serve_durability::{PROGRAM, run};

/// Checkpoints that WiredTiger has made by its own count.
fn checkpoints(connection: &mut Connection) -> i64 {
    let status = connection.run("admin", &doc! { "serverStatus": 1 }).unwrap();
    number(&status, &["wiredTiger", "transaction", "transaction checkpoints"])
}

fn number(document: &RawDocument, path: &[&str]) -> i64 {
    let [name, rest @ ..] = path else { panic!("no path") };
    if rest.is_empty() {
        let value = document.get(*name).unwrap().unwrap_or_else(|| panic!("no {name} in {document:?}"));
        return value.as_i64().or(value.as_i32().map(i64::from)).unwrap();
    }
    number(document.get_document(*name).unwrap(), rest)
}

/// Writes for a while, so that checkpoints have work; returns the number of checkpoints.
fn checkpoints_in(connection: &mut Connection, time: Duration) -> i64 {
    let before = checkpoints(connection);
    let begun = Instant::now();
    while begun.elapsed() < time {
        run(connection, doc! { "insert": "c", "documents": [{ "v": 1 }] });
        thread::sleep(Duration::from_millis(50));
    }
    checkpoints(connection) - before
}

#[test]
fn the_interval_of_checkpoints_changes_at_run_time() {
    let scratch = Scratch::new().unwrap();
    let server = LabServer::start(PROGRAM, "wiredTiger", &scratch.path().join("db"), &[]).unwrap();
    let mut connection = server.connect().unwrap();
    let set = |connection: &mut Connection, seconds: i32, was: f64| {
        let reply = connection.run("admin", &doc! { "setParameter": 1, "syncdelay": seconds }).unwrap();
        assert_eq!(number_or_float(&reply, "was"), was, "{reply:?}");
    };
    set(&mut connection, 3600, 60.0);
    // With an hour between them, no checkpoint occurs in the first seconds.
    assert_eq!(checkpoints_in(&mut connection, Duration::from_secs(6)), 0);
    set(&mut connection, 5, 3600.0);
    // Each begins 5 s after the last one's end; with an hour between them no second one occurs.
    let begun = Instant::now();
    let mut made = 0;
    while made < 2 && begun.elapsed() < TIMEOUT {
        made += checkpoints_in(&mut connection, Duration::from_millis(500));
    }
    let elapsed_s = begun.elapsed().as_secs_f64();
    assert!(made >= 2 && elapsed_s > 5.0, "{made} checkpoints in {elapsed_s:.1} s at one each 5 s");
    server.stop().expect_code(0);
}

fn number_or_float(document: &RawDocument, name: &str) -> f64 {
    let value = document.get(name).unwrap().unwrap();
    value.as_f64().or(value.as_i32().map(f64::from)).or(value.as_i64().map(|v| v as f64)).unwrap()
}
