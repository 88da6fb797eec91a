//! A set starts, replicates from its primary, and answers as drivers expect.

use bson::{Document, Timestamp, doc};
use fathom_client::Code;
use fathom_server::config::EngineName;

use super::set::{Set, until};
use crate::served::{self, code, run};

#[test]
fn a_set_follows_its_primary_on_each_engine() {
    for engine in served::ENGINES {
        println!("{engine:?}");
        let set = Set::of_three(engine);
        let primary = set.primary();
        let mut connection = set.connect(primary);
        let documents: Vec<_> =
            (0..500).map(|n| doc! { "_id": n, "a": n % 7, "s": "x".repeat(50) }).collect();
        let insert = doc! {
            "insert": "c", "documents": documents, "writeConcern": { "w": 3, "wtimeout": 300_000 },
        };
        let reply = run(&mut connection, "test", &insert);
        assert_eq!(reply.get_i32("n").unwrap(), 500, "{reply}");
        assert!(!reply.contains_key("writeConcernError"), "{reply}");
        assert!(reply.contains_key("operationTime") && reply.contains_key("$clusterTime"), "{reply}");
        shows_progress(&run(&mut connection, "admin", &doc! { "serverStatus": 1, "repl": 1, "oplog": 1 }));
        let usual = run(&mut connection, "admin", &doc! { "serverStatus": 1 });
        assert!(!usual.contains_key("oplog"), "{usual}");
        assert!(!usual.get_document("repl").unwrap().contains_key("replicationProgress"), "{usual}");
        served::index(&mut connection, "c", doc! { "a": 1 });
        let update = doc! {
            "update": "c",
            "updates": [
                { "q": { "a": 3 }, "u": { "$set": { "b.c": 5 }, "$inc": { "a": 1 } }, "multi": true },
                { "q": { "_id": 1 }, "u": { "_id": 1, "whole": true } },
                { "q": { "_id": 1000 }, "u": { "$set": { "new": 1 } }, "upsert": true },
            ],
        };
        run(&mut connection, "test", &update);
        let delete = doc! {
            "delete": "c", "deletes": [{ "q": { "a": 5 }, "limit": 0 }],
            "writeConcern": { "w": "majority", "j": true },
        };
        let reply = run(&mut connection, "test", &delete);
        assert!(!reply.contains_key("writeConcernError"), "{reply}");
        set.wait_equal(primary);
        for place in 0..3 {
            let mut connection = set.connect(place);
            let validate = run(&mut connection, "test", &doc! { "validate": "c", "full": true });
            assert!(validate.get_bool("valid").unwrap(), "{validate}");
            let list = doc! { "listIndexes": "c", "$readPreference": { "mode": "secondaryPreferred" } };
            assert_eq!(served::listed(&mut connection, &list).len(), 2);
        }
        run(&mut connection, "test", &doc! { "drop": "c" });
        set.wait_equal(primary);
        set.end();
    }
}

/// Checks the progress of each member, and the age of the oplog's oldest entry, if they were requested.
fn shows_progress(status: &Document) {
    let stamp = |document: &Document, field: &str| document.get_timestamp(field).unwrap();
    let oplog = status.get_document("oplog").unwrap();
    let (first, last) = (stamp(oplog, "earliestOptime"), stamp(oplog, "latestOptime"));
    assert!(first < last, "{oplog}");
    let repl = status.get_document("repl").unwrap();
    let progress = repl.get_array("replicationProgress").unwrap();
    assert_eq!(progress.len(), 3, "{progress:?}");
    let newest = stamp(repl.get_document("lastWrite").unwrap().get_document("opTime").unwrap(), "ts");
    for member in progress.iter().map(|member| member.as_document().unwrap()) {
        let journaled = stamp(member.get_document("optime").unwrap(), "ts");
        assert!(journaled.time > 0 && journaled <= newest, "{member} {newest}");
        assert!(repl.get_array("hosts").unwrap().contains(member.get("host").unwrap()), "{member}");
    }
}

#[test]
fn a_secondary_follows_with_one_cursor() {
    let set = Set::of_three(EngineName::Ephemeral);
    let primary = set.primary();
    let mut connection = set.connect(primary);
    for id in 0..20 {
        let insert = doc! {
            "insert": "c", "documents": [{ "_id": id }], "writeConcern": { "w": 3, "wtimeout": 300_000 },
        };
        let reply = run(&mut connection, "test", &insert);
        assert!(!reply.contains_key("writeConcernError"), "{reply}");
    }
    for secondary in (0..3).filter(|place| *place != primary) {
        let status = run(&mut set.connect(secondary), "admin", &doc! { "serverStatus": 1 });
        let metrics = status.get_document("metrics").unwrap().get_document("repl").unwrap();
        let replies = metrics.get_document("network").unwrap().get_document("getmores").unwrap();
        // One reply may contain several entries, but no client writes before all members have the last one.
        assert!(replies.get_i64("num").unwrap() >= 10, "{metrics}");
    }
    set.end();
}

#[test]
fn a_secondary_refuses_writes_and_reads_that_did_not_ask_for_it() {
    let set = Set::of_three(EngineName::Ephemeral);
    let secondary = (set.primary() + 1) % 3;
    set.wait_secondary(secondary);
    let mut connection = set.connect(secondary);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    assert_eq!(code(&mut connection, "test", &insert), Code::NotWritablePrimary);
    assert_eq!(code(&mut connection, "test", &doc! { "find": "c" }), Code::NotPrimaryNoSecondaryOk);
    let find = doc! { "find": "c", "$readPreference": { "mode": "secondary" } };
    run(&mut connection, "test", &find);
    let hello = run(&mut connection, "admin", &doc! { "hello": 1 });
    assert!(hello.get_bool("secondary").unwrap() && !hello.get_bool("isWritablePrimary").unwrap());
    assert_eq!(hello.get_str("setName").unwrap(), "rs");
    assert_eq!(hello.get_array("hosts").unwrap().len(), 3);
    set.end();
}

#[test]
fn a_write_concern_that_cannot_be_had_is_told_beside_the_write() {
    let mut set = Set::of_three(EngineName::Ephemeral);
    let primary = set.primary();
    let mut connection = set.connect(primary);
    let insert = |id: i32, concern: bson::Document| {
        doc! { "insert": "c", "documents": [{ "_id": id }], "writeConcern": concern }
    };
    let error = |reply: &bson::Document| {
        reply.get_document("writeConcernError").map(|error| error.get_i32("code").unwrap()).unwrap_or(0)
    };
    assert_eq!(error(&run(&mut connection, "test", &insert(1, doc! { "w": 4 }))), 100);
    assert_eq!(error(&run(&mut connection, "test", &insert(2, doc! { "w": "nowhere" }))), 79);
    let other = (primary + 1) % 3;
    set.stop(other);
    let reply = run(&mut connection, "test", &insert(3, doc! { "w": 3, "wtimeout": 300 }));
    assert_eq!(error(&reply), 64, "{reply}");
    assert!(!reply.to_string().contains("RetryableWriteError"));
    let told = reply.get_document("writeConcernError").unwrap().get_document("errInfo").unwrap();
    let wanted = doc! { "w": 3, "wtimeout": 300, "provenance": "clientSupplied" };
    assert_eq!(told, &doc! { "wtimeout": true, "writeConcern": wanted });
    assert_eq!(error(&run(&mut connection, "test", &insert(4, doc! { "w": 2, "wtimeout": 300_000 }))), 0);
    assert_eq!(error(&run(&mut connection, "test", &insert(5, doc! { "w": "majority" }))), 0);
    assert_eq!(set.documents(primary).len(), 5);
    set.end();
}

/// As in mongod, the wait for a write concern is part of the server's latency (`opLatencies`), and not of the collection's (`top`).
#[test]
fn a_wait_for_a_write_concern_is_in_the_servers_latency_alone() {
    const TIMEOUT_MS: i64 = 300;
    let mut set = Set::of_three(EngineName::Ephemeral);
    let primary = set.primary();
    let mut connection = set.connect(primary);
    set.stop((primary + 1) % 3);
    let insert = |id: i32, concern: Document| {
        doc! { "insert": "c", "documents": [{ "_id": id }], "writeConcern": concern }
    };
    run(&mut connection, "test", &insert(1, doc! { "w": 1 }));
    let number = |section: &Document, name: &str| {
        let value = section.get(name).unwrap();
        value.as_i64().or(value.as_i32().map(i64::from)).unwrap()
    };
    let mut times = || {
        let status = run(&mut connection, "admin", &doc! { "serverStatus": 1 });
        let writes = status.get_document("opLatencies").unwrap().get_document("writes").unwrap().clone();
        let top = run(&mut connection, "admin", &doc! { "top": 1 });
        let of_collection = top.get_document("totals").unwrap().get_document("test.c").unwrap();
        let inserts = of_collection.get_document("insert").unwrap();
        [number(&writes, "latency"), number(inserts, "time"), number(inserts, "count")]
    };
    let before = times();
    let mut writer = set.connect(primary);
    let reply = run(&mut writer, "test", &insert(2, doc! { "w": 3, "wtimeout": TIMEOUT_MS }));
    assert!(reply.contains_key("writeConcernError"), "{reply}");
    let after = times();
    let [server_us, collection_us, inserts] = std::array::from_fn(|at| after[at] - before[at]);
    assert_eq!(inserts, 1);
    assert!(server_us - collection_us >= TIMEOUT_MS * 1000, "{server_us} {collection_us}");
    set.end();
}

#[test]
fn a_member_that_comes_later_gets_all_and_one_that_was_away_catches_up() {
    for engine in [EngineName::WiredTiger, EngineName::RocksDb] {
        let mut set = Set::start(&[engine; 3]);
        // The third is not a member at first.
        set.initiate(&[doc! {}, doc! {}]);
        let primary = set.primary();
        let mut connection = set.connect(primary);
        let documents: Vec<_> = (0..2000).map(|n| doc! { "_id": n, "a": n }).collect();
        served::insert(&mut connection, "c", documents);
        served::index(&mut connection, "c", doc! { "a": 1 });
        let third = doc! { "_id": 2, "host": set.host(2) };
        set.reconfigure(primary, |config| config.get_array_mut("members").unwrap().push(third.into()));
        set.wait_secondary(2);
        set.wait_equal(primary);
        let list = doc! { "listIndexes": "c", "$readPreference": { "mode": "secondaryPreferred" } };
        // The data may come from a secondary that has not applied the index yet; then the oplog brings it.
        until("the new member has the index", || {
            (served::listed(&mut set.connect(2), &list).len() == 2).then_some(())
        });
        let away = if primary == 2 { 1 } else { 2 };
        set.stop(away);
        let more: Vec<_> = (2000..2500).map(|n| doc! { "_id": n, "a": n }).collect();
        served::insert(&mut connection, "c", more);
        set.restart(away);
        set.wait_secondary(away);
        set.wait_equal(primary);
        set.end();
    }
}

#[test]
fn a_new_member_copies_from_a_secondary_where_nobody_is_primary() {
    let mut set = Set::start(&[EngineName::WiredTiger, EngineName::WiredTiger, EngineName::RocksDb]);
    // The third does not vote, so that without the primary no member can be elected.
    set.initiate(&[doc! {}, doc! {}, doc! { "votes": 0, "priority": 0 }]);
    let primary = set.primary();
    set.wait_secondary(2);
    let documents: Vec<_> = (0..500).map(|n| doc! { "_id": n, "a": n }).collect();
    let insert =
        doc! { "insert": "c", "documents": documents, "writeConcern": { "w": 3, "wtimeout": 300_000 } };
    let mut connection = set.connect(primary);
    let reply = run(&mut connection, "test", &insert);
    assert!(!reply.contains_key("writeConcernError"), "{reply}");
    served::index(&mut connection, "c", doc! { "a": 1 });
    drop(connection);
    let list = doc! { "listIndexes": "c", "$readPreference": { "mode": "secondaryPreferred" } };
    let indexes = |set: &Set, place: usize| served::listed(&mut set.connect(place), &list).len();
    until("the secondary has the index", || (indexes(&set, 1 - primary) == 2).then_some(()));
    set.stop(2);
    std::fs::remove_dir_all(set.path(2)).unwrap();
    set.stop(primary);
    set.restart(2);
    set.wait_secondary(2);
    assert_eq!(set.documents(2), set.documents(1 - primary));
    assert_eq!(indexes(&set, 2), 2);
    set.end();
}

#[test]
fn majority_reads_and_causal_reads_wait_for_what_they_want() {
    let set = Set::of_three(EngineName::WiredTiger);
    let primary = set.primary();
    let mut connection = set.connect(primary);
    for n in 0..20 {
        let reply = run(&mut connection, "test", &doc! { "insert": "c", "documents": [{ "_id": n }] });
        let time = reply.get_timestamp("operationTime").unwrap();
        let secondary = (primary + 1) % 3;
        set.wait_secondary(secondary);
        let find = doc! {
            "find": "c", "filter": { "_id": n },
            "readConcern": { "level": "majority", "afterClusterTime": time },
            "$clusterTime": reply.get_document("$clusterTime").unwrap(),
            "$readPreference": { "mode": "secondary" },
        };
        assert_eq!(served::listed(&mut set.connect(secondary), &find).len(), 1, "{n}");
    }
    set.end();
}

#[test]
fn a_cluster_time_beyond_the_clock_is_rejected_and_writes_still_replicate() {
    let set = Set::of_three(EngineName::Ephemeral);
    let primary = set.primary();
    let mut connection = set.connect(primary);
    let insert = |n: i32| {
        doc! {
            "insert": "c", "documents": [{ "_id": n }],
            "writeConcern": { "w": "majority", "wtimeout": 300_000 },
        }
    };
    let before = run(&mut connection, "test", &insert(0)).get_timestamp("operationTime").unwrap();
    // A year ahead exceeds the `$clusterTime` that a set accepts; the last of all timestamps has no successor.
    let times = [(before.time + 315_360_000, 1), (before.time + 60, 1), (u32::MAX, u32::MAX)];
    for (time, increment) in times {
        let find = doc! {
            "find": "c", "readConcern": { "afterClusterTime": Timestamp { time, increment } },
            "$readPreference": { "mode": "secondaryPreferred" }, "maxTimeMS": 300_000,
        };
        for place in 0..3 {
            let failure = served::failure(&mut set.connect(place), "test", &find);
            assert_eq!(failure.code(), Code::InvalidOptions, "{failure}");
            assert!(failure.message().contains("greater than the current clusterTime"), "{failure}");
        }
    }
    let reply = run(&mut connection, "test", &insert(1));
    assert!(!reply.contains_key("writeConcernError"), "{reply}");
    let after = reply.get_timestamp("operationTime").unwrap();
    assert!(after > before && after.time < before.time + 60, "{before} {after}");
    set.wait_equal(primary);
    assert_eq!(set.documents((primary + 1) % 3).len(), 2);
    set.end();
}

#[test]
fn a_set_of_one_is_a_set() {
    let set = Set::start(&[EngineName::WiredTiger]);
    let mut connection = set.connect(0);
    assert_eq!(code(&mut connection, "admin", &doc! { "replSetGetStatus": 1 }), Code::NotYetInitialized);
    set.initiate(&[doc! {}]);
    assert_eq!(set.primary(), 0);
    let mut connection = set.connect(0);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": "majority" } };
    let reply = run(&mut connection, "test", &insert);
    assert!(!reply.contains_key("writeConcernError"), "{reply}");
    let status = run(&mut connection, "admin", &doc! { "replSetGetStatus": 1 });
    assert_eq!(status.get_array("members").unwrap().len(), 1);
    until("the entry is in the oplog", || {
        let find = doc! { "find": "oplog.rs", "filter": { "op": "i", "ns": "test.c" } };
        let mut connection = set.connect(0);
        let found = connection.cursor("local", &find).unwrap().next();
        found.map(|entry| assert_eq!(entry.unwrap().get_str("ns").unwrap(), "test.c"))
    });
    set.end();
}

/// Waits of seconds, judged by thresholds of half of that.
mod timed {
    use super::*;

    /// mongod logs such a write when it is done, if that was slow, and its command when the wait has ended.
    #[test]
    fn a_write_that_only_waited_is_logged_as_its_command() {
        const TIMEOUT_MS: i64 = 1500;
        let mut set = Set::of_three(EngineName::Ephemeral);
        let primary = set.primary();
        let mut connection = set.connect(primary);
        set.stop((primary + 1) % 3);
        run(&mut connection, "test", &doc! { "insert": "c", "documents": [{ "_id": 1 }] });
        run(&mut connection, "test", &doc! { "profile": 1, "slowms": 700 });
        let update = doc! {
            "update": "c",
            "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "a": 1 } } }],
            "writeConcern": { "w": 3, "wtimeout": TIMEOUT_MS },
        };
        run(&mut connection, "test", &update);
        let log = run(&mut connection, "admin", &doc! { "getLog": "global" });
        let lines = log.get_array("log").unwrap().iter().filter_map(bson::Bson::as_str);
        let slow: Vec<serde_json::Value> = lines
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .filter(|line| line["id"] == 51803 && line["attr"]["ns"] == "test.c")
            .collect();
        assert_eq!(slow.len(), 1, "{slow:?}");
        assert_eq!(slow[0]["c"], "COMMAND");
        let attributes = &slow[0]["attr"];
        assert_eq!(attributes["command"]["update"], "c");
        let [took_ms, waited_ms] = ["durationMillis", "waitForWriteConcernDurationMillis"]
            .map(|name| attributes[name].as_i64().unwrap());
        assert!(TIMEOUT_MS <= waited_ms && waited_ms <= took_ms, "{attributes}");
        assert!(served::listed(&mut connection, &doc! { "find": "system.profile" }).is_empty());
        set.end();
    }
}
