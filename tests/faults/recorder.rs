//! Records a study: a server on a real disk, a watched load on it, and the disturbance of the machine meanwhile.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::{Document, doc};
use fathom_testkit::{Disturbance, Fathom, LabServer, Scratch, assert, with_disturbance};
use rustix::fs::syncfs;

use super::study::{PROGRAM, Recording, only_entry};

/// Flags of a server whose cache is far smaller than the data, with the kernel's page cache left out, so that reads reach the disk.
pub(crate) const NO_CACHE: [&str; 2] = ["--wiredTigerEngineConfigString", "cache_size=12M,direct_io=[data]"];

/// Flags of a load that only reads, each record as often as any other.
pub(crate) const UNIFORM_READS: &str =
    "-p requestdistribution=uniform -p readproportion=1 -p updateproportion=0";

/// Flags of a load that only updates, each record as often as any other.
pub(crate) const UNIFORM_UPDATES: &str =
    "-p requestdistribution=uniform -p readproportion=0 -p updateproportion=1";

/// Keeps the run folders of a study, and the worst disturbance of the machine while they were recorded.
pub(crate) struct Recorder {
    scratch: Scratch,
    runs: BTreeMap<String, PathBuf>,
    disturbance: Disturbance,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        let scratch = Scratch::new().unwrap();
        Recorder { scratch, runs: BTreeMap::new(), disturbance: Disturbance::default() }
    }

    pub(crate) fn finish(self) -> (Recording, Disturbance) {
        (Recording { runs: self.runs, _scratch: self.scratch }, self.disturbance)
    }

    /// Runs a call that leaves one run folder, keeps it under `name`, and notes how the machine was disturbed.
    pub(crate) fn record(&mut self, name: &str, call: Fathom) {
        let (_, disturbance) = with_disturbance(|| self.record_busy(name, call));
        self.disturbance = self.disturbance.max(disturbance);
    }

    /// The same where the study keeps the processors busy on purpose.
    pub(crate) fn record_busy(&mut self, name: &str, call: Fathom) {
        // A build just before leaves gigabytes for the disk below the loop devices, which would make the load stand still.
        syncfs(File::open(self.scratch.path()).unwrap()).unwrap();
        let folder = self.scratch.path().join(name);
        let output = call.arg("--runs").arg(&folder).run();
        assert!([0, 1, 4].contains(&output.code), "{}\n{}", output.stdout, output.stderr);
        self.runs.insert(name.to_owned(), only_entry(&folder));
    }
}

/// A probe of the disk at `folder`: random reads of 32 KiB at rising depths.
pub(crate) fn probe(folder: &Path) -> Fathom {
    let words =
        ["--pattern", "randread", "--block", "32K", "--depth", "1..64", "--size", "64M", "--time", "1s"];
    Fathom::new(PROGRAM).arg("disk").arg("--dir").arg(folder).args(words)
}

/// A server with records in it.
pub(crate) struct LoadedServer {
    pub(crate) server: LabServer,
    /// Where loads find it.
    pub(crate) host: String,
    records: u64,
}

impl LoadedServer {
    /// Starts a server on `folder` and loads records of about 1 KB.
    pub(crate) fn start(engine: &str, folder: &Path, flags: &[&str], records: u64) -> LoadedServer {
        let server =
            LabServer::start(PROGRAM, engine, &folder.join("db"), flags).expect("the server comes up");
        LoadedServer::load_into(server, records)
    }

    /// Loads records of about 1 KB into a server of this host.
    pub(crate) fn load_into(server: LabServer, records: u64) -> LoadedServer {
        let loaded = LoadedServer { server, host: "127.0.0.1".to_owned(), records };
        loaded.ycsb("load", loaded.server.port(), "-threads 4 --no-record").run().expect_code(0);
        loaded
    }

    /// A watched load through `port` for some seconds, with the flags in `words`.
    pub(crate) fn watched(&self, port: u16, seconds: u64, words: &str) -> Fathom {
        self.load(port, seconds, words).arg("--watch")
    }

    /// A load through `port` for some seconds, with the flags in `words`.
    pub(crate) fn load(&self, port: u16, seconds: u64, words: &str) -> Fathom {
        self.ycsb("run", port, &format!("-p operationcount=0 -p maxexecutiontime={seconds} {words}"))
    }

    /// The server alone, watched and judged for some seconds.
    pub(crate) fn explained(&self, seconds: u64) -> Fathom {
        Fathom::new(PROGRAM)
            .args(["explain", "--uri", &format!("mongodb://127.0.0.1:{}", self.server.port())])
            .args(["--for", &format!("{seconds}s")])
            .limit(Duration::from_secs(2 * seconds + 60))
    }

    fn ycsb(&self, phase: &str, port: u16, words: &str) -> Fathom {
        Fathom::new(PROGRAM)
            .args(["ycsb", phase, "mongodb", "-p", "workload=CoreWorkload"])
            .args(["-p", &format!("mongodb.url=mongodb://{}:{port}/ycsb", self.host)])
            .args(["-p", &format!("recordcount={}", self.records)])
            .args(words.split_whitespace())
            .limit(Duration::from_secs(600))
    }

    /// Sets how often checkpoints come.
    pub(crate) fn set_syncdelay(&self, seconds: i32) {
        self.command(&doc! { "setParameter": 1, "syncdelay": seconds });
    }

    fn command(&self, command: &Document) {
        self.server.connect().unwrap().run("admin", command).unwrap();
    }

    pub(crate) fn stop(self) {
        self.server.stop().expect_code(0);
    }
}
