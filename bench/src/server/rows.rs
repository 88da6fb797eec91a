//! The rows of the bench: the load of each on the server, and the target for its ratio.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fathom_process::Signals;
use fathom_stats::{median, theil_sen_slope};
use fathom_units::count;

use super::TASK;
use super::client::{ClientTotals, ConnectionLoad, work};
use super::options::ServerBenchOptions;
use crate::lab::{BenchEngine, BenchServer, Responder, Ycsb, cpu_s, number, resident_bytes, span, verdict};

/// Documents in the cache.
const DOCUMENTS: u64 = 200_000;
/// Operations of each go-ycsb run.
const OPERATIONS: u64 = 150_000;
/// The minimum rate of point reads as a share of the responder's (issue 3, "Speed").
const READ_TARGET: f64 = 0.5;
/// The maximum of the server's processor time per operation as a share of go-ycsb's own: workloads C and A.
const CPU_TARGETS: [(&str, &str, f64); 2] = [("C", "1", 0.5), ("A", "0.5", 0.7)];
/// The longest time without any insert, seconds.
const STALL_TARGET_S: f64 = 1.0;
/// The most growth of memory besides the engine's cache in a minute at the end, as a share of resident memory ("memory steady").
const MAX_STEADY_GROWTH: f64 = 0.005;
/// The number of last readings, one a minute, whose slope is that growth.
const LAST_MINUTES: usize = 4;
/// A shorter run does not show it ("over 10 minutes").
const STEADY_AFTER_MINUTES: u64 = 10;

/// One engine's server under the bench.
pub(super) struct ServerBench<'a> {
    server: BenchServer,
    engine: BenchEngine,
    options: &'a ServerBenchOptions,
    ycsb: &'a Ycsb,
    signals: &'a Signals,
    /// The next `_id` that was not inserted yet.
    next: u64,
}

impl<'a> ServerBench<'a> {
    pub(super) fn new(
        server: BenchServer,
        engine: BenchEngine,
        options: &'a ServerBenchOptions,
        ycsb: &'a Ycsb,
        signals: &'a Signals,
    ) -> Self {
        ServerBench { server, engine, options, ycsb, signals, next: 0 }
    }

    /// Stops the server and starts one on the same data.
    fn restarted(self, start: &impl Fn() -> Result<BenchServer>) -> Result<Self> {
        let ServerBench { server, engine, options, ycsb, signals, next } = self;
        server.stop()?;
        Ok(ServerBench { server: start()?, engine, options, ycsb, signals, next })
    }

    /// Reads all documents into the cache. With random keys, three times as many reads miss one document in twenty, but
    /// hardly a page.
    fn warm(&self) -> Result<()> {
        let mut reads = 0;
        while reads < 3 * DOCUMENTS {
            reads += self.read(self.server.port(), reads)?.operations;
        }
        Ok(())
    }

    /// Fills the server, runs the wanted rows and stops it. The measured server has run for a while: its pages were written and
    /// read again, and are not lists of recent inserts. Those have their own row.
    pub(super) fn run(mut self, start: &impl Fn() -> Result<BenchServer>) -> Result<()> {
        self.fill()?;
        let mut bench = self.restarted(start)?;
        bench.warm()?;
        if bench.options.wants("reads") {
            bench.reads()?;
        }
        if bench.options.wants("load") {
            bench.load()?;
        }
        if bench.options.wants("cpu") || bench.options.wants("memory") {
            let records = [("recordcount", DOCUMENTS.to_string())];
            bench.ycsb.run("load", bench.server.port(), &records, &mut || Ok(()))?;
        }
        if bench.options.wants("cpu") {
            let [read_only, ..] = CPU_TARGETS;
            bench.cpu("just loaded, workload", &[read_only])?;
            bench = bench.restarted(start)?;
            // Brings the pages in.
            bench.ycsb.run("run", bench.server.port(), &workload("1", OPERATIONS), &mut || Ok(()))?;
            bench.cpu("workload", &CPU_TARGETS)?;
        }
        if bench.options.wants("memory") {
            bench.memory()?;
        }
        bench.server.stop()
    }

    /// Inserts the wanted number of documents, and reports stalls.
    fn fill(&mut self) -> Result<()> {
        let (mut done, mut seconds, mut worst) = (0, 0.0, 0.0_f64);
        while self.next < DOCUMENTS {
            let inserted = self.insert(Duration::from_secs(2))?;
            done += inserted.operations;
            seconds += inserted.seconds;
            worst = worst.max(inserted.longest_stall_s());
        }
        let rate = done as f64 / seconds;
        self.say(&format!("filled with {} documents, {} inserts/s", count(done as f64), count(rate)))?;
        self.say(&format!("longest stall of the load {worst:.1} s: {}", verdict(worst <= STALL_TARGET_S)))
    }

    fn insert(&mut self, time: Duration) -> Result<ClientTotals> {
        self.check()?;
        let done = work(self.server.port(), ConnectionLoad::Insert { first: self.next }, time, self.next)?;
        self.next += done.operations;
        Ok(done)
    }

    fn read(&self, port: u16, seed: u64) -> Result<ClientTotals> {
        self.check()?;
        work(
            port,
            ConnectionLoad::Read { documents: DOCUMENTS },
            Duration::from_secs(self.options.seconds),
            seed,
        )
    }

    /// Point reads compared with the responder that does nothing, in turns.
    fn reads(&mut self) -> Result<()> {
        let responder = Responder::start(TASK)?;
        let (mut ratios, mut rates, mut cpu_us) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..self.options.rounds {
            let before_s = cpu_s(self.server.pid())?;
            let (ours, nothing) = if round % 2 == 0 {
                let ours = self.read(self.server.port(), round)?;
                (ours, self.read(responder.port(), round)?)
            } else {
                let nothing = self.read(responder.port(), round)?;
                (self.read(self.server.port(), round)?, nothing)
            };
            cpu_us.push((cpu_s(self.server.pid())? - before_s) * 1e6 / ours.operations as f64);
            ratios.push(ours.per_s() / nothing.per_s());
            rates.push(ours.per_s());
        }
        let ratio = median(&ratios).context("no rounds")?;
        self.say(&format!(
            "point reads by _id {}/s, {:.1} us of CPU each; {ratio:.3} ({}) of the responder's rate, target {READ_TARGET}: {}",
            count(median(&rates).unwrap_or_default()),
            median(&cpu_us).unwrap_or_default(),
            span(&ratios),
            verdict(ratio >= READ_TARGET)
        ))
    }

    /// Inserts compared with reads of the same bytes, in turns.
    fn load(&mut self) -> Result<()> {
        let (mut ratios, mut worst) = (Vec::new(), 0.0_f64);
        for round in 0..self.options.rounds {
            let read = self.read(self.server.port(), round)?;
            let inserted = self.insert(Duration::from_secs(self.options.seconds))?;
            worst = worst.max(inserted.longest_stall_s());
            ratios.push(inserted.per_s() / read.per_s());
        }
        let ratio = median(&ratios).context("no rounds")?;
        self.say(&format!(
            "inserts at {ratio:.3} ({}) of the rate of reads of the same bytes; longest stall {worst:.1} s: {}",
            span(&ratios),
            verdict(worst <= STALL_TARGET_S)
        ))
    }

    /// Processor time per operation compared with go-ycsb's own.
    fn cpu(&self, what: &str, targets: &[(&str, &str, f64)]) -> Result<()> {
        for &(name, reads, target) in targets {
            let settings = workload(reads, OPERATIONS);
            let (mut ratios, mut ours_us, mut theirs_us) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..self.options.rounds {
                let before_s = cpu_s(self.server.pid())?;
                let run = self.ycsb.run("run", self.server.port(), &settings, &mut || Ok(()))?;
                let ours_s = cpu_s(self.server.pid())? - before_s;
                ratios.push(ours_s / run.cpu_s);
                ours_us.push(ours_s * 1e6 / OPERATIONS as f64);
                theirs_us.push(run.cpu_s * 1e6 / OPERATIONS as f64);
            }
            let ratio = median(&ratios).context("no rounds")?;
            self.say(&format!(
                "{what} {name}: {:.1} us of CPU per operation, go-ycsb's client {:.1}; {ratio:.3} ({}), target {target}: {}",
                median(&ours_us).unwrap_or_default(),
                median(&theirs_us).unwrap_or_default(),
                span(&ratios),
                verdict(ratio <= target)
            ))?;
        }
        Ok(())
    }

    /// Measures memory under workload A at full speed, minute by minute, and the part of the engine's cache, which may grow
    /// to its limit.
    fn memory(&mut self) -> Result<()> {
        let minutes = self.options.minutes;
        let (server, begun) = (&mut self.server, Instant::now());
        let mut seen: Vec<Memory> = Vec::new();
        let mut settings = workload("0.5", 1 << 40);
        settings.push(("maxexecutiontime", (minutes * 60).to_string()));
        let end = Duration::from_secs(minutes * 60 + 1);
        let ended = self.ycsb.run("run", server.port(), &settings, &mut || {
            let minute = begun.elapsed().as_secs_f64() / 60.0;
            if minute >= (seen.len() + 1) as f64 {
                seen.push(Memory::new(server, minute)?);
            }
            if begun.elapsed() > end { bail!("time is over") } else { Ok(()) }
        });
        // It ends when we end it.
        if seen.len() < minutes as usize {
            ended?;
        }
        self.say(&format!("memory after each minute, MiB: {}", Memory::row(&seen, |one| one.resident_mib)))?;
        let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return Ok(()) };
        if last.cache_mib == 0.0 {
            return Ok(());
        }
        let rest = Memory::row(&seen, Memory::rest_mib);
        self.say(&format!(
            "the engine's cache of it: {:.0} to {:.0}; the rest: {rest}",
            first.cache_mib, last.cache_mib
        ))?;
        // The cache may grow to its limit; other memory must stop growing. It grows for minutes before it levels off.
        if minutes < STEADY_AFTER_MINUTES {
            return self.say(&format!(
                "whether the rest levels off takes {STEADY_AFTER_MINUTES} minutes to tell (BENCH_MINUTES)"
            ));
        }
        let rests: Vec<(f64, f64)> =
            seen.iter().rev().take(LAST_MINUTES).rev().map(|one| (one.minute, one.rest_mib())).collect();
        let grown = theil_sen_slope(&rests).unwrap_or(f64::INFINITY) / last.resident_mib;
        self.say(&format!(
            "the rest grows by {:.2} % of what is resident in each of the last minutes, target {:.1}: {}",
            100.0 * grown,
            100.0 * MAX_STEADY_GROWTH,
            verdict(grown <= MAX_STEADY_GROWTH)
        ))
    }

    fn check(&self) -> Result<()> {
        if self.signals.stopped() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Prints a line for the user.
    fn say(&self, text: &str) -> Result<()> {
        Ok(writeln!(io::stdout(), "{}: {text}", self.engine.name())?)
    }
}

/// The memory of a server at a time.
struct Memory {
    minute: f64,
    resident_mib: f64,
    /// 0 if the engine does not report it.
    cache_mib: f64,
}

impl Memory {
    fn new(server: &mut BenchServer, minute: f64) -> Result<Memory> {
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        let cache = number(&server.status()?, &["wiredTiger", "cache", "bytes currently in the cache"]);
        let resident_mib = mib(resident_bytes(server.pid())? as f64);
        Ok(Memory { minute, resident_mib, cache_mib: cache.map_or(0.0, mib) })
    }

    /// The memory besides the engine's cache.
    fn rest_mib(&self) -> f64 {
        self.resident_mib - self.cache_mib
    }

    /// The values and their growth.
    fn row(seen: &[Memory], value: impl Fn(&Memory) -> f64) -> String {
        let points: Vec<(f64, f64)> = seen.iter().map(|one| (one.minute, value(one))).collect();
        let texts: Vec<String> = points.iter().map(|(_, mib)| format!("{mib:.0}")).collect();
        let slope = theil_sen_slope(&points).map_or("?".to_owned(), |slope| format!("{slope:+.1}"));
        format!("{}; {slope} a minute", texts.join(" "))
    }
}

fn workload(reads: &str, operations: u64) -> Vec<(&'static str, String)> {
    let updates = if reads == "1" { "0" } else { "0.5" };
    vec![
        ("recordcount", DOCUMENTS.to_string()),
        ("operationcount", operations.to_string()),
        ("requestdistribution", "uniform".to_owned()),
        ("readproportion", reads.to_owned()),
        ("updateproportion", updates.to_owned()),
        ("scanproportion", "0".to_owned()),
        ("insertproportion", "0".to_owned()),
    ]
}
