//! Tests with a replica set and a cluster of two shards, simulated with replies of a real mongod and mongos 4.0.3.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use bson::{Document, RawDocumentBuf, doc};
use fathom_client::Target;
use fathom_monitor::{Batch, Clock, Namespace, Servers, WatchedRole, server_samplers};
use fathom_wire::{Header, Message, OpMsgWriter};

/// Answers a command, by its name and its first value as text.
pub(crate) type Script = dyn Fn(&str, &str) -> Document + Send + Sync;

/// A fixture, a document or an array of them.
fn fixture(name: &str) -> Vec<Document> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mongod-4.0.3").join(name);
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let documents = match json {
        serde_json::Value::Array(items) => items,
        one => vec![one],
    };
    let document = |json: serde_json::Value| Document::try_from(json.as_object().unwrap().clone()).unwrap();
    documents.into_iter().map(document).collect()
}

fn one(name: &str) -> Document {
    fixture(name).remove(0)
}

pub(crate) fn cursor(documents: Vec<Document>) -> Document {
    doc! { "cursor": { "firstBatch": documents, "id": 0_i64, "ns": "x.y" }, "ok": 1 }
}

fn unknown() -> Document {
    doc! { "ok": 0, "code": 59, "errmsg": "no such command" }
}

pub(crate) fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Serves every connection by the script, until the test ends.
pub(crate) fn serve(listener: TcpListener, script: Arc<Script>) {
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let script = Arc::clone(&script);
            thread::spawn(move || answer(socket, &*script));
        }
    });
}

fn answer(mut socket: TcpStream, script: &Script) {
    loop {
        let mut frame = vec![0; Header::BYTES];
        if socket.read_exact(&mut frame).is_err() {
            return;
        }
        let header = Header::parse(frame.first_chunk().unwrap()).unwrap();
        frame.resize(header.length_bytes, 0);
        socket.read_exact(&mut frame[Header::BYTES..]).unwrap();
        let Message::Msg(message) = Message::parse(&frame).unwrap() else { return };
        let command = Document::try_from(message.body).unwrap();
        let (name, value) = command.iter().next().unwrap();
        let reply = RawDocumentBuf::try_from(&script(name, value.as_str().unwrap_or_default())).unwrap();
        let mut out = Vec::new();
        let mut message = OpMsgWriter::begin(&mut out, 1, header.request_id);
        message.raw_body(&reply);
        message.finish().unwrap();
        if socket.write_all(&out).is_err() {
            return;
        }
    }
}

/// A member of a set of these ports, the first of which is the primary.
pub(crate) fn member(set: &'static str, ports: Vec<u16>, number: usize) -> Arc<Script> {
    let shown = ports.len();
    member_of(set, ports, shown, number)
}

/// The same for a set that shows its clients only the first members.
fn member_of(set: &'static str, ports: Vec<u16>, shown: usize, number: usize) -> Arc<Script> {
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    Arc::new(move |command, _| match command {
        "hello" | "isMaster" => doc! {
            "ismaster": number == 0, "secondary": number != 0, "setName": set, "setVersion": 1,
            "hosts": hosts[..shown].to_vec(), "primary": &hosts[0], "me": &hosts[number],
            "minWireVersion": 0, "maxWireVersion": 7, "ok": 1,
        },
        "ping" => doc! { "ok": 1 },
        "serverStatus" => {
            let mut status = one("replset-primary-serverStatus.json");
            // No process of this host has this id.
            status.insert("pid", 999_999_999_i64);
            // The third member lacks five entries; the newest write of the captured reply is kept.
            let progress = hosts.iter().enumerate().map(|(number, host)| {
                let increment = if number == 2 { 75 } else { 80 };
                doc! { "host": host, "optime": { "ts": bson::Timestamp { time: 1_795_239_307, increment }, "t": 1_i64 } }
            });
            let progress: Vec<Document> = progress.collect();
            let repl = status.get_document_mut("repl").unwrap();
            repl.insert("me", &hosts[number]);
            repl.insert("replicationProgress", progress);
            status
        }
        "getCmdLineOpts" => one("getCmdLineOpts.json"),
        "replSetGetStatus" => {
            let mut status = one("replSetGetStatus.json");
            let members = status.get_array_mut("members").unwrap();
            members.resize(hosts.len(), members.last().unwrap().clone());
            for (member, host) in members.iter_mut().zip(&hosts) {
                member.as_document_mut().unwrap().insert("name", host);
            }
            status
        }
        "replSetGetConfig" => {
            let members = hosts.iter().map(|host| doc! { "host": host, "votes": 1 }).collect::<Vec<_>>();
            doc! { "config": { "_id": set, "members": members }, "ok": 1 }
        }
        "aggregate" => cursor(fixture("latencyStats.json")),
        "getParameter" => doc! { "syncdelay": 60, "ok": 1 },
        "getLog" => doc! { "totalLinesWritten": 0, "log": [], "ok": 1 },
        _ => unknown(),
    })
}

/// Runs two rounds of all samplers of the servers behind a connection string.
pub(crate) fn watch(uri: &str) -> (Servers, Batch) {
    let target: Target = uri.parse().unwrap();
    let servers = Servers::find(&target, 0).unwrap();
    let mut samplers = server_samplers(&servers, &Namespace::new(Some("ycsb.usertable".to_owned())));
    let mut batch = Batch::new(Clock::since(Instant::now()));
    for _ in 0..2 {
        samplers.iter_mut().for_each(|(_, sampler)| sampler.sample(&mut batch).unwrap());
    }
    (servers, batch)
}

fn last(batch: &Batch, name: &str) -> Option<f64> {
    batch.readings.iter().rev().find(|reading| reading.name == name).map(|reading| reading.value)
}

#[test]
fn every_member_of_a_set_is_watched() {
    let (listeners, ports): (Vec<_>, Vec<_>) = (0..3).map(|_| listen()).unzip();
    for (number, listener) in listeners.into_iter().enumerate() {
        serve(listener, member("rs0", ports.clone(), number));
    }
    let (servers, batch) = watch(&format!("mongodb://127.0.0.1:{}/?replicaSet=rs0", ports[1]));
    let roles: Vec<WatchedRole> = servers.watched.iter().map(|watched| watched.role).collect();
    assert_eq!(roles, [WatchedRole::Primary, WatchedRole::Secondary, WatchedRole::Secondary]);
    assert_eq!(servers.watched[0].address.port, ports[0]);
    assert!(servers.watched.iter().all(|watched| watched.pid.is_none() && watched.dbpath.is_some()));
    assert_eq!(servers.notes.len(), 3, "each is somewhere else: {:?}", servers.notes);
    for (number, state) in [(0, 1.0), (1, 2.0), (2, 2.0)] {
        let get = |series: &str| last(&batch, &format!("server.{number}.{series}"));
        assert_eq!((get("up"), get("replication.state")), (Some(1.0), Some(state)));
        assert_eq!(get("replication.lag_ms"), Some(0.0));
        let behind = if servers.watched[number].address.port == ports[2] { 5.0 } else { 0.0 };
        assert_eq!(get("replication.behind"), Some(behind));
        assert_eq!(get("cache.used_bytes"), Some(3_447_499.0));
        assert_eq!(get("process.resident_bytes"), Some(94.0 * 1_048_576.0), "remote: from its own reply");
        assert_eq!(get("collection.writes.operations"), Some(0.0));
    }
    for (fact, value) in [("server.0.majority", "2"), ("server.2.votes", "1"), ("server.1.set", "rs0")] {
        assert!(batch.facts.contains(&(fact.to_owned(), value.to_owned())), "{fact}: {:?}", batch.facts);
    }
    // 4.0 does not count waits for tickets, on each member.
    assert_eq!(batch.notes.len(), 3, "{:?}", batch.notes);
}

#[test]
fn a_hidden_member_is_watched_too() {
    let (listeners, ports): (Vec<_>, Vec<_>) = (0..4).map(|_| listen()).unzip();
    for (number, listener) in listeners.into_iter().enumerate() {
        serve(listener, member_of("rs0", ports.clone(), 3, number));
    }
    let target: Target = format!("mongodb://127.0.0.1:{}/?replicaSet=rs0", ports[0]).parse().unwrap();
    let servers = Servers::find(&target, 5).unwrap();
    let numbers: Vec<usize> = servers.watched.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [5, 6, 7, 8]);
    let mut found: Vec<u16> = servers.watched.iter().map(|it| it.address.port).collect();
    assert_eq!((found[0], found[3]), (ports[0], ports[3]), "the primary first, the hidden one last");
    found.sort_unstable();
    let mut all = ports;
    all.sort_unstable();
    assert_eq!(found, all);
    assert_eq!(servers.watched[3].role, WatchedRole::Secondary);
    assert!(servers.notes[0].starts_with("server 5 ("), "{:?}", servers.notes);
}

/// An arbiter of a set of these ports.
fn arbiter(set: &'static str, hosts: Vec<String>, arbiters: Vec<String>) -> Arc<Script> {
    Arc::new(move |command, _| match command {
        "hello" | "isMaster" => doc! {
            "ismaster": false, "secondary": false, "arbiterOnly": true, "setName": set, "setVersion": 1,
            "hosts": hosts.clone(), "arbiters": arbiters.clone(), "minWireVersion": 0, "maxWireVersion": 9, "ok": 1,
        },
        "ping" => doc! { "ok": 1 },
        _ => doc! { "ok": 0, "code": 13, "errmsg": "not authorized on admin to execute command" },
    })
}

/// A connection string with a user, whom an arbiter does not know, must end in the same note.
#[test]
fn an_arbiter_is_not_watched_and_the_note_says_why() {
    let (listener, port) = listen();
    let own = format!("127.0.0.1:{port}");
    serve(listener, arbiter("rs0", vec!["127.0.0.1:1".to_owned()], vec![own.clone()]));
    for login in ["", "mon:s3c@"] {
        let target: Target = format!("mongodb://{login}{own}/?directConnection=true").parse().unwrap();
        let servers = Servers::find(&target, 0).unwrap();
        assert!(servers.watched.is_empty());
        let expected = format!("{own} is not watched: it is an arbiter, which holds no data and no users");
        assert_eq!(servers.notes, [expected]);
    }
}

/// A script, in which a command is refused with this code; hello is refused only after the first time.
fn refusing(refused: &'static str, code: i32, script: Arc<Script>) -> Arc<Script> {
    let greeted = AtomicBool::new(false);
    Arc::new(move |command, value| {
        let is_first = command == "hello" && !greeted.swap(true, Ordering::Relaxed);
        if command == refused && !is_first {
            return doc! { "ok": 0, "code": code, "errmsg": "Authentication failed." };
        }
        let mut reply = script(command, value);
        if command == "hello" {
            reply.insert("arbiters", vec!["127.0.0.1:2"]);
        }
        reply
    })
}

#[test]
fn every_member_that_is_not_watched_has_a_note() {
    let (listeners, ports): (Vec<_>, Vec<_>) = (0..3).map(|_| listen()).unzip();
    let refusals = [("hello", 18), ("serverStatus", 13), ("serverStatus", 8000)];
    for (number, (listener, (command, code))) in listeners.into_iter().zip(refusals).enumerate() {
        serve(listener, refusing(command, code, member("rs0", ports.clone(), number)));
    }
    // No program listens on ports 1 and 2; the second is the arbiter that the members list.
    let uri = format!("mongodb://127.0.0.1:{},127.0.0.1:1/?replicaSet=rs0", ports[0]);
    let servers = Servers::find(&uri.parse().unwrap(), 0).unwrap();
    let note = |address: String, words: &[&str]| {
        let found: Vec<&String> = servers.notes.iter().filter(|note| note.contains(&address)).collect();
        let is_whole = |note: &&String| words.iter().all(|word| note.contains(word));
        assert_eq!(found.iter().filter(|note| is_whole(note)).count(), 1, "{address}: {:?}", servers.notes);
        let elsewhere = found.iter().filter(|note| note.contains("does not run on this host"));
        assert_eq!(elsewhere.count(), 0, "{address}: {:?}", servers.notes);
    };
    let local = |port: u16| format!("127.0.0.1:{port}");
    note(local(ports[0]), &["cannot be asked (Authentication failed", "watched once it answers"]);
    note(local(ports[1]), &["may not run serverStatus", "clusterMonitor", "on this host is not known"]);
    note(local(ports[2]), &["refuses serverStatus (Authentication failed)", "on this host is not known"]);
    note("127.0.0.1:1 ".to_owned(), &["is not watched: ", "Connection refused"]);
    note("127.0.0.1:2 ".to_owned(), &["does not answer", "Connection refused"]);
    let watched: Vec<u16> = servers.watched.iter().map(|watched| watched.address.port).collect();
    assert!(ports.iter().all(|port| watched.contains(port)), "{watched:?}");
}

/// A router of shards on these ports.
fn router(shards: [u16; 2]) -> Arc<Script> {
    Arc::new(move |command, target| match (command, target) {
        ("hello" | "isMaster", _) => one("mongos-hello.json"),
        ("ping", _) => doc! { "ok": 1 },
        ("serverStatus", _) => one("mongos-serverStatus.json"),
        ("find", "shards") => {
            let mut documents = fixture("config-shards.json");
            for (shard, port) in documents.iter_mut().zip(shards) {
                let host = format!("{}/127.0.0.1:{port}", shard.get_str("_id").unwrap());
                shard.insert("host", host);
            }
            cursor(documents)
        }
        ("find", "collections") => cursor(fixture("config-collections.json")),
        ("aggregate", "chunks") => {
            let chunks = fixture("config-chunks.json");
            let count =
                |shard: &str| chunks.iter().filter(|chunk| chunk.get_str("shard").unwrap() == shard).count();
            let counted = |shard: &str| doc! { "_id": shard, "chunks": i32::try_from(count(shard)).unwrap() };
            cursor(vec![counted("sh1"), counted("sh2")])
        }
        ("balancerStatus", _) => one("balancerStatus.json"),
        _ => unknown(),
    })
}

#[test]
fn behind_routers_the_shards_are_watched() {
    let ((first, first_port), (second, second_port), (mongos, port)) = (listen(), listen(), listen());
    serve(first, member("sh1", vec![first_port], 0));
    serve(second, member("sh2", vec![second_port], 0));
    serve(mongos, router([first_port, second_port]));
    let (servers, batch) = watch(&format!("mongodb://127.0.0.1:{port}"));
    let who: Vec<_> =
        servers.watched.iter().map(|it| (it.role, it.shard.as_deref(), it.address.port)).collect();
    let expected = [
        (WatchedRole::Primary, Some("sh1"), first_port),
        (WatchedRole::Primary, Some("sh2"), second_port),
        (WatchedRole::Router, None, port),
    ];
    assert_eq!(who, expected);
    assert_eq!(last(&batch, "server.0.sharding.chunks"), Some(2.0));
    assert_eq!(last(&batch, "server.1.sharding.chunks"), Some(2.0));
    assert_eq!(last(&batch, "server.2.sharding.balancing"), Some(0.0));
    assert_eq!(last(&batch, "server.2.opcounters.insert"), Some(0.0));
    assert_eq!(last(&batch, "server.2.cache.used_bytes"), None);
    assert_eq!(batch.notes.len(), 2, "one for each shard, none for the router: {:?}", batch.notes);
}

#[test]
fn a_shard_that_cannot_be_reached_is_said() {
    let ((first, first_port), (mongos, port)) = (listen(), listen());
    serve(first, member("sh1", vec![first_port], 0));
    // No program listens on port 1, and no other test uses it.
    serve(mongos, router([first_port, 1]));
    let (servers, _) = watch(&format!("mongodb://127.0.0.1:{port}/?connectTimeoutMS=300000"));
    assert_eq!(servers.watched.len(), 2);
    let said = servers.notes.iter().filter(|note| note.starts_with("shard sh2 cannot be watched"));
    assert_eq!(said.count(), 1, "{:?}", servers.notes);
}
