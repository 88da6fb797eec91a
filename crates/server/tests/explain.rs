//! The command `explain`: the stages and figures of each command, and the choice of the right index.

use crate::served::{ENGINES, code, config, connect, in_memory, run};
use bson::{Bson, Document, doc};
use fathom_client::{Code, Connection};

fn index(connection: &mut Connection, spec: Document) {
    let mut spec = spec;
    if !spec.contains_key("name") {
        let key = spec.get_document("key").unwrap();
        let parts = key.iter().map(|(path, kind)| match kind.as_i32() {
            Some(order) => format!("{path}_{order}"),
            None => format!("{path}_hashed"),
        });
        let name = parts.collect::<Vec<_>>().join("_");
        spec.insert("name", name);
    }
    run(connection, "test", &doc! { "createIndexes": "c", "indexes": [spec] });
}

/// 200 documents with a number, its remainders, a sparse field and an array.
fn fill(connection: &mut Connection) {
    let document = |n: i32| {
        let mut document = doc! { "_id": n, "a": n % 10, "b": n % 20, "c": n, "t": [n, n + 1000] };
        if n % 4 == 0 {
            document.insert("s", n);
        }
        document
    };
    let documents: Vec<Document> = (0..200).map(document).collect();
    run(connection, "test", &doc! { "insert": "c", "documents": documents });
}

fn explain(connection: &mut Connection, command: Document) -> Document {
    run(connection, "test", &doc! { "explain": command, "verbosity": "executionStats" })
}

fn winning(reply: &Document) -> &Document {
    reply.get_document("queryPlanner").unwrap().get_document("winningPlan").unwrap()
}

fn stats(reply: &Document) -> &Document {
    reply.get_document("executionStats").unwrap()
}

/// Documents returned, keys examined and documents examined.
fn figures(reply: &Document) -> (i32, i32, i32) {
    let figure = |name: &str| stats(reply).get_i32(name).unwrap();
    (figure("nReturned"), figure("totalKeysExamined"), figure("totalDocsExamined"))
}

/// The names of stages from the top down: `FETCH<IXSCAN a_1`, branches in brackets.
fn shape(stage: &Document) -> String {
    let mut text = stage.get_str("stage").unwrap().to_owned();
    if let Ok(name) = stage.get_str("indexName") {
        text = format!("{text} {name}");
        if stage.get_str("direction").is_ok_and(|way| way == "backward") {
            text.push_str(" backward");
        }
    }
    if let Ok(input) = stage.get_document("inputStage") {
        text = format!("{text}<{}", shape(input));
    }
    if let Ok(inputs) = stage.get_array("inputStages") {
        let inputs: Vec<String> = inputs.iter().map(|input| shape(input.as_document().unwrap())).collect();
        text = format!("{text}[{}]", inputs.join(", "));
    }
    text
}

fn find_shape(connection: &mut Connection, rest: Document) -> (String, (i32, i32, i32)) {
    let mut find = doc! { "find": "c" };
    find.extend(rest);
    let reply = explain(connection, find);
    (shape(winning(&reply)), figures(&reply))
}

#[test]
fn the_reply_has_the_fields_of_mongod() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let server = fathom_server::Server::start_quiet(config(directory.path(), engine)).unwrap();
        let mut connection = connect(&server);
        fill(&mut connection);
        let reply = explain(&mut connection, doc! { "find": "c", "filter": { "_id": 5 } });
        let planner = reply.get_document("queryPlanner").unwrap();
        let expected = doc! {
            "plannerVersion": 1,
            "namespace": "test.c",
            "indexFilterSet": false,
            "parsedQuery": { "_id": { "$eq": 5 } },
            "winningPlan": { "stage": "IDHACK" },
            "rejectedPlans": [],
        };
        assert_eq!(planner, &expected, "{engine:?}");
        let mut stats = stats(&reply).clone();
        stats.insert("executionTimeMillis", 0);
        stats.get_document_mut("executionStages").unwrap().insert("executionTimeMillisEstimate", 0);
        // The figures of a real mongod 4.0.3 for the same query.
        let expected = doc! {
            "executionSuccess": true,
            "nReturned": 1,
            "executionTimeMillis": 0,
            "totalKeysExamined": 1,
            "totalDocsExamined": 1,
            "executionStages": {
                "stage": "IDHACK", "nReturned": 1, "executionTimeMillisEstimate": 0, "works": 2, "advanced": 1, "needTime": 0,
                "needYield": 0, "saveState": 0, "restoreState": 0, "isEOF": 1, "invalidates": 0,
                "keysExamined": 1, "docsExamined": 1,
            },
        };
        assert_eq!(stats, expected, "{engine:?}");
        let names: Vec<&String> = reply.get_document("serverInfo").unwrap().keys().collect();
        assert_eq!(names, ["host", "port", "version", "gitVersion"]);
        drop(connection);
        server.stop().unwrap();
    }
}

#[test]
fn figures_are_what_was_really_read() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    index(&mut connection, doc! { "key": { "a": 1 } });
    let reply = explain(&mut connection, doc! { "find": "c", "filter": { "a": 3, "c": { "$lt": 100 } } });
    let fetch = stats(&reply).get_document("executionStages").unwrap();
    let scan = fetch.get_document("inputStage").unwrap();
    let of = |stage: &Document, names: &[&str]| -> Vec<i32> {
        names.iter().map(|name| stage.get_i32(name).unwrap()).collect()
    };
    let names = ["nReturned", "works", "advanced", "needTime", "isEOF"];
    assert_eq!(of(fetch, &names), [10, 21, 10, 10, 1]);
    assert_eq!(of(scan, &names), [20, 21, 20, 0, 1]);
    assert_eq!(of(scan, &["keysExamined", "seeks"]), [20, 1]);
    assert_eq!(of(fetch, &["docsExamined"]), [20]);
    let bounds = doc! { "a": ["[3, 3]"] };
    assert_eq!(scan.get_document("indexBounds").unwrap(), &bounds);

    let reply = explain(&mut connection, doc! { "find": "c", "filter": { "c": { "$gte": 190 } } });
    let scan = stats(&reply).get_document("executionStages").unwrap();
    assert_eq!(of(scan, &names), [10, 202, 10, 191, 1]);
    let limited = doc! { "find": "c", "filter": { "a": 3 }, "skip": 2, "limit": 3 };
    let reply = explain(&mut connection, limited);
    assert_eq!(shape(winning(&reply)), "LIMIT<SKIP<FETCH<IXSCAN a_1");
    assert_eq!(figures(&reply), (3, 5, 5));
    let sorted =
        doc! { "find": "c", "filter": { "a": 3 }, "sort": { "c": -1 }, "limit": 3, "projection": { "c": 1 } };
    let reply = explain(&mut connection, sorted);
    assert_eq!(shape(winning(&reply)), "PROJECTION_SIMPLE<SORT<FETCH<IXSCAN a_1");
    assert_eq!(figures(&reply), (3, 20, 20));
    server.stop().unwrap();
}

/// A query, the shape of its plan, and (returned, keys, documents).
type Case = (Document, String, (i32, i32, i32));

fn check_plans(cases: Vec<Case>) {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    for key in [doc! { "a": 1 }, doc! { "a": 1, "b": 1, "c": 1 }, doc! { "c": -1 }, doc! { "t": 1 }] {
        index(&mut connection, doc! { "key": key });
    }
    index(&mut connection, doc! { "key": { "s": 1 }, "sparse": true });
    index(&mut connection, doc! { "key": { "b": "hashed" } });
    index(
        &mut connection,
        doc! { "key": { "b": 1 }, "name": "few", "partialFilterExpression": { "c": { "$gte": 150 } } },
    );
    for (rest, expected, counts) in cases {
        let got = find_shape(&mut connection, rest.clone());
        assert_eq!(got, (expected, counts), "{rest}");
    }
    server.stop().unwrap();
}

#[test]
fn the_right_index_is_used() {
    let abc = "a_1_b_1_c_1";
    let cases: Vec<Case> = vec![
        (doc! { "filter": { "a": 3 } }, "FETCH<IXSCAN a_1".into(), (20, 20, 20)),
        (doc! { "filter": { "a": 3, "b": 13 } }, format!("FETCH<IXSCAN {abc}"), (10, 10, 10)),
        (
            doc! { "filter": { "a": 3, "b": 13, "c": { "$gt": 100 } } },
            format!("FETCH<IXSCAN {abc}"),
            (5, 5, 5),
        ),
        (
            doc! { "filter": { "a": 3 }, "sort": { "b": 1, "c": 1 } },
            format!("FETCH<IXSCAN {abc}"),
            (20, 20, 20),
        ),
        (
            doc! { "filter": { "a": 3 }, "sort": { "b": -1, "c": -1 } },
            format!("FETCH<IXSCAN {abc} backward"),
            (20, 20, 20),
        ),
        (
            doc! { "filter": { "a": 3, "b": 3 }, "sort": { "c": -1 } },
            format!("FETCH<IXSCAN {abc} backward"),
            (10, 10, 10),
        ),
        (doc! { "filter": { "a": 3 }, "sort": { "c": 1 } }, "SORT<FETCH<IXSCAN a_1".into(), (20, 20, 20)),
        (doc! { "sort": { "c": 1 }, "limit": 5 }, "LIMIT<FETCH<IXSCAN c_-1 backward".into(), (5, 5, 5)),
        (doc! { "sort": { "c": -1 }, "limit": 5 }, "LIMIT<FETCH<IXSCAN c_-1".into(), (5, 5, 5)),
        (doc! { "filter": { "c": { "$gte": 10, "$lt": 20 } } }, "FETCH<IXSCAN c_-1".into(), (10, 10, 10)),
        (doc! { "filter": { "c": { "$in": [1, 5, 900] } } }, "FETCH<IXSCAN c_-1".into(), (2, 2, 2)),
    ];
    check_plans(cases);
}

#[test]
fn unions_special_indexes_and_arrays_are_planned_rightly() {
    let abc = "a_1_b_1_c_1";
    let cases: Vec<Case> = vec![
        (
            doc! { "filter": { "$or": [{ "c": 7 }, { "t": 1009 }] } },
            "FETCH<OR[IXSCAN c_-1, IXSCAN t_1]".into(),
            (2, 2, 2),
        ),
        (
            doc! { "filter": { "$or": [{ "c": 7 }, { "t": 7 }] } },
            "FETCH<OR[IXSCAN c_-1, IXSCAN t_1]".into(),
            (1, 2, 1),
        ),
        (doc! { "filter": { "$or": [{ "c": 7 }, { "x": 7 }] } }, "COLLSCAN".into(), (1, 0, 200)),
        (doc! { "filter": { "s": 8 } }, "FETCH<IXSCAN s_1".into(), (1, 1, 1)),
        (doc! { "filter": { "s": null } }, "COLLSCAN".into(), (150, 0, 200)),
        (doc! { "sort": { "s": 1 } }, "SORT<COLLSCAN".into(), (200, 0, 200)),
        (doc! { "filter": { "b": 13 } }, "FETCH<IXSCAN b_hashed".into(), (10, 10, 10)),
        (doc! { "filter": { "b": 13, "c": { "$gte": 160 } } }, "FETCH<IXSCAN few".into(), (2, 3, 3)),
        (doc! { "filter": { "b": { "$gt": 17 } } }, "COLLSCAN".into(), (20, 0, 200)),
        // Two conditions on an array cannot both be applied to one of its keys.
        (doc! { "filter": { "t": { "$gte": 1190, "$lt": 10 } } }, "FETCH<IXSCAN t_1".into(), (0, 10, 10)),
        (
            doc! { "filter": { "t": { "$elemMatch": { "$gte": 1005, "$lt": 1010 } } } },
            "FETCH<IXSCAN t_1".into(),
            (5, 5, 5),
        ),
        (
            doc! { "filter": { "a": 3 }, "projection": { "a": 1, "b": 1, "_id": 0 } },
            format!("PROJECTION_COVERED<IXSCAN {abc}"),
            (20, 20, 0),
        ),
        (doc! { "filter": { "a": { "$in": [] } } }, "EOF".into(), (0, 0, 0)),
        (doc! { "filter": { "a": 3 }, "hint": { "$natural": 1 } }, "COLLSCAN".into(), (20, 0, 200)),
        (doc! { "filter": { "a": 3 }, "hint": "c_-1" }, "FETCH<IXSCAN c_-1".into(), (20, 200, 200)),
    ];
    check_plans(cases);
}

#[test]
fn counts_distincts_and_pipelines_are_explained() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    index(&mut connection, doc! { "key": { "a": 1 } });
    let reply = explain(&mut connection, doc! { "count": "c", "query": { "a": 3 }, "skip": 1, "limit": 5 });
    assert_eq!(shape(winning(&reply)), "COUNT<COUNT_SCAN a_1");
    let count = stats(&reply).get_document("executionStages").unwrap();
    assert_eq!((count.get_i32("nCounted").unwrap(), count.get_i32("nSkipped").unwrap()), (5, 1));
    assert_eq!(figures(&reply), (0, 6, 0));
    let reply = explain(&mut connection, doc! { "count": "c" });
    assert_eq!((shape(winning(&reply)), figures(&reply)), ("RECORD_STORE_COUNT".to_owned(), (0, 0, 0)));
    let reply = explain(&mut connection, doc! { "distinct": "c", "key": "a" });
    assert_eq!((shape(winning(&reply)), figures(&reply)), ("DISTINCT_SCAN a_1".to_owned(), (10, 10, 0)));
    let reply =
        explain(&mut connection, doc! { "distinct": "c", "key": "a", "query": { "a": { "$lt": 2 } } });
    assert_eq!(figures(&reply), (40, 40, 0), "the index alone has the values");

    let pipeline = |stages: Vec<Document>| doc! { "aggregate": "c", "pipeline": stages, "cursor": {} };
    let reply = explain(&mut connection, pipeline(vec![doc! { "$match": { "a": 3 } }, doc! { "$limit": 4 }]));
    assert_eq!((shape(winning(&reply)), figures(&reply)), ("LIMIT<FETCH<IXSCAN a_1".to_owned(), (4, 4, 4)));
    let group = doc! { "$group": { "_id": "$b", "n": { "$sum": 1 } } };
    let reply = explain(&mut connection, pipeline(vec![doc! { "$match": { "a": 3 } }, group.clone()]));
    let stages = reply.get_array("stages").unwrap();
    let cursor = stages[0].as_document().unwrap().get_document("$cursor").unwrap();
    assert_eq!((shape(winning(cursor)), figures(cursor)), ("FETCH<IXSCAN a_1".to_owned(), (20, 20, 20)));
    assert_eq!(stages[1], Bson::Document(group));
    let asked = doc! { "aggregate": "c", "pipeline": [{ "$match": { "a": 1 } }], "explain": true };
    let reply = run(&mut connection, "test", &asked);
    assert!(reply.get("executionStats").is_none() && shape(winning(&reply)) == "FETCH<IXSCAN a_1");
    let out = doc! { "explain": pipeline(vec![doc! { "$out": "x" }]), "verbosity": "executionStats" };
    assert_eq!(code(&mut connection, "test", &out), Code(51029));
    server.stop().unwrap();
}

#[test]
fn explained_writes_change_nothing() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    index(&mut connection, doc! { "key": { "a": 1 } });
    let all = doc! { "find": "c", "batchSize": 1000 };
    let before = run(&mut connection, "test", &all);
    let change = doc! { "q": { "a": 3 }, "u": { "$max": { "c": 100 } }, "multi": true };
    let cases = [
        (
            doc! { "update": "c", "updates": [change] },
            "UPDATE<FETCH<IXSCAN a_1",
            doc! { "nMatched": 20, "nWouldModify": 10, "wouldInsert": false },
        ),
        (
            doc! { "update": "c", "updates": [{ "q": { "_id": 777 }, "u": { "$set": { "x": 1 } }, "upsert": true }] },
            "UPDATE<IDHACK",
            doc! { "nMatched": 0, "nWouldModify": 0, "wouldInsert": true },
        ),
        (
            doc! { "delete": "c", "deletes": [{ "q": { "a": 3 }, "limit": 0 }] },
            "DELETE<FETCH<IXSCAN a_1",
            doc! { "nWouldDelete": 20 },
        ),
        (
            doc! { "delete": "c", "deletes": [{ "q": { "a": 3 }, "limit": 1 }] },
            "DELETE<FETCH<IXSCAN a_1",
            doc! { "nWouldDelete": 1 },
        ),
        (
            doc! { "findAndModify": "c", "query": { "a": 3 }, "sort": { "c": 1 }, "update": { "$set": { "c": -1 } } },
            "UPDATE<SORT<FETCH<IXSCAN a_1",
            doc! { "nMatched": 1, "nWouldModify": 1, "wouldInsert": false },
        ),
        (
            doc! { "findAndModify": "c", "query": { "a": 3 }, "remove": true },
            "DELETE<FETCH<IXSCAN a_1",
            doc! { "nWouldDelete": 1 },
        ),
    ];
    for (command, expected, counts) in cases {
        let reply = explain(&mut connection, command.clone());
        assert_eq!(shape(winning(&reply)), expected, "{command}");
        let stage = stats(&reply).get_document("executionStages").unwrap();
        for (name, value) in counts {
            assert_eq!(stage.get(&name), Some(&value), "{name} of {command}");
        }
    }
    assert_eq!(run(&mut connection, "test", &all), before);
    for (explained, expected) in [
        (doc! { "explain": { "nope": 1 } }, Code::CommandNotFound),
        (doc! { "explain": { "insert": "c", "documents": [{}] } }, Code::IllegalOperation),
        (doc! { "explain": { "find": "c" }, "verbosity": "loud" }, Code::FailedToParse),
        (doc! { "explain": 1 }, Code::FailedToParse),
    ] {
        assert_eq!(code(&mut connection, "test", &explained), expected, "{explained}");
    }
    let all_plans = run(&mut connection, "test", &doc! { "explain": { "find": "none" } });
    assert_eq!(shape(winning(&all_plans)), "EOF");
    assert_eq!(stats(&all_plans).get_array("allPlansExecution").unwrap().len(), 0);
    server.stop().unwrap();
}
