//! Adds and drops shards, collections and databases; invalid requests are refused with MongoDB's codes.

use bson::doc;
use fathom_server::ClusterRole;

use super::cluster::{ClusterMembers, connect, number, server};

#[test]
fn shards_are_added_once_and_only_if_they_fit() {
    let cluster = ClusterMembers::new(1);
    let mut client = cluster.client();
    let host = format!("127.0.0.1:{}", cluster.shards[0].port());
    let again = client.ok("admin", doc! { "addShard": host.as_str() });
    assert_eq!(again.get_str("shardAdded").unwrap(), "s1");
    assert_eq!(client.refused("admin", doc! { "addShard": host, "name": "other" }).0, 20);
    let router = format!("127.0.0.1:{}", cluster.routers[0].port());
    assert_eq!(client.refused("admin", doc! { "addShard": router }).0, 96);
    let config = format!("127.0.0.1:{}", cluster.config.as_ref().unwrap().port());
    assert_eq!(client.refused("admin", doc! { "addShard": config }).0, 96);
    let alone = server(ClusterRole::None);
    assert_eq!(client.refused("admin", doc! { "addShard": format!("127.0.0.1:{}", alone.port()) }).0, 193);
    assert_eq!(client.refused("admin", doc! { "addShard": "127.0.0.1:1" }).0, 6);
    assert_eq!(client.refused("admin", doc! { "addShard": "a:1,b:2" }).0, 9);
    alone.stop().unwrap();
    assert_eq!(client.refused("admin", doc! { "removeShard": "nobody" }).0, 70);
    assert_eq!(client.refused("admin", doc! { "removeShard": "s1" }).0, 20);
    assert_eq!(client.refused("a", doc! { "listShards": 1 }).0, 13);
    assert_eq!(client.refused("admin", doc! { "addShard": "127.0.0.1:1", "maxSize": 1 }).0, 40415);
    // A server with data brings its databases with it; one that another shard has is refused.
    let (fresh, clashing) = (server(ClusterRole::Shard), server(ClusterRole::Shard));
    connect(fresh.port()).ok("brought", doc! { "insert": "c", "documents": [{ "_id": 1 }] });
    connect(clashing.port()).ok("brought", doc! { "insert": "c", "documents": [{ "_id": 1 }] });
    let added = client.ok("admin", doc! { "addShard": format!("127.0.0.1:{}", fresh.port()) });
    assert_eq!(added.get_str("shardAdded").unwrap(), "shard0000");
    assert_eq!(client.count("brought", "c"), 1);
    assert_eq!(client.refused("admin", doc! { "addShard": format!("127.0.0.1:{}", clashing.port()) }).0, 96);
    fresh.stop().unwrap();
    clashing.stop().unwrap();
}

#[test]
fn a_collection_is_sharded_only_if_it_can_be() {
    let cluster = ClusterMembers::new(2);
    let mut client = cluster.client();
    let shard = |namespace: &str, key: bson::Document| doc! { "shardCollection": namespace, "key": key };
    assert_eq!(client.refused("admin", shard("a.b", doc! { "_id": 1 })).0, 20);
    client.ok("admin", doc! { "enableSharding": "a" });
    client.ok("admin", doc! { "enableSharding": "a" });
    assert_eq!(client.refused("admin", doc! { "enableSharding": "admin" }).0, 72);
    assert_eq!(client.refused("admin", shard("a", doc! { "_id": 1 })).0, 73);
    assert_eq!(client.refused("admin", shard("a.b", doc! {})).0, 2);
    assert_eq!(client.refused("admin", doc! { "shardCollection": "a.b" }).0, 40414);
    assert_eq!(client.refused("admin", shard("a.b", doc! { "x": -1 })).0, 2);
    let unique = doc! { "shardCollection": "a.b", "key": { "x": "hashed" }, "unique": true };
    assert_eq!(client.refused("admin", unique).0, 72);
    client.insert(vec![doc! { "_id": 1, "x": 1 }]);
    assert_eq!(client.refused("admin", shard("a.b", doc! { "x": 1 })).0, 72);
    client.ok("a", doc! { "createIndexes": "b", "indexes": [{ "key": { "x": 1, "y": 1 }, "name": "xy" }] });
    client.ok("admin", shard("a.b", doc! { "x": 1 }));
    client.ok("admin", shard("a.b", doc! { "x": 1 }));
    assert_eq!(client.refused("admin", shard("a.b", doc! { "y": 1 })).0, 23);
    assert_eq!(client.count("a", "b"), 1);
    let index =
        doc! { "createIndexes": "b", "indexes": [{ "key": { "z": 1 }, "name": "z", "unique": true }] };
    assert_eq!(client.refused("a", index).0, 67);
    assert_eq!(client.refused("admin", doc! { "renameCollection": "a.b", "to": "a.c" }).0, 20);
    client.ok("a", doc! { "create": "capped", "capped": true, "size": 4096 });
    assert_eq!(client.refused("admin", shard("a.capped", doc! { "_id": 1 })).0, 72);
}

#[test]
fn a_collection_that_a_view_reads_is_not_sharded_behind_its_back() {
    let cluster = ClusterMembers::new(2);
    let mut client = cluster.client();
    client.ok("admin", doc! { "enableSharding": "v" });
    for name in ["direct", "joined", "other"] {
        client.ok("v", doc! { "create": name });
    }
    client.ok("v", doc! { "create": "one", "viewOn": "direct", "pipeline": [] });
    let lookup = doc! { "$lookup": { "from": "joined", "localField": "a", "foreignField": "b", "as": "c" } };
    client.ok("v", doc! { "create": "two", "viewOn": "one", "pipeline": [lookup] });
    let shard = |name: &str| doc! { "shardCollection": format!("v.{name}"), "key": { "_id": 1 } };
    assert_eq!(client.refused("admin", shard("direct")).0, 115);
    assert_eq!(client.refused("admin", shard("joined")).0, 115);
    client.ok("admin", shard("other"));
    client.ok("v", doc! { "drop": "two" });
    client.ok("admin", shard("joined"));
}

#[test]
fn a_dropped_collection_can_be_sharded_again() {
    let mut cluster = ClusterMembers::new(2);
    let other = cluster.add_router(false);
    cluster.shard_collection(doc! { "_id": "hashed" });
    let (mut client, mut stale) = (cluster.client(), cluster.client_of(other));
    client.insert((0..40).map(|id| doc! { "_id": id }).collect());
    assert_eq!(stale.all("a", doc! { "find": "b" }).len(), 40);
    client.ok("a", doc! { "drop": "b" });
    assert_eq!(client.all("config", doc! { "find": "chunks" }).len(), 0);
    assert_eq!(stale.all("a", doc! { "find": "b" }).len(), 0);
    cluster.shard_collection(doc! { "_id": 1 });
    stale.insert((0..10).map(|id| doc! { "_id": id }).collect());
    assert_eq!(client.count("a", "b"), 10);
    assert_eq!(cluster.counts(), [10, 0]);
    client.ok("a", doc! { "dropDatabase": 1 });
    assert_eq!(stale.all("a", doc! { "find": "b" }).len(), 0);
    // Created again, perhaps on another shard: a router that cached the old one notices the change.
    client.ok("admin", doc! { "enableSharding": "a", "primaryShard": "s2" });
    stale.ok("a", doc! { "insert": "c", "documents": [{ "_id": 1 }] });
    assert_eq!(number(&cluster.shard(1).ok("a", doc! { "count": "c" }), "n"), 1);
    assert_eq!(client.count("a", "c"), 1);
}

#[test]
fn a_collection_is_sharded_while_it_is_written() {
    let mut cluster = ClusterMembers::new(2);
    let other = cluster.add_router(false);
    let mut client = cluster.client();
    client.insert(vec![doc! { "_id": -1 }]);
    client.ok("admin", doc! { "enableSharding": "a" });
    let stop = std::sync::atomic::AtomicBool::new(false);
    let begun = std::sync::Barrier::new(2);
    let order = std::sync::atomic::Ordering::Relaxed;
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = cluster.client_of(other);
            let mut id = 0;
            while !stop.load(order) {
                client.insert(vec![doc! { "_id": id }]);
                id += 1;
                if id == 50 {
                    begun.wait();
                }
            }
            id
        });
        begun.wait();
        client.ok("admin", doc! { "shardCollection": "a.b", "key": { "_id": 1 } });
        client.ok("admin", doc! { "split": "a.b", "middle": { "_id": 20 } });
        let from =
            client.all("config", doc! { "find": "databases" })[0].get_str("primary").unwrap().to_owned();
        let to = if from == "s1" { "s2" } else { "s1" };
        client.ok(
            "admin",
            doc! { "moveChunk": "a.b", "find": { "_id": 20 }, "to": to, "_waitForDelete": true },
        );
        stop.store(true, order);
        writer.join().unwrap()
    });
    assert_eq!(client.all("a", doc! { "find": "b" }).len(), usize::try_from(written).unwrap() + 1);
    assert_eq!(cluster.counts().iter().sum::<i64>(), i64::from(written) + 1);
}
