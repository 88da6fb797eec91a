//! The command `configureFailPoint` over the wire: the commands that fail, how often, and in which way.

use std::time::{Duration, Instant};

use crate::served::{code, connect, failure, in_memory, run, target};
use bson::{Document, doc};
use fathom_client::{Code, Connection};
use fathom_server::Server;

fn server() -> Server {
    in_memory(|config| {
        config.set_parameters.insert("enableTestCommands".to_owned(), "1".to_owned());
    })
}

fn set(connection: &mut Connection, mode: impl Into<bson::Bson>, data: Document) {
    let command = doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": data };
    run(connection, "admin", &command);
}

#[test]
fn only_a_server_for_tests_has_it() {
    let server = in_memory(|_| {});
    let mut connection = connect(&server);
    let command = doc! { "configureFailPoint": "failCommand", "mode": "off" };
    let refused = failure(&mut connection, "admin", &command);
    assert_eq!(refused.code(), Code::CommandNotFound);
    assert_eq!(refused.message(), "no such command: 'configureFailPoint'");
    server.stop().unwrap();
}

#[test]
fn commands_fail_as_asked_and_as_often() {
    let server = server();
    let mut connection = connect(&server);
    let find = doc! { "find": "c" };
    set(
        &mut connection,
        doc! { "times": 2 },
        doc! { "failCommands": ["find", "insert"], "errorCode": 10107, "errorLabels": ["RetryableWriteError"] },
    );
    let failed = failure(&mut connection, "a", &find);
    assert_eq!(failed.code(), Code::NotWritablePrimary);
    assert_eq!(failed.labels(), ["RetryableWriteError"]);
    run(&mut connection, "a", &doc! { "ping": 1 });
    assert_eq!(
        code(&mut connection, "a", &doc! { "insert": "c", "documents": [{}] }),
        Code::NotWritablePrimary
    );
    run(&mut connection, "a", &find);

    set(&mut connection, doc! { "skip": 1 }, doc! { "failCommands": ["find"], "errorCode": 1 });
    run(&mut connection, "a", &find);
    assert_eq!(code(&mut connection, "a", &find), Code::InternalError);
    assert_eq!(code(&mut connection, "a", &find), Code::InternalError);
    let off = doc! { "configureFailPoint": "failCommand", "mode": "off" };
    assert_eq!(run(&mut connection, "admin", &off).get_i64("count").unwrap(), 4);
    run(&mut connection, "a", &find);
    server.stop().unwrap();
}

#[test]
fn only_the_named_program_and_collection_are_concerned() {
    let server = server();
    let mut connection = connect(&server);
    let mut named = target(&server);
    named.app_name = Some("mine".to_owned());
    let mut named = Connection::connect(&named).unwrap();
    let find = doc! { "find": "c" };
    let data = doc! { "failCommands": ["find"], "errorCode": 2, "appName": "mine", "namespace": "a.c" };
    set(&mut connection, "alwaysOn", data);
    run(&mut connection, "a", &find);
    run(&mut named, "b", &find);
    assert_eq!(code(&mut named, "a", &find), Code::BadValue);
    server.stop().unwrap();
}

#[test]
fn connections_close_and_commands_wait() {
    let server = server();
    let mut connection = connect(&server);
    let data = doc! { "failCommands": ["find"], "closeConnection": true };
    set(&mut connection, doc! { "times": 1 }, data);
    let mut victim = connect(&server);
    assert!(victim.run("a", &doc! { "find": "c" }).unwrap_err().is_network());
    let data = doc! { "failCommands": ["ping"], "blockConnection": true, "blockTimeMS": 120 };
    set(&mut connection, doc! { "times": 1 }, data);
    let begun = Instant::now();
    run(&mut connection, "a", &doc! { "ping": 1 });
    assert!(begun.elapsed() >= Duration::from_millis(120));
    // A command with a shorter time limit is stopped while it is blocked.
    let data = doc! { "failCommands": ["ping"], "blockConnection": true, "blockTimeMS": 60_000 };
    set(&mut connection, doc! { "times": 1 }, data);
    let hurried = doc! { "ping": 1, "maxTimeMS": 50 };
    assert_eq!(code(&mut connection, "a", &hurried), Code::MaxTimeMSExpired);
    server.stop().unwrap();
}

#[test]
fn writes_succeed_with_a_write_concern_error() {
    let server = server();
    let mut connection = connect(&server);
    let error = doc! { "code": 91, "errmsg": "shutting down" };
    let data = doc! { "failCommands": ["insert"], "writeConcernError": &error, "errorLabels": ["L"] };
    set(&mut connection, doc! { "times": 1 }, data);
    let reply = run(&mut connection, "a", &doc! { "insert": "c", "documents": [{}] });
    assert_eq!(reply.get_i32("n").unwrap(), 1);
    assert_eq!(reply.get_document("writeConcernError").unwrap(), &error);
    assert_eq!(reply.get_array("errorLabels").unwrap().len(), 1);
    server.stop().unwrap();
}

#[test]
fn what_there_is_not_is_refused_by_name() {
    let server = server();
    let mut connection = connect(&server);
    let other = doc! { "configureFailPoint": "WTPauseStall", "mode": "alwaysOn" };
    let refused = failure(&mut connection, "admin", &other);
    assert_eq!(refused.code(), Code::FailPointSetFailed);
    assert!(refused.message().contains("WTPauseStall"));
    let elsewhere = doc! { "configureFailPoint": "failCommand", "mode": "off" };
    assert_eq!(code(&mut connection, "a", &elsewhere), Code::Unauthorized);
    let unknown = doc! { "configureFailPoint": "failCommand", "mode": "off", "data": { "x": 1 } };
    assert_eq!(code(&mut connection, "admin", &unknown), Code::InvalidOptions);
    server.stop().unwrap();
}
