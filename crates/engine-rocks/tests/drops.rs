//! Dropped tables: their space is reclaimed, readers keep their view, and a kill does not make the engine forget.

use std::path::Path;

use crate::common::{CHILD_FOLDER, bytes_below, close, count, fill, get, killed_child, open, wait_for_drops};
use fathom_engine::{Durability, Engine, Key, Kind, TableSpec};

const RECORDS: i64 = 8000;
const RECORD_BYTES: usize = 1000;
const TABLE_BYTES: u64 = 8_000_000;

#[test]
fn the_space_comes_back_and_the_neighbours_stay() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let session = engine.session().unwrap();
    let [before, dropped, after] =
        ["a", "b", "c"].map(|ident| engine.create_table(ident, &TableSpec::records()).unwrap());
    for table in [&before, &dropped, &after] {
        fill(session.as_ref(), table, RECORDS, RECORD_BYTES);
    }
    engine.checkpoint().unwrap();
    assert!(bytes_below(&folder.path().join("db")) > 3 * TABLE_BYTES);
    engine.drop_table(&dropped).unwrap();
    assert_eq!(engine.tables().unwrap(), ["a", "c"]);
    assert_eq!(engine.open_table("b").unwrap_err().kind(), Kind::NotFound);
    assert_eq!(engine.drop_table(&dropped).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(engine.size_on_disk(&dropped).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(get(session.as_ref(), &dropped, Key::Number(1)), None);
    wait_for_drops(&engine);
    for table in [&before, &after] {
        assert_eq!(count(session.as_ref(), table), RECORDS as usize);
        engine.verify(table).unwrap();
    }
    drop(session);
    close(&engine);
    drop(engine);
    // A fresh process has neither the old files nor the old logs.
    let engine = open(folder.path());
    close(&engine);
    let left = bytes_below(&folder.path().join("db"));
    assert!(left < 2 * TABLE_BYTES + TABLE_BYTES / 2, "{left} bytes are left");
}

#[test]
fn a_reader_keeps_what_he_began_with_and_a_writer_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    let (reader, writer) = (engine.session().unwrap(), engine.session().unwrap());
    fill(writer.as_ref(), &table, RECORDS, RECORD_BYTES);
    engine.checkpoint().unwrap();
    reader.begin().unwrap();
    writer.begin().unwrap();
    writer.put(&table, Key::Number(-1), b"too late").unwrap();
    engine.drop_table(&table).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(count(reader.as_ref(), &table), RECORDS as usize);
    assert_eq!(engine.unfinished_drops(), 1, "it waits for the reader");
    assert_eq!(writer.commit(Durability::Buffered).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(writer.put(&table, Key::Number(-1), b"much too late").unwrap_err().kind(), Kind::NotFound);
    reader.rollback();
    wait_for_drops(&engine);
    assert_eq!(count(reader.as_ref(), &table), 0);
}

#[test]
fn a_name_that_comes_again_is_another_table_and_no_prefix_is_used_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut slots = Vec::new();
    for _ in 0..3 {
        let engine = open(folder.path());
        let table = engine.create_table("t", &TableSpec::records()).unwrap();
        let session = engine.session().unwrap();
        assert_eq!(count(session.as_ref(), &table), 0);
        session.put(&table, Key::Number(1), b"v").unwrap();
        engine.drop_table(&table).unwrap();
        wait_for_drops(&engine);
        slots.push(table.slot());
        drop(session);
        close(&engine);
    }
    assert!(slots.is_sorted_by(|a, b| a < b), "{slots:?}");
}

/// The child: drops a table while a reader keeps it from being reclaimed.
#[test]
#[ignore = "the helper process of the next test"]
fn helper_process() {
    let folder = std::env::var_os(CHILD_FOLDER).expect("only another test runs this");
    let engine = open(Path::new(&folder));
    let session = engine.session().unwrap();
    let table = engine.create_table("t", &TableSpec::records()).unwrap();
    fill(session.as_ref(), &table, RECORDS, RECORD_BYTES);
    engine.checkpoint().unwrap();
    session.begin().unwrap();
    engine.drop_table(&table).unwrap();
    engine.flush_journal().unwrap();
    println!("dropped");
    // It is killed long before.
    (0..600).for_each(|_| std::thread::sleep(std::time::Duration::from_secs(1)));
}

#[test]
fn a_drop_that_a_kill_broke_off_is_taken_up_again() {
    let folder = tempfile::tempdir().unwrap();
    killed_child("drops::helper_process", folder.path(), |lines| {
        lines.iter().any(|line| line.ends_with("dropped"))
    });
    assert!(bytes_below(&folder.path().join("db")) > TABLE_BYTES);
    let engine = open(folder.path());
    assert!(engine.tables().unwrap().is_empty());
    wait_for_drops(&engine);
    assert!(engine.create_table("t", &TableSpec::records()).unwrap().slot() > 1);
    close(&engine);
    let engine = open(folder.path());
    assert_eq!(engine.unfinished_drops(), 0, "the mark of the drop is gone");
    close(&engine);
    let left = bytes_below(&folder.path().join("db"));
    assert!(left < TABLE_BYTES / 10, "{left} bytes are left");
}
