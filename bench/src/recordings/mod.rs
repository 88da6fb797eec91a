//! `cargo measure recordings` measures the cost of reading recordings and logs: processor time and peak memory of `fathom ftdc` and `fathom explain`,
//! and of mprobe-diagnostics, which is built only for this (bench/mprobe). The two readers in Go are not on the module proxy; they were measured by
//! hand (docs/journal/2026-11-28-recordings.md). A missed target is printed, but is not a failure.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fathom_stats::median;
use tempfile::TempDir;

use crate::disk::status_number;
use crate::lab::{beside, cpu_of_children_s, span, verdict};

/// Rounds behind each figure; one more comes first and warms the caches.
const ROUNDS: usize = 5;
/// The number of copies of the recording; each counts as a separate server.
const COPIES: usize = 20;
/// Megabytes of recording a second and core, all metrics read (issue 27, section 1).
const MIN_MB_PER_S: f64 = 20.0;
/// Seconds of processor time, and peak memory, for a log of 1 GB.
const MAX_LOG_S: f64 = 20.0;
const MAX_LOG_BYTES: u64 = 100 << 20;
const LOG_BYTES: usize = 256 << 20;

/// The resources that a command used.
struct Cost {
    cpu_s: f64,
    peak_bytes: u64,
}

pub(crate) fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    ensure!(arguments.is_empty(), "recordings takes no arguments");
    let fathom = beside("fathom")?;
    let parent = std::env::var_os("BENCH_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let folder = tempfile::Builder::new().prefix("fathom-bench-").tempdir_in(&parent)?;
    let bytes = copy_recordings(&root, &folder)?;
    let mprobe = build_mprobe(&root, &parent)?;
    let recordings = folder.path().join("recordings");
    let one = recordings.join("server00");
    let readers: [(&str, Vec<Command>); 4] = [
        ("ftdc metrics", vec![command(&fathom, &["ftdc", "metrics", "--json"], &recordings)]),
        ("mprobe", servers(&recordings)?.iter().map(|server| command(&mprobe, &[], server)).collect()),
        ("explain", vec![command(&fathom, &["explain", "--json"], &recordings)]),
        ("ftdc info", vec![command(&fathom, &["ftdc", "info", "--json"], &recordings)]),
    ];
    ensure!(one.is_dir(), "no recording was copied");
    let costs = measured(readers)?;
    let all = &costs[0].1;
    for (name, cost) in &costs {
        let ratios: Vec<f64> = cost.iter().zip(all).map(|(one, all)| one.cpu_s / all.cpu_s).collect();
        let cpu_s = median(&cost.iter().map(|one| one.cpu_s).collect::<Vec<_>>()).context("no rounds")?;
        let mb_per_s = bytes as f64 / 1e6 / cpu_s;
        let peak = cost.iter().map(|one| one.peak_bytes).max().unwrap_or(0);
        let target = match *name {
            "ftdc metrics" => format!(", target {MIN_MB_PER_S}: {}", verdict(mb_per_s >= MIN_MB_PER_S)),
            _ => String::new(),
        };
        print(&format!(
            "recordings {name}: {:.2} ({}) of the processor time of ftdc metrics, {mb_per_s:.0} MB of recording a second and core, {} MiB{target}",
            median(&ratios).context("no rounds")?,
            span(&ratios),
            peak >> 20
        ))?;
    }
    log(&fathom, &folder)?;
    Ok(true)
}

/// Rounds of all commands in turn.
fn measured(readers: [(&'static str, Vec<Command>); 4]) -> Result<Vec<(&'static str, Vec<Cost>)>> {
    let mut readers = readers;
    let mut costs: Vec<(&str, Vec<Cost>)> = readers.iter().map(|(name, _)| (*name, Vec::new())).collect();
    for round in 0..=ROUNDS {
        for ((name, commands), (_, costs)) in readers.iter_mut().zip(&mut costs) {
            let mut cost = Cost { cpu_s: 0.0, peak_bytes: 0 };
            for command in commands {
                let one = cost_of(command).with_context(|| (*name).to_owned())?;
                cost.cpu_s += one.cpu_s;
                cost.peak_bytes = cost.peak_bytes.max(one.peak_bytes);
            }
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    Ok(costs)
}

/// Measures the cost of reading a log, for each GB of it.
fn log(fathom: &Path, folder: &TempDir) -> Result<()> {
    let path = folder.path().join("mongod.log");
    let line = r#"{"t":{"$date":"2026-11-28T05:18:12.034+00:00"},"s":"I","c":"COMMAND","id":51803,"ctx":"conn7","msg":"Slow query","attr":{"type":"command","ns":"shop.orders","appName":"web","command":{"find":"orders","filter":{"user":4711,"at":{"$gt":{"$date":"2026-01-01T00:00:00Z"}}},"sort":{"at":-1},"limit":20,"lsid":{"id":{"$uuid":"11111111-2222-3333-4444-555555555555"}},"$db":"shop"},"planSummary":"IXSCAN { user: 1 }","keysExamined":1200,"docsExamined":1200,"hasSortStage":true,"nreturned":20,"reslen":20480,"locks":{"Global":{"acquireCount":{"r":12}}},"storage":{"data":{"bytesRead":2328998,"timeReadingMicros":186017}},"cpuNanos":20987385,"remote":"10.0.0.7:47150","protocol":"op_msg","durationMillis":211}}"#;
    let other = r#"{"t":{"$date":"2026-11-28T05:18:12.034+00:00"},"s":"I","c":"NETWORK","id":22943,"ctx":"listener","msg":"Connection accepted","attr":{"remote":"10.0.0.7:47150","connectionId":7,"connectionCount":12}}"#;
    let block = format!("{line}\n{other}\n").repeat(1024);
    let mut file = io::BufWriter::new(fs::File::create(&path)?);
    let mut written = 0;
    while written < LOG_BYTES {
        file.write_all(block.as_bytes())?;
        written += block.len();
    }
    file.flush()?;
    let mut read = command(fathom, &["explain", "--json", "--log"], &path);
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        costs.push(cost_of(&mut read)?);
    }
    let each_gb: Vec<f64> = costs.iter().map(|cost| cost.cpu_s * 1e9 / written as f64).collect();
    let (gb_s, peak) =
        (median(&each_gb).context("no rounds")?, costs.iter().map(|cost| cost.peak_bytes).max().unwrap_or(0));
    print(&format!(
        "recordings log: {gb_s:.1} s ({}) of one core for each GB, {} MiB, targets {MAX_LOG_S} s and {} MiB: {}",
        span(&each_gb),
        peak >> 20,
        MAX_LOG_BYTES >> 20,
        verdict(gb_s < MAX_LOG_S && peak < MAX_LOG_BYTES)
    ))
}

fn print(line: &str) -> Result<()> {
    writeln!(io::stdout(), "{line}").context("cannot print")
}

/// Copies of a real recording, one directory each. Returns their bytes.
fn copy_recordings(root: &Path, folder: &TempDir) -> Result<u64> {
    let source = root.join("tests/fixtures/recordings/standalone-7.0.0");
    let mut bytes = 0;
    for number in 0..COPIES {
        let target = folder.path().join(format!("recordings/server{number:02}"));
        fs::create_dir_all(&target)?;
        for entry in fs::read_dir(&source).with_context(|| format!("cannot read {}", source.display()))? {
            let entry = entry?;
            bytes += fs::copy(entry.path(), target.join(entry.file_name()))?;
        }
    }
    Ok(bytes)
}

fn servers(recordings: &Path) -> Result<Vec<PathBuf>> {
    let mut servers = fs::read_dir(recordings)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    servers.sort();
    Ok(servers)
}

/// Builds the other reader.
fn build_mprobe(root: &Path, parent: &Path) -> Result<PathBuf> {
    let target = parent.join("mprobe");
    let status = Command::new("cargo")
        .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(root.join("bench/mprobe/Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "mprobe-reader was not built");
    Ok(target.join("release/mprobe-reader"))
}

fn command(program: &Path, words: &[&str], input: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(words).arg(input).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn cost_of(command: &mut Command) -> Result<Cost> {
    let before_s = cpu_of_children_s()?;
    let mut child = command.spawn().context("cannot start it")?;
    let mut peak = 0;
    let status = loop {
        peak = status_number(child.id(), "VmHWM:").map_or(peak, |kib| peak.max(kib << 10));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_millis(5));
    };
    // A judgement may have exit codes other than 0.
    match status.code() {
        Some(0 | 1 | 4) => Ok(Cost { cpu_s: cpu_of_children_s()? - before_s, peak_bytes: peak }),
        code => bail!("{command:?} ended with {code:?}"),
    }
}
