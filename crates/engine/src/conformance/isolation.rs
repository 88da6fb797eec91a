//! Test cases for isolation: what a transaction sees of the others.

use super::Subject;
use super::fixture::{Fixture, all, committed, fill, number, numbers, read};
use crate::Durability;

/// A reader sees the state of its beginning, whatever is inserted, changed, removed and committed meanwhile.
pub fn a_snapshot_stays(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let (table, other) = (place.records("t"), place.records("other"));
    let (reader, writer) = (place.session(), place.session());
    fill(&*writer, &table, 0..50);
    reader.begin().unwrap();
    let before = all(&*reader, &table);
    for round in 0..5 {
        committed(&*writer, || {
            for one in 0..50 {
                writer.put(&table, number(one), format!("round {round}").as_bytes()).unwrap();
            }
            writer.remove(&table, number(round)).unwrap();
            writer.insert(&table, number(100 + round), b"new").unwrap();
            writer.insert(&other, number(round), b"new").unwrap();
        });
        place.engine.checkpoint().unwrap();
        assert_eq!(all(&*reader, &table), before, "after commit {round} the snapshot has changed");
        assert_eq!(read(&*reader, &table, number(round)), Some(round.to_string().into_bytes()));
        assert_eq!(read(&*reader, &table, number(100 + round)), None);
        assert_eq!(numbers(&*reader, &other), [0; 0], "tables must be seen as of the same moment");
    }
    writer.truncate(&table, None, None).unwrap();
    assert_eq!(all(&*reader, &table), before);
    reader.commit(Durability::Buffered).unwrap();
    assert_eq!(numbers(&*reader, &table), [0; 0]);
    assert_eq!(numbers(&*reader, &other), [0, 1, 2, 3, 4]);
}

/// A cursor in the middle of a scan does not see new commits ahead of it.
pub fn a_cursor_stays_in_its_snapshot(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (reader, writer) = (place.session(), place.session());
    fill(&*writer, &table, (0..200).map(|one| one * 2));
    reader.begin().unwrap();
    let mut cursor = reader.cursor(&table).unwrap();
    assert!(cursor.first().unwrap());
    for step in 1..200 {
        let here = step * 2;
        committed(&*writer, || {
            writer.remove(&table, number(here)).unwrap();
            writer.put(&table, number(here - 1), b"new").unwrap();
            writer.put(&table, number(here + 1), b"new").unwrap();
        });
        assert!(cursor.next().unwrap());
        assert_eq!((cursor.key(), cursor.value()), (number(here), here.to_string().as_bytes()));
    }
    assert!(!cursor.next().unwrap(), "the last key of the snapshot is the last");
}

/// No other session sees uncommitted writes, in a transaction or outside, nor writes that were rolled back.
pub fn uncommitted_writes_are_unseen(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (writer, reader) = (place.session(), place.session());
    fill(&*writer, &table, [1, 2]);
    for commits in [false, true] {
        writer.begin().unwrap();
        writer.put(&table, number(1), b"changed").unwrap();
        writer.insert(&table, number(3), b"3").unwrap();
        assert!(writer.remove(&table, number(2)).unwrap());
        let look = || {
            assert_eq!(numbers(&*reader, &table), [1, 2]);
            assert_eq!(read(&*reader, &table, number(1)).as_deref(), Some(&b"1"[..]));
        };
        look();
        committed(&*reader, look);
        assert_eq!(numbers(&*writer, &table), [1, 3], "the writer sees its own");
        if commits {
            writer.commit(Durability::Buffered).unwrap()
        } else {
            writer.rollback()
        }
        let expected = if commits { [1, 3] } else { [1, 2] };
        assert_eq!(numbers(&*reader, &table), expected);
        assert_eq!(numbers(&*writer, &table), expected);
    }
}

/// Outside a transaction each call sees the newest commit at once, from any session.
pub fn outside_a_transaction_the_newest_is_seen(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (writer, reader) = (place.session(), place.session());
    for round in 0..200_i64 {
        let value = round.to_string().into_bytes();
        committed(&*writer, || writer.put(&table, number(1), &value).unwrap());
        assert_eq!(read(&*reader, &table, number(1)), Some(value.clone()), "a commit is visible at once");
        let mut cursor = reader.cursor(&table).unwrap();
        assert!(cursor.first().unwrap());
        assert_eq!(cursor.value(), value, "a cursor that was just placed sees it too");
    }
}
