//! What drivers see of a replica set of ours: three members, one of them on another engine, made and broken by `fathom cluster`.
//!
//! Each driver's program finds the set from one member, reads and writes as read preferences and write concerns say, sends writes again,
//! and follows a step-down and a kill. Afterwards all members must hold the same. As in `clients`, the test of a driver
//! whose runtime is missing ends as skipped.

use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use fathom_client::{Address, Connection, Target};
use fathom_testkit::{LabServer, Scratch, assert, assert_eq, test};

use crate::clients::{ROCKSDB, assert_passed, client, mongosh, program, stop, with_program};
use crate::cluster::ClusterFixture;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fathom");
/// A set waits so long before it elects another primary: short, for the test, and long enough for a busy machine.
const ELECTION_TIMEOUT_MS: i32 = 5000;
const TIMEOUT: Duration = Duration::from_secs(90);

/// A set of three, the last of them on RocksDB, with tags and a mode of write concern that wants both places.
fn set_of_three() -> ClusterFixture {
    let place = ClusterFixture::new(3);
    let arguments = [
        "--replicaset",
        "--binarypath",
        "fathom",
        "--setParameter",
        "enableTestCommands=1",
        "--member",
        "1={tags: {dc: east, engine: wiredTiger}, cacheSizeGB: 0.25}",
        "--member",
        "2={tags: {dc: west, engine: wiredTiger}, cacheSizeGB: 0.25}",
        "--member",
        "3={tags: {dc: west, engine: rocksdb}, engine: rocksdb, cacheSizeGB: 0.25}",
    ];
    place.init(&arguments).run().expect_code(0);
    let mut primary = connect(&place, place.port);
    let reply = run(&mut primary, "admin", &doc! { "replSetGetConfig": 1 });
    let mut config = reply.get_document("config").unwrap().clone();
    config.insert("version", config.get_i32("version").unwrap() + 1);
    let settings = config.get_document_mut("settings").unwrap();
    settings.insert("electionTimeoutMillis", ELECTION_TIMEOUT_MS);
    settings.insert("getLastErrorModes", doc! { "dcs": { "dc": 2 } });
    run(&mut primary, "admin", &doc! { "replSetReconfig": config });
    let has_it = |port: u16| {
        let reply = run(&mut connect(&place, port), "admin", &doc! { "replSetGetConfig": 1 });
        reply.get_document("config").unwrap().get_i32("version").unwrap() > 1
    };
    until("all members have the configuration", || (0..3).all(|at| has_it(place.port + at)));
    place
}

fn connect(place: &ClusterFixture, port: u16) -> Connection {
    try_connect(port).unwrap_or_else(|error| panic!("{error} {:?}", place.list()))
}

fn try_connect(port: u16) -> fathom_client::Result<Connection> {
    let mut target = Target::at(Address::new("localhost", port));
    target.socket_timeout = Some(TIMEOUT);
    Connection::connect(&target)
}

fn run(connection: &mut Connection, database: &str, command: &Document) -> Document {
    let reply = connection.run(database, command).unwrap_or_else(|error| panic!("{command}: {error}"));
    Document::try_from(&*reply).unwrap()
}

#[track_caller]
fn until(what: &str, mut look: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !look() {
        assert!(begun.elapsed() < TIMEOUT, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// All documents of a database on one member, sorted by `_id` within each collection.
fn documents(port: u16, database: &str) -> Vec<(String, Vec<Document>)> {
    let mut connection = try_connect(port).unwrap();
    let preference = doc! { "mode": "secondaryPreferred" };
    let list = doc! { "listCollections": 1, "nameOnly": true, "$readPreference": preference.clone() };
    let mut names: Vec<String> = connection
        .cursor(database, &list)
        .unwrap()
        .map(|one| one.unwrap().get_str("name").unwrap().to_owned())
        .collect();
    names.sort();
    let mut all = Vec::new();
    for name in names {
        let find = doc! { "find": &name, "sort": { "_id": 1 }, "$readPreference": preference.clone() };
        let found = connection.cursor(database, &find).unwrap();
        all.push((name, found.map(|one| Document::try_from(&*one.unwrap()).unwrap()).collect()));
    }
    all
}

/// A driver's whole program against a new set; it writes to `database`.
fn drive(name: &str) {
    let place_of_files = Scratch::new().unwrap();
    let call = program(name, &place_of_files.path());
    let place = set_of_three();
    let call = call
        .args(["set", &place.port.to_string()])
        .arg(place.folder())
        .env("FATHOM", PROGRAM)
        .state(place.scratch.path().join("state"))
        .limit(Duration::from_secs(400));
    assert_passed(name, &call.run());
    let first = || documents(place.port, name);
    assert!(first().iter().map(|(_, documents)| documents.len()).sum::<usize>() > 300);
    for other in 1..3 {
        until("all members hold the same", || documents(place.port + other, name) == first());
    }
    place.run("destroy", &[]).expect_code(0);
    assert!(place.processes().is_empty());
}

#[test]
fn pymongo_on_a_set() {
    drive("python");
}

#[test]
fn node_on_a_set() {
    drive("node");
}

#[test]
fn go_on_a_set() {
    drive("go");
}

#[test]
fn java_on_a_set() {
    drive("java");
}

/// The reply of a member before it is a secondary.
const NOT_PRIMARY_OR_SECONDARY: i32 = 13436;

/// Over a direct connection drivers read from any member; only who gives no leave is refused.
#[test]
fn a_secondary_refuses_who_gives_no_leave() {
    let place = set_of_three();
    let mut direct = connect(&place, place.port + 1);
    let refused = |connection: &mut Connection, command: &Document| {
        connection.run("test", command).unwrap_err().failure().map(|failure| failure.code().0)
    };
    // Until it has the primary's data it is no secondary yet.
    let deadline = Instant::now() + Duration::from_secs(60);
    while refused(&mut direct, &doc! { "find": "c" }) == Some(NOT_PRIMARY_OR_SECONDARY)
        && Instant::now() < deadline
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(refused(&mut direct, &doc! { "find": "c" }), Some(13435));
    let primary_only = doc! { "find": "c", "$readPreference": { "mode": "primary" } };
    assert_eq!(refused(&mut direct, &primary_only), Some(13435));
    assert_eq!(refused(&mut direct, &doc! { "count": "c" }), Some(13435));
    assert_eq!(refused(&mut direct, &doc! { "insert": "c", "documents": [{}] }), Some(10107));
    assert_eq!(refused(&mut direct, &doc! { "drop": "c" }), Some(10107));
    place.run("destroy", &[]).expect_code(0);
}

#[test]
fn mongosh_has_its_helpers_for_sets() {
    // Looked for before the set is made, which takes longer.
    client("node");
    let place = set_of_three();
    // One more, for rs.add and rs.remove.
    let folder = place.scratch.path().join("fourth");
    let flags = ["--replSet", "replset", "--wiredTigerCacheSizeGB", "0.25", "--rocksdbCacheSizeGB", "0.25"];
    let fourth =
        LabServer::start(PROGRAM, ROCKSDB, &folder, &flags).unwrap_or_else(|output| panic!("{output:?}"));
    let uri = place.run("list", &["--uri"]).expect_code(0).stdout;
    let call = mongosh(uri.trim(), &place.scratch.path());
    let call = call.args(["--eval", &format!("const FOURTH = 'localhost:{}';", fourth.port())]);
    let output = with_program(call, "set").limit(Duration::from_secs(300)).run();
    assert_passed("mongosh", &output);
    assert!(output.stderr.is_empty(), "mongosh complains: {}", output.stderr);
    stop(fourth);
    place.run("destroy", &[]).expect_code(0);
}

/// The members' states as one of them sees them, by port.
fn states(port: u16) -> Vec<(u16, String)> {
    let Ok(mut connection) = try_connect(port) else { return Vec::new() };
    let Ok(status) = connection.run("admin", &doc! { "replSetGetStatus": 1 }) else { return Vec::new() };
    let status = Document::try_from(&*status).unwrap();
    let members = status.get_array("members").unwrap().iter().filter_map(Bson::as_document);
    let of = |member: &Document| {
        let name = member.get_str("name").unwrap();
        (name.rsplit_once(':').unwrap().1.parse().unwrap(), member.get_str("stateStr").unwrap().to_owned())
    };
    members.map(of).collect()
}

/// Whether a member takes writes.
fn is_primary(port: u16) -> bool {
    let hello = |mut connection: Connection| connection.run("admin", &doc! { "hello": 1 }).ok();
    let hello = try_connect(port).ok().and_then(hello);
    hello.is_some_and(|hello| hello.get_bool("isWritablePrimary").unwrap())
}

/// Our members stand behind proxies, so that each knows itself only by asking who answers at an address.
#[test]
fn a_proxied_set_of_ours_elects_another_when_the_primary_is_cut_off_and_heals() {
    let place = ClusterFixture::new(6);
    let arguments = [
        "--replicaset",
        "--proxied",
        "--binarypath",
        "fathom",
        "--member",
        "1={cacheSizeGB: 0.25}",
        "--member",
        "2={cacheSizeGB: 0.25}",
        "--member",
        "3={engine: rocksdb, cacheSizeGB: 0.25}",
    ];
    place.init(&arguments).run().expect_code(0);
    let ports = || (0..3).map(|at| place.port + at);
    let old = ports().find(|port| is_primary(*port)).expect("a primary");
    let write = |port: u16, id: i32, w: Bson| {
        let insert = doc! { "insert": "c", "documents": [{ "_id": id }], "writeConcern": { "w": w, "wtimeout": 60_000 } };
        run(&mut connect(&place, port), "test", &insert)
    };
    let error = |reply: &Document| reply.get_document("writeConcernError").ok().cloned();
    assert_eq!(error(&write(old, 1, 3.into())), None);

    // A delay is felt by what waits for others.
    place.run("delay", &["secondary", "--round-trip", "400ms"]).expect_code(0);
    let mut late = 1000..;
    until("a write to all takes longer", || {
        let begun = Instant::now();
        assert_eq!(error(&write(old, late.next().expect("a number"), 3.into())), None);
        begun.elapsed() >= Duration::from_millis(200)
    });
    place.run("heal", &[]).expect_code(0);

    place.run("partition", &["primary"]).expect_code(0);
    // Clients still reach the old primary, and what only it has is lost.
    let insert = doc! { "insert": "c", "documents": [{ "_id": 2 }], "writeConcern": { "w": "majority", "wtimeout": 500 } };
    let reply = run(&mut connect(&place, old), "test", &insert);
    assert_eq!(error(&reply).expect("no majority").get_i32("code").unwrap(), 64, "{reply}");
    until("another is primary", || ports().any(|port| port != old && is_primary(port)));
    until("the old one stepped down", || !is_primary(old));
    let new = ports().find(|port| *port != old && is_primary(*port)).expect("a new primary");
    assert_eq!(error(&write(new, 3, "majority".into())), None);
    let cut_off = states(new).into_iter().find(|(port, _)| *port == old).unwrap();
    assert!(cut_off.1.starts_with("(not reachable"), "{cut_off:?}");

    place.run("heal", &[]).expect_code(0);
    until("all are members again", || {
        let states = states(new);
        states.iter().filter(|(_, state)| state == "SECONDARY").count() == 2
    });
    let now = ports().find(|port| is_primary(*port)).unwrap_or(new);
    assert_eq!(error(&write(now, 4, 3.into())), None);
    for port in ports() {
        until("each has what the majority has, and not what was lost", || {
            let all = documents(port, "test");
            let ids: Vec<i32> =
                all[0].1.iter().map(|one| one.get_i32("_id").unwrap()).filter(|id| *id < 1000).collect();
            ids == [1, 3, 4]
        });
    }
    place.run("destroy", &[]).expect_code(0);
    assert!(place.processes().is_empty() && !place.folder().exists());
}
