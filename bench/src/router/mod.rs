//! `cargo measure router`: the cost of a targeted point read through `fathom route` compared with the same read from the shard itself, as a
//! ratio of processor time, in turns within one run.
//!
//! Only the time of the servers counts (the router's and the shard's); the time of the whole machine, with the client, is printed next to
//! it. A missed target is printed, but is not a failure.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use fathom_process::Signals;
use fathom_stats::median;
use serde_json::Value;

use crate::lab::{beside, cpu_of_children_s, cpu_s, span, verdict};

/// The most processor time through the router as a ratio to that without it (issue 7, "It must show").
const TARGET: f64 = 2.5;
/// The same number as in `server`.
const RECORDS: u64 = 200_000;
const OPERATIONS: u64 = 60_000;
const ROUNDS: usize = 9;
/// Connections of the load.
const THREADS: usize = 16;
/// The first port, far from those of other programs of this tree.
const FIRST_PORT: u16 = 31_400;

pub(crate) fn run(root: PathBuf, _: &[String]) -> Result<bool> {
    let signals = Signals::install()?;
    let parent = std::env::var_os("BENCH_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    std::fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let folder = tempfile::Builder::new().prefix("fathom-bench-").tempdir_in(&parent)?;
    let cluster = Cluster::start(folder.path())?;
    let measured = measure(&cluster, &signals);
    cluster.end()?;
    measured.map(|()| true)
}

fn measure(cluster: &Cluster, signals: &Signals) -> Result<()> {
    cluster.ycsb("load", cluster.router.port)?;
    let (mut routed, mut direct, mut ratios, mut whole) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        ensure!(!signals.stopped(), "interrupted");
        // The order changes from round to round.
        let (through, without) = if round % 2 == 0 {
            let through = cluster.cost(cluster.router.port)?;
            (through, cluster.cost(cluster.shard.port)?)
        } else {
            let without = cluster.cost(cluster.shard.port)?;
            (cluster.cost(cluster.router.port)?, without)
        };
        // The first round warms the caches.
        if round > 0 {
            routed.push(through.servers_us);
            direct.push(without.servers_us);
            ratios.push(through.servers_us / without.servers_us);
            whole.push(through.whole_us() / without.whole_us());
        }
    }
    let middle = |values: &[f64]| median(values).context("no rounds");
    let (ratio, all) = (middle(&ratios)?, middle(&whole)?);
    let text = format!(
        "router    {ratio:.2} ({}) of the processor time of a read from the shard itself: {:.1} us beside {:.1} us; target {TARGET}: {}\n\
         router    {all:.2} ({}) with the client's time: {}",
        span(&ratios),
        middle(&routed)?,
        middle(&direct)?,
        verdict(ratio <= TARGET),
        span(&whole),
        verdict(all <= TARGET)
    );
    writeln!(io::stdout(), "{text}").context("cannot print")
}

/// Processor time of a point read, in microseconds.
struct Cost {
    servers_us: f64,
    client_us: f64,
}

impl Cost {
    fn whole_us(&self) -> f64 {
        self.servers_us + self.client_us
    }
}

/// One server of the cluster.
struct Server {
    port: u16,
    pid: u32,
}

/// A router, a config server and a shard.
struct Cluster {
    program: PathBuf,
    folder: PathBuf,
    router: Server,
    shard: Server,
}

impl Cluster {
    fn start(parent: &Path) -> Result<Cluster> {
        let program = beside("fathom")?;
        let folder = parent.join("cluster");
        let port = FIRST_PORT.to_string();
        let arguments =
            ["--replicaset", "--nodes", "1", "--sharded", "1", "--binarypath", "fathom", "--port", &port];
        let sharded = ["--shard-collection", "ycsb.usertable={_id: hashed}"];
        call(&program, "init", &folder, &[&arguments[..], &sharded].concat())?;
        let listed = call(&program, "list", &folder, &["--json"]);
        let found = listed.and_then(|text| Ok((server(&text, "mongos")?, server(&text, "shard")?)));
        match found {
            Ok((router, shard)) => Ok(Cluster { program, folder, router, shard }),
            Err(error) => {
                let _ = call(&program, "destroy", &folder, &[]);
                Err(error)
            }
        }
    }

    fn end(&self) -> Result<()> {
        call(&self.program, "destroy", &self.folder, &[]).map(drop)
    }

    /// The cost of each point read through a port.
    fn cost(&self, port: u16) -> Result<Cost> {
        let spent = || Ok::<f64, anyhow::Error>(cpu_s(self.router.pid)? + cpu_s(self.shard.pid)?);
        let (before_s, client_before_s) = (spent()?, cpu_of_children_s()?);
        self.ycsb("run", port)?;
        let each_us = |spent_s: f64| spent_s * 1e6 / OPERATIONS as f64;
        Ok(Cost {
            servers_us: each_us(spent()? - before_s),
            client_us: each_us(cpu_of_children_s()? - client_before_s),
        })
    }

    fn ycsb(&self, what: &str, port: u16) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["ycsb", what, "mongodb", "--no-record", "-p", "workload=CoreWorkload"]);
        for property in [
            format!("mongodb.url=mongodb://127.0.0.1:{port}/ycsb?directConnection=true"),
            format!("recordcount={RECORDS}"),
            format!("operationcount={OPERATIONS}"),
            format!("threadcount={THREADS}"),
            "readproportion=1".to_owned(),
            "updateproportion=0".to_owned(),
            "requestdistribution=uniform".to_owned(),
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

fn call(program: &Path, action: &str, folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(["cluster", action, "--dir"]).arg(folder).args(arguments).stdin(Stdio::null());
    let output = command.output().context("cannot start fathom")?;
    if !output.status.success() {
        bail!("fathom cluster {action} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first server with a tag in the output of `fathom cluster list --json`.
fn server(listed: &str, tag: &str) -> Result<Server> {
    let listed: Value = serde_json::from_str(listed).context("fathom cluster list printed no JSON")?;
    let servers = listed["servers"].as_array().context("fathom cluster list printed no servers")?;
    let has = |server: &&Value| {
        server["tags"].as_array().is_some_and(|tags| tags.iter().any(|one| one == tag))
            || server["process"].as_str().is_some_and(|process| process == tag)
    };
    let found = servers.iter().find(has).with_context(|| format!("the cluster has no {tag}"))?;
    let number = |name: &str| found[name].as_u64().with_context(|| format!("a server without its {name}"));
    Ok(Server { port: u16::try_from(number("port")?)?, pid: u32::try_from(number("pid")?)? })
}
