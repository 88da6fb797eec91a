//! Test cases for tables: they are created, opened, listed and dropped.

use std::thread;
use std::time::{Duration, Instant};

use super::Subject;
use super::fixture::{Fixture, bytes, failed, fill, number, numbers, read};
use crate::{Engine, KeyKind, Kind, Table, TableSpec};

/// Names and kinds are kept; a table that already exists, or does not exist, is refused.
pub fn are_made_opened_listed_and_dropped(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let engine = &*place.engine;
    assert_eq!(engine.tables().unwrap(), Vec::<String>::new(), "a new engine has no tables");
    let records = place.records("collection-1-77");
    let index = place.index("index-2-77");
    assert_eq!((records.ident(), records.keys()), ("collection-1-77", KeyKind::Number));
    assert_eq!((index.ident(), index.keys()), ("index-2-77", KeyKind::Bytes));
    let unjournaled = TableSpec { journaled: false, ..TableSpec::index() };
    engine.create_table("_mdb_catalog", &unjournaled).unwrap();
    assert_eq!(engine.tables().unwrap(), ["_mdb_catalog", "collection-1-77", "index-2-77"]);

    assert_eq!(failed(engine.create_table("index-2-77", &TableSpec::index())), Kind::Duplicate);
    assert_eq!(failed(engine.create_table("index-2-77", &TableSpec::records())), Kind::Duplicate);
    assert_eq!(failed(engine.open_table("index-3-77")), Kind::NotFound);

    let session = place.session();
    session.put(&records, number(1), b"one").unwrap();
    let again = engine.open_table("collection-1-77").unwrap();
    assert_eq!(again.keys(), KeyKind::Number, "opening must remember the kind of the keys");
    assert_eq!(read(&*session, &again, number(1)).as_deref(), Some(&b"one"[..]));
    assert_eq!(engine.open_table("index-2-77").unwrap().keys(), KeyKind::Bytes);

    session.release(None);
    drop_when_free(engine, &records);
    assert_eq!(engine.tables().unwrap(), ["_mdb_catalog", "index-2-77"]);
    assert_eq!(failed(engine.open_table("collection-1-77")), Kind::NotFound);

    let recreated = place.records("collection-1-77");
    assert_eq!(
        numbers(&*session, &recreated),
        [0; 0],
        "a table that was created again under an old name is empty"
    );
}

/// A key of the other kind is an error of the caller.
pub fn refuse_keys_of_the_other_kind(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let (records, index) = (place.records("r"), place.index("i"));
    let session = place.session();
    assert_eq!(failed(session.put(&records, bytes(b"1"), b"")), Kind::Usage);
    assert_eq!(failed(session.put(&index, number(1), b"")), Kind::Usage);
    assert_eq!(failed(session.get(&index, number(1), &mut Vec::new())), Kind::Usage);
    assert_eq!(failed(session.cursor(&records).unwrap().seek(bytes(b"1"))), Kind::Usage);
}

/// A table with an open cursor is dropped at once or is `Busy`; without the cursor, it is dropped.
pub fn drop_despite_a_cursor_once_it_is_gone(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("busy");
    let session = place.session();
    fill(&*session, &table, 0..100);
    let mut cursor = session.cursor(&table).unwrap();
    assert!(cursor.first().unwrap());
    let result = place.engine.drop_table(&table);
    drop(cursor);
    session.release(Some(&table));
    if let Err(error) = result {
        assert_eq!(error.kind(), Kind::Busy, "{error}");
        drop_when_free(&*place.engine, &table);
    }
    assert_eq!(place.engine.tables().unwrap(), Vec::<String>::new());
}

/// Tries again while the table is busy, as the server does.
pub(super) fn drop_when_free(engine: &dyn Engine, table: &Table) {
    let patience = Instant::now() + Duration::from_secs(300);
    while let Err(error) = engine.drop_table(table) {
        assert_eq!(error.kind(), Kind::Busy, "{error}");
        assert!(Instant::now() < patience, "table {} stays busy with nobody on it", table.ident());
        thread::sleep(Duration::from_millis(5));
    }
}
