//! Reads from `$currentOp` the transactions that have been open for a while: those between two operations, and those with one that runs.
//!
//! A session between two operations of a transaction has no operation, so it says what it holds and nothing of what it did. Sources of the
//! fields: mongodb/docs, "$currentOp (aggregation stage)", `transaction` and the type `idleSession`.

use bson::{Bson, Document, RawBsonRef, RawDocument};
use fathom_record::OpenTransaction;

use super::shown_client::{ShownClient, client_words, number, operation_number};

/// The time from which on a transaction has been open for a while, in microseconds.
pub(super) const MIN_OPEN_US: i64 = 1_000_000;
/// The number of transactions that are kept of one reading.
const MAX_TRANSACTIONS: usize = 8;
/// The resources whose locks are named, and the levels of read concern. Any other text is left out.
const RESOURCES: [&str; 10] = [
    "ParallelBatchWriterMode",
    "FeatureCompatibilityVersion",
    "ReplicationStateTransition",
    "Global",
    "Database",
    "Collection",
    "Metadata",
    "Mutex",
    "oplog",
    "DDLDatabase",
];
const MODES: [&str; 4] = ["r", "w", "R", "W"];
const LEVELS: [&str; 5] = ["local", "available", "majority", "snapshot", "linearizable"];

/// The transactions of a reply to `aggregate` or to the command `currentOp`, the one that has been open for the longest first.
pub(super) fn open_transactions(reply: &RawDocument) -> Vec<OpenTransaction> {
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let Ok(shown) = batch.or_else(|_| reply.get_array("inprog")) else { return Vec::new() };
    let read = |value: RawBsonRef<'_>| {
        let one = value.as_document()?;
        one.get_document("transaction").ok()?;
        transaction(&Document::try_from(one).ok()?)
    };
    let mut found: Vec<OpenTransaction> = shown.into_iter().flatten().filter_map(read).collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.open_us));
    found.truncate(MAX_TRANSACTIONS);
    found
}

fn transaction(one: &Document) -> Option<OpenTransaction> {
    let transaction = one.get_document("transaction").ok()?;
    let open_us = number(transaction, "timeOpenMicros").filter(|us| *us >= MIN_OPEN_US.unsigned_abs())?;
    let is_active = one.get_bool("active").unwrap_or(false);
    let level = || {
        let concern = transaction.get_document("parameters").ok()?.get_document("readConcern").ok()?;
        LEVELS.into_iter().find(|level| concern.get_str("level").ok() == Some(*level))
    };
    let ShownClient { application, driver, host, connection } = ShownClient::of(one);
    Some(OpenTransaction {
        session: session(one),
        open_us,
        active_us: number(transaction, "timeActiveMicros").unwrap_or(0),
        inactive_us: number(transaction, "timeInactiveMicros").unwrap_or(0),
        is_active,
        read_concern: level().map(str::to_owned),
        namespace: one.get_str("ns").ok().filter(|ns| is_collection(ns)).map(client_words),
        locks: locks(one),
        application,
        driver,
        client: host,
        connection,
        operation: operation_number(one).filter(|_| is_active),
    })
}

/// Whether a namespace is that of a collection, and not of a command that waits for its first lock.
fn is_collection(namespace: &str) -> bool {
    namespace.split_once('.').is_some_and(|(_, collection)| !collection.starts_with("$cmd"))
}

/// The locks that it holds; while it waits for one, that one is among them.
fn locks(one: &Document) -> Vec<String> {
    let Ok(locks) = one.get_document("locks") else { return Vec::new() };
    let held = |(resource, mode): (&String, &Bson)| {
        let resource = RESOURCES.into_iter().find(|known| *known == resource.as_str())?;
        let mode = MODES.into_iter().find(|known| Some(*known) == mode.as_str())?;
        Some(format!("{resource} {mode}"))
    };
    locks.iter().filter_map(held).collect()
}

/// A hash of a session's id (FNV-1a, Fowler, Noll and Vo). The id itself is a credential of a kind: commands that end sessions take it.
fn session(one: &Document) -> Option<String> {
    let Some(Bson::Binary(id)) = one.get_document("lsid").ok()?.get("id") else { return None };
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = id.bytes.iter().fold(0xcbf2_9ce4_8422_2325, add);
    Some(format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff)))
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, RawDocumentBuf, doc};

    use super::*;

    /// A session between two operations of a transaction, as mongod shows it: 4.0 without `type`, later versions with it.
    fn idle(id: u8, open_us: i64, version: &str) -> Document {
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: vec![id; 16] };
        let mut one = doc! {
            "host": "db1:27017",
            "desc": "inactive transaction",
            "client": "10.0.0.7:35014",
            "connectionId": 17,
            "appName": "checkout",
            "clientMetadata": { "driver": { "name": "PyMongo", "version": "3.13.0" }, "os": { "type": "Linux" } },
            "lsid": { "id": id, "uid": Binary { subtype: BinarySubtype::Generic, bytes: vec![9; 32] } },
            "transaction": {
                "parameters": { "txnNumber": 3_i64, "autocommit": false, "readConcern": { "level": "snapshot" } },
                "readTimestamp": bson::Timestamp { time: 1, increment: 1 },
                "startWallClockTime": "2026-11-29T13:00:00.000+0000",
                "timeOpenMicros": open_us,
                "timeActiveMicros": 1500_i64,
                "timeInactiveMicros": open_us - 1500,
            },
            "waitingForLock": false,
            "active": false,
            "locks": { "Global": "w", "Database": "w", "Collection": "w" },
            "lockStats": { "Global": { "acquireCount": { "r": 4_i64, "w": 2_i64 } } },
        };
        if version != "4.0" {
            one.insert("type", "idleSession");
        }
        one
    }

    fn read(shown: Vec<Document>) -> Vec<OpenTransaction> {
        let reply = doc! { "cursor": { "id": 0_i64, "ns": "admin.$cmd.aggregate", "firstBatch": shown } };
        open_transactions(&RawDocumentBuf::try_from(&reply).unwrap())
    }

    #[test]
    fn an_idle_session_says_whose_transaction_it_holds_open() {
        for version in ["4.0", "8.0"] {
            let found = read(vec![idle(1, 95_000_000, version)]);
            let [one] = found.as_slice() else { panic!("{found:?}") };
            let expected = OpenTransaction {
                session: one.session.clone(),
                open_us: 95_000_000,
                active_us: 1500,
                inactive_us: 94_998_500,
                read_concern: Some("snapshot".into()),
                locks: vec!["Global w".into(), "Database w".into(), "Collection w".into()],
                application: Some("checkout".into()),
                driver: Some("PyMongo 3.13.0".into()),
                client: Some("10.0.0.7".into()),
                connection: Some(17),
                ..OpenTransaction::default()
            };
            assert_eq!(*one, expected);
            assert_eq!(one.session.as_ref().unwrap().len(), 8);
        }
        let sessions = read(vec![idle(1, 2_000_000, "8.0"), idle(2, 3_000_000, "8.0")]);
        assert_ne!(sessions[0].session, sessions[1].session);
        assert_eq!(sessions[0].open_us, 3_000_000, "the one that has been open for longer is the first");
    }

    #[test]
    fn an_operation_of_a_transaction_has_its_number_and_its_namespace() {
        let mut running = idle(1, 5_000_000, "4.0");
        running.extend(doc! { "active": true, "opid": 1234, "ns": "shop.orders", "op": "update" });
        let found = read(vec![running.clone()]);
        assert_eq!(found[0].operation.as_deref(), Some("1234"));
        assert_eq!((found[0].namespace.as_deref(), found[0].is_active), (Some("shop.orders"), true));
        running.insert("ns", "shop.$cmd");
        assert_eq!(read(vec![running])[0].namespace, None);
    }

    #[test]
    fn short_transactions_and_sessions_without_one_are_left_out() {
        let mut without = idle(1, 5_000_000, "8.0");
        without.remove("transaction");
        assert_eq!(read(vec![idle(1, MIN_OPEN_US - 1, "8.0"), without]), []);
        let many = (1..=20).map(|n| idle(n, i64::from(n) * MIN_OPEN_US, "8.0")).collect();
        let found = read(many);
        assert_eq!((found.len(), found[0].open_us), (MAX_TRANSACTIONS, 20_000_000));
        assert_eq!(open_transactions(&RawDocumentBuf::new()), []);
    }

    #[test]
    fn no_text_of_a_client_but_its_names_is_kept() {
        let secret = "Hunter2Secret";
        let mut one = idle(1, 5_000_000, "8.0");
        one.insert("locks", doc! { secret: secret, "Global": secret });
        one.insert("command", doc! { "find": "orders", "filter": { "user": secret } });
        one.insert("effectiveUsers", vec![doc! { "user": secret }]);
        let transaction = one.get_document_mut("transaction").unwrap();
        transaction
            .insert("parameters", doc! { "readConcern": { "level": secret, "x": secret }, "y": secret });
        let found = read(vec![one]);
        assert_eq!(found[0].locks, [] as [String; 0]);
        let kept = serde_json::to_string(&found).unwrap();
        assert!(!kept.contains(secret), "{kept}");
        assert!(
            !kept.contains("AQEBAQ") && !kept.contains("01010101"),
            "the session's id is not kept: {kept}"
        );
    }
}
