//! Tests a sharded cluster as a user starts it: config server, shards and router as processes, with YCSB and mongosh as clients.

use std::path::Path;
use std::time::Duration;

use bson::{Document, doc};
use fathom_client::Connection;
use fathom_testkit::{Fathom, LabServer, Scratch, assert, assert_eq, test};

use crate::clients::{ROCKSDB, WIRED_TIGER, assert_passed, client, mongosh, program, stop, with_program};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fathom");

/// A cluster whose processes end with it.
struct Cluster {
    router: LabServer,
    shards: Vec<LabServer>,
    config: LabServer,
}

fn server(scratch: &Scratch, name: &str, engine: &str, role: &str) -> LabServer {
    let flags = [role, "--wiredTigerCacheSizeGB", "0.25", "--rocksdbCacheSizeGB", "0.25"];
    LabServer::start(PROGRAM, engine, &scratch.path().join(name), &flags)
        .unwrap_or_else(|output| panic!("{output:?}"))
}

impl Cluster {
    /// One shard for each engine that is named, not added yet.
    fn start(scratch: &Scratch, engines: &[&str]) -> Cluster {
        let config = server(scratch, "config", WIRED_TIGER, "--configsvr");
        let number =
            |(place, engine): (usize, &&str)| server(scratch, &format!("s{place}"), engine, "--shardsvr");
        let shards = engines.iter().enumerate().map(number).collect();
        let router = LabServer::route(PROGRAM, &config, &["--noBalancer"])
            .unwrap_or_else(|output| panic!("{output:?}"));
        Cluster { router, shards, config }
    }

    fn add_shards(&self) {
        let mut client = self.router.connect().unwrap();
        for (place, shard) in self.shards.iter().enumerate() {
            let host = format!("127.0.0.1:{}", shard.port());
            run(&mut client, "admin", &doc! { "addShard": host, "name": format!("s{place}") });
        }
    }

    fn stop(self) {
        stop(self.router);
        self.shards.into_iter().for_each(stop);
        stop(self.config);
    }
}

fn run(connection: &mut Connection, database: &str, command: &Document) -> Document {
    let reply = connection.run(database, command).unwrap_or_else(|error| panic!("{command}: {error}"));
    Document::try_from(&*reply).unwrap()
}

fn counted(server: &LabServer) -> i64 {
    let reply = run(&mut server.connect().unwrap(), "ycsb", &doc! { "count": "usertable" });
    i64::from(reply.get_i32("n").unwrap())
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn ycsb_loads_and_runs_over_shards_of_different_engines() {
    let scratch = Scratch::new().unwrap();
    let cluster = Cluster::start(&scratch, &[WIRED_TIGER, ROCKSDB, WIRED_TIGER]);
    cluster.add_shards();
    let mut client = cluster.router.connect().unwrap();
    run(&mut client, "admin", &doc! { "enableSharding": "ycsb" });
    run(&mut client, "admin", &doc! { "shardCollection": "ycsb.usertable", "key": { "_id": "hashed" } });
    let url = format!("mongodb.url=mongodb://127.0.0.1:{}/ycsb", cluster.router.port());
    let ycsb = |phase: &str| {
        Fathom::new(PROGRAM)
            .args(["ycsb", phase, "mongodb", "-P"])
            .arg(root().join("workloads/workloada"))
            .args([
                "-p",
                &url,
                "-p",
                "recordcount=3000",
                "-p",
                "operationcount=3000",
                "-threads",
                "4",
                "--no-record",
            ])
            .limit(Duration::from_secs(300))
            .run()
            .expect_code(0)
    };
    ycsb("load");
    let counts: Vec<i64> = cluster.shards.iter().map(counted).collect();
    assert_eq!(counts.iter().sum::<i64>(), 3000);
    assert!(counts.iter().all(|count| *count > 700), "{counts:?}");
    assert_eq!(counted(&cluster.router), 3000);
    let output = ycsb("run");
    assert!(output.stdout.contains("[READ], Return=OK"), "{}", output.stdout);
    assert!(!output.stdout.contains("Return=ERROR"), "{}", output.stdout);
    // A shard that was killed and restarted keeps its data and its identity.
    cluster.stop();
}

#[test]
fn a_shard_that_was_killed_comes_again_as_the_same_shard() {
    let scratch = Scratch::new().unwrap();
    let mut cluster = Cluster::start(&scratch, &[WIRED_TIGER]);
    cluster.add_shards();
    let mut client = cluster.router.connect().unwrap();
    run(&mut client, "admin", &doc! { "enableSharding": "a" });
    run(&mut client, "admin", &doc! { "shardCollection": "a.b", "key": { "_id": 1 } });
    let insert = doc! { "insert": "b", "documents": [{ "_id": 1 }], "writeConcern": { "w": 1, "j": true } };
    run(&mut client, "a", &insert);
    let shard = cluster.shards.remove(0);
    let port = shard.port().to_string();
    drop(shard.kill());
    let refused = client.run("a", &doc! { "find": "b" }).unwrap_err();
    assert_eq!(refused.failure().map(|failure| failure.code().0), Some(6), "{refused}");
    let flags = ["--shardsvr", "--wiredTigerCacheSizeGB", "0.25", "--port", port.as_str()];
    let again = Fathom::new(PROGRAM)
        .args(["serve", "--storageEngine", WIRED_TIGER, "--dbpath"])
        .arg(scratch.path().join("s0"))
        .args(flags)
        .limit(Duration::from_secs(600));
    let mut again = again.spawn();
    assert!(again.wait_for_stdout("Waiting for connections"));
    let found = run(&mut client, "a", &doc! { "find": "b" });
    let batch = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(batch.len(), 1);
    let mut direct = cluster.config.connect().unwrap();
    assert_eq!(run(&mut direct, "config", &doc! { "count": "shards" }).get_i32("n").unwrap(), 1);
    drop(client);
    again.signal(rustix::process::Signal::TERM);
    again.wait().expect_code(0);
    cluster.stop();
}

#[test]
fn pymongo_sees_a_router() {
    let scratch = Scratch::new().unwrap();
    let call = program("python", &scratch.path());
    let cluster = Cluster::start(&scratch, &[WIRED_TIGER, WIRED_TIGER, ROCKSDB]);
    cluster.add_shards();
    let call = call.args(["sharding", &cluster.router.port().to_string()]).limit(Duration::from_secs(300));
    assert_passed("python", &call.run());
    cluster.stop();
}

#[test]
fn what_a_router_cannot_be_started_with_is_refused_in_one_sentence() {
    for (flags, code, text) in [
        (vec![], 2, "--configdb"),
        (vec!["--configdb", "a:1,b:1"], 2, "names several servers and no replica set"),
        (vec!["--configdb", "a:1", "--keyFile", "k"], 2, "fathom route has no --keyFile"),
        (vec!["--configdb", "a:1", "--networkMessageCompressors", "lzma"], 2, "not 'lzma'"),
        (vec!["--configdb", "a:1", "--claimedVersion", "8.0"], 2, "--claimedVersion takes"),
        (vec!["--configdb", "a:1", "--logRotate", "reopen"], 2, "--logRotate reopen needs --logappend"),
    ] {
        let output = Fathom::new(PROGRAM).arg("route").args(&flags).run().expect_code(code);
        assert!(output.stderr.contains(text), "{flags:?}: {}", output.stderr);
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = Fathom::new(PROGRAM)
        .args(["route", "--configdb", "127.0.0.1:1", "--port", &port])
        .run()
        .expect_code(3);
    assert!(output.stderr.contains("cannot listen on"), "{}", output.stderr);
    let version = Fathom::new(PROGRAM).args(["route", "--version"]).run().expect_code(0);
    assert!(version.stdout.starts_with("mongos version v4.4"), "{}", version.stdout);
}

/// Waits until no thread of a process runs any more: on a busy machine it may run for a while after the signal.
#[track_caller]
fn wait_until_stopped(pid: u32) {
    let is_stopped = |task: std::path::PathBuf| {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    for _ in 0..200 {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        if tasks.flatten().all(|task| is_stopped(task.path())) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the process {pid} does not stop");
}

/// Queries of one shard share a loop: one without an answer does not delay the others.
#[test]
fn a_shard_that_stands_still_holds_up_only_who_asks_it() {
    let scratch = Scratch::new().unwrap();
    let cluster = Cluster::start(&scratch, &[WIRED_TIGER, WIRED_TIGER]);
    cluster.add_shards();
    let mut client = cluster.router.connect().unwrap();
    for (place, database) in ["still", "quick"].into_iter().enumerate() {
        let enable = doc! { "enableSharding": database, "primaryShard": format!("s{place}") };
        run(&mut client, "admin", &enable);
        run(&mut client, database, &doc! { "insert": "c", "documents": [{ "_id": 1 }] });
    }
    let find = |client: &mut Connection, database: &str| {
        let found = run(client, database, &doc! { "find": "c", "filter": { "_id": 1 } });
        let batch = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        assert_eq!(batch.len(), 1);
    };
    let still = rustix::process::Pid::from_raw(i32::try_from(cluster.shards[0].pid()).unwrap()).unwrap();
    std::thread::scope(|scope| {
        // Enough queries that each of several loops would have one.
        let mut waiting: Vec<Connection> = (0..4).map(|_| cluster.router.connect().unwrap()).collect();
        waiting.iter_mut().for_each(|client| (0..40).for_each(|_| find(client, "still")));
        let mut others: Vec<Connection> = (0..4).map(|_| cluster.router.connect().unwrap()).collect();
        others.iter_mut().for_each(|client| (0..40).for_each(|_| find(client, "quick")));
        rustix::process::kill_process(still, rustix::process::Signal::STOP).unwrap();
        wait_until_stopped(cluster.shards[0].pid());
        let waiting: Vec<_> =
            waiting.into_iter().map(|mut client| scope.spawn(move || find(&mut client, "still"))).collect();
        others.iter_mut().for_each(|client| (0..100).for_each(|_| find(client, "quick")));
        let early = waiting.iter().filter(|thread| thread.is_finished()).count();
        rustix::process::kill_process(still, rustix::process::Signal::CONT).unwrap();
        assert_eq!(early, 0, "a shard that stood still answered");
    });
    drop(client);
    cluster.stop();
}

mod proof {
    use fathom_testkit::test;

    use super::*;

    #[test]
    fn mongosh_has_its_sharding_helpers() {
        let scratch = Scratch::new().unwrap();
        // Checked before the cluster is made, which takes longer.
        client("node");
        let cluster = Cluster::start(&scratch, &[WIRED_TIGER, WIRED_TIGER]);
        let shards: Vec<String> =
            cluster.shards.iter().map(|shard| format!("'127.0.0.1:{}'", shard.port())).collect();
        let uri = format!("mongodb://localhost:{}/test", cluster.router.port());
        let call = mongosh(&uri, &scratch.path());
        let call = call.args(["--eval", &format!("const SHARDS = [{}];", shards.join(", "))]);
        let call = with_program(call, "sharding").limit(Duration::from_secs(300));
        assert_passed("mongosh", &call.run());
        cluster.stop();
    }
}
