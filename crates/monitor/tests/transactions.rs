//! Tests that transactions which stay open are read from a simulated server, only if it counts some, and that a refusal is said once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use fathom_monitor::Batch;
use fathom_record::OpenTransaction;
use fathom_record::disk::Entry;

use crate::cluster::{Script, cursor, listen, member, serve, watch};

const SECRET: &str = "Hunter2Secret";

/// A session between two operations of a transaction.
fn idle_session() -> Document {
    let binary = |subtype, byte| Binary { subtype, bytes: vec![byte; 16] };
    doc! {
        "type": "idleSession",
        "desc": "inactive transaction",
        "client": "10.0.0.7:35014",
        "connectionId": 17,
        "appName": "checkout",
        "lsid": { "id": binary(BinarySubtype::Uuid, 7), "uid": binary(BinarySubtype::Generic, 9) },
        "transaction": {
            "parameters": { "txnNumber": 3_i64, "autocommit": false, "readConcern": { "level": "snapshot", "x": SECRET } },
            "timeOpenMicros": 95_000_000_i64,
            "timeActiveMicros": 1500_i64,
            "timeInactiveMicros": 94_998_500_i64,
        },
        "active": false,
        "locks": { "Global": "w", "Collection": "w" },
        "command": { "find": "orders", "filter": { "user": SECRET } },
    }
}

/// A member of a set that counts open transactions, answers `$currentOp`, and counts how often it was asked.
fn holding(port: u16, open: i64, answer: Document, asked: Arc<AtomicUsize>) -> Arc<Script> {
    let script = member("rs0", vec![port], 0);
    Arc::new(move |command, value| match (command, value) {
        // The collection's latencies are asked for by its name.
        ("aggregate", "") => {
            asked.fetch_add(1, Ordering::Relaxed);
            answer.clone()
        }
        ("serverStatus", _) => {
            let mut status = script(command, value);
            status.insert("transactions", doc! { "currentOpen": open, "currentInactive": open });
            status
        }
        _ => script(command, value),
    })
}

fn watched(open: i64, answer: Document) -> (Batch, usize) {
    let (listener, port) = listen();
    let asked = Arc::new(AtomicUsize::new(0));
    serve(listener, holding(port, open, answer, Arc::clone(&asked)));
    let (_, batch) = watch(&format!("mongodb://127.0.0.1:{port}/?replicaSet=rs0"));
    (batch, asked.load(Ordering::Relaxed))
}

fn transactions(batch: &Batch) -> Vec<&OpenTransaction> {
    let works = batch.entries.iter().filter_map(|entry| match entry {
        Entry::ServerWork(work) => Some(work),
        _ => None,
    });
    works.flat_map(|work| &work.transactions).collect()
}

#[test]
fn an_idle_session_with_a_transaction_is_read_from_a_server_at_rest() {
    let (batch, asked) = watched(1, cursor(vec![idle_session()]));
    // Two rounds come at once, and a question is asked once a second at most.
    let found = transactions(&batch);
    assert!(asked >= 1 && found.len() == asked, "{asked}: {found:?}");
    assert_eq!((found[0].open_us, found[0].connection), (95_000_000, Some(17)));
    assert_eq!(found[0].application.as_deref(), Some("checkout"));
    let kept = serde_json::to_string(&batch.entries).unwrap();
    assert!(!kept.contains(SECRET), "{kept}");
}

#[test]
fn a_server_at_rest_without_transactions_is_not_asked() {
    let (batch, asked) = watched(0, cursor(vec![idle_session()]));
    assert_eq!((asked, transactions(&batch).len()), (0, 0));
}

#[test]
fn a_user_who_may_not_see_sessions_is_said_once() {
    let refused = doc! { "ok": 0, "code": 13, "errmsg": "not authorized on admin to execute command" };
    let (batch, asked) = watched(1, refused);
    let said = batch.notes.iter().filter(|note| note.contains("whose transactions stay open"));
    assert_eq!((asked, said.count()), (1, 1), "{:?}", batch.notes);
}
