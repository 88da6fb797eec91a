//! Counters grow by exactly the work that was done.

use std::time::Duration;

use bson::{Document, doc};
use fathom_client::{Connection, Target};
use fathom_wire::Compressor;

use super::support::{ENGINES, Lab, at, fail, grown, number, run, run_on, status};

/// 300 documents in one insert, a query in three batches, two updates, a delete, one failure.
fn work(connection: &mut Connection) {
    let documents: Vec<Document> = (0..300).map(|n| doc! { "_id": n, "a": n % 3 }).collect();
    run(connection, &doc! { "insert": "c", "documents": documents });
    let cursor = connection.cursor("test", &doc! { "find": "c", "batchSize": 100 }).unwrap();
    assert_eq!(cursor.batch_size(100).count(), 300);
    run(connection, &doc! { "find": "c", "filter": { "_id": 7 } });
    run(connection, &doc! { "find": "c", "sort": { "a": 1 }, "limit": 5, "singleBatch": true });
    let updates = [
        doc! { "q": { "_id": 1 }, "u": { "$set": { "b": 1 } } },
        doc! { "q": { "a": 2 }, "u": { "$set": { "b": 2 } }, "multi": true },
    ];
    run(connection, &doc! { "update": "c", "updates": updates.to_vec() });
    run(connection, &doc! { "delete": "c", "deletes": [{ "q": { "a": 0 }, "limit": 0 }] });
    fail(connection, "test", &doc! { "find": "c", "filter": { "$nonsense": 1 } });
    let twice = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    run(connection, &twice);
}

#[test]
fn operations_documents_and_failures_are_counted_exactly() {
    for engine in ENGINES {
        let lab = Lab::start(engine);
        let mut connection = lab.connect();
        let before = status(&mut connection);
        work(&mut connection);
        let after = status(&mut connection);
        let expected = [
            ("opcounters.insert", 301),
            ("opcounters.query", 4),
            // The last batch was full, so one more was needed to report the end.
            ("opcounters.getmore", 3),
            ("opcounters.update", 2),
            ("opcounters.delete", 1),
            // The first serverStatus.
            ("opcounters.command", 1),
            ("opcountersRepl.insert", 0),
            ("metrics.document.inserted", 300),
            ("metrics.document.returned", 306),
            ("metrics.document.updated", 101),
            ("metrics.document.deleted", 100),
            ("metrics.operation.scanAndOrder", 1),
            // Two finds, an update and a delete without an index.
            ("metrics.queryExecutor.collectionScans.total", 4),
            ("metrics.queryExecutor.collectionScans.nonTailable", 4),
            ("metrics.commands.insert.total", 2),
            ("metrics.commands.insert.failed", 0),
            ("metrics.commands.find.total", 4),
            ("metrics.commands.find.failed", 1),
            ("metrics.commands.getMore.total", 3),
            ("metrics.commands.serverStatus.total", 1),
            ("opLatencies.reads.ops", 7),
            ("opLatencies.writes.ops", 4),
            ("opLatencies.commands.ops", 1),
            // The unknown command, and the duplicate key.
            ("asserts.user", 2),
            ("asserts.regular", 0),
        ];
        for (path, expected) in expected {
            assert_eq!(grown(&before, &after, path), expected, "{path} of {engine:?}");
        }
        let looked = grown(&before, &after, "metrics.queryExecutor.scannedObjects");
        assert!(looked >= 300 + 1 + 300 + 1 + 300 + 300, "{looked}");
        for kind in ["reads", "writes", "commands"] {
            let micros = grown(&before, &after, &format!("opLatencies.{kind}.latency"));
            assert!((1..60_000_000).contains(&micros), "{kind}: {micros}");
        }
        assert!(grown(&before, &after, "locks.Global.acquireCount.r") >= 6);
        assert!(grown(&before, &after, "locks.Global.acquireCount.w") >= 4);
        assert_eq!(number(&after, "connections.current"), 1);
        assert_eq!(number(&after, "connections.active"), 1);
    }
}

#[test]
fn histograms_hold_every_operation() {
    let lab = Lab::start(ENGINES[2]);
    let mut connection = lab.connect();
    work(&mut connection);
    let options = doc! { "serverStatus": 1, "opLatencies": { "histograms": true } };
    let status = run_on(&mut connection, "admin", &options);
    for kind in ["reads", "writes", "commands"] {
        let buckets = at(&status, &format!("opLatencies.{kind}.histogram")).as_array().unwrap();
        let sum: i64 = buckets.iter().map(|bucket| number(bucket.as_document().unwrap(), "count")).sum();
        assert_eq!(sum, number(&status, &format!("opLatencies.{kind}.ops")), "{kind}");
    }
}

/// The bytes of a frame with only a body: header, flags, kind.
fn frame(body: &Document) -> i64 {
    i64::try_from(body.to_vec().unwrap().len() + 21).unwrap()
}

#[test]
fn the_network_counts_every_byte_of_a_frame() {
    let lab = Lab::start(ENGINES[2]);
    let mut connection = lab.connect();
    let mut ping = doc! { "serverStatus": 1, "wiredTiger": 0, "rocksdb": 0 };
    let before = status(&mut connection);
    let after = status(&mut connection);
    // The client adds the database as the last field.
    ping.insert("$db", "admin");
    assert_eq!(grown(&before, &after, "network.bytesIn"), frame(&ping));
    // The reply to the first, which was sent after the first was counted.
    assert_eq!(grown(&before, &after, "network.bytesOut"), frame(&before));
    assert_eq!(grown(&before, &after, "network.physicalBytesOut"), frame(&before));
    assert_eq!(grown(&before, &after, "network.numRequests"), 1);
}

#[test]
fn compressed_frames_count_twice_once_as_they_are_and_once_as_they_go() {
    let lab = Lab::start(ENGINES[2]);
    let target = Target { compressors: vec![Compressor::Zstd], ..lab.target() };
    let mut connection = Connection::connect(&target).unwrap();
    run(&mut connection, &doc! { "insert": "c", "documents": [{ "_id": 1, "text": "x".repeat(100_000) }] });
    let before = status(&mut connection);
    run(&mut connection, &doc! { "find": "c" });
    let after = status(&mut connection);
    let plain = grown(&before, &after, "network.bytesOut");
    let packed = grown(&before, &after, "network.physicalBytesOut");
    assert!(plain > 100_000, "{plain}");
    assert!(packed < 10_000, "{packed}");
    let compressor = "network.compression.zstd.compressor";
    assert_eq!(grown(&before, &after, &format!("{compressor}.bytesIn")), plain);
    assert_eq!(grown(&before, &after, &format!("{compressor}.bytesOut")), packed);
}

#[test]
fn the_use_of_a_collection_and_of_its_indexes_is_counted_where_it_happens() {
    for engine in ENGINES {
        let lab = Lab::start(engine);
        let mut connection = lab.connect();
        work(&mut connection);
        run(&mut connection, &doc! { "insert": "other", "documents": [{}] });
        let top = run_on(&mut connection, "admin", &doc! { "top": 1 });
        let totals = at(&top, "totals").as_document().unwrap();
        let one = totals.get_document("test.c").unwrap();
        // The failed find never reached the collection, but it is counted for it.
        let expected = [("queries", 4), ("getmore", 3), ("insert", 2), ("update", 1), ("remove", 1)];
        for (name, count) in expected {
            assert_eq!(number(one, &format!("{name}.count")), count, "{name} of {engine:?}");
        }
        assert_eq!(number(one, "writeLock.count"), 4);
        assert_eq!(number(one, "total.count"), 11);
        assert_eq!(number(one, "total.time"), number(one, "readLock.time") + number(one, "writeLock.time"));
        assert_eq!(number(totals.get_document("test.other").unwrap(), "insert.count"), 1);
    }
}

#[test]
fn sizes_are_those_of_what_was_put_in() {
    for engine in ENGINES {
        let lab = Lab::start(engine);
        let mut connection = lab.connect();
        let documents: Vec<Document> = (0..100).map(|n| doc! { "_id": n, "pad": "x".repeat(1000) }).collect();
        let bytes: i64 =
            documents.iter().map(|one| i64::try_from(one.to_vec().unwrap().len()).unwrap()).sum();
        run(&mut connection, &doc! { "insert": "c", "documents": documents });
        let stats = run(&mut connection, &doc! { "collStats": "c" });
        assert_eq!((number(&stats, "count"), number(&stats, "size")), (100, bytes));
        assert_eq!(number(&stats, "avgObjSize"), bytes / 100);
        assert_eq!(
            number(&run(&mut connection, &doc! { "collStats": "c", "scale": 1024 }), "size"),
            bytes / 1024
        );
        let size = run(&mut connection, &doc! { "dataSize": "test.c" });
        assert_eq!((number(&size, "size"), number(&size, "numObjects")), (bytes, 100));
        let database = run(&mut connection, &doc! { "dbStats": 1, "freeStorage": 1 });
        assert_eq!((number(&database, "objects"), number(&database, "indexes")), (100, 1));
        assert_eq!(at(&database, "dataSize").as_f64(), Some(f64::from(i32::try_from(bytes).unwrap())));
        assert!(database.contains_key("totalFreeStorageSize"));
        let none = run(&mut connection, &doc! { "collStats": "nothing" });
        assert_eq!((number(&none, "size"), number(&none, "nindexes")), (0, 0));
        assert_eq!(fail(&mut connection, "test", &doc! { "collStats": "c", "scale": 0 }).code().0, 2);
    }
}

#[test]
fn sections_are_left_out_and_taken_in_by_name() {
    let lab = Lab::start(ENGINES[0]);
    let mut connection = lab.connect();
    let less = doc! { "serverStatus": 1, "wiredTiger": 0, "metrics": false, "recordStats": 0 };
    let reply = run_on(&mut connection, "admin", &less);
    assert!(!reply.contains_key("wiredTiger") && !reply.contains_key("metrics"));
    assert!(reply.contains_key("opcounters"));
    let parts = doc! { "serverStatus": 1, "metrics": { "commands": false, "repl": false, "ttl": true } };
    let reply = run_on(&mut connection, "admin", &parts);
    let metrics = at(&reply, "metrics").as_document().unwrap();
    assert!(!metrics.contains_key("commands") && !metrics.contains_key("repl"));
    assert!(metrics.contains_key("ttl") && metrics.contains_key("document"));
    let all = run_on(&mut connection, "admin", &doc! { "serverStatus": 1 });
    assert_eq!(at(&all, "process").as_str(), Some("mongod"));
    assert_eq!(number(&all, "wiredTiger.concurrentTransactions.read.totalTickets"), 128);
    assert!(number(&all, "wiredTiger.cache.bytes currently in the cache") > 0);
    assert_eq!(number(&all, "wiredTiger.cache.maximum bytes configured"), 256 << 20);
}

#[test]
fn the_sample_for_monitors_holds_the_status_and_the_machine() {
    for engine in ENGINES {
        let lab = Lab::start(engine);
        let mut connection = lab.connect();
        let reply = run_on(&mut connection, "admin", &doc! { "getDiagnosticData": 1 });
        assert_eq!(at(&reply, "data.serverStatus.storageEngine.name").as_str(), Some(engine.as_str()));
        let cores = std::thread::available_parallelism().unwrap().get();
        assert!(number(&reply, "data.systemMetrics.cpu.num_cpus") >= i64::try_from(cores).unwrap());
        assert!(number(&reply, "data.systemMetrics.memory.MemTotal_kb") > 0);
        assert!(at(&reply, "data.start").as_datetime() <= at(&reply, "data.end").as_datetime());
    }
}

/// The time of the waits is part of the operations' time, and a write without `j: true` adds none.
#[test]
fn waits_for_the_journal_are_counted_with_their_time() {
    let lab = Lab::start(ENGINES[0]);
    let mut connection = lab.connect();
    let mut figures = || {
        let status = status(&mut connection);
        let count = |path: &str| number(&status, path);
        let waits = (count("fathom.journal.waits"), count("fathom.journal.totalWaitMicros"));
        (waits, count("opLatencies.writes.latency"))
    };
    let ((waits, waited_us), latency_us) = figures();
    let mut writer = lab.connect();
    for n in 0..20 {
        let documents = vec![doc! { "_id": n }];
        run(&mut writer, &doc! { "insert": "c", "documents": documents, "writeConcern": { "j": true } });
    }
    let ((journaled, journaled_us), journaled_latency_us) = figures();
    assert_eq!(journaled - waits, 20);
    let (waited_us, latency_us) = (journaled_us - waited_us, journaled_latency_us - latency_us);
    assert!(0 < waited_us && waited_us <= latency_us, "{waited_us} of {latency_us} us");
    run(&mut writer, &doc! { "insert": "c", "documents": [{ "_id": 100 }], "writeConcern": { "w": 1 } });
    assert_eq!(figures().0, (journaled, journaled_us));
}

/// A write that an `fsync` lock blocks is one wait of that length; a write without a lock adds none.
#[test]
fn waits_for_locks_are_counted_with_their_time() {
    const LOCKED: Duration = Duration::from_millis(300);
    let lab = Lab::start(ENGINES[0]);
    let mut connection = lab.connect();
    let waits = |connection: &mut Connection| {
        let status = status(connection);
        let count = |path: &str| number(&status, path);
        (count("fathom.locks.waits"), count("fathom.locks.totalWaitMicros"))
    };
    run(&mut connection, &doc! { "insert": "c", "documents": [{ "_id": 0 }] });
    let before = waits(&mut connection);
    run_on(&mut connection, "admin", &doc! { "fsync": 1, "lock": true });
    let mut writer = lab.connect();
    std::thread::scope(|scope| {
        let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
        scope.spawn(move || run(&mut writer, &insert));
        // Operations that a lock blocks are queued writers.
        while number(&status(&mut connection), "globalLock.currentQueue.writers") == 0 {}
        std::thread::sleep(LOCKED);
        run_on(&mut connection, "admin", &doc! { "fsyncUnlock": 1 });
    });
    let after = waits(&mut connection);
    assert_eq!(after.0 - before.0, 1);
    let waited = Duration::from_micros(u64::try_from(after.1 - before.1).unwrap());
    assert!(waited > LOCKED / 10, "{waited:?}");
    run(&mut connection, &doc! { "insert": "c", "documents": [{ "_id": 2 }] });
    assert_eq!(waits(&mut connection), after);
}
