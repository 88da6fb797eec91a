//! `cargo measure load`: measures the cost of the load generator as ratios, each within one run of the bench.
//!
//! A loop that only writes and reads the same bytes shows how much of a processor's capacity is left. go-ycsb's client and
//! the server's own cost show whether the client can be the limit. A missed target is printed, but is not a failure.

mod bare_loop;
mod rows;

use std::path::PathBuf;

use anyhow::{Context, Result};
use fathom_process::Signals;

use crate::lab::{BenchEngine, BenchServer, RESPOND, Ycsb, beside, respond};
use rows::{LoadBench, recording};

/// The name of this task.
const TASK: &str = "load";

/// Runs every row, or those that are named; `false` when something broke.
pub(crate) fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    if arguments.first().is_some_and(|argument| argument == RESPOND) {
        return respond(&record());
    }
    let signals = Signals::install()?;
    let wants = |row: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == row);
    let program = beside("fathom")?;
    if wants("recording") {
        recording()?;
    }
    let mut bench = LoadBench::new(program, &signals)?;
    if wants("ceiling") {
        bench.ceiling()?;
    }
    if wants("memory") {
        bench.memory()?;
    }
    if wants("cpu") || wants("driver") || wants("reads") {
        let ycsb = if wants("cpu") { Some(Ycsb::find(&root, &signals)?) } else { None };
        let parent = std::env::var_os("BENCH_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        std::fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let folder = tempfile::Builder::new().prefix("fathom-bench-").tempdir_in(&parent)?;
        let start = || BenchServer::start(BenchEngine::WiredTiger, folder.path(), &[], &signals);
        let mut server = start()?;
        bench.load(&server)?;
        if let Some(ycsb) = &ycsb {
            bench.cpu(&server, ycsb)?;
        }
        if wants("driver") {
            bench.driver(&server)?;
        }
        if wants("reads") {
            // Pages that were written and read again, not the lists of what was just inserted.
            server.stop()?;
            server = start()?;
            bench.reads(&server)?;
        }
        server.stop()?;
    }
    Ok(true)
}

/// A record of YCSB's default shape, as `find` returns it.
fn record() -> bson::RawDocumentBuf {
    let mut document = bson::rawdoc! { "_id": "user6284781860667377211" };
    for number in [1, 0, 7, 6, 9, 8, 3, 2, 5, 4] {
        let Ok(name) = bson::raw::CString::try_from(format!("field{number}")) else { continue };
        let bytes = vec![b'x'; 100];
        document.append(name, bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes });
    }
    document
}
