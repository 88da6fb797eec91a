//! Tests of the state after a crash, simulated by a copy of a running engine's files, and of the effects of a failed disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bson::{Document, doc};
use fathom_engine::memory::Call;
use fathom_engine::{Engine, Kind};

use crate::client::Client;
use crate::config::{Config, EngineName};
use crate::execution::validate::check;
use crate::execution::{build_indexes, insert_documents};
use crate::instance::Instance;
use crate::log::Log;
use crate::operation_context::OperationContext;
use crate::storage::{Collection, IndexSpec, recount};

const ENGINES: [EngineName; 2] = [EngineName::WiredTiger, EngineName::RocksDb];

type OpenCollections = (Arc<Instance>, Vec<Arc<Collection>>);

fn open(engine: EngineName, path: &Path) -> OpenCollections {
    let mut config = Config::default();
    config.storage.engine = engine;
    config.storage.db_path = path.to_owned();
    config.storage.wired_tiger.cache_size_gb = Some(0.25);
    config.storage.rocksdb.cache_size_gb = Some(0.25);
    let log = Arc::new(Log::quiet(&config.log_options()));
    std::fs::create_dir_all(path).unwrap();
    let engine = crate::engines::open(&config.storage, &log).unwrap();
    Instance::new(config, engine, None, log, crate::commands::registry()).unwrap()
}

fn with_operation<T>(instance: &Arc<Instance>, work: impl FnOnce(&mut OperationContext<'_>) -> T) -> T {
    let session = instance.engine.session().unwrap();
    let client = Client::internal();
    work(&mut OperationContext::new(instance, &*session, &client))
}

fn insert(instance: &Arc<Instance>, from: i32, to: i32) {
    let documents: Vec<_> =
        (from..to).map(|n| crate::parse::raw_of(&doc! { "_id": n, "a": n }).unwrap()).collect();
    let borrowed: Vec<_> = documents.iter().map(|one| &**one).collect();
    let (inserted, failures) =
        with_operation(instance, |op| insert_documents(op, "test.c", &borrowed, true, true)).unwrap();
    assert_eq!((inserted, failures.len()), (borrowed.len(), 0));
}

/// Copies a directory; an error if a file disappeared meanwhile, since the engines' own threads delete files.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Copies the files that the next start would find if the machine stopped now, with the journal as it was last synced.
fn crash(instance: &Instance, from: &Path, to: &Path, engine: EngineName) -> OpenCollections {
    instance.engine.flush_journal().unwrap();
    let copied = (0..50).any(|_| {
        let _ = std::fs::remove_dir_all(to);
        copy(from, to).is_ok()
    });
    assert!(copied, "no copy without a file that went");
    open(engine, to)
}

fn assert_valid(instance: &Arc<Instance>, indexes: usize, records: i64) {
    let collection = instance.catalog.get("test.c").unwrap();
    let state = collection.lock();
    assert_eq!(state.indexes.len(), indexes);
    let report = with_operation(instance, |op| check(op, &collection, &state, true)).unwrap();
    assert!(report.is_valid(), "{report:?}");
    assert_eq!(report.records, records);
}

/// The idents of one kind of table.
fn tables(instance: &Instance, kind: &str) -> usize {
    instance.catalog.drop_pending();
    instance.engine.tables().unwrap().iter().filter(|ident| ident.starts_with(kind)).count()
}

#[test]
fn counts_that_were_not_written_down_are_made_again() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("a"), directory.path().join("b"));
        let (instance, _) = open(engine, &first);
        insert(&instance, 0, 100);
        instance.catalog.flush_sizes(true).unwrap();
        instance.engine.close().unwrap();
        drop(instance);
        let (instance, uncounted) = open(engine, &first);
        assert!(uncounted.is_empty(), "it was closed cleanly");
        assert_eq!(instance.catalog.get("test.c").unwrap().records(), 100);
        insert(&instance, 100, 150);
        let (crashed, uncounted) = crash(&instance, &first, &second, engine);
        assert_eq!(uncounted.len(), 1, "{engine:?}");
        let collection = crashed.catalog.get("test.c").unwrap();
        assert_eq!(collection.records(), 100);
        // Writes continue during the count.
        insert(&crashed, 150, 160);
        recount(&*crashed.engine, &collection, &|| false).unwrap();
        assert!(!collection.recounting().load(Ordering::Relaxed));
        assert_eq!(collection.records(), 160);
        assert_valid(&crashed, 1, 160);
    }
}

#[test]
fn a_build_that_a_crash_ended_and_tables_that_nobody_names_are_gone() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("a"), directory.path().join("b"));
        let (instance, _) = open(engine, &first);
        insert(&instance, 0, 1000);
        let collection = instance.catalog.get("test.c").unwrap();
        let spec = IndexSpec::new(doc! { "v": 2, "key": { "a": 1 }, "name": "a_1" });
        let built =
            with_operation(&instance, |op| build_indexes(op, &collection, vec![spec], &Document::new()));
        assert_eq!(built.unwrap().len(), 1);
        // The index is built to the last key, but not yet in the catalog.
        assert_eq!(tables(&instance, "index-"), 2);
        let (crashed, _) = crash(&instance, &first, &second, engine);
        assert_eq!(tables(&crashed, "index-"), 1, "{engine:?}");
        assert_valid(&crashed, 1, 1000);
    }
}

#[test]
fn a_collection_that_was_dropped_while_somebody_read_it_is_gone_after_a_crash() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("a"), directory.path().join("b"));
        let (instance, _) = open(engine, &first);
        insert(&instance, 0, 1000);
        let collection = instance.catalog.get("test.c").unwrap();
        let session = instance.engine.session().unwrap();
        session.begin().unwrap();
        let mut cursor = session.cursor(collection.table().unwrap()).unwrap();
        assert!(cursor.first().unwrap());
        instance.catalog.drop_collection("test.c").unwrap();
        let (crashed, _) = crash(&instance, &first, &second, engine);
        assert!(crashed.catalog.get("test.c").is_none());
        assert_eq!((tables(&crashed, "collection-"), tables(&crashed, "index-")), (0, 0), "{engine:?}");
        drop(cursor);
        session.rollback();
        drop(session);
        assert_eq!((tables(&instance, "collection-"), tables(&instance, "index-")), (0, 0), "{engine:?}");
    }
}

#[test]
fn a_failed_sync_stops_the_server_and_says_why() {
    for (call, words) in
        [(Call::FlushJournal, "journal"), (Call::Commit, "journal"), (Call::Checkpoint, "checkpoint")]
    {
        let engine = fathom_engine::memory::open();
        let mut config = Config::default();
        config.storage.engine = EngineName::Ephemeral;
        let log = Arc::new(Log::quiet(&config.log_options()));
        let (instance, _) = Instance::new(
            config,
            Arc::clone(&engine) as Arc<dyn Engine>,
            None,
            log,
            crate::commands::registry(),
        )
        .unwrap();
        insert(&instance, 0, 10);
        instance.journal.wait_until_durable().unwrap();
        engine.faults().fail(call, 1, Kind::Io);
        match call {
            Call::FlushJournal => assert!(instance.journal.wait_until_durable().is_err()),
            Call::Commit => {
                let document = crate::parse::raw_of(&doc! { "_id": 77 }).unwrap();
                let lost =
                    with_operation(&instance, |op| insert_documents(op, "test.c", &[&document], true, true));
                // The client hears of it, one way or the other.
                assert!(lost.is_err() || lost.unwrap().0 == 0);
            }
            Call::Checkpoint => assert!(instance.checkpoint().is_err()),
        }
        let threads = super::start(&instance).unwrap();
        let until = Instant::now() + Duration::from_secs(300);
        while !instance.is_stopping() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(instance.is_stopping(), "{call:?}");
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let fatal = instance.take_fatal().unwrap().to_string();
        assert!(fatal.contains("so the server stopped"), "{fatal}");
        assert!(fatal.contains(words) || fatal.contains("journal"), "{fatal}");
    }
}
