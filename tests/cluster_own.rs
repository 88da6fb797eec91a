//! Tests `fathom cluster` with sets and shards of our own servers: created, used, broken, repaired and destroyed.

use std::time::{Duration, Instant};

use bson::{Document, doc};
use fathom_client::Connection;
use fathom_testkit::{Fathom, TIMEOUT};

use crate::cluster::ClusterFixture;

fn connect(place: &ClusterFixture) -> Connection {
    let uri = place.run("list", &["--uri"]).expect_code(0).stdout;
    Connection::connect(&uri.trim().parse().unwrap()).unwrap()
}

fn roles(place: &ClusterFixture) -> Vec<String> {
    let mut roles: Vec<String> =
        place.list().iter().map(|server| server["process"].as_str().unwrap().to_owned()).collect();
    roles.sort();
    roles
}

fn insert(connection: &mut Connection, id: i32) -> fathom_client::Result<()> {
    let command = doc! { "insert": "c", "documents": [{ "_id": id }], "writeConcern": { "w": "majority", "wtimeout": 300_000 } };
    connection.run("test", &command).map(drop)
}

fn count(connection: &mut Connection) -> usize {
    connection.cursor("test", &doc! { "find": "c" }).unwrap().map(Result::unwrap).count()
}

#[test]
fn a_set_of_ours_fails_over_and_mends() {
    let place = ClusterFixture::new(3);
    let begun = Instant::now();
    place
        .init(&["--replicaset", "--binarypath", "fathom", "--wiredTigerCacheSizeGB", "0.25"])
        .run()
        .expect_code(0);
    println!("3 members ready after {} ms", begun.elapsed().as_millis());
    assert_eq!(roles(&place), ["primary", "secondary", "secondary"]);
    insert(&mut connect(&place), 1).unwrap();
    place.run("kill", &["--signal", "KILL", "primary"]).expect_code(0);
    let begun = Instant::now();
    while !roles(&place).contains(&"primary".to_owned()) {
        assert!(begun.elapsed() < TIMEOUT, "no member was elected: {:?}", roles(&place));
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut connection = connect(&place);
    insert(&mut connection, 2).unwrap();
    assert_eq!(count(&mut connection), 2);
    place.run("start", &[]).expect_code(0);
    assert_eq!(roles(&place), ["primary", "secondary", "secondary"]);
    place.run("destroy", &[]).expect_code(0);
    assert!(place.processes().is_empty() && !place.folder().exists());
}

/// The printed connection string names every member that holds data, and a program may read from any of them at once. The arbiter has
/// neither data nor users, so nothing can be watched there.
#[test]
fn after_init_every_member_knows_the_user_and_the_arbiter_is_not_watched() {
    let place = ClusterFixture::new(3);
    let arguments = [
        "--replicaset",
        "--nodes",
        "2",
        "--arbiter",
        "--binarypath",
        "fathom",
        "--wiredTigerCacheSizeGB",
        "0.25",
    ];
    place.init(&arguments).args(["--auth", "--password", "p@ss/w?rd"]).run().expect_code(0);
    let uri = |hosts: &str, options: &str| {
        format!("mongodb://user:p%40ss%2Fw%3Frd@{hosts}/?authSource=admin&{options}")
    };
    let hosts = [0, 1, 2].map(|number| format!("localhost:{}", place.port + number));
    for host in &hosts[..2] {
        let direct = uri(host, "directConnection=true").parse().unwrap();
        Connection::connect(&direct).unwrap().run("admin", &doc! { "listDatabases": 1 }).unwrap();
    }
    let fathom = |arguments: &[&str]| {
        Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .args(arguments)
            .state(place.scratch.path().join("state"))
            .run()
    };
    let why = format!("{} is not watched: it is an arbiter, which holds no data and no users", hosts[2]);
    let direct = uri(&hosts[2], "directConnection=true");
    let without_user = format!("mongodb://{}/?directConnection=true", hosts[2]);
    for arguments in [
        ["watch", "--plain", "--for", "5s", "--uri", &direct],
        ["watch", "--json", "--for", "5s", "--uri", &without_user],
        ["explain", "--json", "--for", "5s", "--uri", &direct],
        ["checkup", "--quick", "--for", "5s", "--uri", &without_user],
    ] {
        let output = fathom(&arguments).expect_code(3);
        assert!(output.stderr.contains(&why), "{arguments:?}: {}", output.stderr);
    }
    let of_set = uri(&hosts[..2].join(","), "replicaSet=replset");
    let output = fathom(&["watch", "--plain", "--for", "3s", "--uri", &of_set]).expect_code(0);
    assert!(output.stderr.contains(&why), "{}", output.stderr);
    assert!(!output.stderr.contains("does not run on this host"), "{}", output.stderr);
    place.run("destroy", &[]).expect_code(0);
}

#[test]
fn a_sharded_cluster_of_ours_holds_data_on_every_shard() {
    let place = ClusterFixture::new(4);
    // As with mlaunch: one server for each shard.
    let arguments = [
        "--sharded",
        "2",
        "--single",
        "--binarypath",
        "fathom",
        "--wiredTigerCacheSizeGB",
        "0.25",
        "--shard-collection",
        "test.c={_id: hashed}",
    ];
    let begun = Instant::now();
    let made = place.init(&arguments).run().expect_code(0);
    assert!(made.stderr.contains("each shard is a replica set of one member"), "{}", made.stderr);
    assert!(
        made.stdout.contains("(WiredTiger), fathom") && made.stdout.contains("(router)"),
        "{}",
        made.stdout
    );
    println!("2 shards ready after {} ms", begun.elapsed().as_millis());
    let mut router = connect(&place);
    let documents: Vec<Document> = (0..100).map(|id| doc! { "_id": id }).collect();
    router.run("test", &doc! { "insert": "c", "documents": documents }).unwrap();
    assert_eq!(count(&mut router), 100);
    let shard = |at: u16| count(&mut crate::serve_run::connect(place.port + at));
    let (first, second) = (shard(1), shard(2));
    assert!(first > 10 && second > 10 && first + second == 100, "{first} {second}");
    // All servers stop and restart.
    place.run("stop", &[]).expect_code(0);
    assert!(place.processes().is_empty());
    place.run("start", &[]).expect_code(0);
    assert_eq!(count(&mut connect(&place)), 100);
}

/// After a chunk has moved, its documents remain as long as a cursor reads them. A secondary, which is not notified of migrations, once
/// took all its documents for its shard's own if the collection was empty at the first query.
#[test]
fn a_secondary_counts_no_documents_that_have_gone_to_another_shard() {
    let place = ClusterFixture::new(6);
    let arguments = [
        "--replicaset",
        "--sharded",
        "2",
        "--nodes",
        "2",
        "--binarypath",
        "fathom",
        "--wiredTigerCacheSizeGB",
        "0.25",
        "--shard-collection",
        "test.c={k: 1}",
    ];
    place.init(&arguments).run().expect_code(0);
    let mut router = connect(&place);
    let secondary = || doc! { "count": "c", "$readPreference": { "mode": "secondary" } };
    let counted = |router: &mut Connection| router.run("test", &secondary()).unwrap().get_i32("n").unwrap();
    assert_eq!(counted(&mut router), 0);
    let documents: Vec<Document> = (0..200).map(|k| doc! { "_id": k, "k": k }).collect();
    let insert = doc! { "insert": "c", "documents": documents, "writeConcern": { "w": 2 } };
    router.run("test", &insert).unwrap();
    let chunk = router.cursor("config", &doc! { "find": "chunks" }).unwrap().next().unwrap().unwrap();
    let (from, to, first) = if chunk.get_str("shard").unwrap() == "shard01" {
        ("shard01", "shard02", 1)
    } else {
        ("shard02", "shard01", 3)
    };
    let mut reader = connect(&place);
    let open = reader.run("test", &doc! { "find": "c", "batchSize": 1 }).unwrap();
    router.run("admin", &doc! { "split": "test.c", "middle": { "k": 100 } }).unwrap();
    router.run("admin", &doc! { "moveChunk": "test.c", "find": { "k": 150 }, "to": to }).unwrap();
    let begun = Instant::now();
    while counted(&mut router) != 200 {
        assert!(begun.elapsed() < TIMEOUT, "{} of 200, from {from}", counted(&mut router));
        std::thread::sleep(Duration::from_millis(50));
    }
    // The documents still exist.
    let direct = |at: u16| {
        let mut member = crate::serve_run::connect(place.port + at);
        let there =
            member.run("test", &doc! { "count": "c", "$readPreference": { "mode": "nearest" } }).unwrap();
        there.get_i32("n").unwrap()
    };
    assert_eq!((direct(first), direct(first + 1)), (200, 200), "of {from}");
    let cursor = open.get_document("cursor").unwrap().get_i64("id").unwrap();
    reader.run("test", &doc! { "killCursors": "c", "cursors": [cursor] }).unwrap();
}
