//! Tests the samplers of servers on the lab server with both engines: their readings, their notes on missing counters, and their cost.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use fathom_client::{Address, Connection, Credential, Target};
use fathom_monitor::{Batch, Clock, Namespace, Sampler, Servers, server_samplers};
use fathom_record::catalog::kind_of;
use fathom_record::disk::Entry;
use fathom_server::config::EngineName;
use fathom_server::{Config, Server};
use fathom_testkit::TIMEOUT;

/// A configuration that is reported as mongod's would be.
fn config(directory: &Path, engine: EngineName) -> Config {
    let mut config = Config::default();
    config.net.port = 0;
    config.storage.db_path = directory.join("db");
    config.storage.engine = engine;
    config.storage.wired_tiger.cache_size_gb = Some(0.25);
    config.storage.rocksdb.cache_size_gb = Some(0.25);
    for name in ["scramIterationCount", "scramSHA256IterationCount"] {
        config.set_parameters.insert(name.to_owned(), "5000".to_owned());
    }
    config.slow_ms = -1;
    config.log_path = Some(directory.join("log"));
    let text = |path: &Path| Bson::from(path.to_str().unwrap());
    let storage = doc! { "dbPath": text(&config.storage.db_path) };
    config.parsed.insert("storage".to_owned(), storage.into());
    config.parsed.insert("systemLog".to_owned(), doc! { "path": text(&directory.join("log")) }.into());
    config
}

fn target(port: u16) -> Target {
    let mut target = Target::at(Address::new("127.0.0.1", port));
    target.connect_timeout = TIMEOUT;
    target
}

fn run(connection: &mut Connection, database: &str, command: &Document) {
    connection.run(database, command).unwrap_or_else(|error| panic!("{command}: {error}"));
}

fn insert(connection: &mut Connection, from: i32) {
    let documents: Vec<Document> =
        (from..from + 100).map(|n| doc! { "_id": n, "a": "x".repeat(100) }).collect();
    run(connection, "test", &doc! { "insert": "c", "documents": documents });
}

/// Runs every sampler once.
fn sample(samplers: &mut [(Duration, Box<dyn Sampler>)], batch: &mut Batch) {
    samplers.iter_mut().for_each(|(_, sampler)| sampler.sample(batch).unwrap());
}

fn values(batch: &Batch, name: &str) -> Vec<f64> {
    batch.readings.iter().filter(|reading| reading.name == name).map(|reading| reading.value).collect()
}

fn sum(batch: &Batch, name: &str) -> f64 {
    values(batch, name).iter().sum()
}

fn batch() -> Batch {
    Batch::new(Clock::since(Instant::now()))
}

/// The series that a server of this engine has besides those that all have.
fn own_series(engine: EngineName) -> &'static [&'static str] {
    match engine {
        EngineName::WiredTiger => &[
            "wait.evict_us",
            "wait.cache_us",
            "wait.io_capacity_us",
            "pages.evicted_by_operations",
            "journal.payload_bytes",
            "checkpoint.running",
            "cache.dirty_bytes",
            "engine.checkpoint_bytes",
        ],
        _ => &["compaction.pending", "flush.written_bytes", "compaction.written_bytes"],
    }
}

/// Facts, and the insert that the log shows.
fn introduces_itself(batch: &Batch, engine: EngineName) {
    let fact =
        |name: &str| batch.facts.iter().find(|(fact, _)| fact == name).map(|(_, value)| value.as_str());
    let name = if engine == EngineName::WiredTiger { "wiredTiger" } else { "rocksdb" };
    assert_eq!((fact("server.0.engine"), fact("server.0.role")), (Some(name), Some("standalone")));
    assert_eq!(fact("server.0.pid"), Some(std::process::id().to_string().as_str()));
    let slow = batch.entries.iter().find_map(|entry| match entry {
        Entry::SlowOperation(slow) if slow.operation == "insert" => Some(slow),
        _ => None,
    });
    let slow = slow.expect("the insert is in the log");
    assert_eq!((slow.server, slow.namespace.as_str()), (0, "test.c"));
    assert!(slow.line.contains("] test.c insert") && slow.ended_ns <= batch.clock.now_ns(), "{}", slow.line);
}

/// Checks that sizes and parameters are read in the first sample, and again in the second only if that came late.
fn check_what_is_read_seldom(batch: &Batch, engine: EngineName) {
    assert!(values(batch, "server.0.parameter.syncdelay_s").iter().all(|value| *value == 60.0));
    for (series, period_s) in [("parameter.syncdelay_s", 10), ("storage.allocated_bytes", 30)] {
        let name = format!("server.0.{series}");
        let of_name = batch.readings.iter().filter(|reading| reading.name == name);
        let at_ns: Vec<u64> = of_name.map(|reading| reading.begin_ns).collect();
        let apart = at_ns.windows(2).all(|pair| pair[1] - pair[0] >= period_s * 900_000_000);
        assert!(!at_ns.is_empty() && apart, "{engine:?}: {series}: {at_ns:?}");
    }
}

#[test]
fn each_engine_gives_its_series_and_its_slow_operations() {
    for engine in [EngineName::WiredTiger, EngineName::RocksDb] {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(config(directory.path(), engine)).unwrap();
        let mut client = Connection::connect(&target(server.port())).unwrap();
        insert(&mut client, 0);
        let servers = Servers::find(&target(server.port()), 0).unwrap();
        assert_eq!(servers.notes, Vec::<String>::new());
        let [watched] = servers.watched.as_slice() else { panic!("{servers:?}") };
        assert_eq!((watched.number, watched.pid), (0, Some(std::process::id())));
        assert_eq!(watched.dbpath.as_deref(), Some(directory.path().join("db").as_path()));
        let mut samplers = server_samplers(&servers, &Namespace::new(Some("test.c".to_owned())));
        let mut batch = batch();
        sample(&mut samplers, &mut batch);
        insert(&mut client, 100);
        run(&mut client, "test", &doc! { "find": "c", "filter": { "a": "y" } });
        sample(&mut samplers, &mut batch);

        let common = [
            "wait.page_read_us",
            "journal.sync_us",
            "cache.used_bytes",
            "cache.most_bytes",
            "engine.read_bytes",
            "engine.written_bytes",
            "journal.syncs",
            "journal.written_bytes",
            "checkpoint.count",
            "checkpoint.last_ms",
            "wait.ticket_us",
            "wait.lock_us",
            "tickets.read.out",
            "network.in_bytes",
            "queue.writers",
        ];
        for series in common.iter().chain(own_series(engine)) {
            assert!(!values(&batch, &format!("server.0.{series}")).is_empty(), "{engine:?}: {series}");
        }
        for reading in &batch.readings {
            let kind =
                kind_of(&reading.name).unwrap_or_else(|| panic!("{} is not in the catalog", reading.name));
            assert_eq!(kind.unit, reading.unit, "{}", reading.name);
            assert!(reading.value >= 0.0 && reading.begin_ns <= reading.end_ns, "{reading:?}");
        }
        let expected = [
            ("up", 2.0),
            ("opcounters.insert", 100.0),
            ("documents.inserted", 100.0),
            ("writes.operations", 1.0),
            ("collection.writes.operations", 1.0),
            // The find, and our own query before this one: $collStats is a read of the collection.
            ("collection.reads.operations", 2.0),
            ("tickets.write.total", 256.0),
        ];
        for (series, value) in expected {
            assert_eq!(sum(&batch, &format!("server.0.{series}")), value, "{engine:?}: {series}");
        }
        assert!(sum(&batch, "server.0.collection.writes.latency_us") > 0.0);
        assert!(sum(&batch, "server.0.storage.logical_bytes") > 10_000.0);
        check_what_is_read_seldom(&batch, engine);
        assert!(sum(&batch, "server.0.ping_us") > 0.0);
        assert!(values(&batch, "server.0.process.cpu_us").is_empty(), "the host's samplers know better");
        assert_eq!(batch.notes, Vec::<String>::new());
        introduces_itself(&batch, engine);
        drop(client);
        server.stop().unwrap();
    }
}

/// Watches a server that stops after its first sample and starts again after its third; returns the readings of five samples.
fn gone_for_two_samples(before_the_first: impl FnOnce()) -> Batch {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path(), EngineName::WiredTiger);
    let server = Server::start_quiet(config.clone()).unwrap();
    let port = server.port();
    let servers = Servers::find(&target(port), 0).unwrap();
    let mut samplers = server_samplers(&servers, &Namespace::new(Some("test.c".to_owned())));
    let mut batch = batch();
    before_the_first();
    sample(&mut samplers, &mut batch);
    server.stop().unwrap();
    sample(&mut samplers, &mut batch);
    sample(&mut samplers, &mut batch);
    config.net.port = port;
    let server = Server::start_quiet(config).unwrap();
    sample(&mut samplers, &mut batch);
    sample(&mut samplers, &mut batch);
    server.stop().unwrap();
    batch
}

#[test]
fn a_server_that_goes_and_comes_back_leaves_a_gap() {
    let batch = gone_for_two_samples(|| ());
    assert_eq!(values(&batch, "server.0.up"), [1.0, 0.0, 0.0, 1.0, 1.0]);
    assert_eq!(values(&batch, "server.0.cache.used_bytes").len(), 3);
    assert!(batch.notes[0].contains("went out of reach"), "{:?}", batch.notes);
    // The other server has not yet the collection.
    let is_known = |note: &&String| {
        ["out of reach", "was restarted", "no collection"].iter().any(|words| note.contains(words))
    };
    assert_eq!(batch.notes.iter().filter(is_known).count(), batch.notes.len(), "{:?}", batch.notes);
}

/// Both servers here are one process, so that only the uptime reveals a restart: it must be shorter at the fourth sample than at the
/// first. Composed replies have the same restart in `server::fixture_tests`.
mod timed {
    use super::*;

    #[test]
    fn a_restart_is_noted_and_begins_the_counters_anew() {
        let batch = gone_for_two_samples(|| thread::sleep(Duration::from_millis(300)));
        let [gone, restarted, rest @ ..] = batch.notes.as_slice() else { panic!("{:?}", batch.notes) };
        assert!(
            gone.contains("went out of reach") && restarted.contains("was restarted"),
            "{:?}",
            batch.notes
        );
        assert!(rest.iter().all(|note| note.contains("no collection")), "{rest:?}");
        // A life ended before the fourth sample; then our own query of the collection, which is a read of it.
        assert_eq!(values(&batch, "server.0.reads.operations"), [1.0]);
    }
}

fn user(port: u16, name: &str) -> Target {
    let mut target = target(port);
    let (user, password, source) = (name.to_owned(), "secret".to_owned(), "admin".to_owned());
    target.credential = Some(Credential { user, password, source, mechanism: None });
    target
}

#[test]
fn the_role_cluster_monitor_is_enough_and_less_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path(), EngineName::WiredTiger);
    config.auth = true;
    // The lines must therefore be requested from the server.
    config.parsed.remove("systemLog");
    let server = Server::start_quiet(config).unwrap();
    let port = server.port();
    let create = |name: &str, roles: &[&str]| doc! { "createUser": name, "pwd": "secret", "roles": roles };
    run(&mut Connection::connect(&target(port)).unwrap(), "admin", &create("root", &["root"]));
    let mut root = Connection::connect(&user(port, "root")).unwrap();
    run(&mut root, "admin", &create("watcher", &["clusterMonitor"]));
    run(&mut root, "admin", &create("nobody", &[]));
    insert(&mut root, 0);

    let servers = Servers::find(&user(port, "watcher"), 0).unwrap();
    let mut samplers = server_samplers(&servers, &Namespace::new(None));
    let mut batch = batch();
    sample(&mut samplers, &mut batch);
    insert(&mut root, 100);
    // The busiest collection is known after two readings, which lie two seconds apart.
    batch.clock = Clock::since(Instant::now().checked_sub(Duration::from_secs(3)).unwrap());
    for _ in 0..2 {
        sample(&mut samplers, &mut batch);
        insert(&mut root, 200 + 100 * i32::try_from(batch.entries.len()).unwrap());
        thread::sleep(Duration::from_millis(20));
    }
    sample(&mut samplers, &mut batch);
    assert_eq!((servers.notes.as_slice(), batch.notes.as_slice()), (&[][..], &[][..]));
    assert!(sum(&batch, "server.0.collection.writes.operations") >= 1.0, "test.c was found to be busiest");
    let inserts = batch.entries.iter().filter(|entry| match entry {
        Entry::SlowOperation(slow) => slow.operation == "insert" && slow.namespace == "test.c",
        _ => false,
    });
    assert!(inserts.count() >= 1, "getLog gives slow operations");

    // A collection that was named and is not there: none of its operations is counted, which a note says.
    let mut samplers = server_samplers(&servers, &Namespace::new(Some("test.missing".to_owned())));
    let mut batch = self::batch();
    for notes in [0, 0, 1, 1] {
        sample(&mut samplers, &mut batch);
        let told = batch.notes.iter().filter(|note| note.contains("has no collection test.missing"));
        assert_eq!(told.count(), notes, "{:?}", batch.notes);
    }

    let servers = Servers::find(&user(port, "nobody"), 0).unwrap();
    let mut samplers = server_samplers(&servers, &Namespace::new(Some("test.c".to_owned())));
    let mut batch = self::batch();
    (0..3).for_each(|_| sample(&mut samplers, &mut batch));
    for command in ["serverStatus", "$collStats", "getParameter", "getLog"] {
        let said = batch.notes.iter().filter(|note| note.contains(command)).count();
        assert_eq!(said, 1, "{command}: {:?}", batch.notes);
    }
    assert_eq!(batch.notes.len(), 4, "{:?}", batch.notes);
    assert!(servers.notes.iter().any(|note| note.contains("getCmdLineOpts")), "{:?}", servers.notes);
    assert_eq!(sum(&batch, "server.0.up"), 3.0);
    drop(root);
    server.stop().unwrap();
}

/// A server whose writes are held names what waits, with the client and without a value.
#[test]
fn what_waits_is_named_without_its_values() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_quiet(config(directory.path(), EngineName::WiredTiger)).unwrap();
    let mut client = Connection::connect(&target(server.port())).unwrap();
    insert(&mut client, 0);
    run(&mut client, "admin", &doc! { "fsync": 1, "lock": true });
    let mut named = target(server.port());
    named.app_name = Some("importer".to_owned());
    let writer = thread::spawn(move || {
        let update = doc! { "q": { "a": "Hunter2Secret" }, "u": { "$set": { "b": "Hunter2Secret" } } };
        run(&mut Connection::connect(&named).unwrap(), "test", &doc! { "update": "c", "updates": [update] });
    });
    let servers = Servers::find(&target(server.port()), 0).unwrap();
    let mut samplers = server_samplers(&servers, &Namespace::new(Some("test.c".to_owned())));
    let mut batch = batch();
    let until = Instant::now() + TIMEOUT;
    let group = loop {
        sample(&mut samplers, &mut batch);
        let mut groups = batch.entries.iter().filter_map(|entry| match entry {
            Entry::ServerWork(work) => work.operations.first(),
            _ => None,
        });
        if let Some(group) = groups.next_back() {
            break group.clone();
        }
        assert!(Instant::now() < until, "{:?}", batch.notes);
    };
    run(&mut client, "admin", &doc! { "fsyncUnlock": 1 });
    writer.join().unwrap();
    assert_eq!((group.kind.as_str(), group.namespace.as_str(), group.count), ("update", "test.c", 1));
    assert_eq!(group.shape, "{ updates: [{ q: { a: ? }, u: { $set: ? } }] }");
    assert_eq!(group.application.as_deref(), Some("importer"));
    assert!(group.longest_us > 0 && group.longest_operation.is_some() && group.connections.len() == 1);
    // The update has ended, and is in the log with its plan.
    sample(&mut samplers, &mut batch);
    let kept = serde_json::to_string(&batch.entries).unwrap();
    assert!(!kept.contains("Hunter2Secret"), "{kept}");
    assert!(kept.contains("COLLSCAN"), "{kept}");
}

/// A server that says that it is a 4.0 shows its log as text.
#[test]
fn slow_operations_are_read_in_both_forms_of_the_log() {
    for version in ["4.0.28", "4.4.29"] {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path(), EngineName::WiredTiger);
        config.claimed_version = version.to_owned();
        // The lines must therefore be requested from the server.
        config.parsed.remove("systemLog");
        let server = Server::start_quiet(config).unwrap();
        let mut client = Connection::connect(&target(server.port())).unwrap();
        insert(&mut client, 0);
        let servers = Servers::find(&target(server.port()), 0).unwrap();
        let mut samplers = server_samplers(&servers, &Namespace::new(Some("test.c".to_owned())));
        let mut batch = batch();
        let until = Instant::now() + TIMEOUT;
        let slow = loop {
            sample(&mut samplers, &mut batch);
            let mut found = batch.entries.iter().filter_map(|entry| match entry {
                Entry::SlowOperation(slow) if slow.operation == "find" => Some(slow.clone()),
                _ => None,
            });
            if let Some(slow) = found.next() {
                break slow;
            }
            assert!(Instant::now() < until, "{version}: {:?}", batch.notes);
            run(&mut client, "test", &doc! { "find": "c", "filter": { "a": "Hunter2Secret" } });
            thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(
            (slow.namespace.as_str(), slow.plan.as_deref()),
            ("test.c", Some("COLLSCAN")),
            "{version}"
        );
        assert_eq!((slow.documents_examined, slow.returned), (Some(100), Some(0)), "{version}");
        assert!(!serde_json::to_string(&batch.entries).unwrap().contains("Hunter2Secret"), "{version}");
        drop(client);
        server.stop().unwrap();
    }
}

/// Checks that each sample reports its cost, and no more than the time waited; `make bench` measures the microseconds.
#[test]
fn what_a_look_costs_the_server_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_quiet(config(directory.path(), EngineName::WiredTiger)).unwrap();
    let mut client = Connection::connect(&target(server.port())).unwrap();
    insert(&mut client, 0);
    let servers = Servers::find(&target(server.port()), 0).unwrap();
    let mut samplers = server_samplers(&servers, &Namespace::new(Some("test.c".to_owned())));
    let mut batch = batch();
    let rounds = 50;
    let began = Instant::now();
    (0..rounds).for_each(|_| sample(&mut samplers[..1], &mut batch));
    let waited_us = began.elapsed().as_micros() as f64;
    let costs = values(&batch, "monitor.server.0.command_us");
    // The first reading has no earlier one to compare with.
    assert_eq!(costs.len(), rounds - 1);
    let cost_us = costs.iter().sum::<f64>();
    assert!(cost_us > 0.0 && cost_us <= waited_us, "{cost_us} of {waited_us}");
    drop(client);
    server.stop().unwrap();
}
