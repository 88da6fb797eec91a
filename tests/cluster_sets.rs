//! Tests `fathom cluster` with sets and shards: the exact command lines for each version of MongoDB, and the commands to each
//! server. The servers are stand-ins (`cluster_stub`).

use std::fs;

use serde_json::Value;

use crate::cluster::ClusterFixture;
use crate::cluster_stub::{Binaries, SET, VERSIONS};

/// Command lines without the parts that differ between runs.
fn plain(text: &str, place: &ClusterFixture) -> String {
    let mut text = text.replace(&place.folder().display().to_string(), "DIR");
    for at in (0..30).rev() {
        text = text.replace(&(place.port + at).to_string(), &format!("PORT+{at}"));
    }
    text.replace(&place.scratch.path().display().to_string(), "BIN")
}

#[test]
fn command_lines_are_right_for_each_version() {
    let place = ClusterFixture::new(8);
    let pem = place.scratch.path().join("server.pem");
    fs::write(&pem, "").unwrap();
    let pem = pem.display().to_string();
    let mut all = String::new();
    for version in VERSIONS {
        let binaries = Binaries::new(&place.scratch.path(), version);
        let arguments = [
            "--replicaset",
            "--sharded",
            "1",
            "--nodes",
            "1",
            "--arbiter",
            "--binarypath",
            &binaries.path(),
            "--dry-run",
            "--nojournal",
            "--storageEngine",
            "inMemory",
            "--oplogSize",
            "50",
            "--localThreshold",
            "5",
            "--setParameter",
            "ttlMonitorSleepSecs=5",
            "--sslMode",
            "requireSSL",
            "--tlsCertificateKeyFile",
            &pem,
            "-vv",
        ];
        let output = place.init(&arguments).run().expect_code(0);
        all.push_str(&format!("# {version}\n{}{}\n", output.stdout, output.stderr));
        assert!(!place.folder().exists());
    }
    insta::assert_snapshot!("cluster_command_lines", plain(&all, &place));
}

#[test]
fn a_sharded_cluster_is_set_up_step_by_step() {
    let place = ClusterFixture::new(9);
    let binaries = Binaries::new(&place.scratch.path(), "5.0.31");
    let arguments = [
        "--replicaset",
        "--sharded",
        "east",
        "west",
        "--nodes",
        "1",
        "--arbiter",
        "--mongos",
        "2",
        "--binarypath",
        &binaries.path(),
        "--auth",
        "--password",
        "hunter2",
        "--shard-collection",
        "ycsb.usertable={_id: hashed}",
        "--initial-chunks",
        "4",
        "--shard-collection",
        "a.b={z: 1, a: -1}",
    ];
    let output = place.init(&arguments).run().expect_code(0);
    assert!(output.stdout.contains("sharded cluster of 2 shards is ready"), "{}", output.stdout);
    let mut lines = binaries.recorded("line");
    lines.sort();
    let (asked, commands): (Vec<String>, Vec<String>) =
        binaries.recorded("command").into_iter().partition(|command| command.contains("usersInfo"));
    // Each server but the arbiters was asked again until it had the user.
    assert_eq!(offsets_of(&asked, place.port), [0, 0, 1, 1, 2, 2, 4, 4, 6, 6]);
    insta::assert_snapshot!(
        "cluster_set_up",
        plain(&format!("{}\n\n{}\n", lines.join("\n"), in_order(&commands)), &place)
    );
    let state = fs::read_to_string(place.folder().join(".fathom_cluster")).unwrap();
    assert!(!state.contains("hunter2"));
    let key = fs::metadata(place.folder().join("keyfile")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777, 0o600);

    // The servers by their tags.
    let tagged = |tags: &[&str]| -> Vec<u64> {
        let words: Vec<&str> = ["--tags"].iter().chain(tags).copied().collect();
        let text = place.run("list", &words).expect_code(0).stdout;
        let ports = text
            .lines()
            .flat_map(|line| line.split_ascii_whitespace())
            .filter_map(|word| word.parse::<u64>().ok());
        ports
            .filter(|port| (u64::from(place.port)..u64::from(place.port) + 9).contains(port))
            .map(|port| port - u64::from(place.port))
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect()
    };
    assert_eq!(tagged(&["primary"]), [2, 4]);
    assert_eq!(tagged(&["shard", "2"]), [4, 5]);
    assert_eq!(tagged(&["config", "1"]), [6]);
    assert_eq!(tagged(&["mongos", "2"]), [1]);
    assert_eq!(place.processes().len(), 7);
    let stopped = place.run("stop", &["shard", "2", "arbiter"]).expect_code(0);
    assert!(stopped.stdout.contains("1 server stopped"), "{}", stopped.stdout);
    assert_eq!(tagged(&["down"]), [5]);
    place.run("start", &[]).expect_code(0);
    assert_eq!(place.processes().len(), 7);
    place.run("destroy", &[]).expect_code(0);
    assert!(place.processes().is_empty() && !place.folder().exists());
}

/// The distances of the ports at the begin of recorded commands from the first port, in order.
fn offsets_of(commands: &[String], first: u16) -> Vec<u16> {
    let port = |command: &String| command.split(' ').next().unwrap().parse::<u16>().unwrap();
    let mut offsets: Vec<u16> = commands.iter().map(|command| port(command) - first).collect();
    offsets.sort_unstable();
    offsets
}

/// Sets are initiated at the same time, so their commands arrive in any order.
fn in_order(commands: &[String]) -> String {
    let mut commands = commands.to_vec();
    let (mut sets, rest): (Vec<String>, Vec<String>) =
        commands.drain(..).partition(|command| command.contains("replSetInitiate"));
    sets.sort();
    sets.extend(rest);
    sets.join("\n")
}

#[test]
fn a_set_from_a_file_has_all_kinds_of_members() {
    let place = ClusterFixture::new(5);
    let binaries = Binaries::new(&place.scratch.path(), "4.4.29");
    let slow = place.scratch.path().join("slow");
    fs::create_dir(&slow).unwrap();
    let file = place.scratch.path().join("cluster.yaml");
    let yaml = format!(
        "port: {}\nhostname: 127.0.0.1\nbinaries: {}\nreplicaSet:\n  name: mixed\n  arbiters: 2\n  members:\n\
         \x20 - {{priority: 5, engine: inMemory, cacheSizeGB: 0.5}}\n\
         \x20 - {{parameters: {{syncdelay: 10}}, arguments: [--slowms, '1']}}\n\
         \x20 - {{hidden: true, priority: 0, votes: 0, delaySecs: 60, tags: {{dc: east}}, directory: {}}}\n",
        place.port,
        binaries.path(),
        slow.display()
    );
    fs::write(&file, yaml).unwrap();
    place.call("init", &["--file", file.to_str().unwrap()]).run().expect_code(0);
    let mut lines = binaries.recorded("line");
    lines.sort();
    let text = format!("{}\n\n{}\n", lines.join("\n"), binaries.recorded("command").join("\n"));
    insta::assert_snapshot!("cluster_mixed_set", plain(&text, &place));
    assert!(slow.join("mixed-rs3").is_dir());
    let listed = place.list();
    let of = |field: &str| -> Vec<&Value> { listed.iter().map(|server| &server[field]).collect() };
    assert_eq!(of("process"), ["primary", "secondary", "mongod", "arbiter", "arbiter"]);
    let uri = place.run("list", &["--uri"]).expect_code(0).stdout;
    assert!(uri.ends_with("/?replicaSet=mixed\n"), "{uri}");
    // The call does not wait for servers that stay down.
    let ports: Vec<String> = (1..3).map(|at| (place.port + at).to_string()).collect();
    ports.iter().for_each(|port| drop(place.run("stop", &[port]).expect_code(0)));
    place.run("start", &[&ports[1]]).expect_code(0);
    assert_eq!(place.list()[1]["status"], "down");
    place.run("destroy", &[]).expect_code(0);
    assert!(slow.is_dir() && !slow.join("mixed-rs3").exists());
}

#[test]
fn without_routers_one_adds_the_shards_and_is_stopped() {
    let place = ClusterFixture::new(4);
    let binaries = Binaries::new(&place.scratch.path(), "4.0.28");
    let arguments =
        ["--replicaset", "--sharded", "1", "--nodes", "1", "--mongos", "0", "--binarypath", &binaries.path()];
    place.init(&arguments).run().expect_code(0);
    assert!(binaries.recorded("command").iter().any(|command| command.contains("addShard")));
    let listed = place.list();
    assert_eq!(listed[0]["status"], "down");
    assert_eq!(place.processes().len(), 2);
    place.run("list", &["--uri"]).expect_code(3);
    place.run("stop", &[]).expect_code(0);
    place.run("start", &[]).expect_code(0);
    assert_eq!(place.processes().len(), 2, "the router only added the shards");
    assert!(place.folder().join("mongos.diagnostic.data/metrics.interim").exists());
    let destroyed = place.run("destroy", &[]).expect_code(0);
    assert!(!place.folder().exists(), "{}", destroyed.stderr);
}

#[test]
fn servers_of_another_set_or_of_none_are_not_taken() {
    let place = ClusterFixture::new(3);
    let binaries = Binaries::new(&place.scratch.path(), "4.4.29");
    for (set, part) in
        [("", "cannot be a member of a set"), ("other", "belongs to the set 'other', and not to 'replset'")]
    {
        let output = place
            .init(&["--replicaset", "--binarypath", &binaries.path()])
            .env(SET, set)
            .run()
            .expect_code(3);
        assert!(output.stderr.contains(part), "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
        assert!(place.processes().is_empty() && !place.folder().exists());
    }
}
