//! Tests of opening and closing: what is refused, and that a refusal changes nothing.

use std::fs;

use crate::common::{fill, open, options};
use fathom_engine::{Engine, Key, Kind, TableSpec};
use fathom_engine_rocks::{Compression, Options, RocksEngine};

#[test]
fn a_second_opening_is_refused_as_busy_until_the_first_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path());
    let error = RocksEngine::open(options(folder.path())).unwrap_err();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    assert!(error.advice().is_some());
    first.close().unwrap();
    open(folder.path()).close().unwrap();
}

#[test]
fn a_foreign_directory_is_refused_and_left_alone() {
    for name in ["CURRENT", "holiday.jpg"] {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("db")).unwrap();
        fs::write(folder.path().join("db").join(name), "not ours").unwrap();
        let error = RocksEngine::open(options(folder.path())).unwrap_err();
        assert_eq!(error.kind(), Kind::NotOurs, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(fs::read_dir(folder.path().join("db")).unwrap().count(), 1);
    }
}

#[test]
fn a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).close().unwrap();
    let marker = folder.path().join("db/FATHOM");
    let text = fs::read_to_string(&marker).unwrap();
    fs::write(&marker, text.replace('1', "99")).unwrap();
    let error = RocksEngine::open(options(folder.path())).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    fs::write(&marker, "something else").unwrap();
    assert_eq!(RocksEngine::open(options(folder.path())).unwrap_err().kind(), Kind::NotOurs);
}

#[test]
fn a_lost_root_is_not_taken_for_a_new_database() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    engine.session().unwrap().put(&table, Key::Number(1), b"v").unwrap();
    engine.close().unwrap();
    fs::remove_file(folder.path().join("db/CURRENT")).unwrap();
    let error = RocksEngine::open(options(folder.path())).unwrap_err();
    assert_ne!(error.kind(), Kind::NotOurs, "{error}");
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |options: Options, name: &str| {
        let error = RocksEngine::open(options).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    };
    refused(Options { max_write_mb_per_sec: 0, ..options(folder.path()) }, "maxWriteMBPerSec");
    refused(Options { max_write_mb_per_sec: 1025, ..options(folder.path()) }, "maxWriteMBPerSec");
    for text in ["no_such_option=1", "write_buffer_size=lots", "write_buffer_size", "a=\0"] {
        refused(Options { config_string: text.to_owned(), ..options(folder.path()) }, text);
    }
    open(folder.path()).close().unwrap();
}

#[test]
fn every_compression_that_the_library_has_is_written_and_read() {
    let all = ["none", "snappy", "zlib", "lz4", "lz4hc", "zstd"];
    let mut taken = Vec::new();
    for name in all {
        let folder = tempfile::tempdir().unwrap();
        let compression: Compression = name.parse().unwrap();
        let wanted = Options { compression, ..options(folder.path()) };
        let engine = match RocksEngine::open(wanted.clone()) {
            Ok(engine) => engine,
            Err(error) => {
                assert_eq!(error.kind(), Kind::Unsupported, "{name}: {error}");
                continue;
            }
        };
        let table = engine.create_table("t", &TableSpec::records()).unwrap();
        fill(engine.session().unwrap().as_ref(), &table, 1000, 100);
        engine.checkpoint().unwrap();
        engine.compact(&table).unwrap();
        engine.close().unwrap();
        let engine = RocksEngine::open(wanted).unwrap();
        engine.verify(&engine.open_table("t").unwrap()).unwrap();
        taken.push(name);
    }
    assert!(taken.starts_with(&["none"]), "{taken:?}");
}

#[test]
fn closing_waits_for_nobody_and_says_who_is_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let session = engine.session().unwrap();
    assert_eq!(engine.close().unwrap_err().kind(), Kind::Busy);
    drop(session);
    engine.close().unwrap();
    assert_eq!(engine.close().unwrap_err().kind(), Kind::Stopped);
    assert_eq!(engine.session().map(drop).unwrap_err().kind(), Kind::Stopped);
}

#[test]
fn an_engine_that_is_dropped_closes_and_its_last_session_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    let session = engine.session().unwrap();
    session.put(&table, Key::Number(1), b"kept").unwrap();
    drop(engine);
    assert_eq!(session.put(&table, Key::Number(2), b"late").unwrap_err().kind(), Kind::Stopped);
    drop(session);
    let engine = open(folder.path());
    let session = engine.session().unwrap();
    assert_eq!(crate::common::get(session.as_ref(), &table, Key::Number(1)).unwrap(), b"kept");
}

#[test]
fn settings_of_one_table_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let spec = TableSpec { config: "block_size=4096".to_owned(), ..TableSpec::records() };
    let error = engine.create_table("t", &spec).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("block_size"), "{error}");
    assert!(engine.tables().unwrap().is_empty());
}
