//! The cost of watching a server with many connections, of which a few are busy.
//!
//! The connections of one server become more in steps. At each step the same closed loop runs in turns alone, watched by `fathom explain --uri`, and
//! watched by mongostat where the cache has it. The kernel's accounts of the monitor and of the server's threads that serve it give the cost, so
//! that Fathom's own account is compared with them. A missed target is printed, but is not a failure.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fathom_client::{Address, Connection, Target};
use fathom_process::Signals;
use fathom_stats::median;
use fathom_units::count;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use crate::lab::{BenchEngine, BenchServer, cpu_s, span, verdict};

/// The numbers of open connections.
const STEPS: [usize; 3] = [10, 1000, 10_000];
/// The targets: of one core, and of a second of the server's time.
const MAX_CORE_SHARE: f64 = 0.003;
const MAX_SERVER_MS_PER_S: f64 = 1.0;
/// Runs of each kind at each step, unless `BENCH_ROUNDS` says otherwise.
const ROUNDS: usize = 5;
/// The length of the load, and the times before and after it in which the monitor alone runs: its start and its verdict are not the cost of watching.
const LOAD_S: u64 = 15;
const LEAD: Duration = Duration::from_secs(4);
const TAIL_S: u64 = 4;
/// Open files besides the connections.
const SPARE_FILES: u64 = 512;
const RECORDS: u64 = 50_000;

/// The program that watches, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watcher {
    Nothing,
    Fathom,
    Mongostat,
}

/// The cost of a monitor in one run, each figure for one second.
#[derive(Clone, Copy, Debug, Default)]
struct MonitorCost {
    /// Processor seconds of the monitor, and milliseconds of the server's threads that serve it.
    core_share: f64,
    server_ms: f64,
    /// Calls that read a file, and the bytes that they returned; sockets are not among them.
    reads: f64,
    read_bytes: f64,
    /// Fathom's own account: of one core, and milliseconds of the server.
    own: Option<(f64, f64)>,
}

/// Measures each step on one engine; `arguments` may select steps by their numbers.
pub(super) fn run(
    root: &Path,
    program: &Path,
    place: &Path,
    steps: &[usize],
    signals: &Signals,
) -> Result<()> {
    raise_file_limit()?;
    let mongostat = mongostat(root);
    if mongostat.is_none() {
        say(
            "mongostat is not in the cache ('setup/clients.sh install tools'), so nothing is compared with it",
        )?;
    }
    let server = BenchServer::start(BenchEngine::WiredTiger, place, &[], signals)?;
    let bench = Bench { program, place, mongostat, signals };
    bench.ycsb(server.port(), &["load"])?;
    let mut idle: Vec<Connection> = Vec::new();
    for &step in if steps.is_empty() { &STEPS[..] } else { steps } {
        if !fits(step)? {
            continue;
        }
        while idle.len() < step {
            let target = Target::at(Address::new("127.0.0.1", server.port()));
            idle.push(Connection::connect(&target).with_context(|| format!("connection {}", idle.len()))?);
        }
        bench.step(&server, step)?;
    }
    drop(idle);
    server.stop()
}

struct Bench<'a> {
    program: &'a Path,
    place: &'a Path,
    mongostat: Option<PathBuf>,
    signals: &'a Signals,
}

impl Bench<'_> {
    fn step(&self, server: &BenchServer, connections: usize) -> Result<()> {
        let mut watchers = vec![Watcher::Nothing, Watcher::Fathom];
        watchers.extend(self.mongostat.as_ref().map(|_| Watcher::Mongostat));
        let mut rates: HashMap<usize, Vec<f64>> = HashMap::new();
        let mut costs: HashMap<usize, Vec<MonitorCost>> = HashMap::new();
        for round in 0..rounds()? {
            // Each comes first as often as the others.
            for turn in 0..watchers.len() {
                let at = (round + turn) % watchers.len();
                let (per_s, cost) = self.turn(server, watchers[at])?;
                rates.entry(at).or_default().push(per_s);
                costs.entry(at).or_default().extend(cost);
            }
        }
        let alone = rates.remove(&0).unwrap_or_default();
        say(&format!(
            "{} connections: the load alone does {}/s ({})",
            count(connections as f64),
            count(median(&alone).context("no rounds")?),
            span_of(&alone)
        ))?;
        for (at, watcher) in watchers.iter().enumerate().skip(1) {
            let ratios: Vec<f64> = rates
                .remove(&at)
                .unwrap_or_default()
                .iter()
                .zip(&alone)
                .map(|(with, alone)| with / alone)
                .collect();
            show(*watcher, &costs.remove(&at).unwrap_or_default(), &ratios)?;
        }
        Ok(())
    }

    /// One run of the load; its rate, and the cost of what watched it.
    fn turn(&self, server: &BenchServer, watcher: Watcher) -> Result<(f64, Option<MonitorCost>)> {
        ensure!(!self.signals.stopped(), "interrupted");
        let before: HashSet<u32> = threads(server.pid())?.into_keys().collect();
        let Some(mut monitor) = self.monitor(server.port(), watcher)? else {
            thread::sleep(LEAD);
            return Ok((self.load(server.port())?, None));
        };
        thread::sleep(LEAD);
        let begin = Account::read(&monitor.0, server.pid(), &before)?;
        let serving: HashSet<u32> = begin.threads.keys().copied().collect();
        let per_s = self.load(server.port())?;
        let cost = Account::read(&monitor.0, server.pid(), &before)?.since(&begin, &serving);
        let own = match watcher {
            Watcher::Fathom => Some(own_account(&mut monitor.0)?),
            _ => None,
        };
        Ok((per_s, Some(MonitorCost { own, ..cost })))
    }

    fn monitor(&self, port: u16, watcher: Watcher) -> Result<Option<Monitor>> {
        let mut command = match (watcher, &self.mongostat) {
            (Watcher::Fathom, _) => {
                let mut command = Command::new(self.program);
                let time_s = LEAD.as_secs() + LOAD_S + TAIL_S;
                command.args(["explain", "--uri", &format!("mongodb://127.0.0.1:{port}"), "--json"]);
                command.args(["--for", &format!("{time_s}s"), "--runs"]).arg(self.place.join("runs"));
                command
            }
            (Watcher::Mongostat, Some(program)) => {
                let mut command = Command::new(program);
                command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "1"]);
                command
            }
            _ => return Ok(None),
        };
        let output = if watcher == Watcher::Fathom { Stdio::piped() } else { Stdio::null() };
        let child = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null()).spawn();
        Ok(Some(Monitor(child.with_context(|| format!("cannot start {command:?}"))?)))
    }

    /// Operations a second of the closed loop.
    fn load(&self, port: u16) -> Result<f64> {
        let time = format!("maxexecutiontime={LOAD_S}");
        let mixed =
            ["-p", "readproportion=0.5", "-p", "updateproportion=0.5", "-p", "operationcount=0", "-p", &time];
        let document = self.ycsb(port, &[&["run"][..], &mixed[..]].concat())?;
        document["parts"][0]["per_s"].as_f64().context("fathom ycsb printed no rate")
    }

    fn ycsb(&self, port: u16, words: &[&str]) -> Result<Value> {
        let (phase, words) = words.split_first().context("no phase")?;
        let mut command = Command::new(self.program);
        command.args([
            "ycsb",
            *phase,
            "mongodb",
            "--no-record",
            "--json",
            "-threads",
            "4",
            "-p",
            "workload=CoreWorkload",
        ]);
        command.args(["-p", &format!("mongodb.url=mongodb://127.0.0.1:{port}/ycsb"), "-p"]);
        command.arg(format!("recordcount={RECORDS}")).args(words);
        let output = command.stdin(Stdio::null()).output().context("cannot run fathom ycsb")?;
        ensure!(output.status.success(), "fathom ycsb failed: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).context("fathom ycsb printed no JSON")
    }
}

/// A running monitor; killed when dropped, unless it has ended.
struct Monitor(Child);

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The kernel's accounts at a moment.
struct Account {
    at: Instant,
    cpu_s: f64,
    reads: f64,
    read_bytes: f64,
    /// Nanoseconds that the server's threads ran which were not there before the monitor.
    threads: HashMap<u32, u64>,
}

impl Account {
    fn read(monitor: &Child, server: u32, before: &HashSet<u32>) -> Result<Account> {
        let io = fs::read_to_string(format!("/proc/{}/io", monitor.id())).context("the monitor has ended")?;
        let field = |name: &str| {
            let value = io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            value.with_context(|| format!("no {name} in its io file"))
        };
        let mut threads = threads(server)?;
        threads.retain(|thread, _| !before.contains(thread));
        Ok(Account {
            at: Instant::now(),
            cpu_s: cpu_s(monitor.id())?,
            reads: field("syscr:")?,
            read_bytes: field("rchar:")?,
            threads,
        })
    }

    /// The cost for a second since `begin`; `serving` are the server's threads of the monitor.
    fn since(&self, begin: &Account, serving: &HashSet<u32>) -> MonitorCost {
        let seconds = self.at.duration_since(begin.at).as_secs_f64();
        let ran = |thread: &u32| {
            let ran = |account: &Account| account.threads.get(thread).copied().unwrap_or_default();
            ran(self).saturating_sub(ran(begin)) as f64 / 1e6
        };
        MonitorCost {
            core_share: (self.cpu_s - begin.cpu_s) / seconds,
            server_ms: serving.iter().map(ran).sum::<f64>() / seconds,
            reads: (self.reads - begin.reads) / seconds,
            read_bytes: (self.read_bytes - begin.read_bytes) / seconds,
            own: None,
        }
    }
}

/// Nanoseconds that each thread of a process ran.
fn threads(pid: u32) -> Result<HashMap<u32, u64>> {
    let folder = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
    let read = |task: fs::DirEntry| {
        let ran = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((task.file_name().to_str()?.parse().ok()?, ran.split_whitespace().next()?.parse().ok()?))
    };
    Ok(tasks.flatten().filter_map(read).collect())
}

/// Waits for `fathom explain`, and returns what it says that watching cost.
fn own_account(monitor: &mut Child) -> Result<(f64, f64)> {
    let mut text = String::new();
    monitor.stdout.take().context("no output")?.read_to_string(&mut text)?;
    let ended = monitor.wait().context("cannot wait for it")?;
    ensure!(ended.code().is_some_and(|code| [0, 1, 4].contains(&code)), "fathom explain ended with {ended}");
    let document: Value = serde_json::from_str(&text).context("fathom explain printed no JSON")?;
    let figure = |name: &str| document["cost"][name].as_f64().with_context(|| format!("no {name}"));
    Ok((figure("core_share")?, figure("server_ms_per_s")?))
}

fn show(watcher: Watcher, costs: &[MonitorCost], ratios: &[f64]) -> Result<()> {
    let of = |figure: fn(&MonitorCost) -> f64| costs.iter().map(figure).collect::<Vec<f64>>();
    let middle = |figures: &[f64]| median(figures).unwrap_or_default();
    let (core, server) = (of(|cost| 100.0 * cost.core_share), of(|cost| cost.server_ms));
    let judged = |is: bool| match watcher {
        Watcher::Fathom => format!(": {}", verdict(is)),
        _ => String::new(),
    };
    say(&format!(
        "  {watcher:?}: {:.2} % of one core ({}){}; {:.2} ms of the server a second ({}){}; {:.0} reads of files and {:.0} KiB a second; the load does {:.3} of \
         its rate ({})",
        middle(&core),
        span(&core),
        judged(middle(&core) <= 100.0 * MAX_CORE_SHARE),
        middle(&server),
        span(&server),
        judged(middle(&server) <= MAX_SERVER_MS_PER_S),
        middle(&of(|cost| cost.reads)),
        middle(&of(|cost| cost.read_bytes)) / 1024.0,
        middle(ratios),
        span(ratios)
    ))?;
    let own: Vec<(f64, f64)> = costs.iter().filter_map(|cost| cost.own).collect();
    if own.is_empty() {
        return Ok(());
    }
    let (core, server): (Vec<f64>, Vec<f64>) = own.into_iter().unzip();
    say(&format!("    by its own account {:.2} % and {:.2} ms", 100.0 * middle(&core), middle(&server)))
}

/// The least and the most of some rates.
fn span_of(rates: &[f64]) -> String {
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} to {}", count(least), count(most))
}

fn rounds() -> Result<usize> {
    match std::env::var("BENCH_ROUNDS") {
        Ok(text) if !text.is_empty() => match text.parse() {
            Ok(rounds @ 1..=100) => Ok(rounds),
            _ => bail!("BENCH_ROUNDS={text} is not a whole number from 1 to 100"),
        },
        _ => Ok(ROUNDS),
    }
}

/// Allows this process, and the server that inherits it, as many open files as the hard limit does.
fn raise_file_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .context("cannot raise the limit of open files")
}

/// Returns whether so many connections may be open; says why not.
fn fits(connections: usize) -> Result<bool> {
    let limit = getrlimit(Resource::Nofile).current;
    let wanted = connections as u64 + SPARE_FILES;
    if limit.is_some_and(|limit| limit < wanted) {
        say(&format!(
            "{} connections: skipped: a process may have {} open files, and {wanted} are needed",
            count(connections as f64),
            limit.unwrap_or_default()
        ))?;
        return Ok(false);
    }
    Ok(true)
}

/// mongostat in the cache of clients.
fn mongostat(root: &Path) -> Option<PathBuf> {
    let output = Command::new(root.join("setup/clients.sh")).args(["path", "tools"]).output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    Some(Path::new(folder.trim()).join("mongostat"))
        .filter(|program| output.status.success() && program.is_file())
}

fn say(text: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{text}")?)
}
