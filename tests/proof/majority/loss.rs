//! Writes acknowledged at `w: 1` can be lost, and are then in the rollback files: all of them, and nothing else.

use std::collections::BTreeMap;
use std::thread;

use bson::{Document, doc};
use fathom_client::Connection;
use fathom_testkit::test;

use super::members::{Engines, Members, TIMEOUT, until};
use super::nemesis::{begin, end};
use super::outcome::converge;
use super::schedule::Fault;

#[test]
fn a_wiredtiger_primary_that_is_cut_off_saves_what_it_loses_in_files() {
    cut_primary_off(["wiredTiger"; 3]);
}

#[test]
fn a_rocksdb_primary_that_is_cut_off_saves_what_it_loses_in_files() {
    cut_primary_off(["rocksdb"; 3]);
}

fn cut_primary_off(engines: Engines) {
    // Long enough for some writes before the primary steps down.
    let members = Members::start(engines, 3000);
    thread::scope(|scope| scope.spawn(|| lose(&members)).join()).unwrap();
    members.end();
}

fn lose(members: &Members) {
    members.network.enter().unwrap();
    super::clients::prepare(members);
    let old = members.wait_for_primary();
    let mut connection = members.connect(old, TIMEOUT).unwrap();
    let common: Vec<Document> = (1..=60_i64).map(|id| doc! { "_id": id, "v": "common" }).collect();
    write(&mut connection, doc! { "insert": "loose", "documents": common, "writeConcern": { "w": 3 } });
    begin(members, old, Fault::Cut);
    let lost = take_alone(&mut connection);
    let new = until("another member leads", || {
        let place = members.wait_for_primary();
        (place != old).then_some(place)
    });
    let mut connection = members.connect(new, TIMEOUT).unwrap();
    // One that the old primary changed too, one that it removed, and one that it left alone.
    let updates: Vec<Document> = [1_i64, 30, 50]
        .iter()
        .map(|id| doc! { "q": { "_id": id }, "u": { "$set": { "v": "kept" } } })
        .collect();
    write(
        &mut connection,
        doc! { "update": "loose", "updates": updates, "writeConcern": { "w": "majority" } },
    );
    end(members, old, Fault::Cut);
    let contents = converge(members);
    let mut wanted: BTreeMap<i64, &str> = (0..=60).map(|id| (id, "common")).collect();
    wanted.extend([(1, "kept"), (30, "kept"), (50, "kept")]);
    let found: BTreeMap<i64, &str> = contents["loose"]
        .iter()
        .map(|one| (one.get_i64("_id").unwrap(), one.get_str("v").unwrap_or("common")))
        .collect();
    assert_eq!(found, wanted, "what only the old primary had is gone, and nothing else");
    for place in 0..3 {
        let files: Vec<Document> = members.rolled_back(place, "loose").into_values().flatten().collect();
        let mut files: Vec<(i64, String)> = files
            .iter()
            .map(|one| (one.get_i64("_id").unwrap(), one.get_str("v").unwrap().to_owned()))
            .collect();
        files.sort();
        let expected = if place == old { lost.clone() } else { Vec::new() };
        assert_eq!(files, expected, "the rollback files of member {place}, where {old} was cut off");
    }
    println!("{} documents acknowledged at w: 1 were lost, all into files", lost.len());
}

/// Writes at `w: 1` to a primary that is alone: the versions of documents that only it has, by `_id`.
fn take_alone(connection: &mut Connection) -> Vec<(i64, String)> {
    let mut lost = BTreeMap::new();
    for id in 1..=20_i64 {
        // Twice, for only the last version is what is lost.
        for version in ["first", "second"] {
            let update = doc! { "q": { "_id": id }, "u": { "$set": { "v": version } } };
            write(connection, doc! { "update": "loose", "updates": [update] });
        }
        lost.insert(id, "second".to_owned());
    }
    let removed: Vec<Document> = (30..40_i64).map(|id| doc! { "q": { "_id": id }, "limit": 1 }).collect();
    write(connection, doc! { "delete": "loose", "deletes": removed });
    for id in 1000..1040_i64 {
        write(connection, doc! { "insert": "loose", "documents": [{ "_id": id, "v": "alone" }] });
        lost.insert(id, "alone".to_owned());
    }
    // Created and dropped: nothing of it can be lost.
    write(connection, doc! { "insert": "loose", "documents": [{ "_id": 2000_i64, "v": "gone" }] });
    write(connection, doc! { "delete": "loose", "deletes": [{ "q": { "_id": 2000_i64 }, "limit": 1 }] });
    lost.into_iter().collect()
}

/// Writes, and sees to it that all was done.
#[track_caller]
fn write(connection: &mut Connection, command: Document) {
    let reply = connection.run("test", &command).unwrap_or_else(|error| panic!("{command}: {error}"));
    for name in ["writeErrors", "writeConcernError"] {
        assert!(reply.get(name).unwrap().is_none(), "{command}: {reply:?}");
    }
}
