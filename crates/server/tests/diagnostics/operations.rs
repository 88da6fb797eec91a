//! Running operations are listed, and end when they are killed.

use bson::{Document, doc};
use fathom_client::Connection;

use super::support::{ENGINES, Lab, at, fail, number, run, run_on, text};

fn operations(connection: &mut Connection, conditions: Document) -> Vec<Document> {
    let mut command = doc! { "currentOp": 1 };
    command.extend(conditions);
    let reply = run_on(connection, "admin", &command);
    reply.get_array("inprog").unwrap().iter().map(|one| one.as_document().unwrap().clone()).collect()
}

/// A collection on which a query can take long.
fn fill(connection: &mut Connection) {
    for _ in 0..2 {
        let documents = vec![doc! { "a": "x".repeat(100) }; 5000];
        run(connection, &doc! { "insert": "c", "documents": documents });
    }
}

#[test]
fn a_long_query_is_shown_and_killed() {
    for engine in ENGINES {
        let lab = Lab::start(engine);
        let mut connection = lab.connect();
        fill(&mut connection);
        let mut busy = lab.connect();
        let worker = std::thread::spawn(move || {
            // Without a kill this runs for long.
            let patterns: Vec<Document> =
                (0..100).map(|n| doc! { "a": { "$regex": format!("x*y{n}") } }).collect();
            let filter = doc! { "$or": patterns };
            fail(&mut busy, "test", &doc! { "find": "c", "filter": filter, "comment": "long" })
        });
        let shown = loop {
            let wanted = doc! { "active": true, "ns": "test.c", "op": "query" };
            if let Some(one) = operations(&mut connection, wanted).pop() {
                break one;
            }
            std::thread::yield_now();
        };
        // The filter is long; it is left out, and only named.
        assert_eq!(text(&shown, "command.find"), "c");
        assert_eq!(text(&shown, "command.comment"), "long");
        assert_eq!(text(&shown, "command.$truncated"), "filter");
        assert!(number(&shown, "microsecs_running") >= 0);
        assert!(shown.contains_key("opid") && shown.contains_key("client"));
        let killed = run_on(&mut connection, "admin", &doc! { "killOp": 1, "op": number(&shown, "opid") });
        assert_eq!(text(&killed, "info"), "attempting to kill op");
        assert_eq!(worker.join().unwrap().code().0, 11601, "{engine:?}");
        assert_eq!(operations(&mut connection, doc! { "op": "query" }), [] as [Document; 0]);
    }
}

#[test]
fn it_shows_itself_and_idle_connections_if_asked() {
    let lab = Lab::start(ENGINES[2]);
    let (mut one, _idle) = (lab.connect(), lab.connect());
    let own = operations(&mut one, doc! { "$ownOps": true });
    assert_eq!(own.len(), 1);
    assert_eq!(at(&own[0], "command.currentOp"), &bson::Bson::Int32(1));
    assert_eq!(text(&own[0], "ns"), "admin.$cmd");
    let all = operations(&mut one, doc! { "$all": true });
    assert_eq!(all.len(), 2);
    assert_eq!(all.iter().filter(|one| !one.get_bool("active").unwrap()).count(), 1);
    // Killing an operation that does not run is no failure, as in mongod, and has no effect.
    run_on(&mut one, "admin", &doc! { "killOp": 1, "op": 999_999 });
    run(&mut one, &doc! { "ping": 1 });
    assert_eq!(fail(&mut one, "test", &doc! { "currentOp": 1 }).code().0, 13);
}

#[test]
fn a_server_that_fsync_locked_says_so() {
    let lab = Lab::start(ENGINES[0]);
    let mut connection = lab.connect();
    // No operation has this number: the reply's own field is what a monitor asks for.
    let nothing = doc! { "currentOp": 1, "opid": -1 };
    let is_locked = |connection: &mut Connection| {
        let reply = run_on(connection, "admin", &nothing);
        assert_eq!(reply.get_array("inprog").unwrap().iter().count(), 0);
        reply.get_bool("fsyncLock").unwrap_or(false)
    };
    assert!(!is_locked(&mut connection));
    run_on(&mut connection, "admin", &doc! { "fsync": 1, "lock": true });
    assert!(is_locked(&mut connection));
    run_on(&mut connection, "admin", &doc! { "fsyncUnlock": 1 });
    assert!(!is_locked(&mut connection));
}
