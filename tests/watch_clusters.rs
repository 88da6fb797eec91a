//! Tests `fathom watch` and `fathom explain` on sets and sharded clusters of our own servers: the awaited member, lagging members,
//! the path through a router, and members that stop and return.

use std::path::Path;
use std::time::{Duration, Instant};

use bson::doc;
use fathom_record::Run;
use fathom_testkit::Fathom;
use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::ClusterFixture;
use crate::serve_run::{connect, run};
use crate::watch::has_points;
use crate::ycsb::ycsb;
use crate::ycsb_faults::wait_until;

const CACHE: [&str; 4] = ["--binarypath", "fathom", "--wiredTigerCacheSizeGB", "0.25"];

fn fathom(arguments: &[&str]) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(arguments)
}

/// The cluster's connection string with a database and more options.
fn url(place: &ClusterFixture, options: &str) -> String {
    let uri = place.run("list", &["--uri"]).expect_code(0).stdout;
    let (hosts, own) = uri.trim().split_once("/?").unwrap_or((uri.trim().trim_end_matches('/'), ""));
    let options: Vec<&str> = [own, options].into_iter().filter(|one| !one.is_empty()).collect();
    format!("{hosts}/ycsb?{}", options.join("&"))
}

/// A watched load with write concern majority, which `words` may limit in time.
fn watched_load(place: &ClusterFixture, runs: &Path, words: &[&str]) -> Fathom {
    let url = format!("mongodb.url={}", url(place, "w=majority"));
    ycsb("load", "workloada", &url, &["recordcount=300", "-threads 8", "--no-record"]).run().expect_code(0);
    let words = [&["recordcount=300", "operationcount=0", "-threads 8", "--watch"], words].concat();
    ycsb("run", "workloada", &url, &words).arg("--runs").arg(runs)
}

/// The judgement of the only run below a folder.
fn judgement(runs: &Path) -> Value {
    let folder = only(runs);
    let text = fathom(&["explain"]).arg(&folder).run();
    println!("{}", text.stdout);
    // A command and an address are never wrapped.
    let is_whole = |line: &str| line.trim_start().starts_with("$ ") || line.starts_with("Page: file://");
    let is_narrow = |line: &str| line.chars().count() <= 80 || is_whole(line);
    assert!(text.stdout.lines().all(is_narrow), "{}", text.stdout);
    let series = Run::open(&folder).unwrap().series().unwrap();
    assert!(series.iter().count() > 50);
    let output = fathom(&["explain", "--json"]).arg(&folder).run();
    assert!(matches!(output.code, 0 | 1 | 4), "{output:?}");
    output.json()
}

fn only(runs: &Path) -> std::path::PathBuf {
    let folders: Vec<_> = std::fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders[0].clone()
}

fn finding<'d>(document: &'d Value, id: &str) -> Option<&'d Value> {
    document["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id)
}

fn text<'d>(value: &'d Value, field: &str) -> &'d str {
    value[field].as_str().unwrap_or_default()
}

fn layer<'d>(document: &'d Value, member: &str, operations: &str, name: &str) -> Option<&'d Value> {
    let budgets = document["layers"].as_array().unwrap();
    let budget = budgets.iter().find(|one| one["member"] == member && one["operations"] == operations)?;
    budget["layers"].as_array().unwrap().iter().find(|layer| layer["name"] == name)
}

#[test]
fn the_path_through_a_router_shows_both_shards() {
    let place = ClusterFixture::new(4);
    place
        .init(&[
            "--replicaset",
            "--sharded",
            "2",
            "--nodes",
            "1",
            "--shard-collection",
            "ycsb.usertable={_id: hashed}",
        ])
        .args(CACHE)
        .run()
        .expect_code(0);
    let runs = place.scratch.path().join("runs");
    let load = watched_load(&place, &runs, &[]).spawn();
    let names = [
        "client.read.service.mean_ns",
        "server.0.reads.operations",
        "server.1.reads.operations",
        "server.2.opcounters.query",
    ];
    wait_until("ten points of each series", || has_points(&runs, &names, 10));
    load.signal(Signal::INT);
    load.wait().expect_code(0);
    let document = judgement(&runs);
    let shards = layer(&document, "2", "all", "shards").expect("the loop of the router, server 2");
    let within: Vec<&str> =
        shards["within"].as_array().unwrap().iter().map(|one| text(one, "name")).collect();
    assert_eq!(within, ["shard shard01", "shard shard02"]);
    for name in ["network", "router", "to_shards"] {
        assert!(
            layer(&document, "2", "all", name).is_some_and(|one| one["mean_us"].as_f64().unwrap() > 0.0),
            "{name}"
        );
    }
    for shard in ["0", "1"] {
        assert!(layer(&document, shard, "all", "engine").is_some(), "shard {shard} has its own budget");
        assert!(layer(&document, shard, "all", "network").is_none(), "which begins at the server");
    }
    assert!(finding(&document, "replication-on-path").is_none(), "nobody else is in these sets: {document}");
    assert!(
        finding(&document, "uneven-shards").is_none() && finding(&document, "scatter-gather").is_none(),
        "{document}"
    );
    let members = document["members"].as_array().unwrap();
    assert_eq!(members.iter().map(|one| text(one, "part_of")).collect::<Vec<_>>(), ["shard01", "shard02"]);
    assert!(
        members.iter().all(|one| one["chunks"].as_f64().is_some_and(|chunks| chunks >= 1.0)),
        "{members:?}"
    );
    place.run("destroy", &[]).expect_code(0);
}

#[test]
fn a_member_that_goes_and_comes_back_and_a_failover_are_seen() {
    let place = ClusterFixture::new(3);
    place.init(&["--replicaset", "--nodes", "3"]).args(CACHE).run().expect_code(0);
    let runs = place.scratch.path().join("runs");
    let uri = url(&place, "");
    let call = fathom(&["watch", "--uri", &uri, "--for", "1h", "--json", "--record", "--runs"]);
    let mut watching = call.arg(&runs).spawn();
    let last = (place.port + 2).to_string();
    let mut wait_for = |words: &str| {
        assert!(watching.wait_for_stdout(words), "{words}: {}", watching.stdout());
    };
    wait_for("\"members\"");
    place.run("stop", &[&last]).expect_code(0);
    wait_for(&format!("localhost:{last}) is out of reach"));
    place.run("start", &[&last]).expect_code(0);
    wait_for(&format!("localhost:{last}) answers again"));
    place.run("kill", &["--signal", "KILL", "primary"]).expect_code(0);
    wait_for("is primary now");
    watching.signal(Signal::TERM);
    let output = watching.wait().expect_code(0);
    let screens: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let series = Run::open(only(&runs)).unwrap().series().unwrap();
    let members = screens[0]["members"].as_array().unwrap();
    assert_eq!(members.len(), 3, "{members:?}");
    let stopped = members.iter().find(|one| text(one, "address").ends_with(&format!(":{last}"))).unwrap();
    let up = &series.get(&format!("server.{}.up", text(stopped, "number"))).unwrap().points;
    assert!(up.iter().any(|point| point.value == 0.0) && up.iter().any(|point| point.value == 1.0));
    assert!(screens.iter().any(|screen| !screen["changes"].as_array().unwrap().is_empty()));
    place.run("destroy", &[]).expect_code(0);
}

/// Rates, waits and elections of a real machine. Composed series have the same judgements in the tests of fathom-explain
/// (`truth/members.rs`), and screens their moments in those of the verb `watch`.
mod timed {
    use super::*;

    fn explained(place: &ClusterFixture, seconds: &str) -> Value {
        let runs = place.scratch.path().join("runs");
        let time = format!("maxexecutiontime={seconds}");
        watched_load(place, &runs, &[&time]).run().expect_code(0);
        judgement(&runs)
    }

    /// Other programs on the machine may withhold the verdict, but not change the named member.
    #[test]
    fn the_member_that_a_majority_needs_is_named() {
        let place = ClusterFixture::new(4);
        place.init(&["--replicaset", "--nodes", "2", "--proxied"]).args(CACHE).run().expect_code(0);
        place.run("delay", &["secondary", "--round-trip", "60ms"]).expect_code(0);
        let document = explained(&place, "14");
        let replication = layer(&document, "0", "writes", "replication").expect("the loop of the set");
        assert!(replication["share"].as_f64().unwrap() > 0.5, "{replication}");
        let way = replication["within"].as_array().unwrap().last().unwrap();
        assert_eq!(way["name"], "the way and the rest", "{replication}");
        assert!(way["mean_us"].as_f64().unwrap() > 10_000.0, "{replication}");
        let found = finding(&document, "replication-on-path").expect("it takes most of the time");
        assert!(text(found, "claim").starts_with("Writes wait for server 1 "), "{found}");
        assert!(!text(found, "claim").contains("storage"), "it is the way, not the disk: {found}");
        place.run("destroy", &[]).expect_code(0);
    }

    /// Makes all members copy from the primary: one that copied from the slow member would lag as much.
    fn follow_the_primary(place: &ClusterFixture) {
        let mut primary = connect(place.port);
        let mut config =
            run(&mut primary, &doc! { "replSetGetConfig": 1 }).get_document("config").unwrap().clone();
        let version = config.get_i32("version").unwrap();
        config.insert("version", version + 1);
        config.get_document_mut("settings").unwrap().insert("chainingAllowed", false);
        run(&mut primary, &doc! { "replSetReconfig": config });
        let source = format!("localhost:{}", place.port);
        run(&mut connect(place.port + 1), &doc! { "replSetSyncFrom": source });
    }

    #[test]
    fn a_slow_member_that_nobody_needs_lags_and_is_not_waited_for() {
        let place = ClusterFixture::new(6);
        place.init(&["--replicaset", "--nodes", "3", "--proxied"]).args(CACHE).run().expect_code(0);
        let last = (place.port + 2).to_string();
        follow_the_primary(&place);
        place.run("delay", &[&last, "--round-trip", "1500ms"]).expect_code(0);
        let document = explained(&place, "16");
        let lags = finding(&document, "member-lags").expect("one is far behind");
        assert!(text(lags, "claim").contains(&format!(":{last}")), "{lags}");
        assert!(text(lags, "claim").contains("no write waits"), "{lags}");
        if let Some(found) = finding(&document, "replication-on-path") {
            assert!(!text(found, "claim").contains(&format!(":{last}")), "nobody waits for it: {found}");
        }
        place.run("destroy", &[]).expect_code(0);
    }

    #[test]
    fn a_member_that_goes_and_comes_back_and_a_failover_are_seen() {
        let place = ClusterFixture::new(3);
        place.init(&["--replicaset", "--nodes", "3"]).args(CACHE).run().expect_code(0);
        let runs = place.scratch.path().join("runs");
        let uri = url(&place, "");
        let watching = fathom(&["watch", "--uri", &uri, "--for", "45s", "--json", "--record", "--runs"])
            .arg(&runs)
            .spawn();
        std::thread::sleep(Duration::from_secs(3));
        let last = (place.port + 2).to_string();
        place.run("stop", &[&last]).expect_code(0);
        std::thread::sleep(Duration::from_secs(3));
        place.run("start", &[&last]).expect_code(0);
        place.run("kill", &["--signal", "KILL", "primary"]).expect_code(0);
        let begun = Instant::now();
        let leads = |server: &Value| server["process"] == "primary" && server["status"] == "running";
        while !place.list().iter().any(leads) && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(200));
        }
        let output = watching.wait().expect_code(0);
        let screens: Vec<Value> =
            output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let seen: String = screens
            .iter()
            .flat_map(|screen| screen["changes"].as_array().unwrap().clone())
            .map(|one| one.to_string() + "\n")
            .collect();
        for word in [
            format!("localhost:{last}) is out of reach"),
            format!("localhost:{last}) answers again"),
            "is primary now".to_owned(),
        ] {
            assert!(seen.contains(&word), "{word}: {seen}");
        }
        // A second each, without a gap.
        assert!(screens.len() >= 38, "{} screens in 45 s", screens.len());
        let series = Run::open(only(&runs)).unwrap().series().unwrap();
        let up = &series.get("server.1.up").unwrap().points;
        assert!(up.len() >= 38, "{}", up.len());
        place.run("destroy", &[]).expect_code(0);
    }
}
