//! `cargo measure watch`: measures the cost of watching and judging.
//!
//! A loaded lab server is watched with all samplers at their default periods, which gives the processor time of the samplers
//! and the server's time for them. Then the run's second minute is repeated to an hour of samples, which is judged and made
//! a page, for time, memory and size. A missed target is printed, but is not a failure. `connections` in the command line selects the rows with
//! many connections alone, and numbers behind it their steps.

mod connections;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fathom_process::Signals;
use serde_json::Value;

use crate::disk::status_number;
use crate::lab::{BenchEngine, BenchServer, beside, verdict};

/// The targets of the watching's cost: of one core, and of a second of the server's time.
const MAX_CORE_SHARE: f64 = 0.01;
const MAX_SERVER_MS_PER_S: f64 = 1.0;
/// The targets of judging an hour.
const MAX_JUDGING_TIME: Duration = Duration::from_secs(2);
const MAX_BYTES: u64 = 300 << 20;
/// The targets of the page of an hour (issue 6, "It must show").
const MAX_PAGE_TIME: Duration = Duration::from_secs(1);
const MAX_PAGE_BYTES: u64 = 3_000_000;
/// The time for which the load is watched, and the length of the synthetic run.
const WATCHED_S: u64 = 60;
const HOUR_S: u64 = 3600;
const RECORDS: u64 = 50_000;

/// Runs all rows; `false` when something broke.
pub(crate) fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    let signals = Signals::install()?;
    let program = beside("fathom")?;
    let parent = std::env::var_os("BENCH_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let folder = tempfile::Builder::new().prefix("fathom-bench-").tempdir_in(&parent)?;
    let steps = connection_steps(arguments)?;
    let place = folder.path().join("connections");
    fs::create_dir(&place).with_context(|| format!("cannot make {}", place.display()))?;
    connections::run(&root, &program, &place, steps.as_deref().unwrap_or_default(), &signals)?;
    if steps.is_some() {
        return Ok(true);
    }
    for engine in BenchEngine::ALL {
        let place = folder.path().join(engine.name());
        fs::create_dir(&place).with_context(|| format!("cannot make {}", place.display()))?;
        let server = BenchServer::start(engine, &place, &[], &signals)?;
        let run = watched(&program, &server, &place)?;
        server.stop()?;
        show_cost(engine, &judged(&program, &run)?.0)?;
        if engine == BenchEngine::WiredTiger {
            let hour = an_hour(&run, &place.join("hour"))?;
            show_judging(&program, &hour)?;
            show_page(&program, &hour, &place.join("page.html"))?;
        }
    }
    Ok(true)
}

/// The numbers behind `connections`; `None` without that word.
fn connection_steps(arguments: &[String]) -> Result<Option<Vec<usize>>> {
    let Some((word, steps)) = arguments.split_first() else { return Ok(None) };
    ensure!(word == "connections", "watch takes 'connections' and numbers behind it, not '{word}'");
    let number =
        |step: &String| step.parse().with_context(|| format!("'{step}' is not a number of connections"));
    steps.iter().map(number).collect::<Result<_>>().map(Some)
}

/// Loads records and runs a calm workload with the samplers; returns the run folder.
fn watched(program: &Path, server: &BenchServer, place: &Path) -> Result<PathBuf> {
    let url = format!("mongodb.url=mongodb://127.0.0.1:{}/ycsb", server.port());
    let count = format!("recordcount={RECORDS}");
    let time = format!("maxexecutiontime={WATCHED_S}");
    let runs = place.join("runs");
    let common = ["-p", &url, "-p", &count, "-p", "workload=CoreWorkload", "-threads", "4"];
    ycsb(Command::new(program).args(["ycsb", "load", "mongodb"]).args(common).arg("--no-record"))?;
    let mut command = Command::new(program);
    command.args(["ycsb", "run", "mongodb"]).args(common).args(["-p", "operationcount=0", "-p", &time]);
    command.args(["-target", "1000", "-p", "readproportion=0.5", "-p", "updateproportion=0.5"]);
    ycsb(command.args(["--watch", "--runs"]).arg(&runs))?;
    let mut entries = fs::read_dir(&runs)?;
    Ok(entries.next().context("there is no run folder")??.path())
}

fn ycsb(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().context("cannot run fathom ycsb")?;
    ensure!(output.status.success(), "fathom ycsb failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The output of `fathom explain` on a run, its time, and its peak memory.
fn judged(program: &Path, run: &Path) -> Result<(Value, Duration, u64)> {
    let begun = Instant::now();
    let mut child = Command::new(program)
        .arg("explain")
        .arg(run)
        .arg("--json")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run fathom explain")?;
    let output = child.stdout.take().context("no output")?;
    let reader = std::thread::spawn(move || std::io::read_to_string(output));
    let mut peak_bytes = 0;
    let ended = loop {
        if let Some(kib) = status_number(child.id(), "VmHWM:") {
            peak_bytes = kib << 10;
        }
        if let Some(ended) = child.try_wait().context("cannot wait for it")? {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = begun.elapsed();
    let Ok(Ok(text)) = reader.join() else { bail!("its output could not be read") };
    ensure!(ended.code().is_some_and(|code| [0, 1, 4].contains(&code)), "fathom explain ended with {ended}");
    Ok((serde_json::from_str(&text)?, took, peak_bytes))
}

/// Writes the same run with a length of an hour: its readings are repeated at later times. They are lines, as of a run that was killed.
fn an_hour(run: &Path, hour: &Path) -> Result<PathBuf> {
    fs::create_dir_all(hour.join("latency"))?;
    for file in ["manifest.json", "results.jsonl"] {
        fs::copy(run.join(file), hour.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    let readings = fathom_record::Run::open(run)?.readings()?;
    let mut lines = std::io::BufWriter::new(fs::File::create(hour.join("series.jsonl"))?);
    for round in 0..HOUR_S / WATCHED_S {
        let later_ns = round * WATCHED_S * 1_000_000_000;
        for reading in readings.iter().filter(|reading| reading.end_ns <= WATCHED_S * 1_000_000_000) {
            let mut reading = reading.clone();
            (reading.begin_ns, reading.end_ns) = (reading.begin_ns + later_ns, reading.end_ns + later_ns);
            serde_json::to_writer(&mut lines, &reading)?;
            lines.write_all(b"\n")?;
        }
    }
    lines.flush()?;
    Ok(hour.to_owned())
}

fn show_cost(engine: BenchEngine, document: &Value) -> Result<()> {
    let cost = document.get("cost").context("explain told no cost")?;
    let figure = |name: &str| cost.get(name).and_then(Value::as_f64).with_context(|| format!("no {name}"));
    let (share, server_ms) = (figure("core_share")?, figure("server_ms_per_s")?);
    let mut out = std::io::stdout();
    writeln!(
        out,
        "watching {}: {:.2} % of one core ({}), {server_ms:.2} ms of server time a second ({})",
        engine.name(),
        100.0 * share,
        verdict(share < MAX_CORE_SHARE),
        verdict(server_ms < MAX_SERVER_MS_PER_S)
    )?;
    Ok(())
}

fn show_judging(program: &Path, hour: &Path) -> Result<()> {
    let mut out = std::io::stdout();
    for _ in 0..3 {
        let (_, took, peak_bytes) = judged(program, hour)?;
        writeln!(
            out,
            "judging an hour: {:.2} s ({}), {} MiB ({})",
            took.as_secs_f64(),
            verdict(took < MAX_JUDGING_TIME),
            peak_bytes >> 20,
            verdict(peak_bytes < MAX_BYTES)
        )?;
    }
    Ok(())
}

/// Measures the time of the page of an hour, with the start of the program, and its size.
fn show_page(program: &Path, hour: &Path, page: &Path) -> Result<()> {
    let mut out = std::io::stdout();
    for _ in 0..3 {
        let begun = Instant::now();
        let mut report = Command::new(program);
        report.arg("report").arg(hour).arg("--output").arg(page);
        let status = report.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        let took = begun.elapsed();
        ensure!(status.code().is_some_and(|code| code <= 1), "fathom report ended with {status}");
        let bytes = fs::metadata(page)?.len();
        writeln!(
            out,
            "the page of an hour: {:.2} s ({}), {} bytes ({})",
            took.as_secs_f64(),
            verdict(took < MAX_PAGE_TIME),
            bytes,
            verdict(bytes < MAX_PAGE_BYTES)
        )?;
    }
    Ok(())
}
