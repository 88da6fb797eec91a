//! Slow operations: the log line and the document in `system.profile` describe the operation's work.

use std::time::Instant;

use bson::{Bson, Document, doc};
use fathom_client::{Connection, Target};

use super::support::{ENGINES, Lab, at, fail, found, grown, number, run, run_on, status, text};

/// The lines about slow operations that the log holds, newest last.
fn lines(lab: &Lab) -> Vec<Document> {
    let log = lab.log();
    log.iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line["id"] == 51803)
        .map(|line| Bson::try_from(line).unwrap().as_document().unwrap().clone())
        .collect()
}

fn line(lab: &Lab, wanted: impl Fn(&Document) -> bool) -> Document {
    lines(lab).into_iter().rfind(|line| wanted(at(line, "attr").as_document().unwrap())).unwrap()
}

fn runs(name: &'static str) -> impl Fn(&Document) -> bool {
    move |attributes| attributes.get_document("command").is_ok_and(|command| command.contains_key(name))
}

fn all_are_slow(lab: &Lab) -> Connection {
    let target = Target { app_name: Some("lab".to_owned()), ..lab.target() };
    let mut connection = Connection::connect(&target).unwrap();
    run(&mut connection, &doc! { "profile": 0, "slowms": -1 });
    connection
}

#[test]
fn a_slow_query_is_logged_with_what_it_did() {
    for engine in ENGINES {
        let lab = Lab::start(engine);
        let mut connection = all_are_slow(&lab);
        let documents: Vec<Document> = (0..200).map(|n| doc! { "_id": n, "a": n % 2 }).collect();
        run(&mut connection, &doc! { "insert": "c", "documents": documents });
        let find = doc! { "find": "c", "filter": { "a": 1 }, "sort": { "a": -1 }, "batchSize": 60 };
        assert_eq!(found(&mut connection, &find).len(), 100);

        let slow = line(&lab, runs("find"));
        assert_eq!(
            (at(&slow, "c").as_str(), at(&slow, "msg").as_str()),
            (Some("COMMAND"), Some("Slow query"))
        );
        let attributes = at(&slow, "attr").as_document().unwrap();
        assert_eq!(attributes.get_str("ns").unwrap(), "test.c");
        assert_eq!(attributes.get_str("type").unwrap(), "command");
        assert_eq!(attributes.get_str("appName").unwrap(), "lab");
        assert_eq!(attributes.get_str("planSummary").unwrap(), "COLLSCAN");
        assert_eq!(attributes.get_str("protocol").unwrap(), "op_msg");
        for (name, value) in [("keysExamined", 0), ("docsExamined", 200), ("nreturned", 60)] {
            assert_eq!(number(attributes, name), value, "{name}");
        }
        assert!(attributes.get_bool("hasSortStage").unwrap());
        assert_eq!(number(attributes, "locks.Global.acquireCount.r"), 1);
        let more = line(&lab, runs("getMore"));
        assert_eq!(number(&more, "attr.nreturned"), 40);
        assert!(at(&more, "attr.cursorExhausted").as_bool().unwrap());
        assert_eq!(at(&more, "attr.originatingCommand.find").as_str(), Some("c"));
        assert_eq!(number(&more, "attr.cursorid"), number(attributes, "cursorid"));
    }
}

#[test]
fn one_write_is_logged_as_a_write_and_several_as_a_command() {
    let lab = Lab::start(ENGINES[0]);
    let mut connection = all_are_slow(&lab);
    run(&mut connection, &doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }] });
    let insert = line(&lab, runs("insert"));
    assert_eq!(number(&insert, "attr.ninserted"), 3);
    let change = doc! { "q": { "_id": { "$lte": 2 } }, "u": { "$set": { "v": 1 } }, "multi": true };
    run(&mut connection, &doc! { "update": "c", "updates": [change.clone()] });
    let update = line(&lab, runs("u"));
    assert_eq!(
        (at(&update, "c").as_str(), at(&update, "attr.type").as_str()),
        (Some("WRITE"), Some("update"))
    );
    assert_eq!((number(&update, "attr.nMatched"), number(&update, "attr.nModified")), (2, 2));
    assert_eq!(at(&update, "attr.planSummary").as_str(), Some("IXSCAN { _id: 1 }"));
    run(&mut connection, &doc! { "delete": "c", "deletes": [{ "q": { "_id": 3 }, "limit": 1 }] });
    let delete = line(&lab, |attributes| attributes.get_str("type").unwrap() == "remove");
    assert_eq!((number(&delete, "attr.ndeleted"), number(&delete, "attr.keysExamined")), (1, 1));
    run(&mut connection, &doc! { "update": "c", "updates": [change.clone(), change] });
    let both = line(&lab, runs("update"));
    assert_eq!(at(&both, "c").as_str(), Some("COMMAND"));
    assert_eq!((number(&both, "attr.nMatched"), number(&both, "attr.nModified")), (4, 0));
}

#[test]
fn failures_are_named_secrets_are_not_and_long_commands_are_cut() {
    let lab = Lab::start(ENGINES[2]);
    let mut connection = all_are_slow(&lab);
    fail(&mut connection, "test", &doc! { "find": "c", "filter": { "$nonsense": 1 } });
    let failed = line(&lab, runs("find"));
    assert_eq!(number(&failed, "attr.errCode"), 2);
    assert_eq!(at(&failed, "attr.errName").as_str(), Some("BadValue"));
    let reply = fail(&mut connection, "test", &doc! { "find": "c", "filter": { "$nonsense": 1 } });
    assert_eq!(at(&failed, "attr.errMsg").as_str(), Some(reply.message()));

    let long = doc! { "find": "c", "filter": { "a": "x".repeat(50_000) }, "comment": "short" };
    run(&mut connection, &long);
    let cut = line(&lab, |attributes| attributes.contains_key("truncated"));
    assert_eq!(at(&cut, "attr.command.comment").as_str(), Some("short"));
    assert!(number(&cut, "attr.truncated.command.filter.size") > 50_000);
    assert_eq!(at(&cut, "attr.truncated.command.filter.type").as_str(), Some("object"));

    // The greeting of a second connection holds what a login would.
    drop(lab.connect());
    let hello = line(&lab, |attributes| attributes.get_document("command").unwrap().contains_key("hello"));
    assert_eq!(at(&hello, "attr.command").as_document().unwrap().len(), 2);
}

#[test]
fn fast_operations_are_not_logged_and_sampling_thins_the_slow_ones() {
    let lab = Lab::start(ENGINES[2]);
    let mut connection = lab.connect();
    run(&mut connection, &doc! { "profile": 0, "slowms": 60_000 });
    run(&mut connection, &doc! { "find": "c" });
    assert_eq!(lines(&lab).len(), 0);
    run(&mut connection, &doc! { "profile": 0, "slowms": -1, "sampleRate": 0.3 });
    for _ in 0..200 {
        run(&mut connection, &doc! { "find": "c" });
    }
    let logged = lines(&lab).len();
    assert!((20..110).contains(&logged), "{logged} of 200");
}

#[test]
fn the_profile_keeps_what_its_level_says() {
    for engine in ENGINES {
        let lab = Lab::start(engine);
        let mut connection = lab.connect();
        let was = run(&mut connection, &doc! { "profile": -1 });
        assert_eq!((number(&was, "was"), number(&was, "slowms")), (0, 100));
        assert_eq!(at(&was, "sampleRate").as_f64(), Some(1.0));
        run(&mut connection, &doc! { "profile": 2 });
        run(&mut connection, &doc! { "insert": "c", "documents": [{ "_id": 1, "a": 5 }] });
        run(&mut connection, &doc! { "find": "c", "filter": { "a": 5 } });
        run_on(&mut connection, "other", &doc! { "find": "c", "filter": { "a": 5 } });
        assert_eq!(number(&run(&mut connection, &doc! { "profile": 0 }), "was"), 2);
        run(&mut connection, &doc! { "find": "c", "filter": { "a": 6 } });
        let kept = found(&mut connection, &doc! { "find": "system.profile", "filter": { "ns": "test.c" } });
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert_eq!((text(&kept[0], "op"), text(&kept[1], "op")), ("insert", "query"));
        assert_eq!(number(&kept[0], "ninserted"), 1);
        assert_eq!((number(&kept[1], "docsExamined"), number(&kept[1], "nreturned")), (1, 1));
        assert_eq!(text(&kept[1], "planSummary"), "COLLSCAN");
        assert_eq!(at(&kept[1], "command.filter.a"), &Bson::Int32(5));
        assert_eq!(text(&kept[1], "client"), "127.0.0.1");
        let stats = run(&mut connection, &doc! { "collStats": "system.profile" });
        assert!(stats.get_bool("capped").unwrap());
        assert_eq!(number(&stats, "maxSize"), 1 << 20);
        // Recording operations is not counted as an operation.
        assert_eq!(number(&super::support::status(&mut connection), "opcounters.insert"), 1);
        assert_eq!(fail(&mut connection, "test", &doc! { "profile": 3 }).code().0, 2);
        assert_eq!(fail(&mut connection, "test", &doc! { "profile": 1, "sampleRate": 2 }).code().0, 2);
        assert_eq!(fail(&mut connection, "test", &doc! { "profile": 1, "filter": {} }).code().0, 115);
    }
}

#[test]
fn what_a_query_read_from_the_disk_is_said() {
    let mut lab = Lab::start(ENGINES[0]);
    let mut connection = lab.connect();
    let documents: Vec<Document> = (0..4000).map(|n| doc! { "_id": n, "pad": "x".repeat(1000) }).collect();
    run(&mut connection, &doc! { "insert": "c", "documents": documents });
    let bytes = number(&run(&mut connection, &doc! { "collStats": "c" }), "size");
    drop(connection);
    lab.restart();
    let mut connection = all_are_slow(&lab);
    run(&mut connection, &doc! { "find": "c", "filter": { "pad": "y" } });
    let cold = line(&lab, runs("find"));
    let read = number(&cold, "attr.storage.data.bytesRead");
    // The start has already read the last page.
    assert!((bytes * 9 / 10..bytes * 11 / 10).contains(&read), "{read} of {bytes}");
    assert!(number(&cold, "attr.storage.data.timeReadingMicros") > 0);
    // The second time everything is in the cache.
    run(&mut connection, &doc! { "find": "c", "filter": { "pad": "z" } });
    let warm = line(&lab, runs("find"));
    assert_eq!(at(&warm, "attr.storage").as_document().unwrap(), &doc! {});
    assert_eq!(number(&warm, "attr.docsExamined"), 4000);
}

/// The server's time and the wait fit into the client's time one after the other. If the wait were part of the server's time, they would
/// not, however slow the machine is.
#[test]
fn a_wait_for_new_data_is_not_part_of_the_servers_time() {
    const WAIT_US: i64 = 1_000_000;
    let lab = Lab::start(ENGINES[0]);
    let mut connection = all_are_slow(&lab);
    run(&mut connection, &doc! { "create": "log", "capped": true, "size": 4096 });
    run(&mut connection, &doc! { "insert": "log", "documents": [{ "_id": 1 }] });
    let opened = run(&mut connection, &doc! { "find": "log", "tailable": true, "awaitData": true });
    let id = number(&opened, "cursor.id");
    let before = status(&mut connection);
    let begun = Instant::now();
    let more = doc! { "getMore": id, "collection": "log", "batchSize": 10, "maxTimeMS": WAIT_US / 1000 };
    assert!(at(&run(&mut connection, &more), "cursor.nextBatch").as_array().unwrap().is_empty());
    let client_us = i64::try_from(begun.elapsed().as_micros()).unwrap();
    let after = status(&mut connection);
    let top = run_on(&mut connection, "admin", &doc! { "top": 1 });
    let totals = at(&top, "totals").as_document().unwrap().get_document("test.log").unwrap();
    let times_us = [
        grown(&before, &after, "opLatencies.reads.latency"),
        number(totals, "getmore.time"),
        1000 * number(&line(&lab, runs("getMore")), "attr.durationMillis"),
    ];
    // The server counts the wait from a moment before it.
    let least_us = WAIT_US / 10 * 9;
    assert!(times_us.iter().all(|time_us| client_us - time_us >= least_us), "{client_us} {times_us:?}");
}

/// Waits of seconds, judged by thresholds of half of that.
mod timed {
    use super::*;

    #[test]
    fn a_wait_for_new_data_is_in_no_latency_log_or_profile() {
        let lab = Lab::start(ENGINES[0]);
        let mut connection = lab.connect();
        run(&mut connection, &doc! { "create": "log", "capped": true, "size": 4096 });
        run(&mut connection, &doc! { "insert": "log", "documents": [{ "_id": 1 }] });
        let opened = run(&mut connection, &doc! { "find": "log", "tailable": true, "awaitData": true });
        let id = number(&opened, "cursor.id");
        run(&mut connection, &doc! { "profile": 1, "slowms": 500 });
        let before = status(&mut connection);
        for _ in 0..3 {
            let more = run(&mut connection, &doc! { "getMore": id, "collection": "log", "maxTimeMS": 1000 });
            assert!(at(&more, "cursor.nextBatch").as_array().unwrap().is_empty());
        }
        let after = status(&mut connection);
        assert_eq!(grown(&before, &after, "opLatencies.reads.ops"), 3);
        assert!(grown(&before, &after, "opLatencies.reads.latency") < 500_000);
        let top = run_on(&mut connection, "admin", &doc! { "top": 1 });
        let totals = at(&top, "totals").as_document().unwrap().get_document("test.log").unwrap();
        assert_eq!(number(totals, "getmore.count"), 3);
        assert!(number(totals, "getmore.time") < 500_000, "{totals}");
        assert!(lines(&lab).is_empty());
        assert!(found(&mut connection, &doc! { "find": "system.profile" }).is_empty());
    }
}
