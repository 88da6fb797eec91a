//! An index build as others see it: its progress, the operations that wait for it, and their waits in all counters.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bson::{Document, doc};
use fathom_client::Connection;
use fathom_testkit::TIMEOUT;

use super::shapes::shape_differences;
use super::support::{ENGINES, Lab, at, fail, grown, number, run, run_on, status, text};

/// A build that has scanned its collection and is held there, and a query that waits for it.
struct HeldCollection {
    lab: Lab,
    watcher: Connection,
    build: JoinHandle<fathom_client::Failure>,
    query: JoinHandle<Document>,
}

/// The documents of the collection. A build counts 128 at once.
const DOCUMENTS: usize = 200;

/// The only running operation that meets the conditions, once there is one.
fn operation(connection: &mut Connection, conditions: &Document) -> Document {
    let until = Instant::now() + TIMEOUT;
    let mut command = doc! { "currentOp": 1 };
    command.extend(conditions.clone());
    loop {
        let reply = run_on(connection, "admin", &command);
        let shown: Vec<&Document> =
            reply.get_array("inprog").unwrap().iter().filter_map(bson::Bson::as_document).collect();
        match shown.as_slice() {
            [one] => return (*one).clone(),
            others => assert!(others.is_empty() && Instant::now() < until, "{conditions}: {others:?}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl HeldCollection {
    fn start(claimed_version: &str) -> HeldCollection {
        let lab = Lab::start_with(ENGINES[2], |config| {
            config.claimed_version = claimed_version.to_owned();
            config.set_parameters.insert("enableTestCommands".to_owned(), "1".to_owned());
        });
        let (mut watcher, mut builder, mut reader) = (lab.connect(), lab.connect(), lab.connect());
        run(&mut watcher, &doc! { "insert": "c", "documents": vec![doc! { "a": 1 }; DOCUMENTS] });
        let hang = doc! { "configureFailPoint": "hangAfterStartingIndexBuild", "mode": "alwaysOn" };
        run_on(&mut watcher, "admin", &hang);
        run(&mut watcher, &doc! { "profile": 0, "slowms": -1 });
        let build = std::thread::spawn(move || {
            let index = doc! { "key": { "a": 1 }, "name": "a_1" };
            let session = doc! { "id": bson::Uuid::new() };
            fail(&mut builder, "test", &doc! { "createIndexes": "c", "indexes": [index], "lsid": session })
        });
        // It has the collection once it has counted records.
        operation(&mut watcher, &doc! { "progress.done": 128 });
        let query =
            std::thread::spawn(move || run(&mut reader, &doc! { "find": "c", "filter": { "a": -1 } }));
        HeldCollection { lab, watcher, build, query }
    }

    fn waiting(&mut self) -> Document {
        operation(&mut self.watcher, &doc! { "waitingForLock": true })
    }

    fn building(&mut self) -> Document {
        operation(&mut self.watcher, &doc! { "command.createIndexes": "c" })
    }

    /// Kills the build, after which the query ends.
    fn end(mut self) -> Lab {
        let number = number(&self.building(), "opid");
        run_on(&mut self.watcher, "admin", &doc! { "killOp": 1, "op": number });
        assert_eq!(self.build.join().unwrap().code().0, 11601);
        assert_eq!(number_of_results(&self.query.join().unwrap()), 0);
        self.lab
    }
}

fn number_of_results(reply: &Document) -> usize {
    reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len()
}

#[test]
fn the_build_and_the_query_that_waits_have_the_shapes_of_mongods() {
    let mut held = HeldCollection::start("4.0.28");
    let (waiting, building) = (held.waiting(), held.building());
    held.end();
    // mongod 4.0 locks the database, exclusively for a build and in intent for a query, and this server the collection alone. `type`
    // came with 4.2, and the captured build was that of another driver. The captured shapes leave the command out.
    let expected = [
        "missing lockStats.Database",
        "extra lockStats.Collection",
        "missing locks.Database",
        "extra locks.Collection",
        "extra type",
        "extra command",
    ];
    assert_eq!(shape_differences("currentOp-waiting", &waiting), expected);
    let expected = [
        "missing clientMetadata.os.name",
        "missing clientMetadata.os.version",
        "missing clientMetadata.platform",
        "extra lockStats.Collection.acquireCount.W",
        "missing lockStats.Database",
        "missing lockStats.Global.acquireCount.r",
        "missing locks.Database",
        "extra type",
        "extra command",
    ];
    assert_eq!(shape_differences("currentOp-indexBuild", &building), expected);
}

#[test]
fn the_build_shows_its_progress_and_what_waits_shows_its_lock() {
    let mut held = HeldCollection::start("4.4.29");
    let before = status(&mut held.watcher);
    let (waiting, building) = (held.waiting(), held.building());
    assert_eq!((text(&building, "ns"), text(&building, "op")), ("test.c", "command"));
    let phase = "Index Build: scanning collection Index Build: scanning collection: ";
    assert_eq!(text(&building, "msg"), format!("{phase}128/200 64%"));
    assert_eq!(at(&building, "progress"), &doc! { "done": 128_i64, "total": 200_i64 }.into());
    assert_eq!(at(&building, "locks"), &doc! { "Global": "w", "Collection": "W" }.into());
    assert_eq!(at(&building, "waitingForLock").as_bool(), Some(false));
    assert_eq!((text(&waiting, "ns"), text(&waiting, "op")), ("test.c", "query"));
    assert_eq!(at(&waiting, "locks"), &doc! { "Global": "r", "Collection": "r" }.into());
    assert_eq!(number(&waiting, "lockStats.Collection.acquireWaitCount.r"), 1);
    assert_eq!(at(&waiting, "waitingForFlowControl").as_bool(), Some(false));

    // While it waits it is queued and not active, and its wait counts.
    let during = status(&mut held.watcher);
    let of = |path: &str| number(&during, path);
    assert_eq!((of("globalLock.currentQueue.readers"), of("globalLock.currentQueue.total")), (1, 1));
    assert_eq!((of("globalLock.activeClients.readers"), of("globalLock.activeClients.writers")), (0, 1));
    let lab = held.end();
    let after = status(&mut lab.connect());
    assert_eq!(number(&after, "globalLock.currentQueue.total"), 0);
    let (waits, time) = ("locks.Collection.acquireWaitCount.r", "locks.Collection.timeAcquiringMicros.r");
    assert!(number(&during, waits) == 1 && number(&after, waits) == 1, "{during}, {after}");
    assert!(grown(&during, &after, time) > 0, "the wait went on");
    assert_eq!(grown(&before, &after, "locks.Collection.acquireCount.W"), 1);
    assert!(grown(&before, &after, "locks.Collection.acquireCount.r") >= 1);
    // The wait is in the log.
    let line = lab.log().into_iter().rfind(|line| line.contains(r#""command":{"find":"c""#)).unwrap();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["attr"]["locks"]["Collection"]["acquireWaitCount"]["r"], 1, "{line}");
    assert!(line["attr"]["locks"]["Collection"]["timeAcquiringMicros"]["r"].as_i64().unwrap() > 0);
}

#[test]
fn each_kind_of_read_says_that_it_waits_and_ends_when_it_is_killed() {
    let mut held = HeldCollection::start("4.4.29");
    let pipeline = vec![doc! { "$match": { "a": -1 } }];
    for (name, command) in [
        ("count", doc! { "count": "c", "query": { "a": -1 } }),
        ("distinct", doc! { "distinct": "c", "key": "a" }),
        ("aggregate", doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} }),
    ] {
        let mut reader = held.lab.connect();
        let read = std::thread::spawn(move || fail(&mut reader, "test", &command));
        let waiting =
            operation(&mut held.watcher, &doc! { "waitingForLock": true, format!("command.{name}"): "c" });
        assert_eq!(at(&waiting, "locks"), &doc! { "Global": "r", "Collection": "r" }.into(), "{name}");
        run_on(&mut held.watcher, "admin", &doc! { "killOp": 1, "op": number(&waiting, "opid") });
        assert_eq!(read.join().unwrap().code().0, 11601, "{name}");
    }
    held.end();
}

/// A write that an `fsync` lock blocks waits for the lock on the whole server, as in mongod.
#[test]
fn a_write_that_fsync_blocks_waits_for_the_server() {
    let lab = Lab::start(ENGINES[2]);
    let (mut watcher, mut writer) = (lab.connect(), lab.connect());
    run_on(&mut watcher, "admin", &doc! { "fsync": 1, "lock": true });
    let write =
        std::thread::spawn(move || run(&mut writer, &doc! { "insert": "c", "documents": [{ "_id": 1 }] }));
    let waiting = operation(&mut watcher, &doc! { "waitingForLock": true });
    assert_eq!(at(&waiting, "locks"), &doc! { "Global": "w" }.into());
    let during = status(&mut watcher);
    assert_eq!(number(&during, "globalLock.currentQueue.writers"), 1);
    assert_eq!(number(&during, "locks.Global.acquireWaitCount.w"), 1);
    run_on(&mut watcher, "admin", &doc! { "fsyncUnlock": 1 });
    write.join().unwrap();
}
