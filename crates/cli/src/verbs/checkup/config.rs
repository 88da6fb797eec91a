//! The command line of a checkup, and the session that it specifies: the monitoring of a deployment, the probe of the disk, and the
//! searches on the built-in server or the loads of a deployment.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use fathom_explain::{FailCondition, Need};
use fathom_host::doctor::MongoVersion;
use fathom_host::{MachineSize, View};
use fathom_probe::{Pace, Permits};
use fathom_record::Finding;
use fathom_session::{
    CapacitySpec, CoreLoad, Driver, ENGINES, IS_BUILT_IN, LoadSpec, MonitorSpec, ProbePlan, ProbeSpec,
    RecordSpec, ServerSpec, SessionSpec, WorkloadSpec,
};
use fathom_stats::Slo;
use fathom_units::{Bytes, Nanos};

use crate::arguments::{DocumentArgs, default_engine, parse_seed};
use crate::run_page::PageArgs;

/// Connections of the loads of a deployment.
const CONNECTIONS: u32 = 16;
/// The arguments of `fathom checkup`.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// Directory on the disk where the data are, or will be [default: .]
    #[arg(long)]
    pub(super) dir: Option<PathBuf>,
    /// Take about 45 seconds: less data, fewer and shorter steps, no mix
    #[arg(long)]
    pub(super) quick: bool,
    /// Watch this deployment, reading only, and say what holds it back; with --dir that directory is measured too
    #[arg(long, value_name = "URI")]
    pub(super) uri: Option<String>,
    /// How long the deployment is watched [default: 1m, with --quick 15s]
    #[arg(long = "for", value_name = "TIME", requires = "uri", conflicts_with = "load")]
    pub(super) time: Option<Nanos>,
    /// Load the deployment instead of the built-in server: creates a database there, and drops it at the end
    #[arg(long, requires = "uri", conflicts_with = "no_load")]
    pub(super) load: bool,
    /// Load the server without asking first
    #[arg(long, requires = "load", conflicts_with_all = ["no_load", "time", "slo", "need", "storage_engine"])]
    pub(super) yes: bool,
    /// Only probe the disk, and load no server
    #[arg(long)]
    pub(super) no_load: bool,
    /// The objective that a capacity holds (default "p99<10ms")
    #[arg(long, value_name = "OBJECTIVE", conflicts_with_all = ["load", "no_load"])]
    pub(super) slo: Option<Slo>,
    /// Answer whether the disk carries this need, for example reads=5000,writes=800,p99=10ms,data=500G,memory=64G,hot=20%:80%
    #[arg(long, value_name = "NEED", conflicts_with_all = ["load", "no_load"])]
    pub(super) need: Option<Need>,
    /// The engine of the built-in server [default: wiredTiger]
    #[arg(long = "storageEngine", value_enum, value_name = "ENGINE", conflicts_with_all = ["load", "no_load"])]
    pub(super) storage_engine: Option<EngineChoice>,
    /// The version of MongoDB to judge the host for
    #[arg(long, value_name = "VERSION")]
    pub(super) mongodb: Option<MongoVersion>,
    /// Size of the test file [default: a quarter of the free space, 2G at most]
    #[arg(long)]
    pub(super) size: Option<Bytes>,
    #[command(flatten)]
    pub(super) documents: DocumentArgs,
    /// Ignored, for old scripts: network and FUSE file systems are measured without it
    #[arg(long, hide = true)]
    pub(super) any_fs: bool,
    /// Fail where the time of operations under load exceeds a limit ('p99>10ms'): the exit code then tells that alone
    #[arg(long, value_name = "CONDITION", conflicts_with = "no_load")]
    pub(super) fail_if: Option<FailCondition>,
    /// Seed of all random streams
    #[arg(long, default_value_t = 42, value_parser = parse_seed)]
    pub(super) seed: u64,
    /// Print JSON: one document, or a line per result
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "document", value_name = "SHAPE")]
    pub(super) json: Option<Json>,
    /// Show everything as it is measured: all host settings, each step of the probe and of the loads
    #[arg(long, short)]
    pub(super) verbose: bool,
    /// Directory for run folders [default: the state folder's runs/]
    #[arg(long, value_name = "DIR", conflicts_with = "no_record")]
    pub(super) runs: Option<PathBuf>,
    /// Keep no run folder
    #[arg(long)]
    pub(super) no_record: bool,
    #[command(flatten)]
    pub(super) page: PageArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Json {
    Document,
    Lines,
}

/// The engines that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EngineChoice {
    #[value(name = "wiredTiger")]
    WiredTiger,
    #[value(name = "rocksdb")]
    RocksDb,
    Both,
}

impl EngineChoice {
    /// The engines, each with its name on the command line and its name in text.
    pub(super) fn engines(self) -> Vec<(&'static str, &'static str)> {
        let is_chosen = |engine: &str| match self {
            EngineChoice::WiredTiger => engine == "wiredTiger",
            EngineChoice::RocksDb => engine == "rocksdb",
            EngineChoice::Both => true,
        };
        ENGINES.into_iter().filter(|(engine, _)| is_chosen(engine)).collect()
    }
}

/// The name of the built-in server in results.
pub(super) fn server_name(engine: &str) -> String {
    format!("Server on {engine}")
}

impl Config {
    /// The specification of the session. If a deployment is loaded, the load uses a database of this name.
    pub(super) fn session(
        &self,
        host_findings: Vec<Finding>,
        database: Option<String>,
    ) -> Result<SessionSpec> {
        let record = RecordSpec::new("checkup", self.runs.clone(), self.directory()).seed(self.seed);
        Ok(SessionSpec {
            record: (!self.no_record).then_some(record),
            findings: host_findings,
            monitor: self.monitor()?,
            probe: self.examines_directory().then(|| self.probe()).transpose()?,
            loads: self.loads(database),
        })
    }

    /// The directory whose disk is examined.
    pub(super) fn directory(&self) -> &Path {
        self.dir.as_deref().unwrap_or(Path::new("."))
    }

    /// Whether a directory is examined, and not only a deployment.
    pub(super) fn examines_directory(&self) -> bool {
        self.uri.is_none() || self.load || self.dir.is_some()
    }

    fn probe(&self) -> Result<ProbeSpec> {
        // The capacities are the answer, so a short probe is enough.
        let pace = if self.quick || self.measures_capacity() { Pace::Quick } else { Pace::Full };
        Ok(ProbeSpec {
            size: self.size.or_else(|| ProbeSpec::size_for(self.directory(), pace)),
            // For a network volume the answer says that its device is on another host.
            permits: Permits { any_file_system: true, destroy: None },
            seed: self.seed,
            documents: self.documents.documents()?,
            layout_budget: Some(ProbeSpec::layout_budget_for(pace)),
            ..ProbeSpec::new(self.directory(), ProbePlan::Profile(pace, default_engine()))
        })
    }

    /// Whether the built-in server's capacities are measured.
    pub(super) fn measures_capacity(&self) -> bool {
        IS_BUILT_IN && !self.no_load && !self.load && self.examines_directory()
    }

    /// The searches on the lab server, or else the loads of the named deployment.
    fn loads(&self, database: Option<String>) -> Vec<LoadSpec> {
        if let Some((uri, database)) = self.uri.clone().zip(database) {
            let server = ServerSpec::NewDatabase { uri, database, dir: self.dir.clone() };
            let monitor = MonitorSpec { is_judged: true, is_required: false, ..MonitorSpec::default() };
            return vec![Self::load(server, WorkloadSpec::Core(self.parts()), monitor)];
        }
        if !self.measures_capacity() {
            return Vec::new();
        }
        let of_engine = |(number, (engine, name)): (usize, (&str, &str))| {
            let storage = CapacitySpec::storage(self.pace());
            let (engine, name) = (engine.to_owned(), server_name(name));
            let dir = self.directory().to_owned();
            let server = ServerSpec::Local { engine, name, dir, storage };
            let monitor = MonitorSpec { is_required: false, first_member: number, ..MonitorSpec::default() };
            Self::load(server, WorkloadSpec::Capacity(self.capacity()), monitor)
        };
        self.engines().into_iter().enumerate().map(of_engine).collect()
    }

    fn load(server: ServerSpec, workload: WorkloadSpec, monitor: MonitorSpec) -> LoadSpec {
        LoadSpec {
            server,
            workload,
            driver: Driver::Own,
            monitor: Some(monitor),
            is_strict: true,
            has_points: false,
        }
    }

    pub(super) fn capacity(&self) -> CapacitySpec {
        CapacitySpec { need: self.need_here(), ..CapacitySpec::new(self.pace(), self.slo(), self.seed) }
    }

    fn pace(&self) -> Pace {
        if self.quick { Pace::Quick } else { Pace::Full }
    }

    /// The need, on a machine with this one's memory unless it specifies its own.
    fn need_here(&self) -> Option<Need> {
        let need = self.need.clone()?;
        let size = MachineSize::read(&View::live());
        Some(match size {
            Some(size) => need.on_machine(size.memory),
            None => need,
        })
    }

    /// The objective of the need, or else of `--slo`.
    pub(super) fn slo(&self) -> Slo {
        let of_need = self.need.as_ref().and_then(|need| need.slo.clone());
        of_need.or_else(|| self.slo.clone()).unwrap_or_default()
    }

    /// The engines of the built-in server, each with its name on the command line and its name in text.
    pub(super) fn engines(&self) -> Vec<(&'static str, &'static str)> {
        self.storage_engine.unwrap_or(EngineChoice::WiredTiger).engines()
    }

    /// A load, and the workloads A and C.
    fn parts(&self) -> Vec<CoreLoad> {
        let (load_s, run_s, records) = if self.quick { (2, 1, 20_000) } else { (30, 15, 200_000) };
        let part = |(name, reads, seconds): (&str, Option<f64>, u64)| {
            let mut load = CoreLoad {
                name: name.to_owned(),
                is_run: Some(reads.is_some()),
                records: Some(records),
                operations: Some(0),
                time: Some(Duration::from_secs(seconds)),
                connections: Some(CONNECTIONS),
                read_share: Some(reads.unwrap_or(1.0)),
                seed: Some(self.seed),
                ..CoreLoad::default()
            };
            load.properties.set("workload", "CoreWorkload", "checkup");
            load.properties.set("requestdistribution", "zipfian", "checkup");
            load
        };
        [("load", None, load_s), ("workload A", Some(0.5), run_s), ("workload C", Some(1.0), run_s)]
            .map(part)
            .to_vec()
    }
}
