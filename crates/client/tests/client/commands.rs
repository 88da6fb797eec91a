//! Tests of commands, failures and cursors, and of network faults during them.

use std::net::TcpListener;
use std::time::Duration;

use bson::{RawDocumentBuf, doc, rawdoc};
use fathom_client::{Address, Code, Connection, Error, Target};
use fathom_wire::Compressor;

use crate::responder::{Responder, SurveyAnswer, hello};

fn network(result: Result<RawDocumentBuf, Error>) -> String {
    match result.unwrap_err() {
        Error::Network(error) => error.to_string(),
        Error::Server(failure) => panic!("{failure:?}"),
    }
}

#[test]
fn a_command_and_its_reply() {
    let responder =
        Responder::friendly(|request| doc! { "n": request.sequences.len() as i32, "ok": 1 }.into());
    let mut target = responder.target();
    target.app_name = Some("test".to_owned());
    let mut connection = Connection::connect(&target).unwrap();
    assert!(connection.is_writable_primary());
    assert_eq!(connection.hello().get_i32("maxWireVersion").unwrap(), 9);
    let documents = [rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }];
    let insert = doc! { "insert": "c", "ordered": false };
    let reply = connection.run_with_sequences("db", &insert, &[("documents", &documents)]).unwrap();
    assert_eq!(reply.get_i32("n").unwrap(), 1);
    connection.run("admin", &rawdoc! { "ping": 1 }).unwrap();
    connection.send_only("db", &insert, &[("documents", &documents)]).unwrap();
    drop(connection);
    let seen = responder.seen();
    let client = seen[0].command.get_document("client").unwrap();
    assert_eq!(client.get_document("application").unwrap(), &doc! { "name": "test" });
    assert_eq!(seen[1].command, doc! { "insert": "c", "ordered": false, "$db": "db" });
    assert_eq!(seen[1].sequences, [("documents".to_owned(), 2)]);
    assert_eq!(seen[2].command, doc! { "ping": 1, "$db": "admin" });
    assert_eq!(
        seen.iter().map(|request| request.more_to_come).collect::<Vec<_>>(),
        [false, false, false, true]
    );
}

#[test]
fn a_call_reads_the_reply_where_it_lies() {
    let responder = Responder::friendly(|_| doc! { "text": "x".repeat(200_000), "ok": true }.into());
    let mut connection = Connection::connect(&responder.target()).unwrap();
    for _ in 0..3 {
        let reply = connection
            .call(|message| {
                let mut body = message.body();
                body.string("find", "c");
                body.string("$db", "db");
            })
            .unwrap();
        assert_eq!(reply.get_str("text").unwrap().len(), 200_000);
    }
}

#[test]
fn a_failure_keeps_the_connection() {
    let responder = Responder::friendly(|request| match request.name() {
        "insert" => doc! {
            "ok": 0.0, "errmsg": "E11000", "code": 11000, "codeName": "DuplicateKey",
            "errorLabels": ["TransientTransactionError", "Unheard"], "keyPattern": { "a": 1 },
        }
        .into(),
        _ => doc! { "ok": 1.0 }.into(),
    });
    let mut connection = Connection::connect(&responder.target()).unwrap();
    let error = connection.run("db", &doc! { "insert": "c" }).unwrap_err();
    assert!(!error.is_network());
    let failure = error.failure().unwrap();
    assert_eq!((failure.code(), failure.message()), (Code::DuplicateKey, "E11000"));
    assert_eq!(failure.labels(), ["TransientTransactionError"]);
    assert_eq!(failure.extra(), &doc! { "keyPattern": { "a": 1 } });
    assert_eq!(error.to_string(), "DuplicateKey(11000): E11000");
    assert!(connection.run("db", &doc! { "ping": 1 }).is_ok());
}

#[test]
fn older_servers_know_only_is_master() {
    let responder = Responder::play(1, None, |request| match request.name() {
        "hello" => doc! { "ok": 0.0, "errmsg": "no such command: 'hello'", "code": 59 }.into(),
        _ => doc! { "ismaster": true, "maxWireVersion": 7, "ok": 1.0 }.into(),
    });
    let connection = Connection::connect(&responder.target()).unwrap();
    assert!(connection.is_writable_primary());
    drop(connection);
    assert!(responder.seen()[1].command.contains_key("client"));

    let ancient =
        Responder::play(1, None, |_| doc! { "ismaster": true, "maxWireVersion": 5, "ok": 1.0 }.into());
    assert!(
        network(Connection::connect(&ancient.target()).map(|_| RawDocumentBuf::new()))
            .contains("MongoDB 3.6")
    );
}

#[test]
fn a_command_by_query() {
    let responder = Responder::friendly(|_| doc! { "ismaster": true, "ok": 1.0 }.into());
    let mut connection = Connection::connect(&responder.target()).unwrap();
    let reply = connection.run_by_query("admin", &rawdoc! { "isMaster": 1 }).unwrap();
    assert!(reply.get_bool("ismaster").unwrap());
    drop(connection);
    assert_eq!(responder.seen()[1].query.as_deref(), Some("admin"));
}

#[test]
fn compression_is_agreed_on() {
    for compressor in Compressor::ALL {
        let responder = Responder::play(1, None, move |request| match request.name() {
            "hello" => {
                let mut reply = hello();
                reply.insert("compression", [compressor.name()].as_slice());
                reply.into()
            }
            _ => doc! { "text": "text ".repeat(1000), "ok": 1.0 }.into(),
        });
        let mut target = responder.target();
        target.compressors = Compressor::ALL.to_vec();
        let mut connection = Connection::connect(&target).unwrap();
        assert_eq!(connection.compressor(), Some(compressor));
        let find = doc! { "find": "c", "comment": "c ".repeat(500) };
        assert_eq!(connection.run("db", &find).unwrap().get_str("text").unwrap().len(), 5000);
        connection.run("db", &doc! { "saslStart": 1 }).unwrap();
        drop(connection);
        let seen: Vec<_> = responder.seen().into_iter().map(|request| request.compressor).collect();
        assert_eq!(seen, [None, Some(compressor), None]);
    }
}

#[test]
fn cursors_are_read_batch_by_batch() {
    let mut batches = 0;
    let responder = Responder::friendly(move |request| {
        let batch = |field: &str, id: i64, from: i32| {
            let documents: Vec<_> = (from..from + 2).map(|number| doc! { "_id": number }).collect();
            doc! { "cursor": { field: documents, "id": id, "ns": "db.made.up" }, "ok": 1.0 }
        };
        batches += 1;
        match request.name() {
            "find" => batch("firstBatch", 77, 0).into(),
            "getMore" if batches == 4 => batch("nextBatch", 0, 4).into(),
            "getMore" if batches < 4 => batch("nextBatch", 77, 2).into(),
            "getMore" => doc! { "ok": 0.0, "errmsg": "cursor id 77 not found", "code": 43 }.into(),
            "killCursors" => doc! { "ok": 1.0 }.into(),
            other => panic!("{other}"),
        }
    });
    let mut connection = Connection::connect(&responder.target()).unwrap();
    connection.cursor("db", &doc! { "find": "c" }).unwrap().close().unwrap();
    // One find, one killCursors; then find, getMore and its end.
    let ids: Vec<i32> = connection
        .cursor("db", &doc! { "find": "c" })
        .unwrap()
        .batch_size(2)
        .map(|document| document.unwrap().get_i32("_id").unwrap())
        .collect();
    assert_eq!(ids, [0, 1, 4, 5]);
    let mut lost = connection.cursor("db", &doc! { "find": "c" }).unwrap().skip(2);
    assert_eq!(lost.next().unwrap().unwrap_err().failure().unwrap().code(), Code::CursorNotFound);
    assert!(lost.next().is_none());
    drop(connection);
    let seen = responder.seen();
    assert_eq!(seen[2].command, doc! { "killCursors": "made.up", "cursors": [77_i64], "$db": "db" });
    assert_eq!(
        seen[4].command,
        doc! { "getMore": 77_i64, "collection": "made.up", "batchSize": 2, "$db": "db" }
    );
}

#[test]
fn what_breaks_a_connection() {
    let large = [48_000_001_i32.to_le_bytes().as_slice(), &[0; 12]].concat();
    let cases: [(SurveyAnswer, &str); 5] = [
        (SurveyAnswer::Close, "closed the connection"),
        (SurveyAnswer::Misdirected, "answers request"),
        (SurveyAnswer::Bytes(large), "does not speak MongoDB's protocol"),
        (doc! { "fine": true }.into(), "no ok"),
        (SurveyAnswer::Nothing, "no progress for 50ms"),
    ];
    for (answer, what) in cases {
        let mut answer = Some(answer);
        let responder = Responder::friendly(move |_| answer.take().unwrap_or(SurveyAnswer::Close));
        let mut target = responder.target();
        target.socket_timeout = Some(Duration::from_millis(50));
        let mut connection = Connection::connect(&target).unwrap();
        let error = network(connection.run("db", &doc! { "ping": 1 }));
        assert!(error.contains(what), "{error}");
        // A reply without ok was read in full; after every other fault the connection is broken, and reports that.
        assert_eq!(connection.is_broken(), what != "no ok");
        if connection.is_broken() {
            assert!(
                network(connection.run("db", &doc! { "ping": 1 }))
                    .contains("has ended after an earlier error")
            );
        }
    }
}

#[test]
fn nobody_there() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = Connection::connect(&Target::at(Address::new("localhost", closed))).unwrap_err();
    assert!(error.is_network());
    assert!(error.to_string().contains("cannot connect to localhost"), "{error}");
    // A listener that never accepts: the handshake gets no answer.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut target = Target::at(Address::new("localhost", silent.local_addr().unwrap().port()));
    target.connect_timeout = Duration::from_millis(60);
    assert!(Connection::connect(&target).unwrap_err().to_string().contains("no progress for 60ms"));
}

#[test]
fn the_right_member_of_the_right_set() {
    let member = |primary: bool, set: &'static str| {
        Responder::play(1, None, move |_| {
            doc! { "isWritablePrimary": primary, "setName": set, "maxWireVersion": 9, "ok": 1.0 }.into()
        })
    };
    let (other, secondary, primary) = (member(true, "other"), member(false, "rs"), member(true, "rs"));
    let mut target = primary.target();
    target.replica_set = Some("rs".to_owned());
    target.addresses = [&other, &secondary, &primary].map(|one| one.target().addresses[0].clone()).to_vec();
    let connection = Connection::connect(&target).unwrap();
    assert_eq!(connection.address(), &target.addresses[2]);

    let alone = member(false, "rs");
    let mut target = alone.target();
    target.replica_set = Some("rs".to_owned());
    assert!(!Connection::connect(&target).unwrap().is_writable_primary());
    let standalone = Responder::friendly(|_| SurveyAnswer::Close);
    let mut target = standalone.target();
    target.replica_set = Some("rs".to_owned());
    assert!(
        Connection::connect(&target).unwrap_err().to_string().contains("does not belong to a replica set")
    );
}
