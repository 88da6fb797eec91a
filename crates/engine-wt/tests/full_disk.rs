//! Tests with a disk that fills up: the engine stops with an error, and acknowledged data is readable once there is space again.
//!

//! A child process writes, as a server would: the resources of a stopped library are freed with its process.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use fathom_engine::{Durability, Engine, Key, Kind, TableSpec};
use fathom_engine_wt::{Options, WiredTiger};
use fathom_testkit::{Bytes, Tmpfs, assert, assert_eq, test};

const CHILD: &str = "FATHOM_WT_FULL_DISK_CHILD";

fn options(dir: &Path) -> Options {
    // Small journal files, so that the small disk is filled by data and not by their preallocation.
    let config = "log=(file_max=1MB)".to_owned();
    Options { cache_bytes: 32 << 20, session_max: 100, config, ..Options::new(dir) }
}

fn value(number: i64) -> Vec<u8> {
    // Does not compress.
    let mut state = number as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..2000).map(|_| next()).collect()
}

/// Writes until it fails; prints the last acknowledged number, and the kinds of the first and of later errors.
fn fill(dir: &Path, checkpoints: bool) {
    let engine = WiredTiger::open(options(dir)).unwrap();
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    let session = engine.session().unwrap();
    let mut acknowledged = -1;
    let first = loop {
        let number = acknowledged + 1;
        let step = || {
            session.begin()?;
            session.insert(&table, Key::Number(number), &value(number))?;
            session.commit(Durability::Durable)?;
            if checkpoints && number % 500 == 499 { engine.checkpoint() } else { Ok(()) }
        };
        match step() {
            Ok(()) => acknowledged = number,
            Err(error) => break error,
        }
    };
    // A new line, since the test harness has written to the current one.
    println!("\nacknowledged {acknowledged}");
    println!("first {:?} {first}", first.kind());
    session.rollback();
    for kind in [
        session.begin().unwrap_err().kind(),
        session.put(&table, Key::Number(-1), b"").unwrap_err().kind(),
        session.get(&table, Key::Number(0), &mut Vec::new()).unwrap_err().kind(),
        session.cursor(&table).err().unwrap().kind(),
        engine.flush_journal().unwrap_err().kind(),
        engine.checkpoint().unwrap_err().kind(),
        engine.statistics().unwrap_err().kind(),
        engine.create_table("u", &TableSpec::index()).unwrap_err().kind(),
        engine.session().err().unwrap().kind(),
    ] {
        assert_eq!(kind, Kind::Stopped);
    }
    session.release(None);
    drop(session);
    assert_eq!(engine.close().unwrap_err().kind(), Kind::Stopped);
    println!("closed");
}

/// Not a test by itself: the child runs it.
#[test]
#[ignore = "the helper process of the other tests here"]
fn helper_process() {
    let job = env::var(CHILD).expect("only another test runs this");
    let (how, dir) = job.split_once(':').unwrap();
    fill(Path::new(dir), how == "checkpoints");
}

fn fills_up(how: &str) {
    let disk = Tmpfs::new(Bytes(24 << 20));
    let dir = disk.path().join("data");
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "full_disk::helper_process", "--ignored", "--nocapture", "--test-threads", "1"])
        .env(CHILD, format!("{how}:{}", dir.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    println!("{how}: {said}");
    assert!(child.status.success(), "{said}\n{errors}");
    assert!(said.contains("\nclosed"), "{said}");
    let line =
        |start: &str| said.lines().find_map(|line| line.strip_prefix(start).map(str::to_owned)).unwrap();
    let acknowledged: i64 = line("acknowledged ").parse().unwrap();
    assert!(acknowledged > 1000, "{said}");
    let first = line("first ");
    assert!(first.starts_with("NoSpace ") && first.contains("free some space"), "{first}");

    // Space is available again: the same files on a larger disk.
    let room = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(&dir).arg(room.path()).status().unwrap();
    assert!(copied.success());
    let engine = WiredTiger::open(options(&room.path().join("data"))).unwrap();
    let table = engine.open_table("t").unwrap();
    let session = engine.session().unwrap();
    let mut out = Vec::new();
    for number in 0..=acknowledged {
        out.clear();
        assert!(
            session.get(&table, Key::Number(number), &mut out).unwrap(),
            "{number} of {acknowledged} is lost"
        );
        assert!(out == value(number), "{number} has another value");
    }
    session.put(&table, Key::Number(-1), b"goes on").unwrap();
    drop(session);
    engine.close().unwrap();
}

#[test]
fn by_the_journal() {
    fills_up("journal");
}

#[test]
fn under_checkpoints() {
    fills_up("checkpoints");
}
