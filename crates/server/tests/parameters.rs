//! The server's parameters, and which of them can be changed while it runs, over the wire and on each engine.

use std::time::{Duration, Instant};

use crate::served::{ENGINES, config, connect, failure, run};
use bson::{Bson, Document, doc};
use fathom_client::{Code, Connection};
use fathom_server::config::EngineName;
use fathom_server::{Config, Server};

struct ServerFixture {
    server: Server,
    connection: Connection,
    _directory: tempfile::TempDir,
}

impl ServerFixture {
    fn start(engine: EngineName, change: impl FnOnce(&mut Config)) -> ServerFixture {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path(), engine);
        change(&mut config);
        let server = Server::start_quiet(config).unwrap();
        let connection = connect(&server);
        ServerFixture { server, connection, _directory: directory }
    }

    fn run(&mut self, command: &Document) -> Document {
        run(&mut self.connection, "admin", command)
    }

    fn fail(&mut self, command: &Document) -> (Code, String) {
        let failure = failure(&mut self.connection, "admin", command);
        (failure.code(), failure.message().to_owned())
    }

    fn get(&mut self, name: &str) -> Bson {
        self.run(&doc! { "getParameter": 1, name: 1 }).get(name).unwrap().clone()
    }

    fn stop(self) {
        drop(self.connection);
        self.server.stop().unwrap();
    }
}

#[test]
fn parameters_are_read_one_by_one_in_a_list_and_all() {
    for engine in ENGINES {
        let mut running = ServerFixture::start(engine, |_| ());
        assert_eq!(running.get("syncdelay"), Bson::Double(60.0));
        let two = running
            .run(&doc! { "getParameter": 1, "ttlMonitorEnabled": 1, "notablescan": 1, "comment": "x" });
        assert_eq!(two, doc! { "notablescan": false, "ttlMonitorEnabled": true, "ok": 1.0 });
        let all = running.run(&doc! { "getParameter": "*" });
        let tickets = |name: &str| all.contains_key(format!("{name}ConcurrentReadTransactions"));
        assert_eq!(tickets("wiredTiger"), engine == EngineName::WiredTiger);
        assert_eq!(tickets("rocksdb"), engine == EngineName::RocksDb);
        assert!(!all.get_bool("enableTestCommands").unwrap());
        assert_eq!(all.get_document("featureCompatibilityVersion").unwrap(), &doc! { "version": "4.4" });
        let detailed =
            running.run(&doc! { "getParameter": { "showDetails": true }, "enableTestCommands": 1 });
        let expected = doc! { "value": false, "settableAtRuntime": false, "settableAtStartup": true };
        assert_eq!(detailed.get_document("enableTestCommands").unwrap(), &expected);
        let nothing = (Code::InvalidOptions, "no option found to get".to_owned());
        assert_eq!(running.fail(&doc! { "getParameter": 1, "nope": 1 }), nothing);
        running.stop();
    }
}

#[test]
fn a_change_says_what_was_and_what_cannot_be_changed_is_refused_whole() {
    for engine in ENGINES {
        let mut running = ServerFixture::start(engine, |_| ());
        let reply = running.run(&doc! { "setParameter": 1, "syncdelay": 5, "journalCommitInterval": 30 });
        assert_eq!(reply, doc! { "was": 60.0, "ok": 1.0 });
        assert_eq!((running.get("syncdelay"), running.get("journalCommitInterval")), (5.0.into(), 30.into()));

        let (code, message) =
            running.fail(&doc! { "setParameter": 1, "syncdelay": 9, "journalCommitInterval": 501 });
        assert_eq!(code, Code::BadValue);
        assert!(message.contains("501 is not less than or equal to 500"), "{message}");
        let refusals = [
            (
                doc! { "setParameter": 1, "syncdelay": 7, "nope": 1 },
                Code::InvalidOptions,
                "unrecognized parameter [nope]",
            ),
            (
                doc! { "setParameter": 1, "enableTestCommands": 1 },
                Code::IllegalOperation,
                "not allowed to change [enableTestCommands] at runtime",
            ),
            (doc! { "setParameter": 1 }, Code::InvalidOptions, "no option found to set"),
            (doc! { "setParameter": 1, "logComponentVerbosity": { "geo": 1 } }, Code::BadValue, "geo"),
        ];
        for (command, code, words) in refusals {
            let (found, message) = running.fail(&command);
            assert!(found == code && message.contains(words), "{command}: {found:?} {message}");
        }
        assert_eq!(running.get("syncdelay"), Bson::Double(9.0));
        running.run(&doc! { "setParameter": 1, "logComponentVerbosity": { "storage": { "verbosity": 2 } }, "quiet": true });
        let levels = running.get("logComponentVerbosity");
        assert_eq!(levels.as_document().unwrap().get_document("storage").unwrap(), &doc! { "verbosity": 2 });
        running.stop();
    }
}

#[test]
fn the_checkpoint_interval_counts_at_once() {
    for engine in [EngineName::WiredTiger, EngineName::RocksDb] {
        let mut running = ServerFixture::start(engine, |config| config.storage.sync_period_seconds = 3600.0);
        running.run(&doc! { "setParameter": 1, "logLevel": 1 });
        let checkpoints = |running: &mut ServerFixture| {
            let log = running.run(&doc! { "getLog": "global" });
            let lines = log.get_array("log").unwrap().clone();
            lines.iter().filter(|line| line.as_str().unwrap().contains("Checkpoint made")).count()
        };
        assert_eq!(checkpoints(&mut running), 0);
        running.run(&doc! { "setParameter": 1, "syncdelay": 0.05 });
        let until = Instant::now() + Duration::from_secs(300);
        while checkpoints(&mut running) < 3 {
            assert!(Instant::now() < until, "no checkpoints");
            std::thread::sleep(Duration::from_millis(20));
        }
        running.run(&doc! { "setParameter": 1, "syncdelay": 0 });
        let before = checkpoints(&mut running);
        std::thread::sleep(Duration::from_millis(400));
        // One may have begun before the change.
        assert!(checkpoints(&mut running) <= before + 1);
        running.stop();
    }
}

#[test]
fn wired_tiger_is_reconfigured_while_it_runs() {
    let mut running = ServerFixture::start(EngineName::WiredTiger, |_| ());
    assert_eq!(running.get("wiredTigerEngineRuntimeConfig"), Bson::from(""));
    let settings = "cache_size=300M,eviction=(threads_min=1,threads_max=8)";
    running.run(&doc! { "setParameter": 1, "wiredTigerEngineRuntimeConfig": settings });
    assert_eq!(running.get("wiredTigerEngineRuntimeConfig"), Bson::from(settings));
    let (_, message) =
        running.fail(&doc! { "setParameter": 1, "wiredTigerEngineRuntimeConfig": "no_such_setting=1" });
    assert!(message.contains("no_such_setting"), "{message}");
    assert_eq!(running.get("wiredTigerEngineRuntimeConfig"), Bson::from(settings));
    let was = running.run(&doc! { "setParameter": 1, "wiredTigerConcurrentWriteTransactions": 7 });
    assert_eq!(was.get_i32("was").unwrap(), 128);
    assert_eq!(running.get("wiredTigerConcurrentWriteTransactions"), Bson::Int32(7));
    assert_eq!(
        running.fail(&doc! { "setParameter": 1, "wiredTigerConcurrentReadTransactions": 0 }).0,
        Code::BadValue
    );
    assert_eq!(running.fail(&doc! { "setParameter": 1, "rocksdbCompact": 1 }).0, Code::InvalidOptions);
    running.stop();
}

#[test]
fn rocksdb_takes_what_it_can_and_says_why_not_the_rest() {
    let mut running = ServerFixture::start(EngineName::RocksDb, |_| ());
    assert_eq!(running.get("rocksdbRuntimeConfigCacheSizeGB"), Bson::Double(0.25));
    running.run(&doc! { "setParameter": 1, "rocksdbRuntimeConfigCacheSizeGB": 0.5 });
    assert_eq!(running.get("rocksdbRuntimeConfigCacheSizeGB"), Bson::Double(0.5));
    running.run(&doc! { "setParameter": 1, "rocksdbOptions": "write_buffer_size=33554432" });
    running.run(&doc! { "setParameter": 1, "rocksdbCompact": 1 });
    running.run(&doc! { "setParameter": 1, "rocksdbConcurrentReadTransactions": 12 });
    assert_eq!(running.get("rocksdbConcurrentReadTransactions"), Bson::Int32(12));
    let (_, message) = running.fail(&doc! { "setParameter": 1, "rocksdbRuntimeConfigMaxWriteMBPerSec": 64 });
    assert!(message.contains("cannot change while RocksDB runs"), "{message}");
    assert_eq!(running.get("rocksdbRuntimeConfigMaxWriteMBPerSec"), Bson::Int64(1024));
    let (code, message) = running.fail(&doc! { "setParameter": 1, "rocksdbBackup": "/tmp/x" });
    assert!(code == Code::CommandNotSupported && message.contains("no backups"), "{message}");
    running.stop();
}

#[test]
fn parameters_are_set_at_the_start_or_the_server_does_not_start() {
    let mut running = ServerFixture::start(EngineName::WiredTiger, |config| {
        let wanted = [
            ("enableTestCommands", "1"),
            ("ttlMonitorSleepSecs", "3"),
            ("wiredTigerConcurrentReadTransactions", "9"),
        ];
        config.set_parameters = wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        config.claimed_version = "4.2.25".to_owned();
    });
    assert_eq!(running.get("enableTestCommands"), Bson::Boolean(true));
    assert_eq!(running.get("ttlMonitorSleepSecs"), Bson::Int32(3));
    assert_eq!(running.get("wiredTigerConcurrentReadTransactions"), Bson::Int32(9));
    assert_eq!(running.run(&doc! { "hello": 1 }).get_i32("maxWireVersion").unwrap(), 8);
    let build = running.run(&doc! { "buildInfo": 1 });
    assert_eq!(build.get_str("version").unwrap(), "4.2.25");
    assert_eq!(build.get_array("versionArray").unwrap(), &[4, 2, 25, 0].map(Bson::from).to_vec());
    running.stop();

    for (name, value, words) in [
        ("nope", "1", "Unknown --setParameter 'nope'"),
        ("journalCommitInterval", "0", "not greater than or equal to 1"),
        ("rocksdbOptions", "a=b", "Unknown --setParameter"),
        ("featureCompatibilityVersion", "4.4", "cannot be set at start"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path(), EngineName::WiredTiger);
        config.set_parameters = [(name.to_owned(), value.to_owned())].into();
        let refused = Server::start_quiet(config).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
        assert!(!directory.path().join("db").exists());
    }
}

#[test]
fn a_server_without_table_scans_refuses_what_no_index_helps() {
    for engine in ENGINES {
        let mut running = ServerFixture::start(engine, |_| ());
        running.run(&doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }] });
        running.run(&doc! { "setParameter": 1, "notablescan": true });
        running.run(&doc! { "find": "c", "filter": { "_id": 1 } });
        let delete = doc! { "delete": "c", "deletes": [{ "q": { "a": 1 }, "limit": 1 }] };
        let reply = running.run(&delete);
        assert_eq!(reply.get_array("writeErrors").unwrap().len(), 1);
        for command in
            [doc! { "find": "c", "filter": { "a": 1 } }, doc! { "count": "c", "query": { "a": 1 } }]
        {
            let (code, message) = running.fail(&command);
            assert!(
                code == Code::NoQueryExecutionPlans && message.contains("notablescan"),
                "{code:?} {message}"
            );
        }
        running.run(&doc! { "setParameter": 1, "notablescan": false });
        running.run(&doc! { "find": "c", "filter": { "a": 1 } });
        running.stop();
    }
}
