//! Crash test: after a writing process is killed, everything that it reported as durable exists, and no transaction is partial.
//!

//! The test starts itself again as the child that writes and is killed.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fathom_engine::{Durability, Engine, Key, Kind, Session, Table, TableSpec};
use fathom_engine_wt::{Options, WiredTiger};

const CHILD: &str = "FATHOM_WT_CRASH_CHILD";

fn options(dir: &Path) -> Options {
    Options { cache_bytes: 64 << 20, session_max: 500, ..Options::new(dir) }
}

/// A value that identifies the transaction that wrote it, and whose length depends on it.
fn value(number: i64) -> Vec<u8> {
    let length = 100 + (number as usize * 37) % 900;
    number.to_le_bytes().iter().copied().cycle().take(length).collect()
}

/// Writes pairs of records, one in each of two tables, until it is killed; prints numbers once they are durable.
fn write_until_killed(dir: &Path, durability: Durability) {
    let engine = Arc::new(WiredTiger::open(options(dir)).unwrap());
    let open = |ident: &str, spec: &TableSpec| {
        engine.open_table(ident).or_else(|_| engine.create_table(ident, spec)).unwrap()
    };
    let (records, index) = (open("records", &TableSpec::records()), open("index", &TableSpec::index()));
    let last = Arc::new(AtomicI64::new(-1));
    if durability == Durability::Buffered {
        let (engine, last) = (Arc::clone(&engine), Arc::clone(&last));
        thread::spawn(move || {
            loop {
                let reached = last.load(Ordering::Acquire);
                engine.flush_journal().unwrap();
                say(reached);
                thread::sleep(Duration::from_millis(1));
            }
        });
    }
    {
        // Checkpoints under load, as mongod makes them, only more often.
        let engine = Arc::clone(&engine);
        thread::spawn(move || {
            loop {
                engine.checkpoint().unwrap();
                thread::sleep(Duration::from_millis(50));
            }
        });
    }
    let session = engine.session().unwrap();
    let start = newest(&*session, &records) + 1;
    for number in start.. {
        session.begin().unwrap();
        session.insert(&records, Key::Number(number), &value(number)).unwrap();
        session.put(&index, Key::Bytes(&number.to_be_bytes()), b"").unwrap();
        session.commit(durability).unwrap();
        last.store(number, Ordering::Release);
        if durability == Durability::Durable {
            say(number);
        }
    }
}

fn say(number: i64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "durable {number}").unwrap();
    out.flush().unwrap();
}

fn newest(session: &dyn Session, records: &Table) -> i64 {
    let mut cursor = session.cursor(records).unwrap();
    if cursor.last().unwrap() { cursor.key().number().unwrap() } else { -1 }
}

fn start(dir: &Path, how: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "crash::helper_process", "--ignored", "--nocapture", "--test-threads", "1"])
        .env(CHILD, format!("{how}:{}", dir.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Not a test by itself: the child runs it.
#[test]
#[ignore = "the helper process of the other tests here"]
fn helper_process() {
    let job = env::var(CHILD).expect("only another test runs this");
    let (how, dir) = job.split_once(':').unwrap();
    let durability = if how == "durable" { Durability::Durable } else { Durability::Buffered };
    write_until_killed(Path::new(dir), durability);
}

fn rounds(how: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut promised = -1;
    for round in 0..4 {
        let mut child = start(dir.path(), how);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let end = Instant::now() + Duration::from_millis(200 + 100 * round);
        let mut acknowledged = 0;
        let mut read = |line: &str| {
            if let Some(number) = line.strip_prefix("durable ") {
                promised = promised.max(number.parse().unwrap());
                return 1;
            }
            0
        };
        while Instant::now() < end || acknowledged < 20 {
            acknowledged += read(&lines.next().unwrap().unwrap());
        }
        let busy = WiredTiger::open(options(dir.path())).unwrap_err();
        assert_eq!(busy.kind(), Kind::Busy, "the other process has it: {busy}");
        child.kill().unwrap();
        child.wait().unwrap();
        lines.map_while(Result::ok).for_each(|line| {
            read(&line);
        });

        let engine = WiredTiger::open(options(dir.path())).unwrap();
        let (records, index) = (engine.open_table("records").unwrap(), engine.open_table("index").unwrap());
        let session = engine.session().unwrap();
        let newest = newest(&*session, &records);
        assert!(newest >= promised, "{promised} was durable, and {newest} is the newest that is there");
        let mut cursor = session.cursor(&records).unwrap();
        let mut entries = session.cursor(&index).unwrap();
        for number in 0..=newest {
            assert!(if number == 0 { cursor.first() } else { cursor.next() }.unwrap());
            assert!(if number == 0 { entries.first() } else { entries.next() }.unwrap());
            assert_eq!(cursor.key(), Key::Number(number), "a hole in the order of commits");
            assert_eq!(cursor.value(), value(number));
            assert_eq!(entries.key(), Key::Bytes(&number.to_be_bytes()), "half of a transaction");
        }
        assert!(!entries.next().unwrap());
        drop((cursor, entries));
        drop(session);
        engine.close().unwrap();
        println!("{how}, round {round}: {promised} promised, {newest} there");
    }
}

#[test]
fn what_a_flush_made_durable_survives_a_kill() {
    rounds("flushed");
}

#[test]
fn what_a_commit_made_durable_survives_a_kill() {
    rounds("durable");
}
