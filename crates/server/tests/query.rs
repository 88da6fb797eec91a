//! `find` with all its options, `count` and `distinct`.

use crate::served::{ENGINES, code, config, connect, in_memory, index, insert, listed, run};
use bson::{Bson, Document, bson, doc};
use fathom_client::{Code, Connection};

fn ids(connection: &mut Connection, find: &Document) -> Vec<i32> {
    listed(connection, find).iter().map(|one| one.get_i32("_id").unwrap()).collect()
}

fn count(connection: &mut Connection, command: &Document) -> i32 {
    run(connection, "test", command).get_i32("n").unwrap()
}

fn distinct(connection: &mut Connection, key: &str, query: Document) -> Vec<Bson> {
    let command = doc! { "distinct": "c", "key": key, "query": query };
    run(connection, "test", &command).get_array("values").unwrap().clone()
}

#[test]
fn counts_agree_with_what_is_found() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let server = fathom_server::Server::start_quiet(config(directory.path(), engine)).unwrap();
        let mut connection = connect(&server);
        insert(
            &mut connection,
            "c",
            (0..50).map(|n| doc! { "_id": n, "a": n % 5, "t": [n, n + 1] }).collect(),
        );
        index(&mut connection, "c", doc! { "a": 1 });
        index(&mut connection, "c", doc! { "t": 1 });
        for (rest, expected) in [
            (doc! {}, 50),
            (doc! { "skip": 45 }, 5),
            (doc! { "limit": 7 }, 7),
            (doc! { "limit": -7, "skip": 48 }, 2),
            (doc! { "query": { "a": 3 } }, 10),
            (doc! { "query": { "a": 3 }, "skip": 4, "limit": 3 }, 3),
            (doc! { "query": { "a": { "$gte": 3 } }, "hint": "a" }, 20),
            (doc! { "query": { "t": { "$gte": 10, "$lte": 12 } } }, 4),
            (doc! { "query": { "_id": 7 } }, 1),
            (doc! { "query": { "a": null } }, 0),
            (doc! { "hint": "a" }, 50),
        ] {
            let mut command = doc! { "count": "c" };
            command.extend(rest);
            assert_eq!(count(&mut connection, &command), expected, "{engine:?} {command}");
        }
        assert_eq!(count(&mut connection, &doc! { "count": "none" }), 0);
        assert_eq!(code(&mut connection, "test", &doc! { "count": "c", "skip": -1 }), Code::BadValue);
        drop(connection);
        server.stop().unwrap();
    }
}

#[test]
fn distinct_values_are_taken_out_of_arrays_and_documents() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    insert(
        &mut connection,
        "c",
        vec![
            doc! { "_id": 1, "a": 1, "b": [{ "c": 1 }, { "c": [2, 3] }], "d": { "e": "x" } },
            doc! { "_id": 2, "a": 1.0, "b": { "c": 4 } },
            doc! { "_id": 3, "a": [1, 2, [3]], "b": [[{ "c": 9 }]] },
            doc! { "_id": 4, "a": null, "d": { "e": "y" } },
            doc! { "_id": 5, "a": [] },
        ],
    );
    assert_eq!(distinct(&mut connection, "a", doc! {}), [bson!(1), bson!(2), bson!([3]), Bson::Null]);
    assert_eq!(distinct(&mut connection, "b.c", doc! {}), [bson!(1), bson!(2), bson!(3), bson!(4), bson!(9)]);
    assert_eq!(distinct(&mut connection, "b.1.c", doc! {}), [bson!(2), bson!(3)]);
    assert_eq!(distinct(&mut connection, "d.e", doc! { "_id": { "$gt": 1 } }), [bson!("y")]);
    assert_eq!(distinct(&mut connection, "nothing", doc! {}), []);
    assert_eq!(distinct(&mut connection, "_id", doc! {}), [1, 2, 3, 4, 5].map(Bson::Int32));
    server.stop().unwrap();
}

#[test]
fn distinct_through_an_index_gives_the_same_values() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    let value = |n: i32| match n % 5 {
        0 => doc! { "_id": n, "a": n % 3 },
        1 => doc! { "_id": n, "a": f64::from(n % 3) },
        2 => doc! { "_id": n, "a": format!("s{}", n % 2) },
        3 => doc! { "_id": n, "a": { "x": n % 2 } },
        _ => doc! { "_id": n },
    };
    insert(&mut connection, "c", (0..100).map(value).collect());
    let text = |values: &[Bson]| {
        let mut text: Vec<String> = values
            .iter()
            .map(|value| format!("{value:?}").replace("Double", "Int32").replace(".0", ""))
            .collect();
        text.sort();
        text
    };
    let before = distinct(&mut connection, "a", doc! {});
    assert_eq!(before.len(), 7);
    index(&mut connection, "c", doc! { "a": 1, "b": 1 });
    assert_eq!(text(&distinct(&mut connection, "a", doc! {})), text(&before), "missing is no value");
    insert(&mut connection, "c", vec![doc! { "a": Bson::Null }]);
    assert_eq!(distinct(&mut connection, "a", doc! {}).len(), 8, "null is one");
    index(&mut connection, "c", doc! { "z": 1, "a": -1 });
    assert_eq!(distinct(&mut connection, "a", doc! { "a": { "$gte": "s1" } }), [bson!("s1")]);
    server.stop().unwrap();
}

#[test]
fn min_and_max_bound_a_walk_through_the_hinted_index() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    insert(&mut connection, "c", (0..20).map(|n| doc! { "_id": n, "a": n / 5, "b": n % 5 }).collect());
    index(&mut connection, "c", doc! { "a": 1, "b": -1 });
    let hint = "a_b";
    let cases = [
        (doc! { "min": { "a": 1, "b": 2 }, "max": { "a": 2, "b": 3 } }, vec![7, 6, 5, 14]),
        (doc! { "min": { "a": 3, "b": 0 } }, vec![15]),
        (doc! { "max": { "a": 0, "b": 2 } }, vec![4, 3]),
        (doc! { "min": { "a": 3, "b": 4 }, "filter": { "b": { "$lt": 2 } } }, vec![16, 15]),
        (doc! { "min": { "a": 3, "b": 4 }, "sort": { "a": -1, "b": 1 }, "limit": 2 }, vec![15, 16]),
    ];
    for (rest, expected) in cases {
        let mut find = doc! { "find": "c", "hint": hint };
        find.extend(rest);
        assert_eq!(ids(&mut connection, &find), expected, "{find}");
    }
    for (rest, expected) in [
        (doc! { "min": { "a": 1, "b": 1 } }, 51173),
        (doc! { "min": { "a": 1 }, "hint": hint }, 51174),
        (doc! { "min": { "a": 1, "b": 1 }, "max": { "a": 1, "b": 1 }, "hint": hint }, 51175),
    ] {
        let mut find = doc! { "find": "c" };
        find.extend(rest);
        assert_eq!(code(&mut connection, "test", &find), Code(expected), "{find}");
    }
    server.stop().unwrap();
}

#[test]
fn find_takes_all_its_options() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    insert(&mut connection, "c", (0..20).map(|n| doc! { "_id": n, "a": n % 4, "t": [n] }).collect());
    index(&mut connection, "c", doc! { "a": 1 });
    let keys =
        listed(&mut connection, &doc! { "find": "c", "filter": { "a": 2 }, "returnKey": true, "limit": 1 });
    assert_eq!(keys, [doc! { "a": 2 }]);
    let ids_shown =
        listed(&mut connection, &doc! { "find": "c", "filter": { "_id": 3 }, "showRecordId": true });
    assert_eq!(ids_shown[0].get_i64("$recordId").unwrap(), 4);
    let reply = run(
        &mut connection,
        "test",
        &doc! { "find": "c", "limit": -3, "noCursorTimeout": true, "allowPartialResults": true },
    );
    let cursor = reply.get_document("cursor").unwrap();
    assert_eq!((cursor.get_i64("id").unwrap(), cursor.get_array("firstBatch").unwrap().len()), (0, 3));
    let reply = run(&mut connection, "test", &doc! { "find": "c", "batchSize": 0 });
    assert_ne!(reply.get_document("cursor").unwrap().get_i64("id").unwrap(), 0);
    let backwards = doc! { "find": "c", "hint": { "$natural": -1 }, "limit": 3, "projection": { "_id": 1 } };
    assert_eq!(ids(&mut connection, &backwards), [19, 18, 17]);
    let natural = doc! { "find": "c", "filter": { "a": 1 }, "sort": { "$natural": -1 }, "limit": 2 };
    assert_eq!(ids(&mut connection, &natural), [17, 13]);
    let with_let = doc! { "find": "c", "filter": { "$expr": { "$eq": ["$a", "$$x"] } }, "let": { "x": 3 } };
    assert_eq!(ids(&mut connection, &with_let), [3, 7, 11, 15, 19]);
    let positional = doc! { "find": "c", "filter": { "t": { "$gte": 19 } }, "projection": { "t.$": 1 } };
    assert_eq!(listed(&mut connection, &positional), [doc! { "_id": 19, "t": [19] }]);
    for (find, expected) in [
        (doc! { "find": "c", "tailable": true }, Code::BadValue),
        (doc! { "find": "c", "awaitData": true }, Code::FailedToParse),
        (doc! { "find": "c", "hint": "none" }, Code::BadValue),
        (doc! { "find": "c", "skip": -1 }, Code::BadValue),
        (doc! { "find": "c", "collation": { "locale": "de" } }, Code::CommandNotSupported),
    ] {
        assert_eq!(code(&mut connection, "test", &find), expected, "{find}");
    }
    server.stop().unwrap();
}

#[test]
fn the_time_of_a_cursor_is_that_of_all_its_batches() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    let pad = "x".repeat(200);
    insert(&mut connection, "c", (0..20_000).map(|n| doc! { "_id": n, "pad": &pad }).collect());
    let find =
        doc! { "find": "c", "filter": { "$expr": { "$eq": [{ "$strLenCP": "$pad" }, 1] } }, "maxTimeMS": 1 };
    assert_eq!(code(&mut connection, "test", &find), Code::MaxTimeMSExpired);
    let find = doc! { "find": "c", "maxTimeMS": 3_600_000, "batchSize": 10 };
    let id = run(&mut connection, "test", &find).get_document("cursor").unwrap().get_i64("id").unwrap();
    let more = doc! { "getMore": id, "collection": "c", "batchSize": 10 };
    assert!(run(&mut connection, "test", &more).get_document("cursor").unwrap().get_i64("id").unwrap() != 0);
    server.stop().unwrap();
}
