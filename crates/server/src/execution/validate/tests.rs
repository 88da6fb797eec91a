//! Tests of `validate` on an in-memory server whose tables are damaged directly.

use std::sync::Arc;

use bson::{Document, doc};
use fathom_engine::{Engine, Key, Table};

use super::*;
use crate::config::{Config, EngineName};
use crate::execution::{build_indexes, insert_documents};
use crate::instance::Instance;
use crate::log::Log;
use crate::storage::IndexSpec;

/// Runs `test` on a server in memory with a collection of ten documents and an index on `a`.
fn with_collection(test: impl Fn(&mut OperationContext<'_>, &Collection)) {
    let engine: Arc<dyn Engine> = fathom_engine::memory::open();
    let mut config = Config::default();
    config.storage.engine = EngineName::Ephemeral;
    let log = Arc::new(Log::quiet(&config.log_options()));
    let (instance, _) =
        Instance::new(config, Arc::clone(&engine), None, log, crate::commands::registry()).unwrap();
    let client = instance.clients.add("test".to_owned());
    let session = engine.session().unwrap();
    let mut op = OperationContext::new(&instance, &*session, &client);
    let documents: Vec<_> =
        (0..10).map(|n| crate::parse::raw_of(&doc! { "_id": n, "a": [n, n + 100] }).unwrap()).collect();
    let borrowed: Vec<_> = documents.iter().map(|one| &**one).collect();
    insert_documents(&mut op, "test.c", &borrowed, true, true).unwrap();
    let collection = instance.catalog.get("test.c").unwrap();
    let spec = IndexSpec::new(doc! { "v": 2, "key": { "a": 1 }, "name": "a_1" });
    let built = build_indexes(&op, &collection, vec![spec], &Document::new()).unwrap();
    instance.catalog.add_indexes(&collection, &mut collection.lock_exclusive(), built).unwrap();
    test(&mut op, &collection);
}

fn checked(op: &OperationContext<'_>, collection: &Collection) -> ValidationReport {
    check(op, collection, &collection.lock(), true).unwrap()
}

/// The entry of record 3 with the smaller value.
fn entry(collection: &Collection) -> (Table, Vec<u8>, Vec<u8>) {
    let state = collection.lock();
    let index = state.index("a_1").unwrap();
    let mut keys = IndexKeys::default();
    index.keys(&crate::parse::raw_of(&doc! { "a": 2 }).unwrap(), &mut keys).unwrap();
    let (key, value) = index.entry_bytes(&keys.keys[0], 3);
    (index.table().clone(), key, value)
}

#[test]
fn what_agrees_is_valid() {
    with_collection(|op, collection| {
        let report = checked(op, collection);
        assert!(report.is_valid(), "{report:?}");
        assert_eq!((report.records, report.invalid), (10, 0));
        assert_eq!((report.indexes["_id_"].keys, report.indexes["a_1"].keys), (10, 20));
        assert_eq!((report.records, report.bytes), (collection.records(), collection.bytes()));
    });
}

#[test]
fn a_missing_and_an_extra_entry_are_named() {
    with_collection(|op, collection| {
        let (table, key, value) = entry(collection);
        assert!(op.session().remove(&table, Key::Bytes(&key)).unwrap());
        let report = checked(op, collection);
        assert!(!report.is_valid());
        assert_eq!(report.missing.len(), 1);
        assert_eq!(report.missing[0].get_document("indexKey").unwrap(), &doc! { "a": 2 });
        assert_eq!(report.missing[0].get_document("idKey").unwrap(), &doc! { "_id": 2 });
        assert!(report.extra.is_empty());
        op.session().put(&table, Key::Bytes(&key), &value).unwrap();
        assert!(checked(op, collection).is_valid());

        let records = collection.table().unwrap().clone();
        assert!(op.session().remove(&records, Key::Number(3)).unwrap());
        let report = checked(op, collection);
        // Its `_id` entry and its two entries for values of a point to no record.
        assert_eq!((report.extra.len(), report.missing.len()), (3, 0));
        assert!(!report.indexes["_id_"].errors.is_empty());
    });
}

#[test]
fn a_record_that_is_no_document_is_counted() {
    with_collection(|op, collection| {
        let records = collection.table().unwrap().clone();
        op.session().put(&records, Key::Number(3), b"no document").unwrap();
        let report = checked(op, collection);
        assert_eq!((report.records, report.invalid), (10, 1));
        assert!(report.errors.iter().any(|error| error == "Detected 1 invalid documents."));
    });
}
