//! Tests the table of names with replies of servers of many versions, real and composed (tests/fixtures/server-status/ORIGIN.md).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bson::{Document, RawDocumentBuf};
use fathom_client::{Address, Target};

use super::figures::CounterFigures;
use super::link::{WatchedRole, WatchedServer};
use super::names::NAMES;
use super::snapshot::NameTree;
use crate::{Batch, Clock};

const ALL: [&str; 12] = [
    "mongod-4.0.3/replset-primary-serverStatus",
    "server-status/composed-4.4",
    "server-status/real-5.0.0",
    "server-status/composed-6.0",
    "server-status/composed-7.0",
    "server-status/composed-8.0",
    "server-status/composed-8.2",
    "server-status/real-8-cache",
    "server-status/composed-mongo-rocks",
    "server-status/composed-mongos-4.4",
    "server-status/composed-fathom-route",
    "server-status/composed-fathom-serve",
];

fn read(name: &str) -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn expected(name: &str) -> BTreeMap<String, f64> {
    let name = if name.starts_with("mongod-4.0.3") { "mongod-4.0.3/serverStatus" } else { name };
    serde_json::from_value(read(&format!("{name}.expected"))).unwrap()
}

fn document(name: &str) -> Document {
    Document::try_from(read(name).as_object().unwrap().clone()).unwrap()
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

pub(super) fn watched() -> WatchedServer {
    let address = Address::new("db1", 27017);
    WatchedServer {
        number: 0,
        target: Target::at(address.clone()),
        address,
        role: WatchedRole::Primary,
        set: None,
        shard: None,
        is_silent: false,
        pid: None,
        dbpath: None,
        log: None,
    }
}

/// The readings of replies, one each second.
fn taken(replies: &[&Document]) -> Batch {
    let watched = watched();
    let mut figures = CounterFigures::new(&watched, Arc::new(NameTree::new()));
    let mut batch = Batch::new(Clock::since(Instant::now()));
    for (second, reply) in (1..).zip(replies) {
        figures.take(&watched, &raw(reply), (second * 1_000, second * 1_000), &mut batch);
    }
    batch
}

fn value(batch: &Batch, series: &str) -> Vec<(u64, u64, f64)> {
    let name = format!("server.0.{series}");
    let readings = batch.readings.iter().filter(|reading| reading.name == name);
    readings.map(|reading| (reading.begin_ns, reading.end_ns, reading.value)).collect()
}

/// Adds to the number at a path.
fn add(document: &mut Document, path: &[&str], by: i64) {
    let (last, inner) = path.split_last().unwrap();
    let inner = inner.iter().fold(document, |document, field| document.get_document_mut(field).unwrap());
    let now = inner.get_i64(last).unwrap_or_else(|_| inner.get_i32(last).unwrap().into());
    inner.insert(*last, now + by);
}

#[test]
fn each_version_gives_each_of_its_series_and_no_other() {
    let tree = NameTree::new();
    for name in ALL {
        let values = tree.read(&raw(&document(name)));
        let found: BTreeMap<String, f64> = NAMES
            .iter()
            .zip(values)
            .filter_map(|(name, value)| Some((name.series.to_owned(), value?)))
            .collect();
        assert_eq!(found, expected(name), "{name}");
    }
}

#[test]
fn every_row_of_the_table_is_met_by_some_version() {
    let met: Vec<String> = ALL.iter().flat_map(|name| expected(name).into_keys()).collect();
    for name in NAMES {
        assert!(met.iter().any(|series| series == name.series), "{}", name.series);
    }
}

#[test]
fn two_replies_give_what_was_added_between_them() {
    for name in ["mongod-4.0.3/replset-primary-serverStatus", "server-status/composed-8.0"] {
        let first = document(name);
        let mut second = first.clone();
        add(&mut second, &["uptimeMillis"], 1000);
        add(&mut second, &["opLatencies", "reads", "ops"], 20);
        add(&mut second, &["wiredTiger", "log", "log sync operations"], 3);
        add(&mut second, &["locks", "Database", "timeAcquiringMicros", "W"], 45);
        add(&mut second, &["metrics", "getLastError", "wtime", "totalMillis"], 2);
        let batch = taken(&[&first, &second]);
        for (series, added) in [
            ("reads.operations", 20.0),
            ("journal.syncs", 3.0),
            ("wait.lock_us", 45.0),
            ("wait.replication_us", 2000.0),
            ("writes.operations", 0.0),
        ] {
            assert_eq!(value(&batch, series), [(1_000, 2_000, added)], "{name}: {series}");
        }
        assert_eq!(value(&batch, "cache.used_bytes").len(), 2, "a gauge needs no second reply");
    }
}

#[test]
fn a_restart_leaves_a_gap_and_a_note() {
    let first = document("server-status/composed-7.0");
    let mut again = first.clone();
    again.insert("uptimeMillis", 5_i64);
    // The new process has done more since its start than the earlier one in all its life: only the uptime reveals the restart.
    add(&mut again, &["opLatencies", "reads", "ops"], 1_000_000);
    let mut last = again.clone();
    add(&mut last, &["uptimeMillis"], 1000);
    add(&mut last, &["opLatencies", "reads", "ops"], 7);
    let batch = taken(&[&first, &again, &last]);
    assert_eq!(value(&batch, "reads.operations"), [(2_000, 3_000, 7.0)]);
    assert_eq!(batch.notes.iter().filter(|note| note.contains("restarted")).count(), 1, "{:?}", batch.notes);
    let versions = batch.facts.iter().filter(|(name, _)| name == "server.0.version").count();
    assert_eq!(versions, 2, "the one that came back may be another version");
}

#[test]
fn what_is_missing_is_absent_and_said_once() {
    let complete = document("server-status/composed-8.0");
    let notes = |document: &Document| taken(&[document, document]).notes;
    assert_eq!(notes(&complete), Vec::<String>::new());
    let of_4_0 = notes(&document("mongod-4.0.3/replset-primary-serverStatus"));
    assert_eq!(of_4_0.len(), 1, "{of_4_0:?}");
    assert!(
        of_4_0[0].starts_with("server 0 (db1:27017) does not count waits for tickets: "),
        "{}",
        of_4_0[0]
    );
    let without = |section: &str, inner: Option<&str>| {
        let mut document = complete.clone();
        match inner {
            Some(inner) => document.get_document_mut(section).unwrap().remove(inner),
            None => document.remove(section),
        };
        let batch = taken(&[&document, &document]);
        let counts = batch
            .notes
            .iter()
            .filter_map(|note| Some(note.split_once("does not count ")?.1.split_once(':')?.0.to_owned()));
        (counts.collect::<Vec<_>>(), batch)
    };
    let (said, batch) = without("wiredTiger", Some("log"));
    assert_eq!(said, ["syncs of the journal and their time"]);
    assert!(batch.readings.iter().all(|reading| !reading.name.contains("journal")));
    assert_eq!(without("opLatencies", None).0, ["the latency of its operations"]);
    assert_eq!(without("queues", None).0, ["waits for tickets", "tickets"]);
    let of_engine = [
        "the time that operations wait for pages from disk",
        "the time that operations spend on eviction",
        "the fill of its cache",
        "syncs of the journal and their time",
        "whether a checkpoint runs",
        "what its engine writes",
    ];
    assert_eq!(without("wiredTiger", None).0, of_engine);
}

#[test]
fn a_router_is_not_blamed_for_what_it_has_not() {
    let mut watched = watched();
    watched.role = WatchedRole::Router;
    let mut figures = CounterFigures::new(&watched, Arc::new(NameTree::new()));
    let mut batch = Batch::new(Clock::since(Instant::now()));
    figures.take(&watched, &raw(&document("mongod-4.0.3/mongos-serverStatus")), (1, 2), &mut batch);
    assert_eq!(batch.notes, Vec::<String>::new());
    assert_eq!(value(&batch, "process.resident_bytes"), [(1, 2, 26.0 * 1_048_576.0)]);
    assert!(batch.facts.contains(&("server.0.role".to_owned(), "router".to_owned())));
}
