//! The server over the wire, on each engine: commands as a driver sends them, and their replies.

use crate::served::{ENGINES, code, config, listed, run, start};
use bson::{Document, doc};
use fathom_client::Code;
use fathom_server::Server;
use fathom_server::config::EngineName;

#[test]
fn documents_are_inserted_found_changed_and_removed() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let (server, mut connection) = start(directory.path(), engine);
        let documents: Vec<Document> =
            (0..300).map(|n| doc! { "_id": n, "a": n % 7, "tags": ["x", n] }).collect();
        let reply = run(&mut connection, "test", &doc! { "insert": "c", "documents": documents });
        assert_eq!(reply, doc! { "n": 300, "ok": 1.0 }, "{engine:?}");

        assert_eq!(
            listed(&mut connection, &doc! { "find": "c", "filter": { "_id": 42 } })[0].get_i32("a").unwrap(),
            0
        );
        assert_eq!(listed(&mut connection, &doc! { "find": "c", "filter": { "_id": 999 } }), []);
        // More than one batch, in an order that no index provides.
        let sorted =
            listed(&mut connection, &doc! { "find": "c", "sort": { "a": -1, "_id": 1 }, "batchSize": 50 });
        assert_eq!(sorted.len(), 300);
        assert_eq!(sorted[0].get_i32("_id").unwrap(), 6);
        let few = doc! { "find": "c", "filter": { "_id": { "$gte": 10, "$lt": 20 }, "a": 3 }, "projection": { "_id": 1 } };
        assert_eq!(listed(&mut connection, &few), [doc! { "_id": 10 }, doc! { "_id": 17 }]);

        let update =
            doc! { "q": { "a": 3 }, "u": { "$set": { "b": 1 }, "$inc": { "a": 100 } }, "multi": true };
        let reply = run(&mut connection, "test", &doc! { "update": "c", "updates": [update] });
        assert_eq!(reply, doc! { "n": 43, "nModified": 43, "ok": 1.0 });
        let upsert = doc! { "q": { "_id": "new" }, "u": { "$set": { "b": 2 } }, "upsert": true };
        let reply = run(&mut connection, "test", &doc! { "update": "c", "updates": [upsert] });
        assert_eq!(reply.get_array("upserted").unwrap(), &[doc! { "index": 0, "_id": "new" }.into()]);

        let reply = run(
            &mut connection,
            "test",
            &doc! { "delete": "c", "deletes": [{ "q": { "b": 1 }, "limit": 0 }] },
        );
        assert_eq!(reply.get_i32("n").unwrap(), 43);
        assert_eq!(listed(&mut connection, &doc! { "find": "c" }).len(), 258);
        drop(connection);
        server.stop().unwrap();
    }
}

#[test]
fn failures_carry_the_codes_that_drivers_act_on() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let (server, mut connection) = start(directory.path(), engine);
        run(&mut connection, "test", &doc! { "insert": "c", "documents": [{ "_id": 1 }] });
        let twice =
            doc! { "insert": "c", "documents": [{ "_id": 0 }, { "_id": 1 }, { "_id": 2 }], "ordered": false };
        let reply = run(&mut connection, "test", &twice);
        assert_eq!(reply.get_i32("n").unwrap(), 2);
        let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
        assert_eq!((error.get_i32("index").unwrap(), error.get_i32("code").unwrap()), (1, 11000));
        assert_eq!(error.get_document("keyValue").unwrap(), &doc! { "_id": 1 });

        assert_eq!(code(&mut connection, "test", &doc! { "doesNotExist": 1 }), Code::CommandNotFound);
        assert_eq!(code(&mut connection, "test", &doc! { "find": "c", "filtre": {} }), Code::FailedToParse);
        assert!(code(&mut connection, "test", &doc! { "find": "c", "filter": { "$where": "1" } }).0 > 0);
        assert_eq!(
            code(&mut connection, "test", &doc! { "getMore": 77_i64, "collection": "c" }),
            Code::CursorNotFound
        );
        let other_members = doc! { "insert": "c", "documents": [{}], "writeConcern": { "w": 2 } };
        assert_eq!(code(&mut connection, "test", &other_members), Code::BadValue);
        drop(connection);
        server.stop().unwrap();
    }
}

/// A batch ends before a document that would make it too large; the next one begins with that document, for every kind of plan.
#[test]
fn batches_of_large_documents_go_on_where_they_stopped() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let (server, mut connection) = start(directory.path(), engine);
        let text = "x".repeat(6_000_000);
        for n in 0..7 {
            let insert = doc! { "insert": "c", "documents": [{ "_id": n, "text": &text }] };
            run(&mut connection, "test", &insert);
        }
        for (filter, sort) in [
            (doc! {}, doc! {}),
            (doc! { "_id": { "$gte": 1 } }, doc! {}),
            (doc! { "_id": { "$gte": 1 } }, doc! { "_id": -1 }),
            (doc! { "_id": { "$in": [1, 2, 3, 5, 6] } }, doc! { "_id": 1 }),
        ] {
            let ids: Vec<i32> =
                listed(&mut connection, &doc! { "find": "c", "filter": &filter, "sort": &sort })
                    .iter()
                    .map(|document| document.get_i32("_id").unwrap())
                    .collect();
            let mut wanted: Vec<i32> = (0..7).filter(|n| filter.is_empty() || *n >= 1).collect();
            if filter.to_string().contains("$in") {
                wanted.retain(|n| *n != 4);
            }
            if sort == (doc! { "_id": -1 }) {
                wanted.reverse();
            }
            assert_eq!(ids, wanted, "{engine:?} {filter} {sort}");
        }
        drop(connection);
        server.stop().unwrap();
    }
}

#[test]
fn what_was_written_is_there_after_a_stop_and_a_start() {
    for engine in [EngineName::WiredTiger, EngineName::RocksDb] {
        let directory = tempfile::tempdir().unwrap();
        let (server, mut connection) = start(directory.path(), engine);
        let insert =
            doc! { "insert": "c", "documents": [{ "_id": 1, "v": "kept" }], "writeConcern": { "j": true } };
        run(&mut connection, "test", &insert);
        // A second server must not open the directory meanwhile.
        let refused = Server::start_quiet(config(directory.path(), engine)).unwrap_err();
        assert!(refused.to_string().contains("in use"), "{refused}");
        drop(connection);
        server.stop().unwrap();

        let other = if engine == EngineName::RocksDb { EngineName::WiredTiger } else { EngineName::RocksDb };
        let refused = Server::start_quiet(config(directory.path(), other)).unwrap_err();
        assert!(refused.to_string().contains(engine.as_str()), "{refused}");

        let (server, mut connection) = start(directory.path(), engine);
        assert_eq!(listed(&mut connection, &doc! { "find": "c" }), [doc! { "_id": 1, "v": "kept" }]);
        run(&mut connection, "test", &doc! { "insert": "c", "documents": [{ "_id": 2 }] });
        assert_eq!(listed(&mut connection, &doc! { "find": "c" }).len(), 2);
        drop(connection);
        server.stop().unwrap();
    }
}

#[test]
fn a_directory_of_somebody_else_is_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("db");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("WiredTiger"), "a real mongod's").unwrap();
    let refused = Server::start_quiet(config(directory.path(), EngineName::WiredTiger)).unwrap_err();
    assert!(refused.to_string().contains("did not make"), "{refused}");
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
}
