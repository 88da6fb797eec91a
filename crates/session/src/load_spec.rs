//! The specification of a load: the server, and a workload (YCSB's core workload in parts, a search for the highest rate, or documents).

use std::path::PathBuf;
use std::time::Duration;

use fathom_errors::{Error, Result};
use fathom_load::binding::{Binding, url};
use fathom_load::client_settings::{ClientSettings, operation_count, phase_of};
use fathom_load::core_workload::{CoreWorkload, Mix, Phase};
use fathom_load::document_workload::DocumentWorkload;
use fathom_load::driving::Arrivals;
use fathom_load::properties::Properties;
use fathom_stats::Slo;
use fathom_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::{CapacitySpec, LocalStorage, MonitorSpec};

/// A load on one deployment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadSpec {
    /// The server to load.
    pub server: ServerSpec,
    pub workload: WorkloadSpec,
    /// The driver of the connections.
    pub driver: Driver,
    /// The samplers that run during the load. Their servers and namespace are those of the load.
    pub monitor: Option<MonitorSpec>,
    /// True if a failed operation makes the load an error.
    pub is_strict: bool,
    /// True if the caller gets every operation as a point.
    pub has_points: bool,
}

impl LoadSpec {
    /// Returns whether it measures capacities.
    pub(crate) fn is_capacity(&self) -> bool {
        matches!(self.workload, WorkloadSpec::Capacity(_))
    }
}

/// The server to load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServerSpec {
    /// The deployment and the database in `mongodb.url`.
    Url,
    /// A deployment, in which a database is created for the load and dropped at the end.
    NewDatabase {
        uri: String,
        /// The name of the database ([`crate::new_database_name`]).
        database: String,
        /// The directory of its data, if that is on this host.
        dir: Option<PathBuf>,
    },
    /// The lab server, started for the load.
    Local {
        /// Its storage engine, by the name on its command line.
        engine: String,
        /// Its name in results.
        name: String,
        /// The directory in which its data folder is created.
        dir: PathBuf,
        /// The storage settings of the server.
        storage: LocalStorage,
    },
}

/// The driver that talks to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Driver {
    /// Fathom's own event loops.
    Own,
    /// MongoDB's official driver for Rust.
    Official,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WorkloadSpec {
    /// YCSB's core workload, in parts one after another.
    Core(Vec<CoreLoad>),
    /// The search for the highest rate of a core workload that holds an objective.
    Search(SearchSpec),
    /// The searches for the capacity of several loads.
    Capacity(CapacitySpec),
    /// A workload of any documents and commands.
    Documents(DocumentLoad),
}

/// A load or a run of YCSB's core workload. A field without a value leaves the property as it is, or at YCSB's default.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CoreLoad {
    /// Its name in results.
    pub name: String,
    /// YCSB's properties. Those that are given as flags win over the fields below.
    pub properties: Properties,
    /// The phase: `false` loads records, `true` runs operations.
    pub is_run: Option<bool>,
    /// Records of the table.
    pub records: Option<u64>,
    /// Operations of a run; 0 is a run that ends by time alone.
    pub operations: Option<u64>,
    pub time: Option<Duration>,
    /// The time at the start that is not counted.
    pub warmup: Option<Duration>,
    /// Connections, each with one operation in flight.
    pub connections: Option<u32>,
    /// The target rate, in operations a second.
    pub rate_per_s: Option<f64>,
    /// The share of reads; the rest are updates.
    pub read_share: Option<f64>,
    /// The seed of its random streams.
    pub seed: Option<u64>,
}

/// A search for the highest rate that holds an objective.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SearchSpec {
    pub load: CoreLoad,
    /// The latency objective of the search.
    pub slo: Slo,
    /// The time that each step is measured.
    pub step: Nanos,
}

/// A workload of documents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DocumentLoad {
    /// The file of the workload, for messages.
    pub file: PathBuf,
    /// The text of the file.
    pub text: String,
    /// YCSB's properties of the client.
    pub properties: Properties,
}

/// A workload that has passed all checks, and the settings of its client.
#[derive(Clone, Debug)]
pub struct LoadPlan<W> {
    pub workload: W,
    /// The phase: loading records or running operations.
    pub phase: Phase,
    /// The deployment, with the concerns and preferences of requests.
    pub binding: Binding,
    /// The settings of the client.
    pub settings: ClientSettings,
    pub properties: Properties,
    /// One sentence for each warning.
    pub warnings: Vec<String>,
}

impl<W> LoadPlan<W> {
    /// The connection string; it may hold a password.
    pub(crate) fn url(&self) -> &str {
        url(&self.properties)
    }
}

impl CoreLoad {
    /// The properties, with the fields added.
    fn all_properties(&self) -> Properties {
        let mut properties = self.properties.clone();
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        for (name, value) in [
            ("dotransactions", self.is_run.map(|is_run| is_run.to_string())),
            ("recordcount", self.records.map(|count| count.to_string())),
            ("operationcount", self.operations.map(|count| count.to_string())),
            ("maxexecutiontime", self.time.map(seconds)),
            ("warmup", self.warmup.map(seconds)),
            ("threadcount", self.connections.map(|count| count.to_string())),
            ("target", self.rate_per_s.map(|rate| rate.to_string())),
            ("readproportion", self.read_share.map(|share| share.to_string())),
            ("updateproportion", self.read_share.map(|share| (1.0 - share).to_string())),
            ("seed", self.seed.map(|seed| seed.to_string())),
        ] {
            if let Some(value) = value {
                properties.set_unless_flag(name, &value, "the session");
            }
        }
        properties
    }

    /// Reads the workload; opens nothing.
    ///
    /// # Errors `Kind::Usage` with one sentence for the first invalid property.
    pub fn plan(&self) -> Result<LoadPlan<CoreWorkload>> {
        self.planned().map_err(|error| error.or_id("bad-property"))
    }

    fn planned(&self) -> Result<LoadPlan<CoreWorkload>> {
        let properties = self.all_properties();
        let phase = phase_of(&properties);
        let workload = CoreWorkload::from_properties(&properties, phase, operation_count(&properties)?)?;
        let mut warnings = properties.unknown();
        warnings.extend(properties.misread());
        if phase == Phase::Run {
            warnings.extend(Mix::surprise(&properties));
            warnings.extend(workload.narrowed_range(&properties)?);
        }
        let (binding, more) = Binding::from_properties(&properties)?;
        warnings.extend(more);
        let load_count = workload.load_count(&properties)?;
        let (settings, more) = ClientSettings::from_properties(&properties, phase, load_count, &binding)?;
        warnings.extend(more);
        Ok(LoadPlan { workload, phase, binding, settings, properties, warnings })
    }
}

impl DocumentLoad {
    /// Reads the workload; opens nothing.
    ///
    /// # Errors `Kind::Usage` with one sentence for the first invalid part.
    pub fn plan(&self) -> Result<LoadPlan<DocumentWorkload>> {
        let (file, properties) = (self.file.display(), self.properties.clone());
        let workload = DocumentWorkload::parse(&self.text)
            .map_err(|error| Error::new(error.kind(), format!("{file}: {error}")).with_id("bad-workload"))?;
        let phase = phase_of(&properties);
        if phase == Phase::Run && workload.phases().is_empty() {
            return Err(Error::usage(format!("{file} has no phases to run")));
        }
        let mut warnings = properties.unknown();
        warnings.extend(properties.misread());
        let (binding, more) = Binding::from_properties(&properties)?;
        warnings.extend(more);
        // The number of documents of a load is known once the collections are.
        let (settings, more) = ClientSettings::from_properties(&properties, phase, Some(u64::MAX), &binding)?;
        // A phase may set its own end.
        let needs_end =
            workload.phases().iter().any(|phase| phase.time.is_none() && phase.operations.is_none());
        warnings.extend(more.into_iter().filter(|one| needs_end || !one.contains("no end")));
        Ok(LoadPlan { workload, phase, binding, settings, properties, warnings })
    }
}

impl LoadPlan<DocumentWorkload> {
    /// Returns whether a phase has a rate.
    pub fn is_paced(&self) -> bool {
        let phases = self.workload.phases();
        phases.iter().any(|phase| phase.arrivals.is_some_and(|one| one != Arrivals::Closed))
    }
}
