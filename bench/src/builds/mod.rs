//! `cargo measure builds` compares the processor time per operation of two programs: that of `make build` and the packaged one.
//!
//! Both are compiled from the same sources with different optimisation, so each ratio is the cost of the quicker build to its
//! users. Any other program can be named instead, for example one of an earlier commit: `cargo measure builds path/to/fathom`. A
//! missed target is printed, but is not a failure.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use fathom_process::Signals;
use fathom_stats::median;
use tempfile::TempDir;

use crate::lab::{BenchEngine, BenchServer, beside, cpu_of_children_s, cpu_s, span, verdict};

/// The highest ratio of the other program's processor time to the packaged one's (issue 25, section 3).
const TARGET: f64 = 1.05;
const RECORDS: u64 = 100_000;
const OPERATIONS: u64 = 200_000;
/// Pairs of runs behind each ratio; one more comes first and warms the caches.
const ROUNDS: usize = 9;
const THREADS: usize = 16;
/// The shares of reads that are measured: workload C and workload A of YCSB.
const READ_SHARES: [(&str, f64); 2] = [("reads", 1.0), ("reads and updates", 0.5)];

/// Runs the bench. The argument names the other program.
pub(crate) fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    let packaged = beside("fathom")?;
    let other = match arguments {
        [] => release_of(&packaged)?,
        [program] => PathBuf::from(program),
        _ => bail!("builds takes one program at most"),
    };
    let signals = Signals::install()?;
    let parent = std::env::var_os("BENCH_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    std::fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
    for engine in BenchEngine::ALL {
        let mut packaged = Build::start(&packaged, engine, &parent, &signals)?;
        let mut other = Build::start(&other, engine, &parent, &signals)?;
        for (name, read_share) in READ_SHARES {
            compare(&mut packaged, &mut other, &format!("{} {name}", engine.name()), read_share, &signals)?;
        }
        packaged.server.stop()?;
        other.server.stop()?;
    }
    Ok(true)
}

/// The program of the release profile. Its folder is a sibling of the folder of the packaged program.
fn release_of(packaged: &Path) -> Result<PathBuf> {
    let target = packaged.parent().and_then(Path::parent).context("the program has no folder")?;
    let program = target.join("release").join("fathom");
    ensure!(program.is_file(), "{} does not exist; 'make build' makes it", program.display());
    Ok(program)
}

/// Pairs of runs: each program's load generator against its own server, in turns.
fn compare(
    packaged: &mut Build,
    other: &mut Build,
    name: &str,
    read_share: f64,
    signals: &Signals,
) -> Result<()> {
    let (mut servers, mut clients, mut base) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        ensure!(!signals.stopped(), "interrupted");
        let (ours, theirs) = if round % 2 == 0 {
            let ours = packaged.cost(read_share)?;
            (ours, other.cost(read_share)?)
        } else {
            let theirs = other.cost(read_share)?;
            (packaged.cost(read_share)?, theirs)
        };
        if round > 0 {
            servers.push(theirs.server_us / ours.server_us);
            clients.push(theirs.client_us / ours.client_us);
            base.push(ours);
        }
    }
    for (part, ratios, each_us) in [
        ("server", servers, base.iter().map(|cost| cost.server_us).collect::<Vec<_>>()),
        ("load generator", clients, base.iter().map(|cost| cost.client_us).collect()),
    ] {
        let (ratio, packaged_us) =
            (median(&ratios).context("no rounds")?, median(&each_us).context("no rounds")?);
        writeln!(
            io::stdout(),
            "builds    {name}: {part} {ratio:.3} ({}) of the packaged program's {packaged_us:.1} us of CPU an operation, target {TARGET}: {}",
            span(&ratios),
            verdict(ratio <= TARGET)
        )
        .context("cannot print")?;
    }
    Ok(())
}

/// Processor time of one operation, microseconds.
struct Cost {
    server_us: f64,
    client_us: f64,
}

/// One program with its server on loaded records.
struct Build {
    program: PathBuf,
    server: BenchServer,
    /// Holds the server's data.
    _folder: TempDir,
}

impl Build {
    fn start(program: &Path, engine: BenchEngine, parent: &Path, signals: &Signals) -> Result<Build> {
        let folder = tempfile::Builder::new().prefix("fathom-bench-").tempdir_in(parent)?;
        let server = BenchServer::start_program(program, engine, folder.path(), &[], signals)?;
        let build = Build { program: program.to_owned(), server, _folder: folder };
        build.ycsb("load", 1.0)?;
        Ok(build)
    }

    fn cost(&mut self, read_share: f64) -> Result<Cost> {
        let (server_s, client_s) = (cpu_s(self.server.pid())?, cpu_of_children_s()?);
        self.ycsb("run", read_share)?;
        let each_us = |spent_s: f64| spent_s * 1e6 / OPERATIONS as f64;
        Ok(Cost {
            server_us: each_us(cpu_s(self.server.pid())? - server_s),
            client_us: each_us(cpu_of_children_s()? - client_s),
        })
    }

    fn ycsb(&self, what: &str, read_share: f64) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["ycsb", what, "mongodb", "--no-record", "-p", "workload=CoreWorkload"]);
        for property in [
            format!("mongodb.url=mongodb://127.0.0.1:{}/ycsb?w=1", self.server.port()),
            format!("recordcount={RECORDS}"),
            format!("operationcount={OPERATIONS}"),
            format!("threadcount={THREADS}"),
            format!("readproportion={read_share}"),
            format!("updateproportion={}", 1.0 - read_share),
        ] {
            command.args(["-p", &property]);
        }
        let output = command.stdin(Stdio::null()).output().context("cannot start fathom")?;
        if !output.status.success() {
            bail!("fathom ycsb failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}
