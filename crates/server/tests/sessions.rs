//! Logical sessions over the wire: created, refreshed, ended and killed, together with their operations.

use crate::served::{code, connect, create_user, failure, in_memory, login, run};
use bson::{Bson, Document, doc};
use fathom_client::{Code, Connection};

fn lsid(number: u8) -> Bson {
    Bson::Document(doc! { "id": bson::Uuid::from_bytes([number; 16]) })
}

fn open_cursor(connection: &mut Connection, session: &Bson) -> i64 {
    let find = doc! { "find": "c", "batchSize": 1, "lsid": session };
    run(connection, "a", &find).get_document("cursor").unwrap().get_i64("id").unwrap()
}

fn fill(connection: &mut Connection) {
    let documents: Vec<Document> = (0..10).map(|n| doc! { "_id": n }).collect();
    run(connection, "a", &doc! { "insert": "c", "documents": documents });
}

#[test]
fn hello_promises_sessions_and_start_makes_them() {
    let server = in_memory(|_| {});
    let mut connection = connect(&server);
    assert_eq!(connection.hello().get_i32("logicalSessionTimeoutMinutes").unwrap(), 30);
    let started = run(&mut connection, "admin", &doc! { "startSession": 1 });
    assert_eq!(started.get_i32("timeoutMinutes").unwrap(), 30);
    let id = started.get_document("id").unwrap().clone();
    assert_eq!(run(&mut connection, "a", &doc! { "ping": 1, "lsid": &id }), doc! { "ok": 1.0 });
    run(&mut connection, "admin", &doc! { "refreshSessions": [&id] });
    run(&mut connection, "admin", &doc! { "endSessions": [&id] });
    // Ending it twice is no error, nor is using it again: it is created again.
    run(&mut connection, "admin", &doc! { "endSessions": [&id] });
    run(&mut connection, "a", &doc! { "ping": 1, "lsid": &id });
    server.stop().unwrap();
}

#[test]
fn what_is_no_session_is_refused() {
    let server = in_memory(|_| {});
    let mut connection = connect(&server);
    let mut refused = |command: Document| code(&mut connection, "admin", &command);
    assert_eq!(refused(doc! { "ping": 1, "lsid": 1 }), Code::TypeMismatch);
    assert_eq!(refused(doc! { "ping": 1, "lsid": {} }), Code(40414));
    assert_eq!(refused(doc! { "ping": 1, "lsid": { "id": "x" } }), Code::TypeMismatch);
    assert_eq!(refused(doc! { "endSessions": [1] }), Code::TypeMismatch);
    assert_eq!(refused(doc! { "endSessions": 1 }), Code::TypeMismatch);
    assert_eq!(refused(doc! { "endSessions": vec![doc! {}; 10_001] }), Code::BadValue);
    assert_eq!(refused(doc! { "commitTransaction": 1 }), Code::CommandFailed);
    assert_eq!(refused(doc! { "coordinateCommitTransaction": 1 }), Code::NoShardingEnabled);
    let numbered = doc! { "insert": "c", "documents": [{}], "lsid": lsid(1), "txnNumber": 1_i64 };
    let refused = failure(&mut connection, "a", &numbered);
    assert_eq!(refused.code(), Code::IllegalOperation);
    assert_eq!(refused.message(), "Transaction numbers are only allowed on a replica set member or mongos");
    server.stop().unwrap();
}

#[test]
fn ending_a_session_closes_its_cursors_and_no_others() {
    let server = in_memory(|_| {});
    let mut connection = connect(&server);
    fill(&mut connection);
    for (kill, keeps) in [
        (doc! { "endSessions": [lsid(1)] }, true),
        (doc! { "killSessions": [lsid(1)] }, true),
        (doc! { "killAllSessionsByPattern": [{ "lsid": lsid(1) }] }, true),
        (doc! { "killSessions": [] }, false),
        (doc! { "killAllSessions": [] }, false),
        (doc! { "killAllSessions": [{ "user": "x", "db": "admin" }] }, true),
    ] {
        let (mine, other) = (open_cursor(&mut connection, &lsid(1)), open_cursor(&mut connection, &lsid(2)));
        run(&mut connection, "admin", &kill);
        let mut gone = |id: i64| {
            let more = doc! { "getMore": id, "collection": "c" };
            connection
                .run("a", &more)
                .err()
                .is_some_and(|error| error.failure().unwrap().code() == Code::CursorNotFound)
        };
        let spares_all = kill.contains_key("killAllSessions") && keeps;
        assert_eq!((gone(mine), gone(other)), (!spares_all, !keeps), "{kill}");
    }
    server.stop().unwrap();
}

#[test]
fn killing_interrupts_what_runs() {
    let server = in_memory(|config| {
        config.set_parameters.insert("enableTestCommands".to_owned(), "1".to_owned());
    });
    let mut connection = connect(&server);
    let block = doc! {
        "configureFailPoint": "failCommand",
        "mode": { "times": 1 },
        "data": { "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 600_000 },
    };
    run(&mut connection, "admin", &block);
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| {
            let mut blocked = connect(&server);
            code(&mut blocked, "a", &doc! { "find": "c", "lsid": lsid(5) })
        });
        while !blocked.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(20));
            run(&mut connection, "admin", &doc! { "killSessions": [lsid(4)] });
            run(&mut connection, "admin", &doc! { "killSessions": [lsid(5)] });
        }
        assert_eq!(blocked.join().unwrap(), Code::Interrupted);
    });
    server.stop().unwrap();
}

#[test]
fn sessions_of_two_users_are_two() {
    let server = in_memory(|config| config.auth = true);
    create_user(&mut connect(&server), "root", vec!["root".into()]);
    let mut root = login(&server, "root", "secret").unwrap();
    create_user(&mut root, "other", vec!["readAnyDatabase".into()]);
    let mut other = login(&server, "other", "secret").unwrap();
    fill(&mut root);
    let id = open_cursor(&mut root, &lsid(1));
    run(&mut other, "admin", &doc! { "killSessions": [lsid(1)] });
    assert_eq!(code(&mut other, "admin", &doc! { "killAllSessions": [] }), Code::Unauthorized);
    run(&mut root, "a", &doc! { "getMore": id, "collection": "c", "batchSize": 1 });
    run(&mut root, "admin", &doc! { "killAllSessions": [{ "user": "root", "db": "admin" }] });
    let more = doc! { "getMore": id, "collection": "c", "batchSize": 1 };
    assert_eq!(code(&mut root, "a", &more), Code::CursorNotFound);
    server.stop().unwrap();
}
