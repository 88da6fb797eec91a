//! Splits and moves chunks, also during writes and while another router is in use.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};

use super::cluster::{ClusterMembers, number};

fn ranged(shards: usize) -> ClusterMembers {
    let cluster = ClusterMembers::new(shards);
    cluster.shard_collection(doc! { "k": 1 });
    cluster
}

#[test]
fn chunks_are_split_where_one_says() {
    let cluster = ranged(2);
    let mut client = cluster.client();
    client.ok("admin", doc! { "split": "a.b", "middle": { "k": 100 } });
    client.insert((0..100).map(|k| doc! { "_id": k, "k": k }).collect());
    client.ok("admin", doc! { "split": "a.b", "find": { "k": 5 } });
    client.ok("admin", doc! { "split": "a.b", "bounds": [{ "k": 50 }, { "k": 100 }] });
    let chunks = client.all("config", doc! { "find": "chunks", "sort": { "min": 1 } });
    let ends: Vec<Bson> =
        chunks.iter().map(|chunk| chunk.get_document("max").unwrap().get("k").unwrap().clone()).collect();
    assert_eq!(ends, [Bson::Int32(50), Bson::Int32(75), Bson::Int32(100), Bson::MaxKey]);
    assert!(chunks.iter().all(|chunk| chunk.get_timestamp("lastmod").unwrap().time == 1));
    assert_eq!(client.refused("admin", doc! { "split": "a.b", "middle": { "k": 50 } }).0, 2);
    assert_eq!(client.refused("admin", doc! { "split": "a.c", "middle": { "k": 50 } }).0, 118);
    assert_eq!(client.count("a", "b"), 100);
}

#[test]
fn another_router_follows_a_chunk_that_moved() {
    let mut cluster = ranged(3);
    let other = cluster.add_router(false);
    let (mut first, mut second) = (cluster.client(), cluster.client_of(other));
    first.insert((0..200).map(|k| doc! { "_id": k, "k": k }).collect());
    assert_eq!(second.all("a", doc! { "find": "b", "sort": { "k": 1 } }).len(), 200);
    assert_eq!(cluster.counts(), [200, 0, 0]);
    first.ok("admin", doc! { "split": "a.b", "middle": { "k": 100 } });
    first.ok("admin", doc! { "moveChunk": "a.b", "find": { "k": 150 }, "to": "s2", "_waitForDelete": true });
    assert_eq!(cluster.counts(), [100, 100, 0]);
    // The second router does not know of the move, and learns it from the shards.
    let insert = doc! { "insert": "b", "documents": [{ "_id": 1000, "k": 170 }, { "_id": 1001, "k": 3 }] };
    assert_eq!(number(&second.ok("a", insert), "n"), 2);
    assert_eq!(cluster.counts(), [101, 101, 0]);
    assert_eq!(second.all("a", doc! { "find": "b", "filter": { "k": 150 } }).len(), 1);
    assert_eq!(second.count("a", "b"), 202);
    let update = doc! { "update": "b", "updates": [{ "q": { "k": 199 }, "u": { "$set": { "z": 1 } } }] };
    first.ok("admin", doc! { "moveChunk": "a.b", "find": { "k": 150 }, "to": "s3", "_waitForDelete": true });
    assert_eq!(number(&second.ok("a", update), "nModified"), 1);
    assert_eq!(cluster.counts(), [101, 0, 101]);
    let status = second.ok("admin", doc! { "serverStatus": 1 });
    let cache = status.get_document("shardingStatistics").unwrap().get_document("catalogCache").unwrap();
    assert!(number(cache, "countStaleConfigErrors") > 0);
    let chunk = &first.all("config", doc! { "find": "chunks", "filter": { "shard": "s3" } })[0];
    let had: Vec<&str> = chunk
        .get_array("history")
        .unwrap()
        .iter()
        .filter_map(|item| item.as_document()?.get_str("shard").ok())
        .collect();
    assert_eq!((chunk.get_timestamp("lastmod").unwrap().time, had), (3, vec!["s3", "s2", "s1"]));
}

#[test]
fn a_chunk_moves_under_writes_and_nothing_is_lost_or_seen_twice() {
    let mut cluster = ranged(2);
    let other = cluster.add_router(false);
    let mut client = cluster.client();
    client.insert((0..2000).map(|k| doc! { "_id": k, "k": k, "n": 0 }).collect());
    client.ok("admin", doc! { "split": "a.b", "middle": { "k": 1000 } });
    let (stop, written, added) = (AtomicBool::new(false), AtomicI64::new(0), AtomicI64::new(0));
    let cluster = &cluster;
    std::thread::scope(|scope| {
        for writer in 0..2_i32 {
            let (stop, written, added) = (&stop, &written, &added);
            scope.spawn(move || {
                let mut client = cluster.client_of(if writer == 0 { 0 } else { other });
                let mut step = 0_i32;
                while !stop.load(Ordering::Relaxed) {
                    let k = (step * 37 + writer * 11) % 2000;
                    let update = doc! { "q": { "k": k }, "u": { "$inc": { "n": 1 } } };
                    let reply = client.ok("a", doc! { "update": "b", "updates": [update] });
                    written.fetch_add(number(&reply, "nModified"), Ordering::Relaxed);
                    if step % 10 == 0 {
                        let id = 10_000 + step * 2 + writer;
                        client.insert(vec![doc! { "_id": id, "k": 1000 + step % 900, "n": 0 }]);
                        added.fetch_add(1, Ordering::Relaxed);
                    }
                    step += 1;
                }
            });
        }
        let mut mover = cluster.client();
        for to in ["s2", "s1", "s2"] {
            mover.ok(
                "admin",
                doc! { "moveChunk": "a.b", "find": { "k": 1500 }, "to": to, "_waitForDelete": true },
            );
            let seen = mover.all(
                "a",
                doc! { "find": "b", "projection": { "_id": 1 }, "filter": { "_id": { "$lt": 2000 } } },
            );
            assert_eq!(seen.len(), 2000);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let all = client.all("a", doc! { "find": "b", "sort": { "_id": 1 } });
    assert_eq!(i64::try_from(all.len()).unwrap(), 2000 + added.load(Ordering::Relaxed));
    let sum: i64 = all.iter().map(|document| number(document, "n")).sum();
    assert_eq!(sum, written.load(Ordering::Relaxed));
    assert_eq!(cluster.counts().iter().sum::<i64>(), i64::try_from(all.len()).unwrap());
}

#[test]
fn what_is_not_a_shards_own_is_not_seen_and_can_be_cleaned_up() {
    let cluster = ranged(2);
    let mut client = cluster.client();
    client.insert((0..50).map(|k| doc! { "_id": k, "k": k }).collect());
    client.ok("admin", doc! { "split": "a.b", "middle": { "k": 25 } });
    client.ok("admin", doc! { "moveChunk": "a.b", "find": { "k": 30 }, "to": "s2", "_waitForDelete": true });
    // The leftovers of an interrupted migration: documents of the other's chunk, inserted past the router.
    let stray: Vec<Document> = (30..40).map(|k| doc! { "_id": k, "k": k, "stray": true }).collect();
    cluster.shard(0).insert(stray);
    assert_eq!(client.all("a", doc! { "find": "b" }).len(), 50);
    assert_eq!(client.count("a", "b"), 50);
    assert!(client.all("a", doc! { "find": "b", "filter": { "stray": true } }).is_empty());
    let counted = client.all("a", doc! { "aggregate": "b", "pipeline": [{ "$count": "n" }], "cursor": {} });
    assert_eq!(number(&counted[0], "n"), 50);
    let values = client.ok("a", doc! { "distinct": "b", "key": "stray" });
    assert!(values.get_array("values").unwrap().is_empty());
    let update = doc! { "update": "b", "updates": [{ "q": { "stray": true }, "u": { "$set": { "z": 1 } }, "multi": true }] };
    assert_eq!(number(&client.ok("a", update), "n"), 0);
    let cleaned = cluster.shard(0).ok("admin", doc! { "cleanupOrphaned": "a.b" });
    assert_eq!(number(&cleaned, "deleted"), 10);
    assert_eq!(cluster.counts(), [25, 25]);
}

#[test]
fn the_balancer_spreads_chunks_and_drains_a_shard() {
    let mut cluster = ClusterMembers::new(3);
    cluster.shard_collection(doc! { "k": 1 });
    let mut client = cluster.client();
    client.insert((0..90).map(|k| doc! { "_id": k, "k": k }).collect());
    for k in (10..90).step_by(10) {
        client.ok("admin", doc! { "split": "a.b", "middle": { "k": k } });
    }
    client.ok("admin", doc! { "balancerStop": 1 });
    assert_eq!(client.ok("admin", doc! { "balancerStatus": 1 }).get_str("mode").unwrap(), "off");
    client.ok("admin", doc! { "balancerStart": 1 });
    let balancing = cluster.add_router(true);
    let until = Instant::now() + Duration::from_secs(300);
    let per_shard = |client: &mut super::cluster::Client| -> Vec<usize> {
        ["s1", "s2", "s3"]
            .map(|shard| client.all("config", doc! { "find": "chunks", "filter": { "shard": shard } }).len())
            .to_vec()
    };
    while per_shard(&mut client).iter().max().unwrap() - per_shard(&mut client).iter().min().unwrap() >= 2 {
        assert!(Instant::now() < until, "{:?}", per_shard(&mut client));
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(client.all("a", doc! { "find": "b" }).len(), 90);
    assert_eq!(client.ok("admin", doc! { "removeShard": "s3" }).get_str("state").unwrap(), "started");
    while client.ok("admin", doc! { "removeShard": "s3" }).get_str("state").unwrap() != "completed" {
        assert!(Instant::now() < until, "{:?}", per_shard(&mut client));
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(client.all("a", doc! { "find": "b" }).len(), 90);
    client.insert((1000..1010).map(|k| doc! { "_id": k, "k": k - 1000 }).collect());
    assert_eq!(client.count("a", "b"), 100);
    assert_eq!(client.ok("admin", doc! { "listShards": 1 }).get_array("shards").unwrap().len(), 2);
    let status = cluster.client_of(balancing).ok("admin", doc! { "balancerStatus": 1 });
    assert!(number(&status, "numBalancerRounds") > 0);
}

#[test]
fn a_move_that_fails_leaves_everything_as_it_was() {
    let mut cluster = ranged(3);
    let mut client = cluster.client();
    client.insert((0..60).map(|k| doc! { "_id": k, "k": k }).collect());
    client.ok("admin", doc! { "split": "a.b", "middle": { "k": 30 } });
    let before = client.all("config", doc! { "find": "chunks", "sort": { "min": 1 } });
    let gone = cluster.shards.remove(2);
    gone.stop().unwrap();
    let to_the_dead = doc! { "moveChunk": "a.b", "find": { "k": 40 }, "to": "s3" };
    assert_eq!(client.refused("admin", to_the_dead).0, 6);
    assert_eq!(
        client.refused("admin", doc! { "moveChunk": "a.b", "find": { "k": 40 }, "to": "nobody" }).0,
        70
    );
    assert_eq!(client.refused("admin", doc! { "moveChunk": "a.b", "find": { "x": 40 }, "to": "s2" }).0, 2);
    let wrong = doc! { "moveChunk": "a.b", "bounds": [{ "k": 31 }, { "k": Bson::MaxKey }], "to": "s2" };
    assert_eq!(client.refused("admin", wrong).0, 2);
    assert_eq!(client.all("config", doc! { "find": "chunks", "sort": { "min": 1 } }), before);
    client.insert(vec![doc! { "_id": 100, "k": 40 }]);
    assert_eq!(client.all("a", doc! { "find": "b", "filter": { "k": { "$gte": 30 } } }).len(), 31);
    client.ok("admin", doc! { "moveChunk": "a.b", "find": { "k": 40 }, "to": "s2", "_waitForDelete": true });
    assert_eq!(cluster.counts(), [30, 31]);
}

#[test]
fn a_cursor_reads_on_what_was_there_when_it_began() {
    let cluster = ranged(2);
    let mut client = cluster.client();
    client.insert((0..300).map(|k| doc! { "_id": k, "k": k }).collect());
    client.ok("admin", doc! { "split": "a.b", "middle": { "k": 100 } });
    let first = client.ok("a", doc! { "find": "b", "batchSize": 10 });
    let id = first.get_document("cursor").unwrap().get_i64("id").unwrap();
    let away = doc! { "moveChunk": "a.b", "find": { "k": 150 }, "to": "s2" };
    client.ok("admin", away.clone());
    assert_eq!(client.all("a", doc! { "find": "b" }).len(), 300);
    let rest = client.ok("a", doc! { "getMore": id, "collection": "b" });
    let cursor = rest.get_document("cursor").unwrap();
    assert_eq!((cursor.get_array("nextBatch").unwrap().len(), number(cursor, "id")), (290, 0));
    // Now documents of chunks that moved away may be deleted; those that return meanwhile may not.
    for _ in 0..3 {
        client.ok("admin", doc! { "moveChunk": "a.b", "find": { "k": 150 }, "to": "s1" });
        client.ok("admin", away.clone());
    }
    client.ok("admin", doc! { "moveChunk": "a.b", "find": { "k": 150 }, "to": "s1" });
    let until = Instant::now() + Duration::from_secs(300);
    while cluster.counts() != [300, 0] {
        assert!(Instant::now() < until, "{:?}", cluster.counts());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(client.all("a", doc! { "find": "b" }).len(), 300);
}
