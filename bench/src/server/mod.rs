//! `cargo measure server`: measures the lab server's speed as ratios, each within one run of the bench.
//!
//! Point reads are compared with a responder that does no work, processor time with that of go-ycsb's own client, and
//! inserts with reads. Rates are compared in turns, so that a busy machine disturbs both; processor time per operation is
//! hardly disturbed. A missed target is printed, but is not a failure.

mod client;
mod options;
mod rows;

use std::path::PathBuf;

use anyhow::{Context, Result};
use fathom_process::Signals;

use crate::lab::{BenchServer, RESPOND, Ycsb, beside, respond};
use options::ServerBenchOptions;
use rows::ServerBench;

/// The name of this task.
const TASK: &str = "server";

/// Runs every row on the requested engines; returns `false` after a failure.
pub(crate) fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    if arguments.first().is_some_and(|argument| argument == RESPOND) {
        return respond(&client::document(1));
    }
    let options = ServerBenchOptions::read(arguments)?;
    let signals = Signals::install()?;
    let ycsb = Ycsb::find(&root, &signals)?;
    beside("fathom")?;
    let parent = options.dir.clone().unwrap_or_else(|| root.join("target"));
    std::fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
    for &engine in &options.engines {
        let folder = tempfile::Builder::new().prefix("fathom-bench-").tempdir_in(&parent)?;
        let flags = options.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let start = || BenchServer::start(engine, folder.path(), &flags, &signals);
        ServerBench::new(start()?, engine, &options, &ycsb, &signals).run(&start)?;
    }
    Ok(true)
}
