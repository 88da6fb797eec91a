//! `cargo measure recordings [NAME=PROGRAM...]` measures the cost of reading recordings and logs: processor time and peak memory of this project's
//! decoder alone, of `fathom ftdc` and `fathom explain`, and of other readers. mprobe-diagnostics is built for it (bench/mprobe). The readers in Go are
//! not on the module proxy: a program that was built from their sources is named by an argument, and is run with the path of a recording. A missed
//! target is printed, but is not a failure.

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
const ROUNDS: usize = 3;
/// The bytes of the recordings that all readers read, and of the one for the decoder alone.
const COMPARED_BYTES: u64 = 25_000_000;
const DECODED_BYTES: u64 = 250_000_000;
/// Megabytes of recording a second and core that the decoder must reach, with the metrics of a judgement and with all, and its peak memory (issue 27,
/// section 1).
const MIN_JUDGED_MB_PER_S: f64 = 50.0;
const MIN_ALL_MB_PER_S: f64 = 20.0;
const MAX_DECODER_BYTES: u64 = 150 << 20;
/// Seconds of processor time, and peak memory, for a log of 1 GB.
const MAX_LOG_S: f64 = 20.0;
const MAX_LOG_BYTES: u64 = 100 << 20;
const LOG_BYTES: usize = 256 << 20;

/// The resources that a command used.
struct Cost {
    cpu_s: f64,
    peak_bytes: u64,
}

/// Copies of a recording, one directory each. Each counts as a separate server.
struct Corpus {
    name: &'static str,
    folder: PathBuf,
    servers: Vec<PathBuf>,
    bytes: u64,
}

impl Corpus {
    /// Copies a recording until the copies have `at_least` bytes.
    fn new(name: &'static str, source: &Path, folder: PathBuf, at_least: u64) -> Result<Corpus> {
        let mut corpus = Corpus { name, folder, servers: Vec::new(), bytes: 0 };
        while corpus.bytes < at_least {
            let server = corpus.folder.join(format!("server{:03}", corpus.servers.len()));
            let copied = copy_tree(source, &server)?;
            ensure!(copied > 0, "{} has no recording", source.display());
            corpus.bytes += copied;
            corpus.servers.push(server);
        }
        Ok(corpus)
    }
}

/// A program that reads recordings: one command for a whole corpus, or one for each server.
struct Reader {
    name: String,
    commands: Vec<Command>,
    costs: Vec<Cost>,
}

impl Reader {
    fn new(name: impl Into<String>, commands: Vec<Command>) -> Reader {
        Reader { name: name.into(), commands, costs: Vec::new() }
    }

    /// Runs it once, and keeps the cost unless it only warms the caches.
    fn run(&mut self, is_counted: bool) -> Result<()> {
        let mut cost = Cost { cpu_s: 0.0, peak_bytes: 0 };
        for command in &mut self.commands {
            let one = cost_of(command).with_context(|| self.name.clone())?;
            cost.cpu_s += one.cpu_s;
            cost.peak_bytes = cost.peak_bytes.max(one.peak_bytes);
        }
        note(&format!("{}: {:.2} s", self.name, cost.cpu_s));
        self.costs.extend(is_counted.then_some(cost));
        Ok(())
    }

    fn cpu_s(&self) -> Result<f64> {
        median(&self.costs.iter().map(|cost| cost.cpu_s).collect::<Vec<_>>()).context("no rounds")
    }

    fn peak_bytes(&self) -> u64 {
        self.costs.iter().map(|cost| cost.peak_bytes).max().unwrap_or(0)
    }
}

pub(crate) fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    let others = arguments.iter().map(|argument| {
        argument.split_once('=').with_context(|| format!("'{argument}' is not of the form NAME=PROGRAM"))
    });
    let others = others.collect::<Result<Vec<_>>>()?;
    let fathom = beside("fathom")?;
    let parent = std::env::var_os("BENCH_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let folder = tempfile::Builder::new().prefix("fathom-bench-").tempdir_in(&parent)?;
    let source = root.join("tests/fixtures/recordings/standalone-7.0.0");
    let decoder = build(
        &root.join("Cargo.toml"),
        &["--package", "fathom-monitor", "--example", "decode_recordings"],
        &parent.join("readers"),
    )?
    .join("examples/decode_recordings");
    decode(&decoder, &Corpus::new("standalone 7.0", &source, folder.path().join("long"), DECODED_BYTES)?)?;
    let recordings = std::env::var_os("FATHOM_RECORDINGS").map(PathBuf::from);
    match recordings.map(|folder| folder.join("cluster-8.0.12")).filter(|sharded| sharded.is_dir()) {
        Some(sharded) => {
            let copies = folder.path().join("sharded");
            decode(&decoder, &Corpus::new("sharded 8.0", &sharded, copies, COMPARED_BYTES)?)?;
        }
        None => {
            note("FATHOM_RECORDINGS names no folder with cluster-8.0.12, so the sharded files are left out")
        }
    }
    let corpus = Corpus::new("standalone 7.0", &source, folder.path().join("compared"), COMPARED_BYTES)?;
    let mprobe = build(&root.join("bench/mprobe/Cargo.toml"), &[], &parent.join("mprobe"));
    let mprobe = mprobe.map(|folder| folder.join("mprobe-reader"));
    compare(&fathom, &decoder, mprobe, &others, &corpus)?;
    log(&fathom, &folder)?;
    Ok(true)
}

/// Measures the decoder alone: each chunk becomes columns, which are dropped.
fn decode(decoder: &Path, corpus: &Corpus) -> Result<()> {
    for (metrics, target) in [("judged", MIN_JUDGED_MB_PER_S), ("all", MIN_ALL_MB_PER_S)] {
        let mut command = command(decoder, &[metrics], &corpus.folder);
        let counts = command.stdout(Stdio::piped()).output().context("cannot start the decoder")?;
        let counts = String::from_utf8_lossy(&counts.stdout).into_owned();
        let count = |number: usize| {
            let words = counts.split(", ").nth(number).and_then(|part| part.split(' ').next());
            words.and_then(|word| word.parse::<f64>().ok()).context("the decoder printed no counts")
        };
        command.stdout(Stdio::null());
        let mut reader = Reader::new(format!("decode {metrics}"), vec![command]);
        (0..ROUNDS).try_for_each(|_| reader.run(true))?;
        let (cpu_s, peak) = (reader.cpu_s()?, reader.peak_bytes());
        let mb_per_s = count(0)? / 1e6 / cpu_s;
        print(&format!(
            "recordings decode {metrics}, {}: {mb_per_s:.0} MB of recording, {:.0} MB inflated and {:.0} million values a second and core, {} MiB, \
             targets {target} MB and {} MiB: {}",
            corpus.name,
            count(1)? / 1e6 / cpu_s,
            count(2)? / 1e6 / cpu_s,
            peak >> 20,
            MAX_DECODER_BYTES >> 20,
            verdict(mb_per_s >= target && peak <= MAX_DECODER_BYTES)
        ))?;
    }
    Ok(())
}

/// Measures all readers in turn, as ratios to the decoder with all metrics.
fn compare(
    fathom: &Path,
    decoder: &Path,
    mprobe: Result<PathBuf>,
    others: &[(&str, &str)],
    corpus: &Corpus,
) -> Result<()> {
    let whole = |words: &[&str]| vec![command(fathom, words, &corpus.folder)];
    let each = |program: &Path| corpus.servers.iter().map(|server| command(program, &[], server)).collect();
    let mut readers = vec![
        Reader::new("decode all", vec![command(decoder, &["all"], &corpus.folder)]),
        Reader::new("ftdc metrics", whole(&["ftdc", "metrics", "--json"])),
        Reader::new("explain", whole(&["explain", "--json"])),
        Reader::new("ftdc info", whole(&["ftdc", "info", "--json"])),
    ];
    match mprobe {
        Ok(mprobe) => readers.push(Reader::new("mprobe", each(&mprobe))),
        Err(cause) => note(&format!("mprobe is left out: {cause:#}")),
    }
    readers.extend(others.iter().map(|(name, program)| Reader::new(*name, each(Path::new(program)))));
    for round in 0..=ROUNDS {
        readers.iter_mut().try_for_each(|reader| reader.run(round > 0))?;
    }
    let Some(decoder) = readers.first() else { return Ok(()) };
    for reader in &readers {
        let pairs = reader.costs.iter().zip(&decoder.costs);
        let ratios: Vec<f64> = pairs.map(|(one, decoder)| one.cpu_s / decoder.cpu_s).collect();
        print(&format!(
            "recordings {}: {:.2} ({}) of the decoder's processor time, {:.0} MB of recording a second and core, {} MiB",
            reader.name,
            median(&ratios).context("no rounds")?,
            span(&ratios),
            corpus.bytes as f64 / 1e6 / reader.cpu_s()?,
            reader.peak_bytes() >> 20
        ))?;
    }
    Ok(())
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
    print_log_cost("log", &mut command(fathom, &["explain", "--json", "--log"], &path), written)?;
    let archive = folder.path().join("logs.tar.gz");
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(&archive).arg("-C").arg(folder.path()).arg("mongod.log");
    ensure!(tar.status().context("cannot start tar")?.success(), "tar made no archive of the log");
    print_log_cost("log in a tar.gz", &mut command(fathom, &["explain", "--json"], &archive), written)
}

/// Measures a command that reads a log of so many bytes.
fn print_log_cost(name: &str, read: &mut Command, bytes: usize) -> Result<()> {
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        costs.push(cost_of(read)?);
    }
    let each_gb: Vec<f64> = costs.iter().map(|cost| cost.cpu_s * 1e9 / bytes as f64).collect();
    let (gb_s, peak) =
        (median(&each_gb).context("no rounds")?, costs.iter().map(|cost| cost.peak_bytes).max().unwrap_or(0));
    print(&format!(
        "recordings {name}: {gb_s:.1} s ({}) of one core for each GB, {} MiB, targets {MAX_LOG_S} s and {} MiB: {}",
        span(&each_gb),
        peak >> 20,
        MAX_LOG_BYTES >> 20,
        verdict(gb_s < MAX_LOG_S && peak < MAX_LOG_BYTES)
    ))
}

fn print(line: &str) -> Result<()> {
    writeln!(io::stdout(), "{line}").context("cannot print")
}

/// Says on the error stream how far the measurement is.
fn note(line: &str) {
    // A closed stream must not end the measurement.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Copies a directory with those below it, and returns the bytes of its files.
fn copy_tree(source: &Path, target: &Path) -> Result<u64> {
    fs::create_dir_all(target)?;
    let mut bytes = 0;
    for entry in fs::read_dir(source).with_context(|| format!("cannot read {}", source.display()))? {
        let entry = entry?;
        let target = target.join(entry.file_name());
        bytes += match entry.file_type()?.is_dir() {
            true => copy_tree(&entry.path(), &target)?,
            false => fs::copy(entry.path(), target)?,
        };
    }
    Ok(bytes)
}

/// Builds a reader of this or of another workspace, and returns the folder of its programs.
fn build(manifest: &Path, words: &[&str], target: &Path) -> Result<PathBuf> {
    note(&format!("building the reader of {}", manifest.display()));
    let status = Command::new("cargo")
        .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(manifest)
        .args(words)
        .env("CARGO_TARGET_DIR", target)
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the reader of {} was not built", manifest.display());
    Ok(target.join("release"))
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
