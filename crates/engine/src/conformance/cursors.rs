//! Test cases for cursors: how they move, and what they see of their own session's writes.

use super::Subject;
use super::fixture::{Fixture, bytes, committed, fill, number, numbers, read};
use crate::{Cursor, Durability, Session, Table};

/// The record number under a cursor; `None` if the move whose result is `found` led to no key.
fn at(cursor: &dyn Cursor, found: bool) -> Option<i64> {
    found.then(|| {
        let number = cursor.key().number().expect("a record store has numbers for keys");
        assert_eq!(cursor.value(), number.to_string().as_bytes(), "key and value of different rows");
        number
    })
}

/// Moves a cursor and returns its position.
macro_rules! go {
    ($cursor:ident.$step:ident($($key:expr)?)) => {{
        let found = $cursor.$step($(number($key))?).unwrap();
        at(&*$cursor, found)
    }};
}

/// Cursors move from first to last and back; a move past either end leaves no position.
pub fn go_both_ways_and_end(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    fill(&*session, &table, (-500..500).map(|one| one * 3));
    for in_transaction in [true, false] {
        if in_transaction {
            session.begin().unwrap();
        }
        let mut cursor = session.cursor(&table).unwrap();
        assert_eq!(go!(cursor.first()), Some(-1500));
        for expected in -499..500 {
            assert_eq!(go!(cursor.next()), Some(expected * 3));
        }
        assert_eq!(go!(cursor.next()), None, "after the last there is none");
        assert_eq!(go!(cursor.last()), Some(1497));
        for expected in (-500..499).rev() {
            assert_eq!(go!(cursor.previous()), Some(expected * 3));
        }
        assert_eq!(go!(cursor.previous()), None, "before the first there is none");
        assert_eq!(go!(cursor.first()), Some(-1500), "a cursor that ran off an end can be placed again");
        drop(cursor);
        session.rollback();
    }
}

/// `seek` moves to the same or the next larger key, `seek_back` to the same or the next smaller.
pub fn seek_to_the_nearest(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    fill(&*session, &table, [-10, 0, 10, 20]);
    session.begin().unwrap();
    let mut cursor = session.cursor(&table).unwrap();
    for (key, up, down) in [
        (i64::MIN, Some(-10), None),
        (-11, Some(-10), None),
        (-10, Some(-10), Some(-10)),
        (-9, Some(0), Some(-10)),
        (5, Some(10), Some(0)),
        (20, Some(20), Some(20)),
        (21, None, Some(20)),
        (i64::MAX, None, Some(20)),
    ] {
        assert_eq!(go!(cursor.seek(key)), up, "seek {key}");
        assert_eq!(go!(cursor.seek_back(key)), down, "seek_back {key}");
    }
    assert_eq!(go!(cursor.seek(1)), Some(10));
    assert_eq!(go!(cursor.next()), Some(20), "on from a key that was only near");
    assert_eq!(go!(cursor.seek_back(-1)), Some(-10));
    assert_eq!(go!(cursor.previous()), None);
    assert_eq!(go!(cursor.seek(-1)), Some(0));
    assert_eq!(go!(cursor.previous()), Some(-10), "back from a key that was only near");
    drop(cursor);
    session.rollback();

    let index = place.index("i");
    for key in [&b""[..], b"a", b"a\0", b"b", b"\xff\xff"] {
        session.put(&index, bytes(key), b"").unwrap();
    }
    let mut cursor = session.cursor(&index).unwrap();
    assert!(cursor.seek(bytes(b"a\0\0")).unwrap());
    assert_eq!(cursor.key(), bytes(b"b"));
    assert!(cursor.seek_back(bytes(b"a\0\0")).unwrap());
    assert_eq!(cursor.key(), bytes(b"a\0"));
    assert!(cursor.seek(bytes(b"")).unwrap());
    assert_eq!(cursor.key(), bytes(b""));
    assert!(cursor.seek_back(bytes(b"")).unwrap());
    assert_eq!(cursor.key(), bytes(b""));
    assert!(!cursor.seek(bytes(b"\xff\xff\0")).unwrap());
    assert!(cursor.seek_back(bytes(&[0xff; 40])).unwrap());
    assert_eq!(cursor.key(), bytes(b"\xff\xff"));
}

/// A cursor that changes direction at any key finds the neighbouring key.
pub fn turn_around(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    fill(&*session, &table, 0..300);
    session.begin().unwrap();
    let mut cursor = session.cursor(&table).unwrap();
    assert_eq!(go!(cursor.first()), Some(0));
    for here in 1..299 {
        assert_eq!(go!(cursor.next()), Some(here));
        assert_eq!(go!(cursor.next()), Some(here + 1));
        assert_eq!(go!(cursor.previous()), Some(here));
    }
}

/// A cursor finds the keys that its transaction writes ahead of it or behind it.
pub fn see_own_writes(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    fill(&*session, &table, (0..100).map(|one| one * 10));
    session.begin().unwrap();
    let mut cursor = session.cursor(&table).unwrap();
    assert_eq!(go!(cursor.first()), Some(0));
    assert_eq!(go!(cursor.next()), Some(10));
    assert_eq!(go!(cursor.next()), Some(20));
    session.insert(&table, number(25), b"25").unwrap();
    session.insert(&table, number(15), b"15").unwrap();
    assert!(session.remove(&table, number(30)).unwrap());
    assert_eq!(go!(cursor.next()), Some(25));
    assert_eq!(go!(cursor.next()), Some(40));
    session.put(&table, number(50), b"changed").unwrap();
    assert!(cursor.next().unwrap());
    assert_eq!((cursor.key(), cursor.value()), (number(50), &b"changed"[..]));
    session.put(&table, number(50), b"50").unwrap();
    assert_eq!(go!(cursor.seek_back(24)), Some(20));
    assert_eq!(go!(cursor.previous()), Some(15));
    drop(cursor);
    let mut expected: Vec<i64> =
        (0..100).map(|one| one * 10).filter(|one| *one != 30).chain([15, 25]).collect();
    expected.sort_unstable();
    assert_eq!(numbers(&*session, &table), expected);
    session.commit(Durability::Buffered).unwrap();
    assert_eq!(numbers(&*session, &table), expected);
}

/// A loop that removes each row under the cursor removes all, forward and back.
pub fn survive_removal_under_them(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    for forward in [true, false] {
        fill(&*session, &table, 0..200);
        session.begin().unwrap();
        let mut cursor = session.cursor(&table).unwrap();
        let mut found = if forward { cursor.first() } else { cursor.last() }.unwrap();
        let mut seen = 0;
        while found {
            let here = cursor.key().number().unwrap();
            assert_eq!(
                here,
                if forward { seen } else { 199 - seen },
                "removing a row must not skip its neighbour"
            );
            assert!(session.remove(&table, number(here)).unwrap());
            seen += 1;
            found = if forward { cursor.next() } else { cursor.previous() }.unwrap();
        }
        assert_eq!(seen, 200);
        drop(cursor);
        session.commit(Durability::Buffered).unwrap();
        assert_eq!(numbers(&*session, &table), [0; 0]);
    }
}

/// Two cursors on a table, one on another, and look-ups between their moves do not disturb each other.
pub fn stand_beside_each_other(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let (table, other) = (place.records("t"), place.records("other"));
    let session = place.session();
    fill(&*session, &table, 0..100);
    fill(&*session, &other, (0..100).map(|one| one + 1000));
    session.begin().unwrap();
    walk_side_by_side(&*session, &table, &other);
    session.rollback();
    walk_side_by_side(&*session, &table, &other);
}

fn walk_side_by_side(session: &dyn Session, table: &Table, other: &Table) {
    let mut up = session.cursor(table).unwrap();
    let mut down = session.cursor(table).unwrap();
    let mut elsewhere = session.cursor(other).unwrap();
    assert_eq!(go!(up.first()), Some(0));
    assert_eq!(go!(down.last()), Some(99));
    assert_eq!(go!(elsewhere.seek(1000)), Some(1000));
    for step in 1..100 {
        assert_eq!(go!(up.next()), Some(step));
        assert_eq!(read(session, table, number(50)).as_deref(), Some(&b"50"[..]));
        assert_eq!(go!(down.previous()), Some(99 - step));
        assert_eq!(read(session, other, number(50)), None);
        assert_eq!(go!(elsewhere.next()), Some(1000 + step));
        assert_eq!(up.key(), number(step), "a get moved a cursor of the same session");
        assert_eq!(down.value(), (99 - step).to_string().as_bytes());
    }
}

/// Every way to position a cursor returns false if the table has no key, or none left.
pub fn find_nothing_in_an_empty_table(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    for round in 0..2 {
        session.begin().unwrap();
        let mut cursor = session.cursor(&table).unwrap();
        assert_eq!(go!(cursor.first()), None);
        assert_eq!(go!(cursor.last()), None);
        assert_eq!(go!(cursor.seek(0)), None);
        assert_eq!(go!(cursor.seek_back(0)), None);
        drop(cursor);
        session.rollback();
        if round == 0 {
            fill(&*session, &table, 0..10);
            session.truncate(&table, None, None).unwrap();
        }
    }
}

/// A cursor may outlive a transaction, and sees the next one when it is positioned again.
pub fn are_placed_again_after_a_transaction(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (session, other) = (place.session(), place.session());
    fill(&*session, &table, [1, 2, 3]);
    let mut cursor = session.cursor(&table).unwrap();
    for ending in 0..4 {
        session.begin().unwrap();
        assert_eq!(go!(cursor.seek(2)), Some(2));
        if ending % 2 == 0 {
            session.commit(Durability::Buffered).unwrap()
        } else {
            session.rollback()
        }
        let newcomer = 100 - ending;
        committed(&*other, || other.put(&table, number(newcomer), newcomer.to_string().as_bytes()).unwrap());
        session.begin().unwrap();
        assert_eq!(
            go!(cursor.seek(4)),
            Some(newcomer),
            "the newest commit is not seen after the transaction"
        );
        session.rollback();
        assert_eq!(
            go!(cursor.seek(4)),
            Some(newcomer),
            "the newest commit is not seen outside a transaction"
        );
        assert_eq!(go!(cursor.last()), Some(100));
    }
}
