//! Tests the groups of `$currentOp` with operations as mongod 4.0 to 8.0 show them, and with secrets in every position.

use bson::{Document, RawDocumentBuf, doc};
use proptest::prelude::*;

use super::super::shown_client::MAX_NAME_CHARACTERS;
use super::*;

fn reply(operations: Vec<Document>) -> RawDocumentBuf {
    let reply =
        doc! { "cursor": { "id": 0_i64, "ns": "admin.$cmd.aggregate", "firstBatch": operations }, "ok": 1.0 };
    RawDocumentBuf::try_from(&reply).unwrap()
}

fn groups(operations: Vec<Document>) -> Vec<OperationGroup> {
    running_operations(&reply(operations)).groups
}

/// An operation as mongod 4.0 shows it.
fn shown(connection: i32, command: Document) -> Document {
    doc! {
        "host": "db1:27017",
        "desc": format!("conn{connection}"),
        "connectionId": connection,
        "client": "10.0.0.7:35014",
        "clientMetadata": { "driver": { "name": "PyMongo", "version": "3.13.0" }, "os": { "type": "Linux" } },
        "active": true,
        "opid": 100 + connection,
        "secs_running": 0,
        "microsecs_running": i64::from(connection) * 1000,
        "op": "query",
        "ns": "shop.orders",
        "command": command,
        "numYields": 1,
        "locks": { "Global": "r", "Database": "r", "Collection": "r" },
        "waitingForLock": false,
        "lockStats": { "Global": { "acquireCount": { "r": 2_i64 } } },
    }
}

fn with(mut document: Document, fields: Document) -> Document {
    document.extend(fields);
    document
}

#[test]
fn alike_operations_are_one_group() {
    let scan = |connection: i32| {
        let command = doc! { "find": "orders", "filter": { "user": connection }, "limit": 1, "$db": "shop" };
        with(shown(connection, command), doc! { "planSummary": "COLLSCAN" })
    };
    let insert = with(
        shown(9, doc! { "insert": "orders", "ordered": false, "$db": "shop" }),
        doc! { "op": "insert", "appName": "loader" },
    );
    let groups = groups(vec![scan(3), scan(4), insert]);
    let [insert, scans] = groups.as_slice() else { panic!("{groups:?}") };
    assert_eq!((insert.kind.as_str(), insert.application.as_deref()), ("insert", Some("loader")));
    let expected = OperationGroup {
        kind: "find".into(),
        namespace: "shop.orders".into(),
        shape: "{ filter: { user: ? } }".into(),
        plan: Some("COLLSCAN".into()),
        driver: Some("PyMongo 3.13.0".into()),
        client: Some("10.0.0.7".into()),
        count: 2,
        running_us: 7000,
        longest_us: 4000,
        longest_operation: Some("104".into()),
        connections: vec![3, 4],
        ..OperationGroup::default()
    };
    assert_eq!(*scans, expected);
}

#[test]
fn an_index_build_has_its_progress_and_others_wait_for_its_lock() {
    let build = with(
        shown(
            38,
            doc! { "createIndexes": "orders", "indexes": [{ "name": "a_1", "key": { "a": 1 } }], "$db": "shop" },
        ),
        doc! {
            "op": "command",
            "ns": "shop.$cmd",
            "msg": "Index Build Index Build: 78198/300000 26%",
            "progress": { "done": 78198, "total": 300_000 },
        },
    );
    let waiting = with(
        shown(25, doc! { "find": "orders", "filter": { "_id": "user1" }, "$db": "shop" }),
        doc! {
            "ns": "shop.$cmd",
            "waitingForLock": true,
            "lockStats": {
                "Global": { "acquireCount": { "r": 1_i64 } },
                "Database": { "acquireCount": { "r": 1_i64 }, "acquireWaitCount": { "r": 1_i64 } },
            },
        },
    );
    let groups = groups(vec![build, waiting]);
    let [build, waiting] = groups.as_slice() else { panic!("{groups:?}") };
    assert_eq!((build.kind.as_str(), build.namespace.as_str()), ("createIndexes", "shop.orders"));
    assert_eq!((build.phase.as_deref(), build.progress), (Some("Index Build"), Some((78198, 300_000))));
    assert_eq!(waiting.namespace, "shop.orders");
    assert_eq!(waiting.wait.as_deref(), Some("lock Database"));
    let bulk =
        "Index Bulk Build: (2/3) btree bottom up Index: (2/3) BTree Bottom Up Progress: 244136/300000 81%";
    let expected = "Index Bulk Build: (2/3) btree bottom up Index: (2/3) BTree Bottom Up Progress";
    assert_eq!(phase(bulk).unwrap(), expected.get(..MAX_NAME_CHARACTERS).unwrap());
}

#[test]
fn waits_of_later_versions_are_named() {
    let wait_of =
        |fields: Document| groups(vec![with(shown(1, doc! { "find": "orders" }), fields)])[0].wait.clone();
    for (fields, expected) in [
        (doc! { "waitingForFlowControl": true }, Some("flow control")),
        (
            doc! { "currentQueue": { "name": "execution", "timeQueuedMicros": 7_i64 } },
            Some("queue execution"),
        ),
        (doc! { "waitingForLatch": { "captureName": "x" } }, Some("latch")),
        (doc! { "waitingForLock": true, "lockStats": {}, "locks": {} }, Some("lock")),
        (doc! {}, None),
    ] {
        assert_eq!(wait_of(fields.clone()).as_deref(), expected, "{fields}");
    }
}

#[test]
fn commands_come_cut_and_as_parts() {
    let of = |command: Document, fields: Document| groups(vec![with(shown(1, command), fields)]).remove(0);
    let cut = of(
        doc! { "$truncated": "{ find: \"orders\", filter: { a: { $in: [ \"secret1\", \"secret2..." },
        doc! { "ns": "shop.$cmd" },
    );
    assert_eq!((cut.kind.as_str(), cut.namespace.as_str()), ("find", "shop.orders"));
    assert_eq!(cut.shape, "{ filter: { a: { $in: [?] } } }");
    // The lab server keeps the fields that fit.
    let short = doc! { "find": "orders", "sort": { "a": 1 }, "$truncated": "filter, hint" };
    let short = of(short, doc! {});
    assert_eq!((short.kind.as_str(), short.shape.as_str()), ("find", "{ sort: { a: 1 } }"));
    // The order of a sort's fields is a part of its shape, and quotes in a value end nothing.
    let filter = doc! { "b": "\", leak: { x: 1" };
    let sorted = of(doc! { "find": "orders", "filter": filter, "sort": { "z": -1, "a": 1.0 } }, doc! {});
    assert_eq!(sorted.shape, "{ filter: { b: ? }, sort: { z: -1, a: 1 } }");
    let part =
        of(doc! { "q": { "a": 1 }, "u": { "$set": { "b": 2 } }, "multi": false }, doc! { "op": "update" });
    assert_eq!((part.kind.as_str(), part.shape.as_str()), ("update", "{ q: { a: ? }, u: { $set: ? } }"));
    let origin = doc! { "cursor": { "originatingCommand": { "find": "orders", "filter": { "a": 1 } } }, "op": "getmore" };
    let more = of(doc! { "getMore": 7_i64, "collection": "orders" }, origin);
    assert_eq!((more.kind.as_str(), more.shape.as_str()), ("getMore of find", "{ filter: { a: ? } }"));
}

#[test]
fn what_waits_by_design_and_the_monitoring_itself_are_no_work() {
    let stream = doc! { "aggregate": "orders", "pipeline": [{ "$changeStream": {} }], "cursor": {} };
    let operations = vec![
        shown(1, doc! { "hello": 1, "maxAwaitTimeMS": 10_000 }),
        shown(2, doc! { "aggregate": 1, "pipeline": [{ "$currentOp": {} }], "cursor": {} }),
        with(shown(3, doc! { "getMore": 7_i64, "collection": "oplog.rs" }), doc! { "ns": "local.oplog.rs" }),
        with(
            shown(4, doc! { "getMore": 7_i64, "collection": "orders" }),
            doc! { "cursor": { "originatingCommand": stream } },
        ),
        with(shown(5, doc! { "find": "orders" }), doc! { "active": false }),
        with(shown(6, doc! {}), doc! { "op": "none", "ns": "" }),
    ];
    assert_eq!(running_operations(&reply(operations)), RunningOperations::default());
    assert_eq!(running_operations(&RawDocumentBuf::new()), RunningOperations::default());
}

#[test]
fn of_many_kinds_those_with_the_longest_time_are_kept() {
    let operations =
        (1..=20).map(|n| with(shown(n, doc! { "find": "c" }), doc! { "ns": format!("shop.c{n}") }));
    let running = running_operations(&reply(operations.collect()));
    assert_eq!((running.groups.len(), running.unlisted), (MAX_GROUPS, 8));
    assert_eq!(running.groups[0].namespace, "shop.c20");
}

/// Commands with a value at every position that a client can fill.
fn commands_with(secret: &str) -> Vec<Document> {
    let address = format!("{secret}@example.com");
    let pattern = bson::Regex { pattern: secret.try_into().unwrap(), options: "i".try_into().unwrap() };
    vec![
        doc! { "find": "orders", "filter": { "a": secret, "$or": [{ "b": { "$gt": secret } }, { "c": { "$in": [secret, 5] } }] },
        "sort": { "a": secret }, "min": { "a": secret }, "max": { "a": secret }, "comment": secret, "let": { "x": secret },
        "collation": { "locale": secret }, "projection": { "a": { "$eq": ["$a", secret] } } },
        doc! { "find": "orders", "filter": { "$where": secret, "$comment": secret, "$text": { "$search": secret },
        "r": { "$regex": secret }, "e": { "$elemMatch": { "x": secret } }, &address: 1 } },
        doc! { "aggregate": "orders", "pipeline": [
        { "$match": { "$expr": { "$eq": ["$a", secret] } } },
        { "$group": { "_id": { "$concat": [secret, "$x"] }, "n": { "$sum": { "$cond": [secret, 1, 0] } } } },
        { "$lookup": { "from": secret, "let": { "v": secret }, "pipeline": [{ "$match": { "k": secret } }], "as": secret } },
        { "$set": { "s": secret } }, { "$sort": { "a": secret } }, { "$out": secret },
        { "$function": { "body": secret, "args": [secret] } }], "cursor": {} },
        doc! { "find": "orders", "filter": { "a": 1, "r": pattern }, "hint": secret },
        doc! { "aggregate": "orders", "pipeline": [{ "$match": { "a": secret } }], "hint": { "a": secret }, "cursor": {} },
        doc! { "insert": "orders", "documents": [{ "a": secret }] },
        doc! { "update": "orders", "updates": [{ "q": { "a": secret }, "u": { "$set": { "b": secret, secret: 1 } },
        "arrayFilters": [{ "x": secret }], "c": { "v": secret } }, { "q": {}, "u": { secret: secret } }] },
        doc! { "delete": "orders", "deletes": [{ "q": { "a": { "$ne": secret } }, "limit": 1 }] },
        doc! { "findAndModify": "orders", "query": { "a": secret }, "update": { "$push": { "l": secret } }, "new": true },
        doc! { "q": { "a": secret }, "u": [{ "$set": { "b": secret } }], "multi": true },
        doc! { "count": "orders", "query": { "a": { "$not": { "$eq": secret } } } },
        doc! { "distinct": "orders", "key": "a", "query": { "a": secret } },
        doc! { "mapReduce": "orders", "map": secret, "reduce": secret, "query": { "a": secret }, "out": secret },
        doc! { "createUser": secret, "pwd": secret },
        doc! { "eval": secret, "args": [secret] },
        doc! { "createIndexes": "orders", "indexes": [{ "key": { "a": 1 }, "name": "a_1", "partialFilterExpression": { "a": secret } }] },
        doc! { "explain": { "find": "orders", "filter": { "a": secret } } },
    ]
}

#[test]
fn no_value_of_a_command_is_kept() {
    let secret = "Hunter2Secret";
    for command in commands_with(secret) {
        let cut = doc! { "$truncated": command.to_string() };
        for shape in [command.clone(), cut] {
            let one = shown(1, shape);
            let hidden = [
                one.clone(),
                with(
                    one.clone(),
                    doc! { "ns": "shop.$cmd", "planSummary": format!("IXSCAN {{ a: \"{secret}\" }}") },
                ),
                with(
                    shown(2, doc! { "getMore": 1_i64, "collection": "orders" }),
                    doc! { "cursor": { "originatingCommand": command.clone() } },
                ),
                with(
                    shown(3, doc! { "getMore": 1_i64, "collection": "orders" }),
                    doc! { "originatingCommand": command.clone() },
                ),
                with(one, doc! { "effectiveUsers": [{ "user": secret }], "transaction": { "x": secret } }),
            ];
            let kept = serde_json::to_string(&groups(hidden.to_vec())).unwrap();
            assert!(!kept.contains(secret), "{command}\n{kept}");
        }
    }
}

proptest! {
    #[test]
    fn no_text_is_too_odd(text in "[^\\x00]{0,80}", ns in ".{0,20}") {
        let odd = with(shown(1, doc! { "$truncated": &text }), doc! { "ns": &ns, "msg": &text, "planSummary": &text, "client": &ns });
        let _ = groups(vec![odd, with(shown(1, doc! { &text: &ns }), doc! { "ns": &ns })]);
    }
}
