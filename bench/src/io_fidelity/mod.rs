//! `cargo measure io-fidelity`: runs on the lab server the two loads of a measured real mongod, and compares them by ratios.
//!
//! The reference is mongod 4.0.3 on an XFS loop device of 12 GiB under go-ycsb v1.0.1 with 16 threads (`rows` has its
//! figures). The same device, client, sizes and rate are used here, and the same counters: `/proc/diskstats` of the loop
//! device and the differences of `serverStatus`. RocksDB's figures under the same loads are printed next to them, and not compared.
//! Needs root, 12 GiB of room at most, and about seven minutes.

mod rows;
mod table;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fathom_process::{Ledger, Signals};
use fathom_storage::{Filesystem, FilesystemOptions, LoopDevice, LoopOptions, format_and_mount};
use fathom_units::Bytes;

use crate::lab::{BenchEngine, BenchServer, DeviceTotals, ProcessBytes, Ycsb, number};
use rows::LoadPhase;

/// Documents that are loaded, of 10 fields of 100 random bytes.
const DOCUMENTS: u64 = 300_000;
/// Operations of workload A, half of them updates, at a held rate.
const OPERATIONS: u64 = 260_000;
const RATE_PER_S: u64 = 2000;
const DEVICE: Bytes = Bytes::gib(12);

/// The figures of one engine under both loads.
pub(crate) struct FidelityFigures {
    engine: BenchEngine,
    load: LoadPhase,
    update: LoadPhase,
}

/// Runs both loads on the engines that are asked for (all, or those named) and prints the table.
pub(crate) fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    let (mut engines, mut flags) = (Vec::new(), Vec::new());
    for argument in arguments {
        match BenchEngine::ALL.into_iter().find(|engine| engine.name() == argument) {
            Some(engine) => engines.push(engine),
            None if argument.starts_with("--") => flags.push(argument.as_str()),
            None => bail!(
                "io-fidelity takes wiredTiger, rocksdb and flags for the server (--x=y), not '{argument}'"
            ),
        }
    }
    if engines.is_empty() {
        engines.extend(BenchEngine::ALL);
    }
    let signals = Signals::install()?;
    let ycsb = Ycsb::find(&root, &signals)?;
    let ledger = Ledger::open()?;
    let parent = std::env::var_os("BENCH_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    std::fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let mut all = Vec::new();
    for engine in engines {
        all.push(measure(engine, &flags, &parent, &ledger, &ycsb, &signals)?);
    }
    write!(io::stdout(), "{}", table::text(&all))?;
    Ok(true)
}

/// Measures one engine on its own device, which is removed afterwards.
fn measure(
    engine: BenchEngine,
    flags: &[&str],
    parent: &Path,
    ledger: &Ledger,
    ycsb: &Ycsb,
    signals: &Signals,
) -> Result<FidelityFigures> {
    // `BENCH_LOOP=buffered` sends the device's requests through the page cache: they may then be larger.
    let direct_io = std::env::var_os("BENCH_LOOP").is_none_or(|how| how != "buffered");
    let device =
        LoopDevice::create(ledger, parent, DEVICE, LoopOptions { direct_io, ..LoopOptions::default() })?;
    let disk = format_and_mount(ledger, &device, Filesystem::Xfs, &FilesystemOptions::default())?;
    let mut all = vec!["--wiredTigerCacheSizeGB=1", "--rocksdbCacheSizeGB=1"];
    all.extend(flags);
    let mut server = BenchServer::start(engine, disk.path(), &all, signals)?;
    let name = device.name();
    let load = phase(&mut server, &name, ycsb, "load", &load_settings())?;
    say(&format!("{}: loaded in {:.1} s", engine.name(), load.seconds))?;
    let update = phase(&mut server, &name, ycsb, "run", &update_settings())?;
    say(&format!("{}: workload A took {:.1} s", engine.name(), update.seconds))?;
    server.stop()?;
    disk.undo()?;
    device.undo()?;
    Ok(FidelityFigures { engine, load, update })
}

fn load_settings() -> Vec<(&'static str, String)> {
    vec![("recordcount", DOCUMENTS.to_string())]
}

fn update_settings() -> Vec<(&'static str, String)> {
    let mut settings = load_settings();
    settings.extend([
        ("operationcount", OPERATIONS.to_string()),
        ("target", RATE_PER_S.to_string()),
        ("requestdistribution", "uniform".to_owned()),
        ("readproportion", "0.5".to_owned()),
        ("updateproportion", "0.5".to_owned()),
        ("scanproportion", "0".to_owned()),
        ("insertproportion", "0".to_owned()),
    ]);
    settings
}

/// Runs one load and takes the differences of all counters.
fn phase(
    server: &mut BenchServer,
    device: &str,
    ycsb: &Ycsb,
    what: &str,
    settings: &[(&str, String)],
) -> Result<LoadPhase> {
    let (io, disk, before) =
        (ProcessBytes::read(server.pid())?, DeviceTotals::read(device)?, server.status()?);
    let begun = Instant::now();
    ycsb.run(what, server.port(), settings, &mut || Ok(()))?;
    let (seconds, after) = (begun.elapsed().as_secs_f64(), server.status()?);
    let disk = DeviceTotals::read(device)?.since(disk);
    let written_bytes = ProcessBytes::read(server.pid())?.written_bytes.saturating_sub(io.written_bytes);
    let writes = |status| -> Option<f64> {
        Some(number(status, &["opcounters", "insert"])? + number(status, &["opcounters", "update"])?)
    };
    let writes = writes(&after).zip(writes(&before)).map(|(a, b)| a - b).context("no opcounters")?;
    if writes < 1.0 {
        bail!("nothing was written in {what}");
    }
    Ok(LoadPhase { seconds, writes, disk, process_written_bytes: written_bytes, before, after })
}

fn say(text: &str) -> Result<()> {
    Ok(writeln!(io::stderr(), "{text}")?)
}
