//! `fathom cluster` with sets and shards of our own servers: made, used, broken and mended, destroyed.

use std::time::{Duration, Instant};

use bson::{Document, doc};
use fathom_client::Connection;
use fathom_testkit::Fathom;

use crate::cluster::Place;

/// Whether a verb of this build lists an option; says so where not.
fn has(verb: &str, option: &str) -> bool {
    let help = Fathom::new(env!("CARGO_BIN_EXE_fathom")).args([verb, "--help"]).run().stdout;
    let has = help.contains(option);
    if !has {
        println!("skipped: fathom {verb} has no {option}");
    }
    has
}

fn connect(place: &Place) -> Connection {
    let uri = place.run("list", &["--uri"]).expect_code(0).stdout;
    Connection::connect(&uri.trim().parse().unwrap()).unwrap()
}

fn roles(place: &Place) -> Vec<String> {
    let mut roles: Vec<String> =
        place.list().iter().map(|server| server["process"].as_str().unwrap().to_owned()).collect();
    roles.sort();
    roles
}

fn insert(connection: &mut Connection, id: i32) -> fathom_client::Result<()> {
    let command = doc! { "insert": "c", "documents": [{ "_id": id }], "writeConcern": { "w": "majority", "wtimeout": 60_000 } };
    connection.run("test", &command).map(drop)
}

fn count(connection: &mut Connection) -> usize {
    connection.cursor("test", &doc! { "find": "c" }).unwrap().map(Result::unwrap).count()
}

#[test]
fn a_set_of_ours_fails_over_and_mends() {
    if !has("serve", "--replSet") {
        return;
    }
    let place = Place::new(3);
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
        assert!(begun.elapsed() < Duration::from_secs(90), "nobody was elected: {:?}", roles(&place));
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

#[test]
fn a_sharded_cluster_of_ours_holds_data_on_every_shard() {
    if !has("serve", "--replSet") || !has("route", "--configdb") {
        return;
    }
    let place = Place::new(4);
    let arguments = [
        "--replicaset",
        "--sharded",
        "2",
        "--nodes",
        "1",
        "--binarypath",
        "fathom",
        "--wiredTigerCacheSizeGB",
        "0.25",
        "--shard-collection",
        "test.c={_id: hashed}",
    ];
    let begun = Instant::now();
    place.init(&arguments).run().expect_code(0);
    println!("2 shards ready after {} ms", begun.elapsed().as_millis());
    let mut router = connect(&place);
    let documents: Vec<Document> = (0..100).map(|id| doc! { "_id": id }).collect();
    router.run("test", &doc! { "insert": "c", "documents": documents }).unwrap();
    assert_eq!(count(&mut router), 100);
    let shard = |at: u16| count(&mut crate::serve_run::connect(place.port + at));
    let (first, second) = (shard(1), shard(2));
    assert!(first > 10 && second > 10 && first + second == 100, "{first} {second}");
    // All of it stops and comes back.
    place.run("stop", &[]).expect_code(0);
    assert!(place.processes().is_empty());
    place.run("start", &[]).expect_code(0);
    assert_eq!(count(&mut connect(&place)), 100);
}
