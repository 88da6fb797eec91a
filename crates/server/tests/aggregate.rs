//! Pipelines over the wire: the stages that the planner absorbs, cursors, look-ups, and the targets of `$out` and `$merge`.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::served::{ENGINES, code, config, connect, in_memory, index, insert, listed, run, start};
use bson::{Bson, Document, doc};
use fathom_client::{Code, Connection};
use fathom_server::config::EngineName;

fn aggregate(connection: &mut Connection, collection: &str, pipeline: Vec<Document>) -> Vec<Document> {
    let command = doc! { "aggregate": collection, "pipeline": pipeline, "cursor": { "batchSize": 7 } };
    listed(connection, &command)
}

fn refused(connection: &mut Connection, collection: impl Into<Bson>, pipeline: Vec<Document>) -> Code {
    let command = doc! { "aggregate": collection.into(), "pipeline": pipeline, "cursor": {} };
    code(connection, "test", &command)
}

/// 100 documents `{_id, group: _id % 7, n: _id}`.
fn fill(connection: &mut Connection) {
    insert(connection, "c", (0..100).map(|n| doc! { "_id": n, "group": n % 7, "n": n }).collect());
}

#[test]
fn pipelines_run_over_every_engine_and_batches_go_on() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let server = fathom_server::Server::start_quiet(config(directory.path(), engine)).unwrap();
        let mut connection = connect(&server);
        fill(&mut connection);
        index(&mut connection, "c", doc! { "group": 1, "n": -1 });
        let sums = aggregate(
            &mut connection,
            "c",
            vec![
                doc! { "$match": { "n": { "$gte": 10 } } },
                doc! { "$group": { "_id": "$group", "sum": { "$sum": "$n" }, "count": { "$sum": 1 } } },
                doc! { "$sort": { "_id": 1 } },
            ],
        );
        assert_eq!(sums.len(), 7);
        let expected: i32 = (10..100).filter(|n| n % 7 == 3).sum();
        assert_eq!(sums[3], doc! { "_id": 3, "sum": expected, "count": 13 }, "{engine:?}");

        let rows = aggregate(&mut connection, "c", vec![doc! { "$project": { "n": 1 } }]);
        assert_eq!(rows.len(), 100, "several batches");
        let top =
            vec![doc! { "$match": { "group": 2 } }, doc! { "$sort": { "n": -1 } }, doc! { "$limit": 2 }];
        let top = aggregate(&mut connection, "c", top);
        assert_eq!(top.iter().map(|row| row.get_i32("n").unwrap()).collect::<Vec<_>>(), [93, 86]);
        let out = vec![doc! { "$match": { "group": 1 } }, doc! { "$out": "copy" }];
        assert_eq!(aggregate(&mut connection, "c", out), []);
        assert_eq!(run(&mut connection, "test", &doc! { "count": "copy" }).get_i32("n").unwrap(), 15);
        drop(connection);
        server.stop().unwrap();
    }
}

#[test]
fn what_drivers_send_to_count_is_counted() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    let count = |connection: &mut Connection, before: Vec<Document>| {
        let mut pipeline = before;
        pipeline.push(doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } });
        aggregate(connection, "c", pipeline)
    };
    assert_eq!(count(&mut connection, vec![doc! { "$match": {} }]), [doc! { "_id": 1, "n": 100 }]);
    let some = vec![doc! { "$match": { "group": 3 } }, doc! { "$skip": 2 }, doc! { "$limit": 5 }];
    assert_eq!(count(&mut connection, some), [doc! { "_id": 1, "n": 5 }]);
    assert_eq!(count(&mut connection, vec![doc! { "$match": { "group": 77 } }]), []);
    assert_eq!(aggregate(&mut connection, "none", vec![doc! { "$count": "n" }]), []);
    assert_eq!(aggregate(&mut connection, "c", vec![doc! { "$count": "n" }]), [doc! { "n": 100 }]);
    server.stop().unwrap();
}

#[test]
fn a_first_batch_may_be_empty_and_another_connection_may_go_on() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    let command = doc! { "aggregate": "c", "pipeline": [{ "$unwind": "$n" }], "cursor": { "batchSize": 0 } };
    let reply = run(&mut connection, "test", &command);
    let cursor = reply.get_document("cursor").unwrap();
    assert_eq!(cursor.get_array("firstBatch").unwrap().len(), 0);
    let id = cursor.get_i64("id").unwrap();
    assert_ne!(id, 0);
    drop(connection);
    let mut other = connect(&server);
    let more = doc! { "getMore": id, "collection": "c", "batchSize": 60 };
    let next = |reply: &Document| reply.get_document("cursor").unwrap().get_array("nextBatch").unwrap().len();
    assert_eq!(next(&run(&mut other, "test", &more)), 60);
    assert_eq!(
        code(&mut other, "test", &doc! { "getMore": id, "collection": "c", "maxTimeMS": 5 }),
        Code::BadValue
    );
    assert_eq!(next(&run(&mut other, "test", &more)), 40);
    assert_eq!(code(&mut other, "test", &more), Code::CursorNotFound);
    // A server stops even if a pipeline's cursor is idle.
    let rests = doc! { "aggregate": "c", "pipeline": [], "cursor": { "batchSize": 1 } };
    run(&mut other, "test", &rests);
    drop(other);
    server.stop().unwrap();
}

#[test]
fn lookups_join_by_value_and_by_pipeline() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    insert(
        &mut connection,
        "orders",
        vec![doc! { "_id": 1, "item": "a" }, doc! { "_id": 2, "item": ["b", "c"] }, doc! { "_id": 3 }],
    );
    insert(
        &mut connection,
        "items",
        vec![
            doc! { "_id": 10, "sku": "a", "n": 5 },
            doc! { "_id": 11, "sku": "b", "n": 1 },
            doc! { "_id": 12, "sku": "c", "n": 9 },
            doc! { "_id": 13, "n": 3 },
        ],
    );
    index(&mut connection, "items", doc! { "sku": 1 });
    let lookup =
        doc! { "$lookup": { "from": "items", "localField": "item", "foreignField": "sku", "as": "found" } };
    let ids = |rows: &[Document]| -> Vec<Vec<i32>> {
        let found = |row: &Document| {
            let found = row.get_array("found").unwrap().iter();
            found.map(|one| one.as_document().unwrap().get_i32("_id").unwrap()).collect()
        };
        rows.iter().map(found).collect()
    };
    let rows = aggregate(&mut connection, "orders", vec![lookup.clone(), doc! { "$sort": { "_id": 1 } }]);
    assert_eq!(ids(&rows), [vec![10], vec![11, 12], vec![13]]);
    let correlated = doc! { "$lookup": {
        "from": "items", "let": { "me": "$_id" },
        "pipeline": [{ "$match": { "$expr": { "$gt": ["$n", { "$multiply": ["$$me", 3] }] } } }, { "$sort": { "n": -1 } }, { "$limit": 1 }],
        "as": "found",
    } };
    let rows = aggregate(&mut connection, "orders", vec![correlated]);
    assert_eq!(ids(&rows), [vec![12], vec![12], vec![]]);
    // Through views, including one that only filters.
    run(
        &mut connection,
        "test",
        &doc! { "create": "cheap", "viewOn": "items", "pipeline": [{ "$match": { "n": { "$lt": 6 } } }] },
    );
    run(
        &mut connection,
        "test",
        &doc! { "create": "short", "viewOn": "items", "pipeline": [{ "$sort": { "n": 1 } }, { "$limit": 2 }] },
    );
    for (view, expected) in
        [("cheap", [vec![10], vec![11], vec![13]]), ("short", [vec![], vec![11], vec![13]])]
    {
        let mut lookup = lookup.clone();
        lookup.get_document_mut("$lookup").unwrap().insert("from", view);
        let rows = aggregate(&mut connection, "orders", vec![lookup]);
        assert_eq!(ids(&rows), expected, "{view}");
    }
    let union = aggregate(
        &mut connection,
        "orders",
        vec![doc! { "$unionWith": { "coll": "cheap", "pipeline": [{ "$count": "n" }] } }],
    );
    assert_eq!(union[3], doc! { "n": 3 });
    server.stop().unwrap();
}

#[test]
fn out_replaces_a_collection_and_keeps_its_indexes() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    insert(&mut connection, "target", vec![doc! { "_id": "old" }]);
    run(
        &mut connection,
        "test",
        &doc! { "createIndexes": "target", "indexes": [{ "key": { "n": 1 }, "name": "n_1", "unique": true }] },
    );
    let out = |collection: &str| vec![doc! { "$match": { "group": 0 } }, doc! { "$out": collection }];
    aggregate(&mut connection, "c", out("target"));
    let target = aggregate(&mut connection, "target", vec![doc! { "$sort": { "_id": 1 } }]);
    assert_eq!(target.len(), 15);
    assert_eq!(target[1], doc! { "_id": 7, "group": 0, "n": 7 });
    let indexes = run(&mut connection, "test", &doc! { "listIndexes": "target" });
    assert_eq!(indexes.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len(), 2);
    // A failure leaves the previous contents, and nothing else.
    let twice = vec![doc! { "$project": { "n": { "$literal": 1 } } }, doc! { "$out": "target" }];
    assert_eq!(refused(&mut connection, "c", twice), Code::DuplicateKey);
    assert_eq!(aggregate(&mut connection, "target", vec![]).len(), 15);
    let names = run(&mut connection, "test", &doc! { "listCollections": 1, "nameOnly": true });
    assert_eq!(names.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len(), 2);
    // Into the same collection that is read.
    aggregate(&mut connection, "c", out("c"));
    assert_eq!(run(&mut connection, "test", &doc! { "count": "c" }).get_i32("n").unwrap(), 15);
    run(&mut connection, "test", &doc! { "create": "view", "viewOn": "c", "pipeline": [] });
    assert_eq!(refused(&mut connection, "c", out("view")), Code::CommandNotSupportedOnView);
    run(&mut connection, "test", &doc! { "create": "capped", "capped": true, "size": 4096 });
    assert_eq!(refused(&mut connection, "c", out("capped")), Code(17152));
    let first = vec![doc! { "$out": "x" }, doc! { "$match": {} }];
    assert_eq!(refused(&mut connection, "c", first), Code(40601));
    server.stop().unwrap();
}

/// Names of the collections of `test`.
fn collections(connection: &mut Connection) -> Vec<String> {
    let all = listed(connection, &doc! { "listCollections": 1, "nameOnly": true });
    all.iter().map(|one| one.get_str("name").unwrap().to_owned()).collect()
}

#[test]
fn out_does_not_collide_with_what_another_process_left_behind() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    for number in 1..=100 {
        run(&mut connection, "test", &doc! { "create": format!("tmp.agg_out.{number}") });
    }
    assert_eq!(aggregate(&mut connection, "c", vec![doc! { "$out": "target" }]), []);
    assert_eq!(run(&mut connection, "test", &doc! { "count": "target" }).get_i32("n").unwrap(), 100);
    // Only the collection that `$out` made itself is temporary.
    assert_eq!(collections(&mut connection).len(), 102);
    server.stop().unwrap();
}

/// Copies a directory; an error if a file was removed meanwhile.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The files are copied while `fsync` with `lock` blocks `$out` after the creation of its temporary collection.
#[test]
fn what_a_crash_within_out_leaves_behind_is_removed_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let (running, crashed) = (directory.path().join("running"), directory.path().join("crashed"));
    let (server, mut connection) = start(&running, EngineName::WiredTiger);
    fill(&mut connection);
    let mut writer = connect(&server);
    run(&mut connection, "admin", &doc! { "fsync": 1, "lock": true });
    let out = vec![doc! { "$out": "target" }];
    let blocked = out.clone();
    let blocked = std::thread::spawn(move || aggregate(&mut writer, "c", blocked));
    let end = Instant::now() + Duration::from_secs(300);
    while collections(&mut connection).len() < 2 {
        assert!(Instant::now() < end, "no temporary collection");
        std::thread::sleep(Duration::from_millis(5));
    }
    let copied = (0..50).any(|_| {
        let _ = std::fs::remove_dir_all(&crashed);
        copy(&running, &crashed).is_ok()
    });
    run(&mut connection, "admin", &doc! { "fsyncUnlock": 1 });
    blocked.join().unwrap();
    assert_eq!(collections(&mut connection), ["c", "target"]);
    server.stop().unwrap();
    assert!(copied, "no copy without a file that was removed meanwhile");

    let (server, mut connection) = start(&crashed, EngineName::WiredTiger);
    assert_eq!(collections(&mut connection), ["c"]);
    aggregate(&mut connection, "c", out);
    assert_eq!(run(&mut connection, "test", &doc! { "count": "target" }).get_i32("n").unwrap(), 100);
    server.stop().unwrap();
    let (server, mut connection) = start(&crashed, EngineName::WiredTiger);
    assert_eq!(collections(&mut connection), ["c", "target"]);
    server.stop().unwrap();
}

#[test]
fn merge_does_what_its_modes_say() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    insert(&mut connection, "c", vec![doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 2 }]);
    let cases = [
        (doc! {}, vec![doc! { "_id": 1, "b": 9, "a": 1 }, doc! { "_id": 2, "a": 2 }]),
        (doc! { "whenMatched": "replace" }, vec![doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 2 }]),
        (doc! { "whenMatched": "keepExisting" }, vec![doc! { "_id": 1, "b": 9 }, doc! { "_id": 2, "a": 2 }]),
        (doc! { "whenNotMatched": "discard" }, vec![doc! { "_id": 1, "b": 9, "a": 1 }]),
        (
            doc! { "whenMatched": [{ "$set": { "sum": { "$add": ["$b", "$$new.a"] } } }] },
            vec![doc! { "_id": 1, "b": 9, "sum": 10 }, doc! { "_id": 2, "a": 2 }],
        ),
        (
            doc! { "let": { "x": { "$multiply": ["$a", 5] } }, "whenMatched": [{ "$set": { "x": "$$x" } }], "whenNotMatched": "discard" },
            vec![doc! { "_id": 1, "b": 9, "x": 5 }],
        ),
    ];
    for (options, expected) in cases {
        run(&mut connection, "test", &doc! { "delete": "into", "deletes": [{ "q": {}, "limit": 0 }] });
        insert(&mut connection, "into", vec![doc! { "_id": 1, "b": 9 }]);
        let mut merge = doc! { "into": "into" };
        merge.extend(options.clone());
        aggregate(&mut connection, "c", vec![doc! { "$merge": merge }]);
        let rows = aggregate(&mut connection, "into", vec![doc! { "$sort": { "_id": 1 } }]);
        assert_eq!(rows, expected, "{options}");
    }
    let refusals = [
        (doc! { "whenMatched": "fail" }, Code::DuplicateKey),
        (doc! { "whenNotMatched": "fail" }, Code(13113)),
        (doc! { "on": "a" }, Code(51183)),
    ];
    for (options, expected) in refusals {
        let mut merge = doc! { "into": "into" };
        merge.extend(options.clone());
        assert_eq!(refused(&mut connection, "c", vec![doc! { "$merge": merge }]), expected, "{options}");
    }
    run(
        &mut connection,
        "test",
        &doc! { "createIndexes": "into", "indexes": [{ "key": { "a": 1 }, "name": "a", "unique": true }] },
    );
    let by_a = doc! { "$merge": { "into": "into", "on": "a", "whenMatched": "replace" } };
    let rows = vec![doc! { "$project": { "_id": 0, "a": 1, "by": { "$literal": "a" } } }, by_a];
    assert_eq!(refused(&mut connection, "c", rows), Code::ImmutableField, "a replacement has another _id");
    server.stop().unwrap();
}

/// Each finds nothing to update and inserts; all but one then find the row of another, and update it.
#[test]
fn merges_of_the_same_rows_at_the_same_time_all_succeed() {
    let server = in_memory(|_| ());
    fill(&mut connect(&server));
    for round in 0..10 {
        let into = format!("into{round}");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    aggregate(&mut connect(&server), "c", vec![doc! { "$merge": { "into": &into } }])
                });
            }
        });
        assert_eq!(run(&mut connect(&server), "test", &doc! { "count": &into }).get_i32("n").unwrap(), 100);
    }
    server.stop().unwrap();
}

#[test]
fn stages_without_a_collection_and_of_statistics() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    let on_one = |connection: &mut Connection, database: &str, pipeline: Vec<Document>| {
        let reply = run(connection, database, &doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {} });
        reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone()
    };
    let documents = vec![doc! { "$documents": [{ "a": 1 }, { "a": 2 }] }, doc! { "$match": { "a": 2 } }];
    assert_eq!(on_one(&mut connection, "test", documents), [doc! { "a": 2 }.into()]);
    let current = on_one(&mut connection, "admin", vec![doc! { "$currentOp": {} }]);
    assert_eq!(current.len(), 1);
    // The fields by which monitoring tells what waits, as mongod shows them.
    for field in ["opid", "microsecs_running", "op", "ns", "command", "locks", "waitingForLock", "lockStats"]
    {
        assert!(current[0].as_document().unwrap().contains_key(field), "{field}: {current:?}");
    }
    let id = bson::Uuid::new();
    run(&mut connection, "test", &doc! { "ping": 1, "lsid": { "id": id } });
    let sessions = on_one(&mut connection, "test", vec![doc! { "$listLocalSessions": {} }]);
    let ids = |session: &Bson| session.as_document().unwrap().get_document("_id").unwrap().get("id").cloned();
    assert!(sessions.iter().any(|session| ids(session) == Some(id.into())), "{sessions:?}");
    assert_eq!(refused(&mut connection, 1, vec![doc! { "$currentOp": {} }]), Code::InvalidNamespace);
    assert_eq!(refused(&mut connection, 1, vec![doc! { "$match": {} }]), Code::InvalidNamespace);
    let stats = aggregate(&mut connection, "c", vec![doc! { "$collStats": { "count": {} } }]);
    assert_eq!(stats[0].get_i32("count").unwrap(), 100);
    let indexes = aggregate(&mut connection, "c", vec![doc! { "$indexStats": {} }]);
    assert_eq!(indexes[0].get_str("name").unwrap(), "_id_");
    let sample = aggregate(&mut connection, "c", vec![doc! { "$sample": { "size": 10 } }]);
    assert_eq!(sample.len(), 10);
    server.stop().unwrap();
}

#[test]
fn what_is_wrong_is_refused_in_mongodbs_codes() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    let cases = [
        (vec![doc! { "$changeStream": {} }], Code(40573)),
        (vec![doc! { "$nope": 1 }], Code(40324)),
        (vec![doc! { "$match": { "$where": "1" } }], Code::BadValue),
        (vec![doc! { "$match": { "$text": { "$search": "x" } } }], Code::IndexNotFound),
        (vec![doc! { "$limit": 0 }], Code(15958)),
        (vec![doc! { "$match": {}, "$sort": { "a": 1 } }], Code(40323)),
        (vec![doc! { "$geoNear": {} }], Code::CommandNotSupported),
    ];
    for (pipeline, expected) in cases {
        let shown = format!("{pipeline:?}");
        assert_eq!(refused(&mut connection, "c", pipeline), expected, "{shown}");
    }
    let no_cursor = doc! { "aggregate": "c", "pipeline": [] };
    assert_eq!(code(&mut connection, "test", &no_cursor), Code::FailedToParse);
    let hint = doc! { "aggregate": "c", "pipeline": [], "cursor": {}, "hint": "none" };
    assert_eq!(code(&mut connection, "test", &hint), Code::BadValue);
    server.stop().unwrap();
}

#[test]
fn a_pipeline_stops_when_its_time_is_over() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    insert(&mut connection, "c", vec![doc! { "_id": 1, "a": (0..1000).collect::<Vec<i32>>() }]);
    let explode = doc! {
        "aggregate": "c",
        "pipeline": [
            { "$set": { "b": "$a", "c": "$a" } }, { "$unwind": "$a" }, { "$unwind": "$b" }, { "$unwind": "$c" },
            { "$match": { "a": -1 } },
        ],
        "cursor": {}, "maxTimeMS": 100,
    };
    assert_eq!(code(&mut connection, "test", &explode), Code::MaxTimeMSExpired);
    server.stop().unwrap();
}
