//! The rows of the bench: the comparison of each, and the target for its ratio (issue 4, "It must show").

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fathom_load::measurements::{OperationMeasurements, Status};
use fathom_process::Signals;
use fathom_stats::{SeededRandom, median};
use fathom_units::count;

use super::TASK;
use super::bare_loop::{self, BareLoopResult};
use crate::lab::{BenchServer, Responder, Ycsb, cpu_of_children_s, cpu_s, resident_bytes, span, verdict};

/// The least ratio of the rate to the bare loop's.
const CEILING_TARGET: f64 = 0.8;
const CEILING_CONNECTIONS: usize = 32;
/// The most processor time per operation as a ratio to go-ycsb's, and the aim.
const CPU_TARGET: f64 = 0.25;
/// The number of connections in the memory row.
const MEMORY_CONNECTIONS: u64 = 1024;
const MEMORY_TARGET_MIB: f64 = 100.0;
const RECORDING_TARGET_NS: f64 = 100.0;
/// The least ratio of the server's rate of point reads to the responder's (issue 3, "Speed").
const READ_TARGET: f64 = 0.5;
const RECORDS: u64 = 200_000;
const OPERATIONS: u64 = 200_000;
const ROUNDS: usize = 5;

/// The cost of measuring one operation: the recording of both its latencies.
pub(super) fn recording() -> Result<()> {
    let mut random = SeededRandom::from_seed(1);
    let latencies: Vec<u64> = (0..4096).map(|_| 20_000 + random.exponential(200_000.0) as u64).collect();
    let mut each = Vec::new();
    for _ in 0..ROUNDS {
        let mut measured = OperationMeasurements::default();
        let begun = Instant::now();
        let turns = 500;
        for _ in 0..turns {
            for latency in &latencies {
                measured.record(Status::Ok, *latency, *latency + 1000);
            }
        }
        ensure!(measured.returned(Status::Ok) == turns * 4096, "not all was recorded");
        each.push(begun.elapsed().as_nanos() as f64 / (turns * 4096) as f64);
    }
    let ns = median(&each).context("no rounds")?;
    say(&format!(
        "recording {ns:.0} ns an operation, both clocks, target {RECORDING_TARGET_NS}: {}",
        verdict(ns <= RECORDING_TARGET_NS)
    ))
}

/// The bench with its responder.
pub(super) struct LoadBench<'a> {
    program: PathBuf,
    signals: &'a Signals,
    responder: Responder,
}

impl<'a> LoadBench<'a> {
    pub(super) fn new(program: PathBuf, signals: &'a Signals) -> Result<Self> {
        Ok(LoadBench { program, signals, responder: Responder::start(TASK)? })
    }

    /// Runs `fathom ycsb` with these properties; returns its processor time and its output.
    fn fathom(&self, what: &str, pinned: bool, properties: &[(&str, String)]) -> Result<(f64, String)> {
        self.fathom_by("own", what, pinned, properties)
    }

    /// The same through this `--driver`.
    fn fathom_by(
        &self,
        driver: &str,
        what: &str,
        pinned: bool,
        properties: &[(&str, String)],
    ) -> Result<(f64, String)> {
        ensure!(!self.signals.stopped(), "interrupted");
        let mut command = if pinned { Command::new("taskset") } else { Command::new(&self.program) };
        if pinned {
            command.args(["-c", "0"]).arg(&self.program);
        }
        command.args(["ycsb", what, "mongodb", "--no-record", "--driver", driver]);
        command.args(["-p", "workload=CoreWorkload"]);
        for (name, value) in properties {
            command.args(["-p", &format!("{name}={value}")]);
        }
        let before_s = cpu_of_children_s()?;
        let output = command.stdin(Stdio::null()).output().context("cannot start fathom")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!("fathom ycsb failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok((cpu_of_children_s()? - before_s, said))
    }

    /// The rate on one processor compared with the bare loop's, against the responder on another.
    pub(super) fn ceiling(&mut self) -> Result<()> {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            return say("ceiling: skipped: it needs a processor for the client and one for the responder");
        }
        self.responder.pin(1)?;
        let port = self.responder.port();
        let (mut ratios, mut ours_us, mut bare_us, mut rates) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let bare = pinned_bare(port)?;
            let properties = [
                ("mongodb.url", format!("mongodb://127.0.0.1:{port}/ycsb")),
                ("recordcount", RECORDS.to_string()),
                ("readproportion", "1".to_owned()),
                ("updateproportion", "0".to_owned()),
                ("threadcount", CEILING_CONNECTIONS.to_string()),
                ("loops", "1".to_owned()),
                ("maxexecutiontime", "2".to_owned()),
            ];
            let (cpu_s, said) = self.fathom("run", true, &properties)?;
            let per_s = figure(&said, "[OVERALL], Throughput(ops/sec), ")?;
            let operations = figure(&said, "[READ], Operations, ")?;
            ratios.push(per_s / bare.per_s);
            rates.push(per_s);
            ours_us.push(cpu_s * 1e6 / operations);
            bare_us.push(bare.cpu_us);
        }
        let ratio = median(&ratios).context("no rounds")?;
        say(&format!(
            "ceiling: {}/s on one processor with {CEILING_CONNECTIONS} connections, {:.2} us of CPU an operation (a bare loop {:.2}); {ratio:.3} ({}) of the bare loop's rate, target {CEILING_TARGET}: {}",
            count(median(&rates).unwrap_or_default()),
            median(&ours_us).unwrap_or_default(),
            median(&bare_us).unwrap_or_default(),
            span(&ratios),
            verdict(ratio >= CEILING_TARGET)
        ))
    }

    /// Memory with many connections.
    pub(super) fn memory(&mut self) -> Result<()> {
        let port = self.responder.port();
        let mut child = Command::new(&self.program)
            .args(["ycsb", "run", "mongodb", "--no-record", "-p", "workload=CoreWorkload"])
            .args(["-p", &format!("mongodb.url=mongodb://127.0.0.1:{port}/ycsb")])
            .args(["-p", "readproportion=1", "-p", "updateproportion=0", "-p", "recordcount=100000"])
            .args(["-p", &format!("threadcount={MEMORY_CONNECTIONS}"), "-p", "maxexecutiontime=6"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut most = 0;
        for _ in 0..50 {
            if self.signals.wait(Duration::from_millis(100)) || child.try_wait()?.is_some() {
                break;
            }
            most = most.max(resident_bytes(child.id()).unwrap_or(0));
        }
        let status = child.wait()?;
        ensure!(status.success(), "fathom ycsb failed with {MEMORY_CONNECTIONS} connections: {status}");
        let mib = most as f64 / f64::from(1 << 20);
        say(&format!(
            "memory: {mib:.0} MiB with {MEMORY_CONNECTIONS} connections, target {MEMORY_TARGET_MIB}: {}",
            verdict(mib < MEMORY_TARGET_MIB)
        ))
    }

    /// The records of the rows below.
    pub(super) fn load(&mut self, server: &BenchServer) -> Result<()> {
        self.fathom("load", false, &workload_c(server.port(), RECORDS)).map(drop)
    }

    /// The lab server's rate of point reads by `_id` compared with the responder's, driven by this generator in turns. The bench of
    /// the server has the same row with a client of its own that costs almost nothing.
    pub(super) fn reads(&mut self, server: &BenchServer) -> Result<()> {
        let (mut ratios, mut rates, mut cpu_us) = (Vec::new(), Vec::new(), Vec::new());
        // Brings the pages in.
        self.rate_of_reads(server.port())?;
        for round in 0..ROUNDS {
            let before_s = cpu_s(server.pid())?;
            let (ours, nothing) = if round % 2 == 0 {
                let ours = self.rate_of_reads(server.port())?;
                (ours, self.rate_of_reads(self.responder.port())?)
            } else {
                let nothing = self.rate_of_reads(self.responder.port())?;
                (self.rate_of_reads(server.port())?, nothing)
            };
            cpu_us.push((cpu_s(server.pid())? - before_s) * 1e6 / OPERATIONS as f64);
            ratios.push(ours / nothing);
            rates.push(ours);
        }
        let ratio = median(&ratios).context("no rounds")?;
        say(&format!(
            "point reads by _id, 16 connections: {}/s, {:.1} us of the server's CPU each; {ratio:.3} ({}) of the responder's rate, target {READ_TARGET}: {}",
            count(median(&rates).unwrap_or_default()),
            median(&cpu_us).unwrap_or_default(),
            span(&ratios),
            verdict(ratio >= READ_TARGET)
        ))
    }

    fn rate_of_reads(&self, port: u16) -> Result<f64> {
        let (_, said) = self.fathom("run", false, &workload_c(port, OPERATIONS))?;
        figure(&said, "[OVERALL], Throughput(ops/sec), ")
    }

    /// Processor time per operation of workload C, compared with the official Rust driver's: the cost of a driver.
    pub(super) fn driver(&mut self, server: &BenchServer) -> Result<()> {
        let (mut ratios, mut ours_us, mut theirs_us) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ours_per_s, mut theirs_per_s) = (Vec::new(), Vec::new());
        let properties = workload_c(server.port(), OPERATIONS);
        for _ in 0..ROUNDS {
            let (own_s, said) = self.fathom_by("own", "run", false, &properties)?;
            ours_per_s.push(figure(&said, "[OVERALL], Throughput(ops/sec), ")?);
            let (driver_s, said) = self.fathom_by("official", "run", false, &properties)?;
            theirs_per_s.push(figure(&said, "[OVERALL], Throughput(ops/sec), ")?);
            ratios.push(own_s / driver_s);
            ours_us.push(own_s * 1e6 / OPERATIONS as f64);
            theirs_us.push(driver_s * 1e6 / OPERATIONS as f64);
        }
        let middle = |each: &[f64]| median(each).unwrap_or_default();
        say(&format!(
            "driver: workload C, {:.1} us of CPU an operation at {}/s; through the official driver {:.1} at {}/s; {:.3} ({}), for information",
            middle(&ours_us),
            count(middle(&ours_per_s)),
            middle(&theirs_us),
            count(middle(&theirs_per_s)),
            middle(&ratios),
            span(&ratios)
        ))
    }

    /// Processor time per operation of workload C, compared with go-ycsb's and the server's own.
    pub(super) fn cpu(&mut self, server: &BenchServer, ycsb: &Ycsb) -> Result<()> {
        let port = server.port();
        let theirs = |operations: u64| {
            vec![
                ("recordcount", RECORDS.to_string()),
                ("operationcount", operations.to_string()),
                ("readproportion", "1".to_owned()),
                ("updateproportion", "0".to_owned()),
                ("scanproportion", "0".to_owned()),
                ("insertproportion", "0".to_owned()),
                ("requestdistribution", "uniform".to_owned()),
            ]
        };
        ycsb.run("load", port, &theirs(RECORDS), &mut || Ok(()))?;
        let (mut ratios, mut beside_server, mut ours_us, mut theirs_us) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let before_s = cpu_s(server.pid())?;
            let (client_s, _) = self.fathom("run", false, &workload_c(server.port(), OPERATIONS))?;
            let server_s = cpu_s(server.pid())? - before_s;
            let peer = ycsb.run("run", port, &theirs(OPERATIONS), &mut || Ok(()))?;
            ratios.push(client_s / peer.cpu_s);
            beside_server.push(client_s / server_s);
            ours_us.push(client_s * 1e6 / OPERATIONS as f64);
            theirs_us.push(peer.cpu_s * 1e6 / OPERATIONS as f64);
        }
        let (ratio, own) =
            (median(&ratios).context("no rounds")?, median(&beside_server).unwrap_or_default());
        say(&format!(
            "workload C: {:.1} us of CPU an operation, go-ycsb {:.1}; {ratio:.3} ({}), target {CPU_TARGET}: {}",
            median(&ours_us).unwrap_or_default(),
            median(&theirs_us).unwrap_or_default(),
            span(&ratios),
            verdict(ratio <= CPU_TARGET)
        ))?;
        say(&format!(
            "beside the server's own CPU: {own:.3} ({}), target below 1: {}",
            span(&beside_server),
            verdict(own < 1.0)
        ))
    }
}

/// Workload C at a port, as `fathom ycsb` takes it.
fn workload_c(port: u16, operations: u64) -> Vec<(&'static str, String)> {
    vec![
        ("mongodb.url", format!("mongodb://127.0.0.1:{port}/fathom?w=1")),
        ("recordcount", RECORDS.to_string()),
        ("operationcount", operations.to_string()),
        ("readproportion", "1".to_owned()),
        ("updateproportion", "0".to_owned()),
        ("threadcount", "16".to_owned()),
    ]
}

/// The bare loop on the first processor, for two seconds.
fn pinned_bare(port: u16) -> Result<BareLoopResult> {
    let worker = std::thread::spawn(move || {
        let mut cpus = rustix::thread::CpuSet::new();
        cpus.set(0);
        rustix::thread::sched_setaffinity(None, &cpus)?;
        bare_loop::work(port, CEILING_CONNECTIONS, Duration::from_secs(2))
    });
    worker.join().map_err(|_| anyhow::anyhow!("the bare loop panicked"))?
}

/// The number after the start of a line.
fn figure(text: &str, start: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(start));
    line.and_then(|value| value.trim().parse().ok()).with_context(|| format!("no {start} in:\n{text}"))
}

fn say(text: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{text}")?)
}
