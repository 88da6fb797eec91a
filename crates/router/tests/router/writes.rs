//! Writes to a sharded collection: each statement is sent to its shard, errors have the client's positions.

use bson::{Bson, Document, doc};

use super::cluster::{ClusterMembers, number};

fn places(reply: &Document) -> Vec<(i64, i64)> {
    let errors = reply.get_array("writeErrors").map(|errors| errors.to_vec()).unwrap_or_default();
    errors
        .iter()
        .filter_map(Bson::as_document)
        .map(|error| (number(error, "index"), number(error, "code")))
        .collect()
}

#[test]
fn a_hashed_collection_spreads_over_all_shards() {
    let cluster = ClusterMembers::new(3);
    cluster.shard_collection(doc! { "_id": "hashed" });
    let mut client = cluster.client();
    client
        .insert((0..3000).map(|number| doc! { "_id": format!("user{number}"), "field0": number }).collect());
    let counts = cluster.counts();
    assert_eq!(counts.iter().sum::<i64>(), 3000);
    assert!(counts.iter().all(|count| *count > 700), "{counts:?}");
    assert_eq!(client.count("a", "b"), 3000);
    // A document is on the shard that MongoDB's hash selects.
    for number in [0, 7, 1234] {
        let found = client.all("a", doc! { "find": "b", "filter": { "_id": format!("user{number}") } });
        assert_eq!(found[0].get_i32("field0").unwrap(), number);
    }
}

#[test]
fn a_targeted_read_asks_one_shard_and_another_asks_all() {
    let cluster = ClusterMembers::new(3);
    cluster.shard_collection(doc! { "_id": "hashed" });
    let mut client = cluster.client();
    client.insert((0..60).map(|number| doc! { "_id": number, "x": number }).collect());
    let queries =
        || -> Vec<i64> { (0..3).map(|place| number(&cluster.shard(place).operations(), "query")).collect() };
    let before = queries();
    (0..30)
        .for_each(|id| assert_eq!(client.all("a", doc! { "find": "b", "filter": { "_id": id } }).len(), 1));
    let targeted: i64 = queries().iter().zip(&before).map(|(after, before)| after - before).sum();
    assert_eq!(targeted, 30);
    let before = queries();
    (0..10).for_each(|x| assert_eq!(client.all("a", doc! { "find": "b", "filter": { "x": x } }).len(), 1));
    let all: Vec<i64> = queries().iter().zip(&before).map(|(after, before)| after - before).collect();
    assert_eq!(all, [10, 10, 10]);
}

#[test]
fn errors_have_the_clients_places() {
    let cluster = ClusterMembers::new(3);
    cluster.shard_collection(doc! { "_id": "hashed" });
    let mut client = cluster.client();
    client.insert(vec![doc! { "_id": 4 }, doc! { "_id": 11 }]);
    let documents: Vec<Document> = (0..20).map(|id| doc! { "_id": id }).collect();
    let reply = client.ok("a", doc! { "insert": "b", "documents": documents.clone(), "ordered": true });
    assert_eq!((number(&reply, "n"), places(&reply)), (4, vec![(4, 11000)]));
    assert_eq!(client.count("a", "b"), 6);
    let reply = client.ok("a", doc! { "insert": "b", "documents": documents, "ordered": false });
    // 0 to 3 exist since the ordered batch, which ended at 4.
    let expected: Vec<(i64, i64)> = [0, 1, 2, 3, 4, 11].map(|place| (place, 11000)).to_vec();
    assert_eq!((number(&reply, "n"), places(&reply)), (14, expected));
    assert_eq!(client.count("a", "b"), 20);
}

#[test]
fn updates_and_deletes_reach_what_they_mean() {
    let cluster = ClusterMembers::new(3);
    cluster.shard_collection(doc! { "_id": "hashed" });
    let mut client = cluster.client();
    client.insert((0..90).map(|id| doc! { "_id": id, "x": id % 3 }).collect());
    let updates = doc! {
        "update": "b", "ordered": true,
        "updates": [
            { "q": { "_id": 1 }, "u": { "$set": { "y": 1 } } },
            { "q": { "x": 0 }, "u": { "$set": { "y": 2 } }, "multi": true },
            { "q": { "_id": 1000 }, "u": { "$set": { "y": 3 } }, "upsert": true },
            { "q": { "_id": 2 }, "u": { "z": 1 } },
        ],
    };
    let reply = client.ok("a", updates);
    assert_eq!((number(&reply, "n"), number(&reply, "nModified")), (33, 32));
    let upserted = reply.get_array("upserted").unwrap()[0].as_document().unwrap().clone();
    assert_eq!((number(&upserted, "index"), number(&upserted, "_id")), (2, 1000));
    assert_eq!(client.all("a", doc! { "find": "b", "filter": { "y": 2 } }).len(), 30);
    let refused =
        client.ok("a", doc! { "update": "b", "updates": [{ "q": { "x": 1 }, "u": { "$set": { "y": 9 } } }] });
    assert_eq!(places(&refused), [(0, 72)]);
    let refused = client.ok("a", doc! { "update": "b", "updates": [{ "q": { "x": 77 }, "u": { "$set": { "y": 9 } }, "upsert": true }] });
    assert_eq!(places(&refused), [(0, 61)]);
    let refused = client.ok("a", doc! { "delete": "b", "deletes": [{ "q": { "x": 1 }, "limit": 1 }] });
    assert_eq!(places(&refused), [(0, 61)]);
    let deletes = doc! { "delete": "b", "deletes": [{ "q": { "x": 1 }, "limit": 0 }, { "q": { "_id": 3 }, "limit": 1 }] };
    assert_eq!(number(&client.ok("a", deletes), "n"), 31);
    assert_eq!(client.count("a", "b"), 60);
    let found = client.ok(
        "a",
        doc! { "findAndModify": "b", "query": { "_id": 6 }, "update": { "$inc": { "x": 10 } }, "new": true },
    );
    assert_eq!(found.get_document("value").unwrap().get_i32("x").unwrap(), 10);
    assert_eq!(client.refused("a", doc! { "findAndModify": "b", "query": { "x": 2 }, "remove": true }).0, 61);
}

#[test]
fn the_shard_key_of_a_document_stays() {
    let cluster = ClusterMembers::new(2);
    cluster.shard_collection(doc! { "k": 1 });
    let mut client = cluster.client();
    client.insert(vec![doc! { "_id": 1, "k": 5 }]);
    let change =
        |change: Document| doc! { "update": "b", "updates": [{ "q": { "_id": 1, "k": 5 }, "u": change }] };
    assert_eq!(places(&client.ok("a", change(doc! { "$set": { "k": 6 } }))), [(0, 66)]);
    assert_eq!(number(&client.ok("a", change(doc! { "$set": { "k": 5, "y": 1 } })), "nModified"), 1);
    let refused = client.ok("a", doc! { "insert": "b", "documents": [{ "_id": 2, "k": [1, 2] }] });
    assert_eq!(places(&refused), [(0, 61)]);
    // A document without an _id gets one, as drivers do it.
    client.insert(vec![doc! { "k": 9 }]);
    assert!(client.all("a", doc! { "find": "b", "filter": { "k": 9 } })[0].get_object_id("_id").is_ok());
}
