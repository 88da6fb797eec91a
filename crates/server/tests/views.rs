//! Queries on views: the results are those of the view's pipeline followed by the query's own stages; writes are refused.

use crate::served::{code, connect, in_memory, listed, run};
use bson::{Bson, Document, doc};
use fathom_client::{Code, Connection};

fn fill(connection: &mut Connection) {
    let documents: Vec<Document> = (0..300).map(|n| doc! { "_id": n, "a": n % 10, "t": [n % 3] }).collect();
    run(connection, "test", &doc! { "insert": "c", "documents": documents });
    run(connection, "test", &doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] });
    run(
        connection,
        "test",
        &doc! { "create": "low", "viewOn": "c", "pipeline": [{ "$match": { "a": { "$lt": 5 } } }] },
    );
    let doubled = doc! { "$project": { "double": { "$multiply": ["$a", 2] }, "t": 1 } };
    run(connection, "test", &doc! { "create": "doubled", "viewOn": "low", "pipeline": [doubled] });
}

#[test]
fn queries_on_views_see_what_the_views_make() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    assert_eq!(listed(&mut connection, &doc! { "find": "low" }).len(), 150, "several batches");
    let find = doc! { "find": "doubled", "filter": { "double": { "$gte": 6 } }, "sort": { "_id": -1 }, "skip": 1, "limit": 2, "projection": { "double": 1 } };
    assert_eq!(
        listed(&mut connection, &find),
        [doc! { "_id": 293, "double": 6 }, doc! { "_id": 284, "double": 8 }]
    );
    let count = |connection: &mut Connection, command: &Document| {
        run(connection, "test", command).get_i32("n").unwrap()
    };
    assert_eq!(count(&mut connection, &doc! { "count": "low" }), 150);
    assert_eq!(
        count(&mut connection, &doc! { "count": "doubled", "query": { "double": 4 }, "limit": 20 }),
        20
    );
    assert_eq!(count(&mut connection, &doc! { "count": "doubled", "query": { "double": 77 } }), 0);
    let values = run(
        &mut connection,
        "test",
        &doc! { "distinct": "doubled", "key": "double", "query": { "_id": { "$lt": 4 } } },
    );
    assert_eq!(values.get_array("values").unwrap(), &[0, 2, 4, 6].map(Bson::Int32));
    let values = run(&mut connection, "test", &doc! { "distinct": "doubled", "key": "t" });
    assert_eq!(values.get_array("values").unwrap(), &[0, 1, 2].map(Bson::Int32));
    let group = doc! { "aggregate": "doubled", "pipeline": [{ "$group": { "_id": null, "sum": { "$sum": "$double" } } }], "cursor": {} };
    assert_eq!(listed(&mut connection, &group), [doc! { "_id": null, "sum": 600 }]);
    server.stop().unwrap();
}

#[test]
fn the_indexes_under_a_view_serve_its_queries() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    let explain = doc! { "explain": { "find": "low", "filter": { "a": 3 } }, "verbosity": "executionStats" };
    let reply = run(&mut connection, "test", &explain);
    let planner = reply.get_document("queryPlanner").unwrap();
    assert_eq!(planner.get_str("namespace").unwrap(), "test.c");
    assert_eq!(planner.get_document("winningPlan").unwrap().get_str("stage").unwrap(), "FETCH");
    let stats = reply.get_document("executionStats").unwrap();
    assert_eq!((stats.get_i32("totalKeysExamined").unwrap(), stats.get_i32("nReturned").unwrap()), (30, 30));
    server.stop().unwrap();
}

#[test]
fn views_are_not_written_and_do_not_stand_on_themselves() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    for command in [
        doc! { "insert": "low", "documents": [{ "a": 1 }] },
        doc! { "update": "low", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
        doc! { "delete": "low", "deletes": [{ "q": {}, "limit": 0 }] },
    ] {
        let refusal = connection.run("test", &command);
        let code = match refusal {
            Err(error) => error.failure().unwrap().code().0,
            Ok(reply) => {
                let reply = Document::try_from(&*reply).unwrap();
                reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().get_i32("code").unwrap()
            }
        };
        assert_eq!(Code(code), Code::CommandNotSupportedOnView, "{command}");
    }
    let modify = doc! { "findAndModify": "low", "query": {}, "remove": true };
    assert_eq!(code(&mut connection, "test", &modify), Code::CommandNotSupportedOnView);
    for option in ["returnKey", "showRecordId", "tailable"] {
        let find = doc! { "find": "low", option: true };
        assert_eq!(code(&mut connection, "test", &find), Code::InvalidPipelineOperator, "{option}");
    }
    let circle = doc! { "collMod": "low", "viewOn": "doubled", "pipeline": [] };
    assert_eq!(code(&mut connection, "test", &circle), Code::GraphContainsCycle);
    server.stop().unwrap();
}

#[test]
fn a_sort_and_a_limit_in_a_view_come_before_the_querys_own() {
    let server = in_memory(|_| ());
    let mut connection = connect(&server);
    fill(&mut connection);
    let top =
        doc! { "create": "top", "viewOn": "c", "pipeline": [{ "$sort": { "_id": -1 } }, { "$limit": 10 }] };
    run(&mut connection, "test", &top);
    let ids = |documents: Vec<Document>| -> Vec<i32> {
        documents.iter().map(|one| one.get_i32("_id").unwrap()).collect()
    };
    let find = doc! { "find": "top", "filter": { "a": { "$lt": 3 } }, "sort": { "_id": 1 }, "limit": 2 };
    assert_eq!(ids(listed(&mut connection, &find)), [290, 291]);
    assert_eq!(ids(listed(&mut connection, &doc! { "find": "top", "filter": { "a": 1 } })), [291]);
    server.stop().unwrap();
}
