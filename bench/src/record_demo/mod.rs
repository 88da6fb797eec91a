//! `cargo measure record-demo`: makes the real recordings of `fathom demo`: one load on the lab server, with a short queue in front of its
//! disk and, after the change, with a longer one.
//!
//! The disk takes 50 ms for a request and serves 128 in parallel, like a volume behind a network; the queue in front of it admits 32 at
//! first. A probe with the long queue measures the device at each depth, so that the finding can state the gain of the change. Needs root
//! (a loop device on FUSE), six minutes and a machine with nothing else to do. It refuses recordings in which the processors were short,
//! one without the finding of the demo, one with another verdict, and two that differ much from the claim of the finding. Names of this
//! machine are removed; no figure is changed.

mod pack;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fathom_testkit::{Bytes, Fathom, Filesystem, Knob, LabServer, Scratch, SlowDisk, Speed};
use serde_json::Value;

/// The folder of the recordings, each named `demo-NAME.tar.zst`.
const FIXTURES: &str = "crates/cli/fixtures";
/// The maximum size of all of them, since they are part of every binary.
const MAX_BYTES: usize = 1 << 20;
/// The runs. Their own names have the time and a process number in them.
const BEFORE: &str = "before";
const AFTER: &str = "after";
const PROBE: &str = "probe";
/// The time of each request, and the number served in parallel: at most 2,560 a second, 640 through the short queue.
const SPEED: Speed = Speed { service: Duration::from_millis(50), parallel: 128 };
/// The requests that the queue in front of the disk admits before the change.
const SHORT_QUEUE: &str = "32";
const RECORDS: &str = "recordcount=120000";
/// The length of each recording.
const TIME: &str = "maxexecutiontime=120";
/// A load that fills the cache before the first recording, so that both begin alike.
const WARM_UP: &str = "maxexecutiontime=20";
/// A cache that holds a quarter of the data, no page cache of the kernel, and a log of operations that are slow for this load.
const SERVER: [&str; 4] =
    ["--wiredTigerEngineConfigString", "cache_size=32M,direct_io=[data]", "--slowms", "1000"];
/// The load: 96 connections, each with one read under way. It has no updates: with direct I/O a write of a checkpoint holds the lock of the
/// file, and reads would wait for that too.
const LOAD: &str =
    "-threads 96 -p requestdistribution=uniform -p readproportion=1 -p updateproportion=0 -p seed=5";
/// Pages of the size that the engine reads.
const SHAPE: &str = "--pattern randread --block 32K --depth 1..128 --size 128M --time 1s";
/// The finding that must be the cause before the change, decided and not only suspected, and absent after it.
const WANTED: &str = "queue-cap";
/// The finding that must be absent: the figures would be of this machine's processors.
const UNWANTED: &str = "processor-is-short";
/// The permitted difference between the gain of the change and the cost in the finding, as a share of the mean response time.
const MAX_APART: f64 = 0.1;

/// Makes the recordings; returns `false` if this machine does not support the disk.
pub(crate) fn run(root: PathBuf, _arguments: &[String]) -> Result<bool> {
    let program =
        std::env::current_exe().context("cannot tell where this program is")?.with_file_name("fathom");
    ensure!(program.is_file(), "{} is not there; 'cargo build --package fathom' makes it", program.display());
    let scratch = Scratch::new()?;
    let disk = SlowDisk::make(Filesystem::Xfs, Bytes(2 << 30), SPEED)?;
    record(&program, &disk, &scratch.path())?;
    let folder = |name: &str| scratch.path().join(name);
    for name in [BEFORE, AFTER, PROBE] {
        pack::clean(&folder(name))?;
    }
    let (before, after) = (
        Explanation::new(&program, &folder(BEFORE), &folder(PROBE))?,
        Explanation::new(&program, &folder(AFTER), &folder(PROBE))?,
    );
    let packed = [BEFORE, AFTER, PROBE].map(|name| Ok((name, pack::packed(&folder(name))?)));
    let packed: Vec<(&str, Vec<u8>)> = packed.into_iter().collect::<Result<_>>()?;
    if let Err(error) = check(&before, &after) {
        let kept = tempfile::Builder::new().prefix("fathom-record-demo-").tempdir()?.keep();
        write(&kept, &packed)?;
        bail!(
            "{error:#}; 'fathom runs import {}/demo-before.tar.zst' opens the first recording",
            kept.display()
        );
    }
    let bytes: usize = packed.iter().map(|(_, bytes)| bytes.len()).sum();
    ensure!(bytes <= MAX_BYTES, "the recordings have {bytes} bytes of {MAX_BYTES} at most");
    write(&root.join(FIXTURES), &packed)?;
    Ok(true)
}

/// Writes each recording into a folder, and prints its size.
fn write(folder: &Path, packed: &[(&str, Vec<u8>)]) -> Result<()> {
    for (name, bytes) in packed {
        let file = folder.join(format!("demo-{name}.tar.zst"));
        std::fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
        writeln!(std::io::stdout(), "{}: {} bytes", file.display(), bytes.len())?;
    }
    Ok(())
}

/// Loads the records while the disk is fast. Then slows the disk down, probes it, and records the load twice: with the short queue and with the
/// long one. The server runs all the time, as it does when an operator changes the queue.
fn record(program: &Path, disk: &SlowDisk, place: &Path) -> Result<()> {
    disk.set_service(Duration::ZERO);
    let server = LabServer::start(program, "wiredTiger", &disk.path().join("db"), &SERVER);
    let server = server.map_err(|output| anyhow::anyhow!("the server did not come up: {}", output.stderr))?;
    let url = format!("mongodb.url=mongodb://127.0.0.1:{}/shop", server.port());
    let ycsb = |phase: &str| {
        let call = Fathom::new(program).args(["ycsb", phase, "mongodb", "-p", &url, "-p", RECORDS]);
        call.args(["-p", "workload=CoreWorkload", "-p", "table=orders"]).limit(Duration::from_secs(600))
    };
    let load = |time: &str| {
        let call = ycsb("run").args(LOAD.split_whitespace());
        call.args(["-p", "operationcount=0", "-p", time])
    };
    succeed(ycsb("load").args(["-threads", "4", "--no-record"]), "load of the records")?;
    disk.set_service(SPEED.service);
    let probe = Fathom::new(program).arg("disk").arg("--dir").arg(disk.path()).args(SHAPE.split_whitespace());
    keep(probe, place, PROBE)?;
    let short = Knob::set(format!("/sys/block/{}/queue/nr_requests", disk.device_name()), SHORT_QUEUE)?;
    succeed(load(WARM_UP).arg("--no-record"), "warm-up")?;
    keep(load(TIME).arg("--watch"), place, BEFORE)?;
    drop(short);
    keep(load(TIME).arg("--watch"), place, AFTER)?;
    disk.set_service(Duration::ZERO);
    let stopped = server.stop();
    ensure!(stopped.code == 0, "the server failed: {}", stopped.stderr);
    Ok(())
}

/// Runs a call that records, and renames its run folder.
fn keep(call: Fathom, place: &Path, name: &str) -> Result<()> {
    let runs = place.join(format!("runs-{name}"));
    succeed(call.arg("--runs").arg(&runs), name)?;
    let recorded = std::fs::read_dir(&runs)?.next().context("there is no run folder")??.path();
    std::fs::rename(&recorded, place.join(name))?;
    Ok(())
}

fn succeed(call: Fathom, what: &str) -> Result<()> {
    let output = call.run();
    // A probe has no verdict if the processors are the limit at the greatest depths.
    let codes = if what == PROBE { &[0, 1, 4][..] } else { &[0] };
    ensure!(codes.contains(&output.code), "the {what} failed: {}", output.stderr);
    Ok(())
}

/// The output of `fathom explain` on a run, with the probe of its device.
struct Explanation(Value);

impl Explanation {
    fn new(program: &Path, folder: &Path, probe: &Path) -> Result<Explanation> {
        let call = Fathom::new(program).args(["explain", "--json"]).arg(folder).arg("--probe").arg(probe);
        Ok(Explanation(serde_json::from_str(&call.run().stdout).context("explain said nothing")?))
    }

    fn finding(&self, id: &str) -> Option<&Value> {
        self.0["findings"].as_array()?.iter().find(|finding| finding["id"] == id)
    }

    /// The mean response time of all operations.
    fn mean_us(&self) -> Result<f64> {
        let layers = self.0["layers"].as_array().context("explain told no layers")?;
        let all = layers.iter().find(|budget| budget["operations"] == "all");
        all.and_then(|budget| budget["client_mean_us"].as_f64()).context("explain told no mean")
    }
}

/// Refuses recordings that do not show what they should.
fn check(before: &Explanation, after: &Explanation) -> Result<()> {
    for (name, judged) in [(BEFORE, before), (AFTER, after)] {
        ensure!(judged.finding(UNWANTED).is_none(), "the recording {name} has {UNWANTED}");
    }
    let finding = before.finding(WANTED).context("the recording before the change lacks the finding")?;
    ensure!(finding["confidence"] != "cannot_tell", "{WANTED} is only suspected");
    ensure!(finding["command"].is_string(), "{WANTED} does not say what to do");
    let verdict = &before.0["verdict"];
    ensure!(
        verdict["outcome"] == "held_back" && verdict["cause"] == WANTED,
        "the verdict before the change is another: {}",
        verdict["sentence"]
    );
    ensure!(after.finding(WANTED).is_none(), "{WANTED} is there after the change too");
    let claimed = finding["cost"]["share"].as_f64().context("the finding has no cost")?;
    let seen = 1.0 - after.mean_us()? / before.mean_us()?;
    writeln!(std::io::stdout(), "cost claimed {claimed:.3}, gain seen {seen:.3}")?;
    ensure!(
        (claimed - seen).abs() <= MAX_APART,
        "the finding claims {claimed:.3}, the change brought {seen:.3}"
    );
    Ok(())
}
