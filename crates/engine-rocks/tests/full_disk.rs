//! Tests with a disk that fills up: the engine stops with an error, and acknowledged data is readable once there is space again.

use std::fs;

use crate::common::{get, noise, options};
use fathom_engine::{Durability, Engine, Key, Kind, TableSpec};
use fathom_engine_rocks::{Options, RocksEngine};
use fathom_testkit::{Tmpfs, assert, assert_eq, test};
use fathom_units::Bytes;

const RECORD_BYTES: usize = 20_000;

#[test]
fn a_full_disk_stops_the_engine_and_loses_nothing_that_was_promised() {
    let disk = Tmpfs::new(Bytes(96 << 20));
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, noise(0, 32 << 20)).unwrap();
    let wanted = Options {
        config_string: "write_buffer_size=4194304".to_owned(),
        ..options(&disk.path().join("data"))
    };
    let engine = RocksEngine::open(wanted.clone()).unwrap();
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    let session = engine.session().unwrap();
    let mut promised = None;
    let mut first = None;
    for number in 0..100_000 {
        session.begin().unwrap();
        session.put(&table, Key::Number(number), &noise(number, RECORD_BYTES)).unwrap();
        match session.commit(Durability::Durable) {
            Ok(()) => promised = Some(number),
            Err(error) => {
                first = Some(error);
                break;
            }
        }
    }
    let (first, promised) = (first.expect("a disk of 64 MB must fill up"), promised.unwrap());
    assert_eq!(first.kind(), Kind::NoSpace, "{first}");
    assert!(!session.in_transaction());
    for error in [
        session.begin().unwrap_err(),
        session.put(&table, Key::Number(-1), b"v").unwrap_err(),
        get_error(session.as_ref(), &table),
        engine.flush_journal().unwrap_err(),
        engine.checkpoint().unwrap_err(),
        engine.statistics().unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Stopped, "{error}");
        assert!(error.to_string().contains("No space left"), "the first cause is named: {error}");
    }
    drop(session);
    assert_eq!(engine.close().unwrap_err().kind(), Kind::Stopped, "a close that cannot flush says so");
    drop(engine);

    fs::remove_file(&ballast).unwrap();
    let engine = RocksEngine::open(wanted).unwrap();
    let session = engine.session().unwrap();
    for number in 0..=promised {
        assert_eq!(get(session.as_ref(), &table, Key::Number(number)), Some(noise(number, RECORD_BYTES)));
    }
    engine.verify(&table).unwrap();
    session.put(&table, Key::Number(-1), b"there is room again").unwrap();
    drop(session);
    engine.close().unwrap();
}

fn get_error(session: &dyn fathom_engine::Session, table: &fathom_engine::Table) -> fathom_engine::Error {
    session.get(table, Key::Number(0), &mut Vec::new()).unwrap_err()
}
