//! Helpers of the RocksDB engine's tests: an engine in a folder, and a child process that is killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fathom_engine::{Durability, Engine, Key, Session, Table};
use fathom_engine_rocks::{Options, RocksEngine};

/// The folder that a child process works in.
pub(crate) const CHILD_FOLDER: &str = "FATHOM_ROCKS_CHILD";

/// The defaults with a small cache.
pub(crate) fn options(folder: &Path) -> Options {
    Options::new(folder, 32 << 20)
}

pub(crate) fn open(folder: &Path) -> RocksEngine {
    RocksEngine::open(options(folder)).unwrap()
}

/// Puts `count` records of `bytes` that do not compress, numbered from 0, a thousand to a transaction.
pub(crate) fn fill(session: &dyn Session, table: &Table, count: i64, bytes: usize) {
    for thousand in 0..(count + 999) / 1000 {
        session.begin().unwrap();
        for number in thousand * 1000..count.min((thousand + 1) * 1000) {
            session.put(table, Key::Number(number), &noise(number, bytes)).unwrap();
        }
        session.commit(Durability::Buffered).unwrap();
    }
}

/// Bytes that depend on a seed and do not compress.
pub(crate) fn noise(seed: i64, bytes: usize) -> Vec<u8> {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};
    let mut out = vec![0; bytes];
    Xoshiro256PlusPlus::seed_from_u64(seed.cast_unsigned()).fill_bytes(&mut out);
    out
}

pub(crate) fn get(session: &dyn Session, table: &Table, key: Key<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    session.get(table, key, &mut out).unwrap().then_some(out)
}

pub(crate) fn count(session: &dyn Session, table: &Table) -> usize {
    let mut cursor = session.cursor(table).unwrap();
    let mut found = cursor.first().unwrap();
    let mut count = 0;
    while found {
        count += 1;
        found = cursor.next().unwrap();
    }
    count
}

/// Runs the ignored test `name` of this binary in a child process, which works in `folder`, until `enough` accepts the lines
/// that it printed; then kills it with SIGKILL. Returns all lines.
pub(crate) fn killed_child(
    name: &str,
    folder: &Path,
    mut enough: impl FnMut(&[String]) -> bool,
) -> Vec<String> {
    let mut child: Child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD_FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = Vec::new();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    while !enough(&lines) {
        match output.next() {
            Some(line) => lines.push(line.unwrap()),
            None => panic!("the child ended by itself: {:?} after {lines:?}", child.wait()),
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The lines that it printed before it died.
    lines.extend(output.map_while(Result::ok));
    lines
}

/// Waits until no dropped table takes space any more.
pub(crate) fn wait_for_drops(engine: &RocksEngine) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(300);
    while engine.unfinished_drops() > 0 {
        assert!(std::time::Instant::now() < patience, "the dropped tables were not reclaimed");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Bytes of all files below a folder.
pub(crate) fn bytes_below(folder: &Path) -> u64 {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => bytes_below(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Closes, and panics if that fails.
pub(crate) fn close(engine: &RocksEngine) {
    engine.close().unwrap();
}
