//! Test cases for an engine from its opening to its closing, and for its statistics.

use super::Subject;
use super::fixture::{Fixture, all, bytes, committed, failed, fill, number, numbers, read};
use super::random::Random;
use crate::{Durability, Kind};

/// Counters exist and have names; a table with much data is larger than one with little.
pub fn statistics_and_sizes_make_sense(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let engine = &*place.engine;
    assert!(!engine.name().is_empty() && !engine.version().is_empty());
    let (large, small) = (place.records("large"), place.records("small"));
    let session = place.session();
    let mut random = Random::new(12);
    committed(&*session, || {
        for one in 0..2000 {
            session.put(&large, number(one), &random.bytes(1000)).unwrap();
        }
    });
    session.put(&small, number(1), b"one").unwrap();
    engine.flush_journal().unwrap();
    engine.checkpoint().unwrap();
    let (more, less) = (engine.size_on_disk(&large).unwrap(), engine.size_on_disk(&small).unwrap());
    assert!((1_900_000..20_000_000).contains(&more), "2 MB of random bytes take {more} bytes");
    assert!(less < more / 4, "one row takes {less} bytes where 2 MB take {more}");
    assert!(engine.free_bytes(&large).unwrap() <= more.max(1 << 20));
    let statistics = engine.statistics().unwrap();
    assert!(statistics.iter().len() >= 5, "an engine counts something");
    assert!(statistics.iter().all(|one| !one.name.is_empty()), "a statistic has a name");
    let nonzero = statistics.iter().filter(|one| one.value != 0).count();
    assert!(nonzero >= 3, "after 2 MB of writes some statistics are not zero");
    engine.table_statistics(&large).unwrap();
    let metadata = engine.table_metadata(&large).unwrap();
    assert!(metadata.uri.contains("large"), "the address of a table has its ident: {}", metadata.uri);
    session.release(None);
    engine.compact(&large).unwrap();
    match engine.verify(&large) {
        Ok(()) => (),
        Err(error) => assert_eq!(error.kind(), Kind::Busy, "{error}"),
    }
    assert_eq!(numbers(&*session, &large).len(), 2000);
}

/// An engine refuses an unknown setting and names it.
pub fn unknown_settings_are_refused(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let error = place.engine.reconfigure("fathom_no_such_setting=1").unwrap_err();
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    assert!(error.to_string().contains("fathom_no_such_setting"), "the refusal must name it: {error}");
}

/// Five hundred connections: each has a session, a transaction in it, and a cursor.
pub fn many_sessions(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    fill(&*place.session(), &table, 0..10);
    let sessions: Vec<_> = (0..500_i64).map(|_| place.session()).collect();
    for (which, session) in (100..).zip(&sessions) {
        session.begin().unwrap();
        session.insert(&table, number(which), b"").unwrap();
        let mut cursor = session.cursor(&table).unwrap();
        assert!(cursor.last().unwrap());
        assert_eq!(cursor.key(), number(which), "each sees its own row and no other's");
    }
    for session in &sessions {
        session.commit(Durability::Buffered).unwrap();
    }
    assert_eq!(numbers(&*place.session(), &table).len(), 510);
    sessions.iter().for_each(|session| session.release(Some(&table)));
}

/// After the close every call of the engine fails with `Stopped`.
pub fn closed_is_stopped(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let engine = &*place.engine;
    let table = place.records("t");
    fill(&*place.session(), &table, 0..10);
    engine.close().unwrap();
    assert_eq!(failed(engine.session().map(|_| ())), Kind::Stopped);
    assert_eq!(failed(engine.create_table("u", &crate::TableSpec::records())), Kind::Stopped);
    assert_eq!(failed(engine.open_table("t")), Kind::Stopped);
    assert_eq!(failed(engine.drop_table(&table)), Kind::Stopped);
    assert_eq!(failed(engine.tables()), Kind::Stopped);
    assert_eq!(failed(engine.flush_journal()), Kind::Stopped);
    assert_eq!(failed(engine.checkpoint()), Kind::Stopped);
    assert_eq!(failed(engine.reconfigure("x=1")), Kind::Stopped);
    assert_eq!(failed(engine.statistics()), Kind::Stopped);
    assert_eq!(failed(engine.table_statistics(&table)), Kind::Stopped);
    assert_eq!(failed(engine.table_metadata(&table)), Kind::Stopped);
    assert_eq!(failed(engine.size_on_disk(&table)), Kind::Stopped);
    assert_eq!(failed(engine.compact(&table)), Kind::Stopped);
    assert_eq!(failed(engine.verify(&table)), Kind::Stopped);
    assert_eq!(failed(engine.close()), Kind::Stopped);
}

/// Tables, their kinds and rows survive closes; what was dropped or rolled back stays away. Durable engines only.
pub fn everything_is_there_after_opening_again(subject: &Subject<'_>) {
    if !subject.durable {
        return;
    }
    let mut place = Fixture::new(subject);
    let (table, index, gone) = (place.records("collection-0"), place.index("index-1"), place.records("gone"));
    let unjournaled = crate::TableSpec { journaled: false, ..crate::TableSpec::records() };
    let quiet = place.engine.create_table("quiet", &unjournaled).unwrap();
    let session = place.session();
    let mut random = Random::new(13);
    committed(&*session, || {
        for one in -500..500 {
            session.insert(&table, number(one), &random.bytes(200)).unwrap();
            session.insert(&index, bytes(&random.bytes(20)), &one.to_le_bytes()).unwrap();
            session.insert(&quiet, number(one), b"").unwrap();
        }
    });
    session.truncate(&table, Some(number(100)), Some(number(200))).unwrap();
    let (rows, entries) = (all(&*session, &table), all(&*session, &index));
    session.begin().unwrap();
    session.put(&table, number(0), b"rolled back").unwrap();
    session.rollback();
    drop(session);
    super::tables::drop_when_free(&*place.engine, &gone);
    for round in 0..3_i64 {
        place.reopen();
        assert_eq!(place.engine.tables().unwrap(), ["collection-0", "index-1", "quiet"]);
        let open = |ident| place.engine.open_table(ident).unwrap();
        let (table, index, quiet) = (open("collection-0"), open("index-1"), open("quiet"));
        let session = place.session();
        assert_eq!(all(&*session, &index), entries);
        assert_eq!(numbers(&*session, &quiet).len(), 1000, "a clean close keeps tables without a journal");
        assert!(all(&*session, &table) == rows, "round {round}: other rows than before the close");
        session.put(&table, number(0), b"changed").unwrap();
        assert_eq!(read(&*session, &table, number(0)).as_deref(), Some(&b"changed"[..]));
        let old = rows.iter().find(|(key, _)| key.as_key() == number(0)).map(|(_, value)| value).unwrap();
        session.update(&table, number(0), old, None).unwrap();
        let later = place.records("later");
        fill(&*session, &later, 0..10);
        drop(session);
        super::tables::drop_when_free(&*place.engine, &later);
    }
}
