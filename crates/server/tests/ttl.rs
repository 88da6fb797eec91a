//! The TTL monitor on each engine: documents that expire, documents that do not, and the immediate effect of a shorter sleep.

use std::time::{Duration, Instant};

use crate::served::{listed, on_each, run};
use bson::{DateTime, Document, RawDocumentBuf, doc};
use fathom_client::Connection;

/// Waits until the collection holds exactly these `_id`s.
fn wait_for(connection: &mut Connection, collection: &str, ids: &[&str]) {
    let until = Instant::now() + Duration::from_secs(300);
    loop {
        let find = doc! { "find": collection, "sort": { "_id": 1 }, "projection": { "_id": 1 } };
        let found = listed(connection, &find);
        let found: Vec<&str> = found.iter().map(|one| one.get_str("_id").unwrap()).collect();
        if found == ids {
            return;
        }
        assert!(Instant::now() < until, "{collection}: {found:?}, not {ids:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn ago(seconds: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() - seconds * 1000)
}

fn set(connection: &mut Connection, parameter: &str, value: impl Into<bson::Bson>) {
    let command = doc! { "setParameter": 1, parameter: value.into() };
    connection.run("admin", &command).unwrap();
}

fn ttl(connection: &mut Connection, name: &str) -> i64 {
    let reply: RawDocumentBuf = connection.run("admin", &doc! { "serverStatus": 1 }).unwrap();
    let status = Document::try_from(&*reply).unwrap();
    let ttl = status.get_document("metrics").unwrap().get_document("ttl").unwrap();
    ttl.get_i64(name).or_else(|_| ttl.get_i32(name).map(i64::from)).unwrap()
}

#[test]
fn what_is_too_old_goes_and_the_rest_stays() {
    on_each(|_, connection| {
        let index = |field: &str, seconds: i32| doc! { "key": { field: -1 }, "name": "ttl", "expireAfterSeconds": seconds };
        let mut partial = index("at", 60);
        partial.insert("partialFilterExpression", doc! { "done": true });
        for (collection, index) in [("c", index("at", 60)), ("part", partial), ("other", index("at", 10_000))]
        {
            run(connection, "test", &doc! { "createIndexes": collection, "indexes": [index] });
        }
        run(
            connection,
            "test",
            &doc! { "insert": "c", "documents": [
                { "_id": "array of old and new", "at": [ago(0), ago(100)] },
                { "_id": "array of new", "at": [ago(0), ago(10)] },
                { "_id": "new", "at": ago(10) },
                { "_id": "no date", "at": 5 },
                { "_id": "none" },
                { "_id": "old", "at": ago(100) },
                { "_id": "very old", "at": DateTime::MIN },
                { "_id": "within", "at": { "in": ago(100) } },
            ] },
        );
        run(
            connection,
            "test",
            &doc! { "insert": "part", "documents": [
                { "_id": "done", "at": ago(100), "done": true }, { "_id": "to do", "at": ago(100), "done": false },
            ] },
        );
        run(connection, "test", &doc! { "insert": "other", "documents": [{ "_id": "a", "at": ago(100) }] });
        // It sleeps for a minute by default, and a change takes effect at once.
        set(connection, "ttlMonitorSleepSecs", 1);
        wait_for(connection, "c", &["array of new", "new", "no date", "none", "within"]);
        wait_for(connection, "part", &["to do"]);
        wait_for(connection, "other", &["a"]);
        assert!(ttl(connection, "passes") >= 1);
        assert_eq!(ttl(connection, "deletedDocuments"), 4);
        let reply = run(connection, "test", &doc! { "validate": "c", "enforceFastCount": true });
        assert!(reply.get_bool("valid").unwrap(), "{reply}");

        let shorter = doc! { "name": "ttl", "expireAfterSeconds": 5 };
        run(connection, "test", &doc! { "collMod": "other", "index": shorter });
        wait_for(connection, "other", &[]);
    });
}

#[test]
fn many_go_in_batches_and_none_while_the_monitor_is_off() {
    on_each(|_, connection| {
        set(connection, "ttlMonitorEnabled", false);
        set(connection, "ttlMonitorSleepSecs", 1);
        let index = doc! { "key": { "at": 1 }, "name": "ttl", "expireAfterSeconds": 0 };
        run(connection, "test", &doc! { "createIndexes": "c", "indexes": [index] });
        let documents: Vec<Document> =
            (0..1700).map(|n| doc! { "_id": n.to_string(), "at": ago(i64::from(n) + 1) }).collect();
        run(connection, "test", &doc! { "insert": "c", "documents": documents });
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(listed(connection, &doc! { "find": "c" }).len(), 1700);
        assert_eq!(ttl(connection, "passes"), 0);
        set(connection, "ttlMonitorEnabled", true);
        wait_for(connection, "c", &[]);
        assert_eq!(ttl(connection, "deletedDocuments"), 1700);
    });
}
