//! The servers of a trial and the load on them: a cluster as `fathom cluster` makes it, YCSB's records, then the run, watched.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_client::connection_text::{with_database, with_options};
use fathom_cluster::{
    CONFIG_SET, Cluster, ClusterPlan, ClusterShape, HeldCluster, Launcher, MemberOptions, Node, OWN, Purpose,
    ReplicaSet, ServerOptions, ShardedCollection, Tools, Topology,
};
use fathom_errors::{Error, Kind, Result};
use fathom_load::properties::Properties;
use fathom_record::Run;
use fathom_session::{
    CoreLoad, Driver, LoadSpec, MonitorSpec, RecordSpec, ServerSpec, SessionSpec, WorkloadSpec, run_in_child,
};

use crate::Bench;
use crate::metrics::{MetricSources, figures_of, load_of};
use crate::setup::{Setup, TrialLoad, TrialServers};

use super::targets::Targets;

/// The namespace that YCSB loads.
const NAMESPACE: &str = "ycsb.usertable";
/// The time limit for servers to be ready.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The range of ports to search: below those that the kernel assigns by itself.
const PORTS: std::ops::Range<u16> = 21_000..31_000;
/// The number of attempts if others take the ports that were free a moment before.
const MAX_ATTEMPTS: u64 = 20;

/// Makes the servers, loads and queries them, and reads the result.
pub(super) fn run(
    bench: &Bench,
    setup: &Setup,
    targets: &Targets,
    seed: u64,
    folder: &Path,
) -> Result<MetricSources> {
    fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))?;
    let tools = Tools {
        ledger: bench.ledger.clone(),
        launcher: Launcher::new(&bench.program),
        signals: bench.signals.clone(),
        timeout: START_TIMEOUT,
        tell: &|_| (),
    };
    let held = start(bench, setup, targets, seed, &tools)?;
    let measured =
        adopt(held.cluster(), targets).and_then(|()| measure(bench, setup, held.cluster(), seed, folder));
    if measured.is_err() {
        // The servers' logs explain a failure.
        let _ = keep_logs(held.cluster(), folder);
    }
    let ended = held.end(&tools);
    let figures = measured?;
    ended?;
    Ok(figures)
}

/// Refuses servers that cannot be started: missing programs, unknown options. Makes nothing.
pub(crate) fn check(bench: &Bench, setup: &Setup) -> Result<()> {
    let folder = bench.work.join(bench.ledger.unique_name());
    let topology = topology(&setup.servers, &|at| Ok(folder.join(format!("member{at}"))))?;
    ClusterPlan::new(&folder, topology, &bench.program, &mut |_| ()).map(drop)
}

/// Starts the cluster on ports that are free.
fn start(
    bench: &Bench,
    setup: &Setup,
    targets: &Targets,
    seed: u64,
    tools: &Tools<'_>,
) -> Result<HeldCluster> {
    let folder = targets.beside().join("cluster");
    let mut attempt = 0;
    loop {
        let mut topology = topology(&setup.servers, &|at| targets.folder_of(at))?;
        // Random by seed and process, so that studies that run at the same time seldom collide.
        let mut stream =
            fathom_stats::SeededRandom::from_seed(seed ^ u64::from(std::process::id())).split(attempt);
        let width = u64::from(PORTS.end - PORTS.start - 100);
        topology.first_port = PORTS.start + u16::try_from(stream.below(width)).unwrap_or(0);
        let wish = ClusterPlan::new(&folder, topology, &bench.program, &mut |_| ())?;
        match wish.make_held(tools, "") {
            Err(error) if error.kind() == Kind::Busy && attempt < MAX_ATTEMPTS => attempt += 1,
            made => return made,
        }
    }
}

fn adopt(cluster: &Cluster, targets: &Targets) -> Result<()> {
    let data = cluster.nodes().iter().zip(cluster.processes()).filter(|(node, _)| is_data(node));
    for (at, (_, process)) in data.enumerate() {
        if let Some(process) = process {
            targets.adopt(at, process.pid)?;
        }
    }
    Ok(())
}

fn is_data(node: &Node) -> bool {
    matches!(node.purpose, Purpose::Data | Purpose::Single)
}

/// The servers to start.
fn topology(servers: &TrialServers, folder_of: &dyn Fn(usize) -> Result<PathBuf>) -> Result<Topology> {
    let options = |place: usize, member: usize| -> Result<ServerOptions> {
        let engine = servers.engine(member);
        let mut arguments: Vec<String> = servers
            .options
            .iter()
            .filter(|(name, _)| is_for(name, engine))
            .flat_map(|(name, value)| [format!("--{name}"), value.clone()])
            .collect();
        if let Some(compression) = &servers.compression {
            let option = if engine == "rocksdb" {
                "--rocksdbCompression"
            } else {
                "--wiredTigerCollectionBlockCompressor"
            };
            arguments.extend([option.to_owned(), compression.clone()]);
        }
        let mut parameters = servers.parameters.clone();
        parameters.retain(|name, _| is_for(name, engine));
        Ok(ServerOptions {
            engine: Some(engine.to_owned()),
            cache_size_gb: servers.cache.map(|bytes| bytes.0 as f64 / f64::from(1 << 30)),
            parameters,
            arguments,
            directory: Some(folder_of(place)?),
            ..ServerOptions::default()
        })
    };
    let set = |name: String, first: usize| -> Result<ReplicaSet> {
        let member = |at: usize| {
            // Elections would decide which engine leads: the first one does.
            let priority = (at == 0).then_some(10.0);
            Ok(MemberOptions { priority, options: options(first + at, at)?, ..MemberOptions::default() })
        };
        Ok(ReplicaSet { name, members: (0..servers.members as usize).map(member).collect::<Result<_>>()? })
    };
    let shape = match servers.shards {
        Some(shards) => ClusterShape::Sharded {
            shards: (0..shards as usize)
                .map(|at| set(format!("shard{:02}", at + 1), at * servers.members as usize))
                .collect::<Result<_>>()?,
            config: ReplicaSet::plain(CONFIG_SET, 1, 0),
            routers: vec![ServerOptions::default()],
        },
        None if servers.replicated || servers.members > 1 => {
            ClusterShape::ReplicaSet(set("replset".to_owned(), 0)?)
        }
        None => ClusterShape::Single(options(0, 0)?),
    };
    let key = bson::doc! { "_id": "hashed" };
    let sharded =
        || ShardedCollection { namespace: NAMESPACE.to_owned(), key, unique: false, chunks: servers.chunks };
    Ok(Topology {
        shape,
        binaries: Some(servers.binaries.clone().unwrap_or_else(|| OWN.to_owned())),
        collections: servers.shards.map(|_| sharded()).into_iter().collect(),
        ..Topology::default()
    })
}

/// Options of one engine are not passed to the other.
fn is_for(name: &str, engine: &str) -> bool {
    let of_other = if engine == "rocksdb" { "wiredTiger" } else { "rocksdb" };
    !name.starts_with(of_other)
}

/// Loads the records, then runs with samplers.
fn measure(
    bench: &Bench,
    setup: &Setup,
    cluster: &Cluster,
    seed: u64,
    folder: &Path,
) -> Result<MetricSources> {
    let url = url(&cluster.connection_string(), &setup.load);
    let workload = crate::included_studies::workload(&setup.load.workload)?;
    let session = |name: &str, is_run: bool| -> Result<Run> {
        let folder = folder.join(name);
        let load = core_load(&setup.load, &workload, &url, seed, is_run)?;
        let spec = SessionSpec {
            record: Some(RecordSpec::new("ycsb", Some(folder.clone()), Path::new(".")).seed(seed)),
            loads: vec![LoadSpec {
                server: ServerSpec::Url,
                workload: WorkloadSpec::Core(vec![load]),
                driver: Driver::Own,
                monitor: is_run.then(MonitorSpec::default),
                is_strict: true,
                has_points: false,
            }],
            ..SessionSpec::default()
        };
        run_in_child(bench.child_tools(), &spec, &folder, &|_| Ok(()))
    };
    let load = session("load", false)?;
    let mut figures = figures_of(&session("run", true)?)?;
    figures.load = load_of(&load)?;
    Ok(figures)
}

/// The connection string with YCSB's database in it, and the load's requirements for writes and reads.
fn url(connection: &str, load: &TrialLoad) -> String {
    let options = [
        ("w", load.write_concern.clone()),
        ("journal", load.journaled.map(|journaled| journaled.to_string())),
        ("readPreference", load.read_preference.clone()),
    ];
    let options = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
    with_options(&with_database(connection, "ycsb"), options)
}

/// A load or a run; the properties of the study itself win over all others.
fn core_load(load: &TrialLoad, workload: &str, url: &str, seed: u64, is_run: bool) -> Result<CoreLoad> {
    let mut properties = Properties::default();
    properties.add_text(workload.as_bytes(), &load.workload)?;
    properties.set("mongodb.url", url, "the study");
    for (name, value) in &load.properties {
        properties.set(name, value, "the study");
    }
    let of_run = |time: Duration| is_run.then_some(time);
    Ok(CoreLoad {
        name: if is_run { "run" } else { "load" }.to_owned(),
        properties,
        is_run: Some(is_run),
        records: Some(load.records),
        operations: is_run.then(|| load.operations.unwrap_or(0)),
        time: load.time.and_then(|time| of_run(Duration::from_secs_f64(time.as_secs_f64().ceil()))),
        warmup: of_run(load.warmup).filter(|warmup| !warmup.is_zero()),
        connections: Some(load.threads),
        rate_per_s: load.target_per_s.filter(|_| is_run),
        seed: Some(seed),
        ..CoreLoad::default()
    })
}

/// The logs of servers whose trial failed.
fn keep_logs(cluster: &Cluster, folder: &Path) -> Result<()> {
    for node in cluster.nodes() {
        let to = folder.join(format!("{}.log", node.port));
        fs::copy(&node.log_path, &to).map_err(|cause| Error::io("copy", &node.log_path, cause))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_load_asks_stands_in_its_connection_string() {
        let load = TrialLoad {
            write_concern: Some("majority".to_owned()),
            journaled: Some(false),
            ..TrialLoad::default()
        };
        assert_eq!(
            url("mongodb://localhost:1,localhost:2/?replicaSet=replset", &load),
            "mongodb://localhost:1,localhost:2/ycsb?replicaSet=replset&w=majority&journal=false"
        );
        assert_eq!(url("mongodb://h:1", &TrialLoad::default()), "mongodb://h:1/ycsb?");
    }

    #[test]
    fn options_of_one_engine_are_not_given_to_the_other() {
        assert!(is_for("syncdelay", "rocksdb") && is_for("wiredTigerEngineRuntimeConfig", "wiredTiger"));
        assert!(
            !is_for("wiredTigerEngineRuntimeConfig", "rocksdb")
                && !is_for("rocksdbConfigString", "wiredTiger")
        );
    }

    #[test]
    fn a_run_has_what_ends_it_and_a_load_has_not() {
        let mut load =
            TrialLoad { operations: Some(7), warmup: Duration::from_millis(500), ..TrialLoad::default() };
        load.properties.insert("threadcount".to_owned(), "3".to_owned());
        let workload = crate::included_studies::workload(&load.workload).unwrap();
        let of = |is_run| core_load(&load, &workload, "mongodb://h:1/ycsb", 1, is_run).unwrap();
        let (loads, runs) = (of(false), of(true));
        assert_eq!((loads.operations, loads.warmup), (None, None));
        assert_eq!((runs.operations, runs.warmup), (Some(7), Some(Duration::from_millis(500))));
        let plan = runs.plan().unwrap().settings.plan;
        assert_eq!((plan.connections, plan.operations), (3, Some(7)), "the study's own property wins");
        assert_eq!(loads.plan().unwrap().settings.plan.operations, Some(100_000));
    }
}
