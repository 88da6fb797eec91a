//! The commands `validate`, `reIndex` and `compact` on each engine, and the consistency of indexes with records after all kinds of writes.

use crate::served::{code, connect, listed, on_each, run};
use bson::{Document, doc};
use fathom_client::{Code, Connection};

fn insert_many(connection: &mut Connection, from: i32, to: i32) {
    let documents: Vec<Document> = (from..to)
        .map(|n| doc! { "_id": n, "a": n % 10, "tags": [n, n + 1], "pad": "x".repeat(200) })
        .collect();
    run(connection, "test", &doc! { "insert": "c", "documents": documents });
}

#[test]
fn a_collection_that_was_written_every_way_is_valid() {
    on_each(|_, connection| {
        insert_many(connection, 0, 500);
        let indexes = vec![
            doc! { "key": { "a": 1 }, "name": "a_1" },
            doc! { "key": { "tags": -1, "a": 1 }, "name": "tags_-1_a_1" },
            doc! { "key": { "b": 1 }, "name": "b_1", "sparse": true },
            doc! { "key": { "c": 1 }, "name": "c_1", "unique": true, "partialFilterExpression": { "a": { "$gt": 8 } } },
            doc! { "key": { "pad": "hashed" }, "name": "pad_hashed" },
        ];
        // The unique index accepts only documents with a = 9, and they have no c.
        let refused = doc! { "createIndexes": "c", "indexes": indexes.clone() };
        assert_eq!(code(connection, "test", &refused), Code::DuplicateKey);
        run(
            connection,
            "test",
            &doc! { "createIndexes": "c", "indexes": [indexes[0].clone(), indexes[1].clone(), indexes[2].clone(), indexes[4].clone()] },
        );
        insert_many(connection, 500, 700);
        for (filter, update) in [
            (doc! { "a": 3 }, doc! { "$set": { "b": 1.5 }, "$push": { "tags": "new" } }),
            (doc! { "a": 4 }, doc! { "$unset": { "tags": 1 } }),
            (doc! { "a": 5 }, doc! { "$set": { "tags.0": "changed", "pad": "y" } }),
            (doc! { "a": 6 }, doc! { "$inc": { "a": 0.5 } }),
        ] {
            let update = doc! { "update": "c", "updates": [{ "q": filter, "u": update, "multi": true }] };
            assert_eq!(run(connection, "test", &update).get_i32("nModified").unwrap(), 70);
        }
        run(
            connection,
            "test",
            &doc! { "delete": "c", "deletes": [{ "q": { "a": { "$in": [1, 2] } }, "limit": 0 }] },
        );
        let reply = run(connection, "test", &doc! { "validate": "c", "full": true });
        assert!(reply.get_bool("valid").unwrap(), "{reply}");
        assert_eq!(reply.get_i32("nrecords").unwrap(), 560);
        assert_eq!(reply.get_i32("nIndexes").unwrap(), 5);
        let keys = reply.get_document("keysPerIndex").unwrap();
        assert_eq!((keys.get_i32("_id_").unwrap(), keys.get_i32("b_1").unwrap()), (560, 70));
        assert!(reply.get_array("errors").unwrap().is_empty(), "{reply}");
        for (command, expected) in [
            (doc! { "validate": "none" }, Code::NamespaceNotFound),
            (doc! { "validate": "c", "background": true }, Code::CommandNotSupported),
        ] {
            assert_eq!(code(connection, "test", &command), expected);
        }
    });
}

#[test]
fn indexes_are_built_anew_and_tables_compacted() {
    on_each(|_, connection| {
        insert_many(connection, 0, 2000);
        let index = doc! { "key": { "tags": 1 }, "name": "tags_1" };
        run(connection, "test", &doc! { "createIndexes": "c", "indexes": [index] });
        run(
            connection,
            "test",
            &doc! { "delete": "c", "deletes": [{ "q": { "_id": { "$lt": 1900 } }, "limit": 0 }] },
        );
        let reply = run(connection, "test", &doc! { "reIndex": "c" });
        assert_eq!((reply.get_i32("nIndexesWas").unwrap(), reply.get_i32("nIndexes").unwrap()), (2, 2));
        let reply = run(connection, "test", &doc! { "compact": "c" });
        assert!(reply.contains_key("bytesFreed"));
        insert_many(connection, 5000, 5100);
        let reply = run(connection, "test", &doc! { "validate": "c" });
        assert!(reply.get_bool("valid").unwrap(), "{reply}");
        let keys = reply.get_document("keysPerIndex").unwrap();
        assert_eq!(keys, &doc! { "_id_": 200, "tags_1": 400 });
        assert_eq!(listed(connection, &doc! { "find": "c", "filter": { "tags": 1950 } }).len(), 2);
    });
}

#[test]
fn indexes_built_and_dropped_beside_writers_stay_in_step() {
    on_each(|server, connection| {
        insert_many(connection, 0, 500);
        let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (mut own, done) = (connect(server), std::sync::Arc::clone(&done));
                std::thread::spawn(move || {
                    let mut n = 0;
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        let id = 1000 * (writer + 1) + n % 300;
                        let set = doc! { "$set": { "a": n, "tags": [n, writer] } };
                        run(&mut own, "test", &doc! { "update": "c", "updates": [{ "q": { "_id": id }, "u": set, "upsert": true }] });
                        if n % 3 == 0 {
                            run(&mut own, "test", &doc! { "delete": "c", "deletes": [{ "q": { "_id": id - 7 }, "limit": 1 }] });
                        }
                        n += 1;
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            let indexes = vec![
                doc! { "key": { "a": 1 }, "name": "a_1" },
                doc! { "key": { "tags": 1, "a": 1 }, "name": "tags_1_a_1" },
            ];
            run(connection, "test", &doc! { "createIndexes": "c", "indexes": indexes });
            let reply = run(connection, "test", &doc! { "validate": "c" });
            assert!(reply.get_bool("valid").unwrap(), "{reply}");
            run(connection, "test", &doc! { "dropIndexes": "c", "index": "a_1" });
            run(connection, "test", &doc! { "reIndex": "c" });
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let reply = run(connection, "test", &doc! { "validate": "c", "enforceFastCount": true });
        assert!(reply.get_bool("valid").unwrap(), "{reply}");
    });
}
