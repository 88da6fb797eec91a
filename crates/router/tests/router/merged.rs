//! Compares reads over several shards with reads from one server with the same documents: the results must not differ.

use bson::{Bson, Document, Timestamp, doc};
use fathom_server::ClusterRole;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::cluster::{Client, ClusterMembers, connect, number, server};

fn value() -> impl Strategy<Value = Bson> {
    prop_oneof![
        4 => (0..9_i32).prop_map(Bson::Int32),
        2 => "[a-d]{0,2}".prop_map(Bson::String),
        1 => Just(Bson::Null),
        1 => prop::collection::vec(0..5_i32, 0..3).prop_map(|items| Bson::Array(items.into_iter().map(Bson::Int32).collect())),
    ]
}

fn documents() -> impl Strategy<Value = Vec<Document>> {
    prop::collection::vec((value(), value()), 0..60).prop_map(|values| {
        let numbered = values.into_iter().enumerate();
        numbered
            .map(|(id, (x, y))| doc! { "_id": i32::try_from(id).unwrap(), "x": x, "n": { "y": y } })
            .collect()
    })
}

fn filter() -> impl Strategy<Value = Document> {
    prop_oneof![
        2 => Just(doc! {}),
        1 => (0..9_i32).prop_map(|x| doc! { "x": { "$gte": x } }),
        1 => (0..60_i32).prop_map(|id| doc! { "_id": { "$lt": id } }),
        1 => (0..60_i32).prop_map(|id| doc! { "_id": id }),
    ]
}

/// A find whose sort determines the whole order.
fn find() -> impl Strategy<Value = Document> {
    let sort = prop_oneof![
        Just(doc! { "_id": 1 }),
        Just(doc! { "_id": -1 }),
        Just(doc! { "x": 1, "_id": 1 }),
        Just(doc! { "x": -1, "_id": 1 }),
        Just(doc! { "n.y": 1, "_id": -1 }),
    ];
    let projection = prop_oneof![
        Just(None),
        Just(Some(doc! { "x": 1 })),
        Just(Some(doc! { "_id": 0, "n.y": 1 })),
        Just(Some(doc! { "x": 0 })),
        Just(Some(doc! { "x": { "$slice": 1 } })),
    ];
    let (skip, limit, batch) =
        (0..12_i64, prop_oneof![Just(0_i64), 1..20_i64, -9..-1_i64], prop::option::of(1..9_i64));
    (filter(), sort, projection, skip, limit, batch).prop_map(
        |(filter, sort, projection, skip, limit, batch)| {
            let mut find = doc! { "find": "b", "filter": filter, "sort": sort, "skip": skip };
            find.extend(projection.map(|projection| ("projection".to_owned(), Bson::Document(projection))));
            if limit != 0 {
                find.insert("limit", limit);
            }
            find.extend(batch.map(|batch| ("batchSize".to_owned(), Bson::Int64(batch))));
            find
        },
    )
}

fn fill(one: &mut Client, other: &mut Client, documents: &[Document]) {
    for client in [one, other] {
        client.ok("a", doc! { "delete": "b", "deletes": [{ "q": {}, "limit": 0 }] });
        if !documents.is_empty() {
            client.insert(documents.to_vec());
        }
    }
}

#[test]
fn sorted_finds_of_several_shards_are_those_of_one_server() {
    let cluster = ClusterMembers::new(3);
    cluster.shard_collection(doc! { "_id": "hashed" });
    let alone = server(ClusterRole::None);
    let clients = std::cell::RefCell::new((cluster.client(), connect(alone.port())));
    let config = Config { cases: 40, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let strategy = (documents(), prop::collection::vec(find(), 1..6));
    let result = TestRunner::new(config).run(&strategy, |(documents, finds)| {
        let mut clients = clients.borrow_mut();
        let (routed, direct) = &mut *clients;
        fill(routed, direct, &documents);
        for find in finds {
            prop_assert_eq!(routed.all("a", find.clone()), direct.all("a", find.clone()), "{}", find);
        }
        Ok(())
    });
    alone.stop().unwrap();
    result.unwrap();
}

#[test]
fn counts_values_and_pipelines_of_several_shards_are_those_of_one_server() {
    let cluster = ClusterMembers::new(3);
    cluster.shard_collection(doc! { "_id": "hashed" });
    let alone = server(ClusterRole::None);
    let (mut routed, mut direct) = (cluster.client(), connect(alone.port()));
    let documents: Vec<Document> = (0..400)
        .map(|id| doc! { "_id": id, "x": id % 11, "y": [id % 3, id % 5], "s": format!("v{}", id % 4) })
        .collect();
    fill(&mut routed, &mut direct, &documents);
    let pipelines: Vec<Vec<Document>> = vec![
        vec![
            doc! { "$match": { "x": { "$gt": 4 } } },
            doc! { "$group": { "_id": "$s", "n": { "$sum": "$x" }, "a": { "$avg": "$x" } } },
            doc! { "$sort": { "_id": 1 } },
        ],
        vec![
            doc! { "$sort": { "x": -1, "_id": 1 } },
            doc! { "$skip": 7 },
            doc! { "$limit": 30 },
            doc! { "$project": { "x": 1 } },
        ],
        vec![doc! { "$match": { "x": 3 } }, doc! { "$count": "all" }],
        vec![doc! { "$match": { "x": 3 } }, doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } }],
        vec![doc! { "$unwind": "$y" }, doc! { "$sortByCount": "$y" }, doc! { "$sort": { "_id": 1 } }],
        vec![doc! { "$match": { "_id": 17 } }, doc! { "$addFields": { "z": { "$add": ["$x", 1] } } }],
        vec![
            doc! { "$sort": { "_id": 1 } },
            doc! { "$facet": { "low": [{ "$limit": 2 }], "all": [{ "$count": "n" }] } },
        ],
    ];
    for pipeline in pipelines {
        let command = doc! { "aggregate": "b", "pipeline": pipeline, "cursor": { "batchSize": 9 } };
        assert_eq!(routed.all("a", command.clone()), direct.all("a", command.clone()), "{command}");
    }
    for command in [
        doc! { "count": "b" },
        doc! { "count": "b", "query": { "x": { "$lt": 5 } } },
        doc! { "count": "b", "query": { "x": 1 }, "skip": 5, "limit": 20 },
        doc! { "count": "b", "skip": 390 },
        doc! { "count": "b", "query": { "_id": 5 } },
    ] {
        let (one, other) = (routed.ok("a", command.clone()), direct.ok("a", command.clone()));
        assert_eq!(number(&one, "n"), number(&other, "n"), "{command}");
    }
    let values = |client: &mut Client| {
        let mut values =
            client.ok("a", doc! { "distinct": "b", "key": "y" }).get_array("values").unwrap().clone();
        values.sort_by_key(|value| value.as_i32());
        values
    };
    assert_eq!(values(&mut routed), values(&mut direct));
    let (code, text) =
        routed.refused("a", doc! { "aggregate": "b", "pipeline": [{ "$out": "c" }], "cursor": {} });
    assert!(code == 115 && text.contains("$out"), "{code} {text}");
    // Killing a cursor ends it here and on the shards.
    let first = routed.ok("a", doc! { "find": "b", "batchSize": 2 });
    let id = first.get_document("cursor").unwrap().get_i64("id").unwrap();
    let killed = routed.ok("a", doc! { "killCursors": "b", "cursors": [id] });
    assert_eq!(killed.get_array("cursorsKilled").unwrap().len(), 1);
    assert_eq!(routed.refused("a", doc! { "getMore": id, "collection": "b" }).0, 43);
    alone.stop().unwrap();
}

#[test]
fn a_cluster_time_beyond_the_clock_is_rejected_by_the_shards() {
    let mut cluster = ClusterMembers::new(0);
    cluster.add_set();
    cluster.add_set();
    cluster.shard_collection(doc! { "_id": "hashed" });
    let mut client = cluster.client();
    client.insert((0..20).map(|id| doc! { "_id": id }).collect());
    let clock = |place: usize| {
        let time = cluster.shard(place).ok("admin", doc! { "ping": 1 }).get_timestamp("operationTime");
        time.unwrap().time
    };
    let before = [clock(0), clock(1)];
    let far = Timestamp { time: before[0] + 315_360_000, increment: 1 };
    let last = Timestamp { time: u32::MAX, increment: u32::MAX };
    for (collection, filter) in [("b", doc! {}), ("b", doc! { "_id": 1 }), ("unsharded", doc! {})] {
        for time in [far, last] {
            let concern = doc! { "level": "local", "afterClusterTime": time };
            let find = doc! { "find": collection, "filter": filter.clone(), "readConcern": concern };
            let (code, text) = client.refused("a", find.clone());
            assert_eq!(code, 72, "{find}: {text}");
        }
    }
    for (place, before) in before.into_iter().enumerate() {
        assert!(clock(place) < before + 3600, "the clock of shard {place} moved from {before}");
    }
    let insert = doc! {
        "insert": "b", "documents": [{ "_id": 20 }],
        "writeConcern": { "w": "majority", "wtimeout": 300_000 },
    };
    let reply = client.ok("a", insert);
    assert!(!reply.contains_key("writeConcernError"), "{reply}");
    assert_eq!(client.count("a", "b"), 21);
}
