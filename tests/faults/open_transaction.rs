//! A transaction that stays open on a live server: others wait for its lock, or try again and again to write what it changed. `explain` names it
//! with its client, and what the others lose.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bson::{Document, doc};
use fathom_testkit::{LabServer, Scratch, assert};

use super::heavy_work::first_lines;
use super::other_clients::{ORDERS, build_index, connect, fill_orders};
use super::recorder::{LoadedServer, Recorder};
use super::study::{FaultStudy, Recording};

const HELD_LOCK: FaultStudy =
    FaultStudy { name: "transaction-lock", record: record_held_lock, check: check_held_lock };
const HELD_DOCUMENT: FaultStudy =
    FaultStudy { name: "transaction-conflict", record: record_held_document, check: check_held_document };

/// The length of a recording, and the time in it after which an index build waits for the transaction's lock.
const RUN_S: u64 = 30;
const BEGIN: Duration = Duration::from_secs(12);
/// The documents of the collection; the transaction changes the one with this key.
const DOCUMENTS: u32 = 1_000;
const KEY: i64 = 1;
/// A client pauses for this time between two operations.
const PAUSE: Duration = Duration::from_millis(10);
/// The application that leaves its transaction open.
const APPLICATION: &str = "checkout";

/// A server on which the writes of [`APPLICATION`] stay open as transactions, and other clients work until the end.
#[derive(Clone, Copy)]
struct HeldServer<'s> {
    server: &'s LabServer,
    is_ended: &'s AtomicBool,
}

impl HeldServer<'_> {
    /// Changes a document in a transaction, and returns when that has ended.
    fn leave_open(&self) {
        let mut command = update(doc! { "$set": { "rank": -1_i64 } });
        command.insert("lsid", doc! { "id": bson::Uuid::new() });
        connect(self.server, APPLICATION).run(ORDERS.0, &command).unwrap();
    }

    /// Runs a command again and again until the end.
    fn repeat(&self, command: &Document) {
        let mut connection = connect(self.server, "web");
        while !self.is_ended.load(Ordering::Relaxed) {
            connection.run(ORDERS.0, command).unwrap();
            thread::sleep(PAUSE);
        }
    }
}

/// The time in which transactions stay open. Its end ends them and the other clients.
struct HoldTime<'s>(HeldServer<'s>);

impl<'s> HoldTime<'s> {
    fn begin(held: HeldServer<'s>) -> HoldTime<'s> {
        let hold = doc! { "configureFailPoint": "holdTransaction", "mode": "alwaysOn", "data": { "appName": APPLICATION } };
        connect(held.server, "administration").run("admin", &hold).unwrap();
        HoldTime(held)
    }
}

impl Drop for HoldTime<'_> {
    fn drop(&mut self) {
        self.0.is_ended.store(true, Ordering::Relaxed);
        let release = doc! { "configureFailPoint": "holdTransaction", "mode": "off" };
        connect(self.0.server, "administration").run("admin", &release).unwrap();
    }
}

fn update(change: Document) -> Document {
    doc! { "update": ORDERS.1, "updates": [{ "q": { "_id": KEY }, "u": change }] }
}

/// Records a server with an open transaction, four readers, and what `others` do; these return when the transaction has ended.
fn record_with_transaction(recorder: &mut Recorder, others: &[fn(&HeldServer<'_>)]) {
    let scratch = Scratch::new().unwrap();
    let flags = ["--setParameter", "enableTestCommands=1"];
    let loaded = LoadedServer::start("wiredTiger", &scratch.path(), &flags, u64::from(DOCUMENTS));
    fill_orders(&loaded.server, DOCUMENTS);
    let is_ended = AtomicBool::new(false);
    let held = HeldServer { server: &loaded.server, is_ended: &is_ended };
    let find = doc! { "find": ORDERS.1, "filter": { "_id": 7_i64 } };
    thread::scope(|scope| {
        let time = HoldTime::begin(held);
        scope.spawn(move || held.leave_open());
        for _ in 0..4 {
            scope.spawn(|| held.repeat(&find));
        }
        for other in others {
            scope.spawn(move || other(&held));
        }
        recorder.record("run", loaded.explained(RUN_S));
        drop(time);
    });
    loaded.stop();
}

fn record_held_lock(recorder: &mut Recorder) {
    let build: fn(&HeldServer<'_>) = |held| {
        thread::sleep(BEGIN);
        build_index(&mut connect(held.server, "deploy"), ORDERS, "rank");
    };
    record_with_transaction(recorder, &[build]);
}

fn check_held_lock(recording: &Recording) {
    expect_named(recording, &["for locks that it holds", "shop.orders"]);
}

fn record_held_document(recorder: &mut Recorder) {
    let collide: fn(&HeldServer<'_>) = |held| held.repeat(&update(doc! { "$inc": { "rank": 1_i64 } }));
    record_with_transaction(recorder, &[collide, collide]);
}

fn check_held_document(recording: &Recording) {
    expect_named(recording, &["writes of shop.orders", "did not end"]);
}

/// Fails unless the first lines name the transaction with its client, and with these words.
#[track_caller]
fn expect_named(recording: &Recording, words: &[&str]) {
    recording.diagnosis("run").expect_held_back_by("long-transaction");
    let lines = first_lines(recording);
    println!("{lines}");
    let text = lines.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["eld back by a transaction that stays open", "checkout on 127.0.0.1"].iter().chain(words) {
        assert!(text.contains(part), "'{part}' is not in the first lines:\n{lines}");
    }
}

mod proof {
    use fathom_testkit::test;

    use super::{HELD_DOCUMENT, HELD_LOCK};

    #[test]
    fn a_transaction_whose_lock_others_wait_for_is_named_with_its_client() {
        HELD_LOCK.prove();
    }

    #[test]
    fn a_transaction_that_others_collide_with_is_named_with_its_client() {
        HELD_DOCUMENT.prove();
    }
}
