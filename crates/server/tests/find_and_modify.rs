//! The command `findAndModify`: its replies, its refusals, and concurrent callers that each get a different document.

use crate::served::{ENGINES, code, config, connect, in_memory, run};
use bson::{Bson, Document, doc};
use fathom_client::Code;

#[test]
fn it_answers_with_the_document_before_or_after() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let server = fathom_server::Server::start_quiet(config(directory.path(), engine)).unwrap();
        let mut connection = connect(&server);
        let documents: Vec<Document> = (0..5).map(|n| doc! { "_id": n, "a": n, "t": [1, 2, 3] }).collect();
        run(&mut connection, "test", &doc! { "insert": "c", "documents": documents });
        let mut modify = |rest: Document| {
            let mut command = doc! { "findAndModify": "c" };
            command.extend(rest);
            let reply = run(&mut connection, "test", &command);
            (reply.get_document("lastErrorObject").unwrap().clone(), reply.get("value").unwrap().clone())
        };
        let t = doc! { "t": [1, 2, 3] };
        let with = |mut first: Document| {
            first.extend(t.clone());
            Bson::Document(first)
        };
        let before = modify(doc! { "query": { "_id": 1 }, "update": { "$inc": { "a": 10 } } });
        assert_eq!(
            before,
            (doc! { "n": 1, "updatedExisting": true }, with(doc! { "_id": 1, "a": 1 })),
            "{engine:?}"
        );
        let after = modify(
            doc! { "query": { "a": { "$gte": 0 } }, "sort": { "a": -1 }, "update": { "$set": { "a": 7 } }, "new": true, "fields": { "a": 1 } },
        );
        assert_eq!(after, (doc! { "n": 1, "updatedExisting": true }, doc! { "_id": 1, "a": 7 }.into()));
        let none = modify(doc! { "query": { "_id": 99 }, "update": { "$set": { "a": 7 } } });
        assert_eq!(none, (doc! { "n": 0, "updatedExisting": false }, Bson::Null));
        let upsert = modify(
            doc! { "query": { "_id": 9 }, "update": { "$set": { "a": 1 } }, "upsert": true, "new": true },
        );
        let last = doc! { "n": 1, "updatedExisting": false, "upserted": 9 };
        assert_eq!(upsert, (last, doc! { "_id": 9, "a": 1 }.into()));
        let removed =
            modify(doc! { "query": {}, "sort": { "_id": -1 }, "remove": true, "fields": { "_id": 0 } });
        assert_eq!(removed, (doc! { "n": 1 }, doc! { "a": 1 }.into()));
        let pipeline = modify(
            doc! { "query": { "_id": 2 }, "update": [{ "$set": { "b": { "$add": ["$a", "$$x"] } } }, { "$unset": "t" }], "let": { "x": 5 }, "new": true },
        );
        assert_eq!(pipeline.1, doc! { "_id": 2, "a": 2, "b": 7 }.into());
        let filtered = modify(
            doc! { "query": { "_id": 3 }, "update": { "$inc": { "t.$[big]": 10 } }, "arrayFilters": [{ "big": { "$gte": 2 } }], "new": true },
        );
        assert_eq!(filtered.1, doc! { "_id": 3, "a": 3, "t": [1, 12, 13] }.into());
        let positional = modify(
            doc! { "query": { "_id": 3, "t": 12 }, "update": { "$set": { "t.$": 0 } }, "fields": { "t.$": 1 } },
        );
        assert_eq!(positional.1, doc! { "_id": 3, "t": [12] }.into());
        drop(connection);
        server.stop().unwrap();
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    run(
        &mut connection,
        "test",
        &doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }, { "_id": 2, "a": 2 }] },
    );
    run(
        &mut connection,
        "test",
        &doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a", "unique": true }] },
    );
    for (rest, expected) in [
        (doc! {}, Code::FailedToParse),
        (doc! { "remove": true, "update": { "$set": { "a": 1 } } }, Code::FailedToParse),
        (doc! { "remove": true, "new": true }, Code::FailedToParse),
        (doc! { "remove": true, "upsert": true }, Code::FailedToParse),
        (doc! { "query": { "_id": 1 }, "update": { "$set": { "a": 2 } } }, Code::DuplicateKey),
        (doc! { "query": { "_id": 1 }, "update": { "$set": { "_id": 2 } } }, Code::ImmutableField),
        (doc! { "query": {}, "update": { "$nope": { "a": 2 } } }, Code::FailedToParse),
        (doc! { "query": {}, "remove": true, "hint": "none" }, Code::BadValue),
    ] {
        let mut command = doc! { "findAndModify": "c" };
        command.extend(rest);
        assert_eq!(code(&mut connection, "test", &command), expected, "{command}");
    }
    server.stop().unwrap();
}

/// A queue: many connections each take the smallest item, and every item is taken by exactly one of them.
#[test]
fn each_of_many_takers_gets_its_own() {
    const ITEMS: i32 = 200;
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let server = fathom_server::Server::start_quiet(config(directory.path(), engine)).unwrap();
        let mut connection = connect(&server);
        let documents: Vec<Document> = (0..ITEMS).map(|n| doc! { "_id": n, "taken": false }).collect();
        run(&mut connection, "test", &doc! { "insert": "c", "documents": documents });
        run(
            &mut connection,
            "test",
            &doc! { "createIndexes": "c", "indexes": [{ "key": { "taken": 1, "_id": 1 }, "name": "queue" }] },
        );
        let mut taken: Vec<i32> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut connection = connect(&server);
                        let take = doc! { "findAndModify": "c", "query": { "taken": false }, "sort": { "_id": 1 }, "update": { "$set": { "taken": true } } };
                        let mut taken = Vec::new();
                        while let Ok(item) = run(&mut connection, "test", &take).get_document("value") {
                            taken.push(item.get_i32("_id").unwrap());
                        }
                        taken
                    })
                })
                .collect();
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        taken.sort_unstable();
        assert!(taken.iter().copied().eq(0..ITEMS), "{engine:?}: {} of {ITEMS}", taken.len());
        drop(connection);
        server.stop().unwrap();
    }
}
