//! `cargo measure record-demo`: records the run that `fathom demo` shows, for real: the lab server on a disk of a known, low speed.
//!
//! A disk that takes 4 ms for a request and eight side by side, as a volume that is sold by the request; checkpoints every few
//! seconds, which everything else then waits behind.
//! Needs root (a loop device on FUSE), four minutes and a machine with nothing else to do: a recording in which the processors were
//! short is refused, as is one without the finding that the demo is there to show. What names this machine is taken out; no figure is
//! changed.

mod pack;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fathom_testkit::{Bytes, Fathom, Filesystem, LabServer, Scratch, SlowDisk, Speed};
use serde_json::Value;

/// Where the recording goes.
const FIXTURE: &str = "crates/cli/fixtures/demo.tar.zst";
/// Larger ones are not worth the room in everybody's binary.
const MOST_BYTES: usize = 340_000;
/// What the run is called: its own name has the time and a process number in it.
const NAME: &str = "demo";
/// What each request takes, and how many are served side by side: 2,000 a second at best.
const SPEED: Speed = Speed { service: Duration::from_millis(4), parallel: 8 };
const RECORDS: &str = "recordcount=60000";
/// How long the recording is.
const TIME: &str = "maxexecutiontime=150";
/// What the server is told: checkpoints often enough for many in so short a time.
const SERVER: [&str; 2] = ["--syncdelay", "10"];
/// The load: what this disk bears between checkpoints.
const LOAD: &str = "-threads 8 -target 300 -p requestdistribution=uniform -p readproportion=0.3 -p updateproportion=0.7 \
                    -p mongodb.writeConcern=journaled";
/// What has to be found, told and not only suspected, or there is nothing to show.
const WANTED: &str = "checkpoint-spikes";
/// What must not: then the figures are of this machine's processors.
const UNWANTED: &str = "processor-is-short";

/// Records; `false` where this machine cannot have the disk.
pub(crate) fn run(root: PathBuf, _arguments: &[String]) -> Result<bool> {
    let program =
        std::env::current_exe().context("cannot tell where this program is")?.with_file_name("fathom");
    ensure!(program.is_file(), "{} is not there; 'cargo build --package fathom' makes it", program.display());
    let scratch = Scratch::new()?;
    let disk = SlowDisk::make(Filesystem::Xfs, Bytes(2 << 30), SPEED)?;
    let runs = scratch.path().join("runs");
    record(&program, &disk, &runs)?;
    let recorded = std::fs::read_dir(&runs)?.next().context("there is no run folder")??.path();
    let folder = recorded.with_file_name(NAME);
    std::fs::rename(&recorded, &folder)?;
    pack::clean(&folder)?;
    check(&program, &folder)?;
    let bytes = pack::packed(&folder)?;
    let fixture = root.join(FIXTURE);
    ensure!(bytes.len() <= MOST_BYTES, "the recording has {} bytes of {MOST_BYTES} at most", bytes.len());
    std::fs::write(&fixture, &bytes).with_context(|| format!("cannot write {}", fixture.display()))?;
    writeln!(std::io::stdout(), "{FIXTURE}: {} bytes", bytes.len())?;
    Ok(true)
}

/// Loads the records while the disk is fast, then runs the load beside the samplers while it is slow.
fn record(program: &Path, disk: &SlowDisk, runs: &Path) -> Result<()> {
    disk.set_service(Duration::ZERO);
    let server = LabServer::start(program, "wiredTiger", &disk.path().join("db"), &SERVER);
    let server = server.map_err(|output| anyhow::anyhow!("the server did not come up: {}", output.stderr))?;
    let url = format!("mongodb.url=mongodb://127.0.0.1:{}/shop", server.port());
    let ycsb = |phase: &str| {
        let call = Fathom::new(program).args(["ycsb", phase, "mongodb", "-p", &url, "-p", RECORDS]);
        call.args(["-p", "workload=CoreWorkload", "-p", "table=orders"]).limit(Duration::from_secs(600))
    };
    let loaded = ycsb("load").args(["-threads", "4", "--no-record"]).run();
    ensure!(loaded.code == 0, "the load failed: {}", loaded.stderr);
    disk.set_service(SPEED.service);
    let run = ycsb("run").args(LOAD.split_whitespace());
    let ran = run.args(["-p", "operationcount=0", "-p", TIME, "--watch", "--runs"]).arg(runs).run();
    disk.set_service(Duration::ZERO);
    let stopped = server.stop();
    ensure!(ran.code == 0, "the run failed: {}", ran.stderr);
    ensure!(stopped.code == 0, "the server failed: {}", stopped.stderr);
    Ok(())
}

/// Refuses a recording that does not show what it should.
fn check(program: &Path, folder: &Path) -> Result<()> {
    let output = Fathom::new(program).args(["explain", "--json"]).arg(folder).run();
    let document: Value = serde_json::from_str(&output.stdout).context("explain said nothing")?;
    let findings = document.get("findings").and_then(Value::as_array).context("explain told no findings")?;
    let text = |finding: &Value, field: &str| finding.get(field).and_then(Value::as_str).map(str::to_owned);
    let find = |id: &str| findings.iter().find(|finding| text(finding, "id").as_deref() == Some(id));
    let told =
        |finding: &&Value| text(finding, "confidence").is_some_and(|confidence| confidence != "cannot_tell");
    let shows = find(WANTED).as_ref().is_some_and(told);
    if find(UNWANTED).is_some() || !shows {
        // A name that nobody can have put there before.
        let mut kept =
            tempfile::Builder::new().prefix("fathom-record-demo-").suffix(".tar.zst").tempfile()?;
        kept.write_all(&pack::packed(folder)?)?;
        let (_, kept) = kept.keep()?;
        bail!(
            "this recording lacks {WANTED}, or has {UNWANTED}; 'fathom runs import {}' opens it",
            kept.display()
        );
    }
    Ok(())
}
