//! Administrative commands that tools use: the server's identity, its log, the write lock of `fsync`, and shutdown.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::served::{config, connect, failure, run};
use bson::{Bson, Document, doc};
use fathom_client::{Code, Connection};
use fathom_server::config::{EngineName, TypedFlag};
use fathom_server::{Config, Server};

fn fail(connection: &mut Connection, command: &Document) -> (Code, String) {
    let failure = failure(connection, "admin", command);
    (failure.code(), failure.message().to_owned())
}

#[test]
fn it_says_who_it_is_and_how_it_was_started() {
    let directory = tempfile::tempdir().unwrap();
    let given = |flag: &str, value: &str| TypedFlag { flag: flag.to_owned(), values: vec![value.to_owned()] };
    let path = directory.path().join("db").display().to_string();
    let flags = [given("port", "0"), given("dbpath", &path), given("storageEngine", "ephemeralForTest")];
    let argv = ["fathom", "serve", "--port", "0"].map(str::to_owned).to_vec();
    let server = Server::start_quiet(Config::assemble(argv, &flags, None).unwrap()).unwrap();
    let mut connection = connect(&server);
    let options = run(&mut connection, "admin", &doc! { "getCmdLineOpts": 1 });
    let parsed = doc! { "net": { "port": 0 }, "storage": { "dbPath": path, "engine": "ephemeralForTest" } };
    assert_eq!(options, doc! { "argv": ["fathom", "serve", "--port", "0"], "parsed": parsed, "ok": 1.0 });

    let host = run(&mut connection, "admin", &doc! { "hostInfo": 1 });
    let system = host.get_document("system").unwrap();
    assert!(system.get_i64("memSizeMB").unwrap() > 0 && system.get_i32("numCores").unwrap() > 0);
    assert!(system.get_str("hostname").unwrap().ends_with(&format!(":{}", server.port())));
    let you = run(&mut connection, "test", &doc! { "whatsmyuri": 1 });
    assert!(you.get_str("you").unwrap().starts_with("127.0.0.1:"));
    let build = run(&mut connection, "test", &doc! { "buildinfo": 1 });
    assert!(build.get_str("version").unwrap().starts_with("4.4."));
    let commands = run(&mut connection, "test", &doc! { "listCommands": 1 });
    let commands = commands.get_document("commands").unwrap();
    assert!(commands.contains_key("find") && commands.contains_key("replSetGetStatus"));
    let find = commands.get_document("find").unwrap();
    assert_eq!((find.get_bool("requiresAuth").unwrap(), find.get_bool("adminOnly").unwrap()), (true, false));
    server.stop().unwrap();
}

#[test]
fn what_it_is_not_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_quiet(config(directory.path(), EngineName::Ephemeral)).unwrap();
    let mut connection = connect(&server);
    let not_in_a_set = (Code::NoReplicationEnabled, "not running with --replSet".to_owned());
    assert_eq!(fail(&mut connection, &doc! { "replSetGetStatus": 1 }), not_in_a_set);
    assert_eq!(fail(&mut connection, &doc! { "replSetGetConfig": 1 }), not_in_a_set);
    for (command, code, words) in [
        (doc! { "atlasVersion": 1 }, Code::CommandNotFound, "atlasVersion"),
        (doc! { "balancerStatus": 1 }, Code::CommandNotFound, "not a router"),
        (doc! { "applyOps": [] }, Code::CommandNotSupported, "no entries"),
        (doc! { "getLastError": 1, "w": 1, "j": true }, Code::CommandNotSupported, "write concern"),
        (doc! { "getLog": "nope" }, Code::OperationFailed, "nope"),
        (doc! { "logRotate": "audit" }, Code::BadValue, "audit"),
        (doc! { "setFeatureCompatibilityVersion": "4.2" }, Code::CommandNotSupported, "4.4"),
        (doc! { "fsyncUnlock": 1 }, Code::IllegalOperation, "not locked"),
    ] {
        let (found, message) = fail(&mut connection, &command);
        assert!(found == code && message.contains(words), "{command}: {found:?} {message}");
    }
    run(&mut connection, "admin", &doc! { "setFeatureCompatibilityVersion": "4.4" });
    let elsewhere = connection.run("test", &doc! { "getLog": "*" }).unwrap_err();
    assert_eq!(elsewhere.failure().unwrap().code(), Code::Unauthorized);
    server.stop().unwrap();
}

#[test]
fn the_log_shows_warnings_of_the_start_and_lines_that_are_json() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_quiet(config(directory.path(), EngineName::Ephemeral)).unwrap();
    let mut connection = connect(&server);
    let names = run(&mut connection, "admin", &doc! { "getLog": "*" });
    assert_eq!(names.get_array("names").unwrap(), &["global", "startupWarnings"].map(Bson::from).to_vec());
    let warnings = run(&mut connection, "admin", &doc! { "getLog": "startupWarnings" });
    let lines: Vec<&str> =
        warnings.get_array("log").unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(usize::try_from(warnings.get_i32("totalLinesWritten").unwrap()).unwrap(), lines.len());
    assert!(lines.iter().any(|line| line.contains("Access control is not enabled")), "{lines:?}");
    let log = run(&mut connection, "admin", &doc! { "getLog": "global" });
    let mut ids = BTreeSet::new();
    for line in log.get_array("log").unwrap() {
        let line: serde_json::Value = serde_json::from_str(line.as_str().unwrap()).unwrap();
        ids.insert(line["id"].as_i64().unwrap());
    }
    assert!(ids.is_superset(&BTreeSet::from([23016, 22943, 4_615_611])), "{ids:?}");
    server.stop().unwrap();
}

#[test]
fn a_lock_holds_writes_back_until_it_is_opened_as_often_as_it_was_shut() {
    for engine in [EngineName::WiredTiger, EngineName::RocksDb, EngineName::Ephemeral] {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start_quiet(config(directory.path(), engine)).unwrap();
        let (mut first, mut second) = (connect(&server), connect(&server));
        run(&mut first, "test", &doc! { "insert": "c", "documents": [{ "_id": 0 }] });
        assert_eq!(run(&mut first, "admin", &doc! { "fsync": 1 }), doc! { "numFiles": 1, "ok": 1.0 });
        for count in [1_i64, 2] {
            let locked = run(&mut first, "admin", &doc! { "fsync": 1, "lock": true });
            assert_eq!(locked.get_i64("lockCount").unwrap(), count);
        }
        let limited = doc! { "insert": "c", "documents": [{ "_id": 1 }], "maxTimeMS": 60 };
        let error = second.run("test", &limited).unwrap_err();
        assert_eq!(error.failure().unwrap().code(), Code::MaxTimeMSExpired, "{engine:?}");
        let index =
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }], "maxTimeMS": 60 };
        let error = second.run("test", &index).unwrap_err();
        assert_eq!(error.failure().unwrap().code(), Code::MaxTimeMSExpired, "{engine:?}");
        let writer = std::thread::spawn(move || {
            run(&mut second, "test", &doc! { "insert": "c", "documents": [{ "_id": 2 }] })
        });
        assert_eq!(run(&mut first, "admin", &doc! { "fsyncUnlock": 1 }).get_i64("lockCount").unwrap(), 1);
        std::thread::sleep(Duration::from_millis(100));
        assert!(!writer.is_finished());
        assert_eq!(found(&mut first), [0]);
        assert_eq!(run(&mut first, "admin", &doc! { "fsyncUnlock": 1 }).get_i64("lockCount").unwrap(), 0);
        assert_eq!(writer.join().unwrap().get_i32("n").unwrap(), 1);
        assert_eq!(found(&mut first), [0, 2]);
        drop(first);
        server.stop().unwrap();
    }
}

fn found(connection: &mut Connection) -> Vec<i32> {
    let cursor = connection.cursor("test", &doc! { "find": "c", "sort": { "_id": 1 } }).unwrap();
    cursor.map(|document| document.unwrap().get_i32("_id").unwrap()).collect()
}

#[test]
fn a_client_on_the_same_machine_may_stop_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_quiet(config(directory.path(), EngineName::WiredTiger)).unwrap();
    let mut connection = connect(&server);
    run(&mut connection, "test", &doc! { "insert": "c", "documents": [{ "_id": 0 }] });
    assert_eq!(run(&mut connection, "admin", &doc! { "shutdown": 1 }), doc! { "ok": 1.0 });
    assert!(server.is_stopping());
    server.stop().unwrap();
    let server = Server::start_quiet(config(directory.path(), EngineName::WiredTiger)).unwrap();
    assert_eq!(found(&mut connect(&server)), [0]);
    server.stop().unwrap();
}
