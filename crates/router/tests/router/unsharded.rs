//! Commands on unsharded collections are sent to the database's primary shard unchanged.

use bson::{Bson, doc};

use super::cluster::{ClusterMembers, number};

#[test]
fn a_router_says_that_it_is_one() {
    let cluster = ClusterMembers::new(1);
    let mut client = cluster.client();
    let hello = client.ok("admin", doc! { "hello": 1 });
    assert_eq!(hello.get_str("msg").unwrap(), "isdbgrid");
    assert!(hello.get_bool("isWritablePrimary").unwrap() && !hello.contains_key("setName"));
    // A shard that is no replica set cannot recognize a write that is sent twice.
    assert!(!hello.contains_key("logicalSessionTimeoutMinutes"));
    let (code, _) =
        client.refused("a", doc! { "insert": "b", "documents": [{ "_id": 1 }], "txnNumber": 1_i64 });
    assert_eq!(code, 20);
    let status = client.ok("admin", doc! { "serverStatus": 1 });
    assert_eq!(status.get_str("process").unwrap(), "mongos");
    for section in
        ["opcounters", "mem", "network", "connections", "sharding", "shardingStatistics", "metrics"]
    {
        assert!(status.contains_key(section), "{section}");
    }
    let (code, text) = client.refused("admin", doc! { "movePrimary": "a", "to": "s1" });
    assert_eq!(code, 115);
    assert!(text.contains("movePrimary"), "{text}");
    assert_eq!(client.refused("admin", doc! { "atlasVersion": 1 }).0, 59);
}

#[test]
fn collections_live_on_the_primary_shard_of_their_database() {
    let cluster = ClusterMembers::new(2);
    let mut client = cluster.client();
    assert!(client.all("a", doc! { "find": "b" }).is_empty());
    client.insert((0..300).map(|x| doc! { "_id": x, "x": x % 7 }).collect());
    assert_eq!(client.count("a", "b"), 300);
    let status = client.ok("admin", doc! { "serverStatus": 1 });
    let own = status.get_document("fathom").unwrap().get_document("opLatencies").unwrap();
    for kind in ["reads", "writes"] {
        let times = own.get_document(kind).unwrap();
        assert!(number(times, "ops") >= 1 && number(times, "oneShard") >= 1, "{kind}: {times}");
        let (all, waited) = (number(times, "latency"), number(times, "waitedForShards"));
        assert!(waited > 0 && waited <= all, "{kind}: {times}");
        assert_eq!(number(times, "manyShards"), 0, "{kind}: {times}");
    }
    let mut counts = cluster.counts();
    counts.sort_unstable();
    assert_eq!(counts, [0, 300]);
    assert_eq!(client.all("a", doc! { "find": "b", "sort": { "_id": -1 }, "batchSize": 50 }).len(), 300);
    let update =
        doc! { "update": "b", "updates": [{ "q": { "x": 3 }, "u": { "$inc": { "y": 1 } }, "multi": true }] };
    assert_eq!(number(&client.ok("a", update), "nModified"), 43);
    let values = client.ok("a", doc! { "distinct": "b", "key": "x" });
    assert_eq!(values.get_array("values").unwrap().len(), 7);
    let changed = client.ok("a", doc! { "findAndModify": "b", "query": { "_id": 5 }, "remove": true });
    assert_eq!(changed.get_document("value").unwrap().get_i32("_id").unwrap(), 5);
    let group = doc! { "$group": { "_id": "$x", "n": { "$sum": 1 } } };
    let groups = client
        .all("a", doc! { "aggregate": "b", "pipeline": [group, { "$sort": { "_id": 1 } }], "cursor": {} });
    assert_eq!(groups.len(), 7);
    client.ok("a", doc! { "createIndexes": "b", "indexes": [{ "key": { "x": 1 }, "name": "x_1" }] });
    assert_eq!(client.all("a", doc! { "listIndexes": "b" }).len(), 2);
    let names = client.all("a", doc! { "listCollections": 1 });
    assert_eq!(names[0].get_str("name").unwrap(), "b");
    let databases = client.ok("admin", doc! { "listDatabases": 1 });
    let names: Vec<&str> = databases
        .get_array("databases")
        .unwrap()
        .iter()
        .filter_map(|entry| entry.as_document()?.get_str("name").ok())
        .collect();
    assert!(names.contains(&"a") && names.contains(&"config"), "{names:?}");
    let explained = client.ok("a", doc! { "explain": { "find": "b", "filter": { "_id": 7 } } });
    let plan = explained.get_document("queryPlanner").unwrap().get_document("winningPlan").unwrap();
    assert_eq!(plan.get_str("stage").unwrap(), "SINGLE_SHARD");
    client.ok("a", doc! { "drop": "b" });
    assert_eq!(client.count("a", "b"), 0);
    assert_eq!(client.ok("a", doc! { "dropDatabase": 1 }).get_str("dropped").unwrap(), "a");
    assert!(client.all("config", doc! { "find": "databases" }).is_empty());
}

#[test]
fn the_metadata_are_those_of_a_real_cluster() {
    let cluster = ClusterMembers::new(2);
    let mut client = cluster.client();
    cluster.shard_collection(doc! { "_id": "hashed" });
    let version = &client.all("config", doc! { "find": "version" })[0];
    assert_eq!((number(version, "minCompatibleVersion"), number(version, "currentVersion")), (5, 6));
    let shards = client.all("config", doc! { "find": "shards", "sort": { "_id": 1 } });
    assert_eq!(shards[0].get_str("_id").unwrap(), "s1");
    assert_eq!(number(&shards[0], "state"), 1);
    let database = &client.all("config", doc! { "find": "databases" })[0];
    assert_eq!(
        (database.get_str("primary").unwrap(), database.get_bool("partitioned").unwrap()),
        ("s1", true)
    );
    let collection = &client.all("config", doc! { "find": "collections" })[0];
    assert_eq!(collection.get_document("key").unwrap(), &doc! { "_id": "hashed" });
    assert!(!collection.get_bool("dropped").unwrap());
    // From config-chunks.json of mongod 4.0.3, except for names and times.
    const HALF: i64 = 4_611_686_018_427_387_902;
    let chunks = client.all("config", doc! { "find": "chunks", "sort": { "min": 1 } });
    let seen: Vec<_> = chunks
        .iter()
        .map(|chunk| {
            (
                chunk.get_str("_id").unwrap(),
                chunk.get_str("shard").unwrap(),
                chunk.get_timestamp("lastmod").unwrap().increment,
            )
        })
        .collect();
    let ids = ["MinKey".to_owned(), format!("-{HALF}"), "0".to_owned(), HALF.to_string()]
        .map(|min| format!("a.b-_id_{min}"));
    let expected: Vec<_> = ids
        .iter()
        .map(String::as_str)
        .zip(["s1", "s1", "s2", "s2"])
        .zip(0..)
        .map(|((id, shard), minor)| (id, shard, minor))
        .collect();
    assert_eq!(seen, expected);
    assert_eq!(chunks[0].get("min").unwrap(), &Bson::Document(doc! { "_id": Bson::MinKey }));
    let listed = client.ok("admin", doc! { "listShards": 1 });
    assert_eq!(listed.get_array("shards").unwrap().len(), 2);
    let map = client.ok("admin", doc! { "getShardMap": 1 });
    assert!(
        map.get_document("map").unwrap().contains_key("config")
            && map.get_document("map").unwrap().contains_key("s2")
    );
    let version = client.ok("admin", doc! { "getShardVersion": "a.b" });
    assert_eq!(version.get_timestamp("version").unwrap().time, 1);
}
