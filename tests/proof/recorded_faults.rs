//! A server under faults, judged from its own recording and by samplers: both must name the same part of the system.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fathom_testkit::{
    Bytes, Cap, CapLimits, Fathom, Filesystem, Need, OrSkip, RealDisk, SlowDisk, Speed, assert, assert_eq,
    test,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::faults::recorder::{LoadedServer, NO_CACHE, UNIFORM_READS, UNIFORM_UPDATES};
use crate::faults::study::PROGRAM;

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Reads at a rate for 100 s: calm, then a cap of the control group for 25 s, calm again, and the process stopped twice for 4 s.
#[test]
fn a_cap_and_stops_are_named_from_the_recording_and_by_samplers() {
    let disk = RealDisk::new(Filesystem::Xfs, Bytes(2 << 30));
    let loaded = LoadedServer::start("wiredTiger", disk.path(), &NO_CACHE, 40_000);
    let limits = CapLimits { read_iops: Some(150), ..CapLimits::default() };
    let cap = Cap::new(disk.ledger(), disk.device_number(), limits).or_skip(Need::Cgroup);
    let server = Pid::from_raw(i32::try_from(loaded.server.pid()).unwrap()).unwrap();
    let words = format!("-threads 8 -target 300 --no-record {UNIFORM_READS}");
    let load = loaded.load(loaded.server.port(), 100, &words);
    let (capped_ms, watched) = thread::scope(|scope| {
        scope.spawn(move || load.run());
        thread::sleep(Duration::from_secs(40));
        let capped_ms = now_ms();
        cap.adopt_process(loaded.server.pid()).unwrap();
        let explained = loaded.explained(20).args(["--json", "--no-record", "--dir"]).arg(disk.path());
        let watched = explained.run().json();
        thread::sleep(Duration::from_secs(3));
        cap.lift().unwrap();
        thread::sleep(Duration::from_secs(15));
        for _ in 0..2 {
            kill_process(server, Signal::STOP).unwrap();
            thread::sleep(Duration::from_secs(4));
            kill_process(server, Signal::CONT).unwrap();
            thread::sleep(Duration::from_secs(5));
        }
        (capped_ms, watched)
    });
    loaded.stop();
    let recording = disk.path().join("db/diagnostic.data");
    let output = Fathom::new(PROGRAM).args(["explain", "--json"]).arg(&recording).run();
    assert_eq!(output.code, 1, "{output:?}");
    let judgement = output.json()["servers"][0]["judgement"].clone();
    check(&judgement, &watched, capped_ms);
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
        let explained = loaded.explained(18).args(["--json", "--no-record", "--dir"]).arg(disk.path());
        let watched = explained.run().json();
        neighbour.wait();
        (begun_ms, watched)
    });
    loaded.stop();
    let recording = disk.path().join("db/diagnostic.data");
    let output = Fathom::new(PROGRAM).args(["explain", "--json"]).arg(&recording).run();
    assert_eq!(output.code, 1, "{output:?}");
    let judgement = output.json()["servers"][0]["judgement"].clone();
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
