//! Tests `fathom cluster` under faults: the proxy delays and cuts, limits hold, and neither outlives its cluster.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bson::doc;
use fathom_client::{Address, Connection, Target};
use fathom_testkit::{Need, TIMEOUT, assert, assert_eq, assert_ne, need_root, skip, test};

use crate::cluster::ClusterFixture;
use crate::cluster_stub::{Binaries, SHIFT};

const OWN: [&str; 5] = ["--single", "--binarypath", "fathom", "--storageEngine", "ephemeralForTest"];

fn connection(port: u16, timeout: Duration) -> fathom_client::Result<Connection> {
    let mut target = Target::at(Address::new("127.0.0.1", port));
    target.connect_timeout = timeout;
    target.socket_timeout = Some(timeout);
    Connection::connect(&target)
}

fn ping(connection: &mut Connection) -> fathom_client::Result<Duration> {
    let begun = Instant::now();
    connection.run("admin", &doc! { "ping": 1 })?;
    Ok(begun.elapsed())
}

#[test]
fn the_proxy_delays_cuts_and_goes_with_its_cluster() {
    let place = ClusterFixture::new(2);
    place.init(&OWN).arg("--proxied").run().expect_code(0);
    assert_eq!(place.processes().len(), 2, "a server and a proxy");
    let mut open = connection(place.port, TIMEOUT).unwrap();
    ping(&mut open).unwrap();

    place.run("delay", &["all", "--round-trip", "300ms"]).expect_code(0);
    let late = |open: &mut Connection| ping(open).unwrap() >= Duration::from_millis(300);
    let begun = Instant::now();
    while !late(&mut open) {
        assert!(begun.elapsed() < TIMEOUT, "no delay");
    }
    let listed = place.run("list", &[]).expect_code(0).stdout;
    assert!(listed.contains("300 ms further away"), "{listed}");

    place.run("heal", &[]).expect_code(0);
    place.run("partition", &["single", "--clients"]).expect_code(0);
    // The proxy follows within a moment; then a new connection gets no answer.
    let begun = Instant::now();
    while connection(place.port, Duration::from_millis(500)).is_ok() {
        assert!(begun.elapsed() < TIMEOUT, "no cut");
    }
    // The program still reaches the server: it runs, but other servers cannot reach it.
    assert_eq!(place.list()[0]["status"], "running");
    place.run("heal", &[]).expect_code(0);
    ping(&mut open).unwrap();

    place.run("stop", &[]).expect_code(0);
    assert!(place.processes().is_empty(), "the proxy goes with the last server");
    place.run("start", &[]).expect_code(0);
    ping(&mut connection(place.port, TIMEOUT).unwrap()).unwrap();
    place.run("destroy", &[]).expect_code(0);
    assert!(place.processes().is_empty() && !place.folder().exists());
}

#[test]
fn members_are_cut_apart_while_clients_reach_both() {
    let place = ClusterFixture::new(4);
    let binaries = Binaries::new(&place.scratch.path(), "4.4.29");
    let arguments = ["--replicaset", "--nodes", "2", "--proxied", "--binarypath", &binaries.path()];
    place.init(&arguments).env(SHIFT, "2").run().expect_code(0);
    place.run("partition", &["primary"]).expect_code(0);
    let asked = |from: u16, to: u16, timeout_ms: i64| {
        let mut connection = connection(place.port + from, TIMEOUT).unwrap();
        let command = doc! { "stubPing": i32::from(place.port + to), "timeoutMS": timeout_ms };
        connection.run("admin", &command).unwrap().get_bool("reached").unwrap()
    };
    let begun = Instant::now();
    while asked(0, 1, 500) {
        assert!(begun.elapsed() < TIMEOUT, "the members still reach each other");
    }
    assert!(!asked(1, 0, 500), "a cut is in both directions");
    place.run("heal", &[]).expect_code(0);
    let begun = Instant::now();
    while !asked(0, 1, 5000) {
        assert!(begun.elapsed() < TIMEOUT, "the members do not reach each other again");
    }
}

#[test]
fn faults_of_the_network_need_proxies() {
    let place = ClusterFixture::new(1);
    place.init(&OWN).run().expect_code(0);
    for (action, arguments) in
        [("partition", &["all"][..]), ("delay", &["--round-trip", "1ms"]), ("heal", &[])]
    {
        let output = place.run(action, arguments).expect_code(3);
        assert!(output.stderr.contains("--proxied"), "{}", output.stderr);
    }
    assert!(place.run("partition", &[]).expect_code(2).stderr.contains("no servers to cut off"));
}

/// The control groups that a process is in, as the kernel lists them.
fn groups(pid: u64) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap()
}

#[test]
fn limits_hold_from_the_start_and_go_with_the_server() {
    need_root();
    let place = ClusterFixture::new(1);
    let limits = ["--member", "1={limits: {cpus: 0.5, memory: 512M}}"];
    let made = place.init(&OWN).args(limits).run();
    if made.code == 3 && made.stderr.contains("control group") {
        skip!(Need::Cgroup, "{}", made.stderr);
    }
    made.expect_code(0);
    let own = groups(u64::from(std::process::id()));
    let listed = groups(place.list()[0]["pid"].as_u64().unwrap());
    assert_ne!(own, listed);
    let state: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(place.folder().join(".fathom_cluster")).unwrap()).unwrap();
    let folders: Vec<PathBuf> = state["servers"][0]["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|folder| PathBuf::from(folder.as_str().unwrap()))
        .collect();
    let read = |file: &str| folders.iter().find_map(|folder| fs::read_to_string(folder.join(file)).ok());
    let cpus = read("cpu.max").or_else(|| read("cpu.cfs_quota_us")).unwrap();
    assert!(cpus.starts_with("50000"), "{cpus}");
    let memory = read("memory.max").or_else(|| read("memory.limit_in_bytes")).unwrap();
    assert_eq!(memory.trim(), (512_u64 << 20).to_string());
    place.run("stop", &[]).expect_code(0);
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
}
