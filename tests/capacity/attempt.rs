//! A stated capacity is tried: the search of a checkup on a disk, and then `ycsb` on a server of the same kind, below and above the rate.

use std::path::PathBuf;
use std::time::Duration;

use fathom_probe::Pace;
use fathom_record::Run;
use fathom_record::capacity::{Capacity, CapacityLoad};
use fathom_record::disk::capacities;
use fathom_session::{
    CapacitySpec, Driver, LoadSpec, MonitorSpec, RecordSpec, ServerSpec, SessionReport, SessionSpec,
    WorkloadSpec,
};
use fathom_testkit::{
    Disturbance, DisturbanceLimit, Fathom, LabServer, Scratch, assert, assert_eq, with_disturbance,
};
use serde::{Deserialize, Serialize};

use super::disk::Disk;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fathom");
/// The objective of every search and attempt.
const OBJECTIVE: &str = "p99<10ms";
const OBJECTIVE_US: f64 = 10_000.0;
/// The seconds of an attempt, after its warm-up: two checkpoint cycles, or none at all; longer at a low rate, up to the most.
const QUICK_ATTEMPT_S: u32 = 10;
const ATTEMPT_S: u32 = 20;
const MAX_ATTEMPT_S: u32 = 30;
/// Reads at full speed before the first attempt, as a search has them: the cache of a server that has only loaded its table lacks the pages that lead
/// to the records, and under a cap of 300 requests reading them takes four seconds.
const WARMUP_S: u32 = 5;
/// The operations that decide about a 99th percentile.
const MIN_OPERATIONS: f64 = 1500.0;
/// A stop of the machine makes the operations that are due in it slow, at any rate: one of 100 ms is 1 % of a quick attempt, which is all that the
/// objective allows. Client and server keep the processors busy on purpose.
pub(crate) const LIMIT: DisturbanceLimit =
    DisturbanceLimit { standstill: Duration::from_millis(100), wait_share: 1.0 };
/// How often a rate is tried on a machine that is disturbed each time.
const MAX_TRIES: usize = 3;

/// The capacities that the search of a checkup states for reads and journaled writes.
pub(crate) fn search(disk: &Disk, pace: Pace, seed: u64) -> Vec<Capacity> {
    let runs = Scratch::new().unwrap();
    let mut spec = CapacitySpec::new(pace, OBJECTIVE.parse().unwrap(), seed);
    spec.searches.retain(|search| search.load != CapacityLoad::Mix);
    let spec = SessionSpec {
        record: Some(RecordSpec::new("checkup", Some(runs.path()), &disk.path()).seed(seed)),
        loads: vec![LoadSpec {
            server: ServerSpec::Local {
                engine: "wiredTiger".to_owned(),
                name: "Server on WiredTiger".to_owned(),
                dir: disk.path(),
                storage: CapacitySpec::storage(pace),
            },
            workload: WorkloadSpec::Capacity(spec),
            driver: Driver::Own,
            monitor: Some(MonitorSpec { is_required: false, ..MonitorSpec::default() }),
            is_strict: true,
            has_points: false,
        }],
        ..SessionSpec::default()
    };
    let call = disk.call(PROGRAM).arg("session").stdin(serde_json::to_vec(&spec).unwrap());
    let report: SessionReport = serde_json::from_value(call.run().expect_code(0).json()).unwrap();
    assert!(report.error.is_none(), "{report:?}");
    let results = Run::open(report.folder.unwrap()).unwrap().results().unwrap();
    capacities(&results).into_iter().cloned().collect()
}

/// How a rate went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) offered_per_s: f64,
    pub(crate) done_per_s: f64,
    pub(crate) p99_us: f64,
    pub(crate) seconds: u32,
}

impl Attempt {
    /// Whether the objective held, and what was due was done but for what chance explains.
    pub(crate) fn holds(&self) -> bool {
        let slack = 3.0 * (self.offered_per_s / f64::from(self.seconds)).sqrt();
        self.p99_us < OBJECTIVE_US && self.done_per_s >= 0.99 * self.offered_per_s - slack
    }
}

/// A server like that of a search, with its table loaded.
pub(crate) struct LoadedServer {
    server: LabServer,
    folder: PathBuf,
    spec: CapacitySpec,
    attempt_s: u32,
}

impl LoadedServer {
    pub(crate) fn start(disk: &Disk, pace: Pace) -> LoadedServer {
        let folder = disk.path().join("attempts");
        std::fs::create_dir(&folder).unwrap();
        let flags = CapacitySpec::storage(pace).flags("wiredTiger", true);
        let server = disk.server(PROGRAM, &folder, &flags);
        let loaded = LoadedServer {
            server,
            folder,
            spec: CapacitySpec::new(pace, OBJECTIVE.parse().unwrap(), 0),
            attempt_s: if pace == Pace::Quick { QUICK_ATTEMPT_S } else { ATTEMPT_S },
        };
        loaded.ycsb("load", loaded.spec.records, &[]);
        let mut connection = loaded.server.connect().unwrap();
        connection.run("admin", &bson::doc! { "fsync": 1 }).unwrap();
        let reads =
            ["readproportion=1", "updateproportion=0", "requestdistribution=uniform", "operationcount=0"];
        let time = format!("maxexecutiontime={WARMUP_S}");
        let properties = reads.into_iter().chain([time.as_str()]).flat_map(|one| ["-p", one]);
        let properties: Vec<String> = properties.map(str::to_owned).collect();
        loaded.ycsb("run", loaded.spec.records, &properties);
        loaded
    }

    /// Drives a load at a rate, again while the machine is disturbed. Returns the last attempt with the disturbance of the machine during it.
    pub(crate) fn attempt_at_rest(
        &self,
        load: CapacityLoad,
        rate_per_s: f64,
        seed: u64,
    ) -> (Attempt, Disturbance) {
        let attempt = || with_disturbance(|| self.attempt(load, rate_per_s, seed));
        let mut made = attempt();
        for _ in 1..MAX_TRIES {
            if !made.1.exceeds(LIMIT) {
                break;
            }
            println!("disturbed at {rate_per_s:.0} a second, tried again: {}", made.1);
            made = attempt();
        }
        made
    }

    /// Drives a load at a rate, each time with other keys.
    fn attempt(&self, load: CapacityLoad, rate_per_s: f64, seed: u64) -> Attempt {
        let (records, reads) = match load {
            CapacityLoad::JournaledWrites => (self.spec.journaled_records(), "0"),
            CapacityLoad::Reads | CapacityLoad::Mix => (self.spec.records, "1"),
        };
        let enough_s = (MIN_OPERATIONS / rate_per_s.max(1.0)) as u32;
        let seconds = self.attempt_s.max(enough_s.min(MAX_ATTEMPT_S));
        let updates = if reads == "0" { "1" } else { "0" };
        let set = |name: &str, value: &str| ["-p".to_owned(), format!("{name}={value}")];
        let properties = [
            set("readproportion", reads),
            set("updateproportion", updates),
            set("requestdistribution", "uniform"),
            set("mongodb.writeConcern", "journaled"),
            set("operationcount", "0"),
            set("arrivals", "poisson"),
            set("target", &rate_per_s.to_string()),
            set("measurement.interval", "intended"),
            set("warmup", "2"),
            set("maxexecutiontime", &seconds.to_string()),
            set("seed", &seed.to_string()),
        ];
        let report = self.ycsb("run", records, properties.as_flattened());
        let figure = |line: &str| -> f64 {
            let found = report.lines().find_map(|one| one.strip_prefix(line)?.strip_prefix(", "));
            found.unwrap_or_else(|| panic!("no {line} in {report}")).trim().parse().unwrap()
        };
        let operation = if reads == "0" { "UPDATE" } else { "READ" };
        Attempt {
            offered_per_s: rate_per_s,
            seconds,
            done_per_s: figure("[OVERALL], Throughput(ops/sec)"),
            p99_us: figure(&format!("[{operation}], 99thPercentileLatency(us)")),
        }
    }

    fn ycsb(&self, phase: &str, records: u64, properties: &[String]) -> String {
        let port = self.server.port();
        let call = Fathom::new(PROGRAM)
            .args(["ycsb", phase, "mongodb", "-threads", "64", "--no-record"])
            .args(["-p", "workload=CoreWorkload", "-p", "insertorder=ordered", "-p", "zeropadding=12"])
            .args(["-p", &format!("recordcount={records}")])
            .args(["-p", &format!("mongodb.url=mongodb://127.0.0.1:{port}/ycsb")])
            .args(properties)
            .limit(Duration::from_secs(600));
        call.run().expect_code(0).stdout
    }

    /// Stops it and removes its data.
    pub(crate) fn stop(self) {
        let output = self.server.stop();
        assert_eq!(output.code, 0, "{}", output.stderr);
        std::fs::remove_dir_all(self.folder).unwrap();
    }
}
