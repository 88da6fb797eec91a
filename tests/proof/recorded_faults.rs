//! A server under faults, judged from its own recording and by samplers: both must name the same part of the system.

use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fathom_testkit::{
    Bytes, Cap, CapLimits, Fathom, Filesystem, Need, OrSkip, RealDisk, SlowDisk, Speed, assert, assert_eq,
    assert_ne, test,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::faults::recorder::{LoadedServer, NO_CACHE, UNIFORM_READS, UNIFORM_UPDATES};
use crate::faults::study::PROGRAM;

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The judgement of a server's recording of itself, and the exit code.
fn judged_recording(db: &Path) -> (Value, i32) {
    let output = Fathom::new(PROGRAM).args(["explain", "--json"]).arg(db.join("diagnostic.data")).run();
    (output.json()["servers"][0]["judgement"].clone(), output.code)
}

/// The document of samplers that watch a server for some seconds.
fn judged_by_samplers(loaded: &LoadedServer, seconds: u64, folder: &Path) -> Value {
    loaded.explained(seconds).args(["--json", "--no-record", "--dir"]).arg(folder).run().json()
}

/// Reads at a rate for 115 s: calm, then a cap of the control group for 25 s, calm again, and the process stopped twice for 4 s.
#[test]
fn a_cap_and_stops_are_named_from_the_recording_and_by_samplers() {
    let disk = RealDisk::new(Filesystem::Xfs, Bytes(2 << 30));
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &NO_CACHE, 40_000);
    let limits = CapLimits { read_iops: Some(150), ..CapLimits::default() };
    let cap = Cap::new(disk.ledger(), disk.device_number(), limits).or_skip(Need::Cgroup);
    let server = Pid::from_raw(i32::try_from(loaded.server.pid()).unwrap()).unwrap();
    let words = format!("-threads 8 -target 300 --no-record {UNIFORM_READS}");
    let load = loaded.load(loaded.server.port(), 115, &words);
    let (capped_ms, capped, stopped) = thread::scope(|scope| {
        scope.spawn(move || load.run());
        thread::sleep(Duration::from_secs(40));
        let capped_ms = now_ms();
        cap.adopt_process(loaded.server.pid()).unwrap();
        let capped = judged_by_samplers(&loaded, 20, disk.path());
        thread::sleep(Duration::from_secs(3));
        cap.lift().unwrap();
        thread::sleep(Duration::from_secs(8));
        // The samplers need ten readings to know the usual one.
        let (watched, folder) = (&loaded, disk.path());
        let watch = scope.spawn(move || judged_by_samplers(watched, 32, folder));
        for _ in 0..2 {
            thread::sleep(Duration::from_secs(11));
            kill_process(server, Signal::STOP).unwrap();
            thread::sleep(Duration::from_secs(4));
            kill_process(server, Signal::CONT).unwrap();
        }
        (capped_ms, capped, watch.join().unwrap())
    });
    loaded.stop();
    let (judgement, code) = judged_recording(&disk.path().join("db"));
    assert_eq!(code, 1, "{judgement:#}");
    check(&judgement, &capped, capped_ms);
    assert_eq!(stopped["verdict"]["cause"], "server-stood-still", "{:#}", stopped["verdict"]);
    assert_eq!(stopped["verdict"]["domain"], "server", "{:#}", stopped["verdict"]);
    disk.undo().unwrap();
}

/// Reads from the cache for 60 s, and no fault.
#[test]
fn a_calm_server_is_held_back_by_nothing_from_the_recording_and_by_samplers() {
    let disk = RealDisk::new(Filesystem::Xfs, Bytes(1 << 30));
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &[], 5_000);
    let begun_ms = now_ms();
    let words = format!("-threads 8 -target 300 --no-record {UNIFORM_READS}");
    let load = loaded.load(loaded.server.port(), 60, &words);
    let watched = thread::scope(|scope| {
        scope.spawn(move || load.run());
        thread::sleep(Duration::from_secs(10));
        judged_by_samplers(&loaded, 40, disk.path())
    });
    loaded.stop();
    let (judgement, _) = judged_recording(&disk.path().join("db"));
    for verdict in [&watched["verdict"], &judgement["verdict"]] {
        assert_ne!(verdict["outcome"], "held_back", "{verdict:#}");
    }
    // The loading of the data before may be named.
    let costly = |one: &&Value| one["lost_share"].as_f64().unwrap() >= 0.2;
    let late = |one: &&Value| one["begin_ms"].as_i64().unwrap() > begun_ms + 10_000;
    let incidents = judgement["incidents"].as_array().unwrap();
    let found: Vec<&Value> = incidents.iter().filter(costly).filter(late).collect();
    assert!(found.is_empty(), "{found:#?}");
    disk.undo().unwrap();
}

/// Journaled writes for 80 s on a disk of eight requests of 4 ms at a time, and from 35 s on another program that keeps it busy for 25 s.
#[test]
fn a_neighbour_is_named_from_the_recording_and_by_samplers() {
    let speed = Speed { service: Duration::from_millis(4), parallel: 8 };
    let disk = SlowDisk::new(Filesystem::Xfs, Bytes(1 << 30), speed);
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &[], 2_000);
    let words =
        format!("-threads 8 -target 100 --no-record -p mongodb.writeConcern=journaled {UNIFORM_UPDATES}");
    let load = loaded.load(loaded.server.port(), 80, &words);
    let (begun_ms, watched) = thread::scope(|scope| {
        scope.spawn(move || load.run());
        thread::sleep(Duration::from_secs(35));
        let begun_ms = now_ms();
        let words =
            ["--pattern", "randwrite", "--block", "64K", "--depth", "32", "--size", "16M", "--time", "25s"];
        let call = Fathom::new(PROGRAM).args(["disk", "--no-record", "--dir"]).arg(disk.path()).args(words);
        let neighbour = call.spawn();
        thread::sleep(Duration::from_secs(3));
        let watched = judged_by_samplers(&loaded, 18, disk.path());
        neighbour.wait();
        (begun_ms, watched)
    });
    loaded.stop();
    let (judgement, code) = judged_recording(&disk.path().join("db"));
    assert_eq!(code, 1, "{judgement:#}");
    assert_eq!(watched["verdict"]["cause"], "neighbour-io", "{:#}", watched["verdict"]);
    // Whose disk it is may remain open in a recording of 80 s: then the wait is named, and whose the bytes on the disk were.
    assert_eq!(judgement["verdict"]["domain"], "storage", "{judgement:#}");
    let reasons = judgement["verdict"]["reasons"].to_string();
    let busy = format!("Another process kept {} busy for ", disk.device_name());
    assert!(reasons.contains(&busy), "{judgement:#}");
    let incidents = judgement["incidents"].as_array().unwrap();
    let causes = ["neighbour-io", "storage-journal"];
    let is_named = |one: &&Value| {
        let cost = one["lost_share"].as_f64().unwrap();
        cost >= 0.2 && causes.contains(&one["cause"].as_str().unwrap())
    };
    let named: Vec<&Value> = incidents.iter().filter(is_named).collect();
    let [incident] = named.as_slice() else { panic!("{judgement:#}") };
    let (begin_ms, end_ms) = (incident["begin_ms"].as_i64().unwrap(), incident["end_ms"].as_i64().unwrap());
    assert!((begin_ms - begun_ms).abs() < 15_000, "{begun_ms}: {incident:#}");
    assert!((15_000..50_000).contains(&(end_ms - begin_ms)), "{incident:#}");
}

fn check(judgement: &Value, watched: &Value, capped_ms: i64) {
    assert_eq!(judgement["verdict"]["domain"], "storage", "{judgement:#}");
    assert_eq!(watched["verdict"]["domain"], "storage", "{watched:#}");
    let costly = |incident: &&Value| incident["lost_share"].as_f64().unwrap() >= 0.2;
    let incidents: Vec<&Value> = judgement["incidents"].as_array().unwrap().iter().filter(costly).collect();
    let of = |cause: &str| incidents.iter().find(|incident| incident["cause"] == cause);
    let reads = of("storage-reads").unwrap_or_else(|| panic!("{judgement:#}"));
    let (begin_ms, end_ms) = (reads["begin_ms"].as_i64().unwrap(), reads["end_ms"].as_i64().unwrap());
    assert!((begin_ms - capped_ms).abs() < 15_000, "{capped_ms}: {reads:#}");
    assert!((10_000..60_000).contains(&(end_ms - begin_ms)), "{reads:#}");
    let stops = of("process-stopped").unwrap_or_else(|| panic!("{judgement:#}"));
    assert!(stops["sentence"].as_str().unwrap().starts_with("The process was stopped 2 times"), "{stops:#}");
    assert!(stops["begin_ms"].as_i64().unwrap() > end_ms, "{stops:#}");
    // No other fault is found after the begin of the load.
    let others = incidents
        .iter()
        .filter(|one| !["storage-reads", "process-stopped"].contains(&one["cause"].as_str().unwrap()));
    let late: Vec<_> = others.filter(|one| one["begin_ms"].as_i64().unwrap() > capped_ms - 25_000).collect();
    assert!(late.is_empty(), "{late:#?}");
}
