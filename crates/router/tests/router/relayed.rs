//! Connections that ask one shard repeatedly are taken over by a loop: clients must see the same replies as before.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bson::{Document, doc};
use fathom_router::Router;
use fathom_wire::{Header, Message, OpMsgWriter};

use super::cluster::{Client, ClusterMembers, number};

/// A cluster with a collection hashed on `_id` that holds `count` documents.
fn hashed(shards: usize, count: i32) -> ClusterMembers {
    let cluster = ClusterMembers::new(shards);
    cluster.shard_collection(doc! { "_id": "hashed" });
    cluster.client().insert((0..count).map(|id| doc! { "_id": id, "twice": 2 * id }).collect());
    cluster
}

fn relayed(cluster: &ClusterMembers) -> i64 {
    let status = cluster.client().ok("admin", doc! { "serverStatus": 1 });
    number(status.get_document("fathom").unwrap(), "relayedQueries")
}

fn find(id: i32) -> Document {
    doc! { "find": "b", "filter": { "_id": id } }
}

/// Reads the documents with these `_id` values, and checks the results.
fn read(client: &mut Client, ids: std::ops::Range<i32>) {
    for id in ids {
        let found = client.all("a", find(id));
        assert_eq!(found, [doc! { "_id": id, "twice": 2 * id }]);
    }
}

#[test]
fn queries_of_one_shard_need_no_thread_and_anything_else_gets_one() {
    let cluster = hashed(2, 200);
    let mut client = cluster.client();
    let before = client.operations();
    let mut queries = 0;
    while relayed(&cluster) < 60 {
        read(&mut client, 0..100);
        queries += 100;
    }
    let first = relayed(&cluster);
    assert!(first <= queries, "{first} of {queries}");
    // Another command, a query of all shards, and one that fails: each is answered as before, and reading continues.
    client.insert(vec![doc! { "_id": 1000, "twice": 2000 }]);
    read(&mut client, 0..40);
    assert_eq!(client.all("a", doc! { "find": "b", "sort": { "_id": 1 } }).len(), 201);
    read(&mut client, 0..40);
    let (code, text) = client.refused("a", doc! { "find": "b", "filter": { "_id": 5, "x": { "$no": 1 } } });
    assert_eq!(code, 2, "{text}");
    read(&mut client, 0..40);
    assert_eq!(client.refused("a", doc! { "noSuchCommand": 1 }).0, 59);
    queries += 3 * 40 + 1 + 1;
    while relayed(&cluster) <= first + 50 {
        read(&mut client, 160..200);
        queries += 40;
    }
    // Each query is counted once, whichever thread answers it.
    let after = client.operations();
    assert_eq!(number(&after, "query") - number(&before, "query"), queries);
    let status = client.ok("admin", doc! { "serverStatus": 1 });
    let latencies = status.get_document("fathom").unwrap().get_document("opLatencies").unwrap();
    let reads = latencies.get_document("reads").unwrap();
    assert!(number(reads, "oneShard") >= queries - 2 && number(reads, "manyShards") >= 1, "{reads}");
    assert!(number(reads, "waitedForShards") <= number(reads, "latency"), "{reads}");
}

#[test]
fn what_is_not_sharded_and_what_is_large_or_long_comes_whole() {
    let cluster = ClusterMembers::new(1);
    let mut client = cluster.client();
    let filler = "x".repeat(1 << 20);
    client.insert((0..12).map(|id| doc! { "_id": id, "filler": &filler }).collect());
    for round in 0.. {
        if round >= 40 && relayed(&cluster) > 100 {
            break;
        }
        // A reply larger than a socket buffer, a result larger than a first batch, and small queries in between.
        let found = client.all("a", doc! { "find": "b", "batchSize": 5 });
        assert_eq!(found.len(), 12, "{round}");
        assert!(found.iter().all(|one| one.get_str("filler").unwrap() == filler));
        for id in 0..20 {
            assert_eq!(
                client
                    .all("a", doc! { "find": "b", "filter": { "_id": id }, "projection": { "_id": 1 } })
                    .len(),
                usize::from(id < 12)
            );
        }
    }
}

#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    let cluster = hashed(2, 100);
    // Until a loop has answered more of them than the first few.
    while relayed(&cluster) <= 100 {
        exchange(&cluster);
    }
}

/// Sends many requests before it reads; one in the middle is a request that no loop answers.
fn exchange(cluster: &ClusterMembers) {
    let mut socket = TcpStream::connect(("127.0.0.1", cluster.routers[0].port())).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    let mut sent = Vec::new();
    for number in 0..300 {
        let mut command = if number == 200 {
            doc! { "count": "b" }
        } else {
            find(number % 100)
        };
        command.insert("$db", "a");
        let mut message = OpMsgWriter::begin(&mut sent, number, 0);
        message.body().extend(&command);
        message.finish().unwrap();
        // The first requests are sent one by one, so that the connection has been taken over when the rest arrives.
        if number < 40 {
            socket.write_all(&sent).unwrap();
            check(&next(&mut socket), number);
            sent.clear();
        }
    }
    socket.write_all(&sent).unwrap();
    for number in 40..300 {
        check(&next(&mut socket), number);
    }
}

fn next(socket: &mut TcpStream) -> Vec<u8> {
    let mut frame = vec![0; Header::BYTES];
    socket.read_exact(&mut frame).unwrap();
    let header = Header::parse(frame.first_chunk().unwrap()).unwrap();
    frame.resize(header.length_bytes, 0);
    socket.read_exact(&mut frame[Header::BYTES..]).unwrap();
    frame
}

fn check(frame: &[u8], number: i32) {
    assert_eq!(Header::from_frame(frame).unwrap().response_to, number);
    let Message::Msg(message) = Message::parse(frame).unwrap() else { panic!("no OP_MSG") };
    let reply = Document::try_from(message.body).unwrap();
    if number == 200 {
        assert_eq!(reply.get_i32("n").unwrap(), 100, "{reply}");
        return;
    }
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(batch[0].as_document().unwrap().get_i32("_id").unwrap(), number % 100);
}

#[test]
fn a_loop_follows_a_chunk_that_moves() {
    let mut cluster = ClusterMembers::new(2);
    cluster.shard_collection(doc! { "_id": 1 });
    let mut mover = cluster.client();
    mover.insert((0..100).map(|id| doc! { "_id": id, "twice": 2 * id }).collect());
    let other = cluster.add_router(false);
    let mut client = cluster.client_of(other);
    read(&mut client, 0..60);
    mover.ok("admin", doc! { "split": "a.b", "middle": { "_id": 50 } });
    for round in 0..4 {
        let to = if round % 2 == 0 { "s2" } else { "s1" };
        mover.ok(
            "admin",
            doc! { "moveChunk": "a.b", "find": { "_id": 70 }, "to": to, "_waitForDelete": true },
        );
        read(&mut client, 30..100);
    }
}

#[test]
fn a_shard_that_is_gone_is_told_and_the_connection_stays() {
    let mut cluster = hashed(2, 100);
    let mut client = cluster.client();
    read(&mut client, 0..100);
    let gone = cluster.shards.pop().unwrap();
    gone.stop().unwrap();
    let (mut there, mut failed) = (0, 0);
    for id in 0..100 {
        match client.0.run("a", &find(id)) {
            Ok(_) => there += 1,
            Err(error) => {
                assert_eq!(error.failure().map(|failure| failure.code().0), Some(6), "{error}");
                failed += 1;
            }
        }
    }
    assert!(there > 20 && failed > 20, "{there} {failed}");
    client.ok("admin", doc! { "ping": 1 });
}

#[test]
fn a_router_stops_with_clients_in_its_loops() {
    let mut cluster = hashed(1, 50);
    let mut clients: Vec<Client> = (0..5).map(|_| cluster.client()).collect();
    clients.iter_mut().for_each(|client| read(client, 0..50));
    cluster.routers.drain(..).for_each(Router::stop);
    assert!(clients.iter_mut().all(|client| client.0.run("a", &find(1)).is_err()));
}
