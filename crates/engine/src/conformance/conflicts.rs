//! Test cases for write conflicts: the first writer of a key wins, and the other gets an error at once.

use super::Subject;
use super::fixture::{Fixture, committed, conflicts, failed, fill, number, numbers, read};
use crate::{Durability, Kind, Result, Session, Table};

/// A way to write key 1 of a table.
type Write = fn(&dyn Session, &Table) -> Result<()>;

/// Every way to write a key that exists.
const WRITES: [(&str, Write); 4] = [
    ("put", |session, table| session.put(table, number(1), b"second")),
    ("update", |session, table| session.update(table, number(1), b"second", None)),
    ("remove", |session, table| session.remove(table, number(1)).map(|_| ())),
    ("truncate", |session, table| session.truncate(table, Some(number(0)), Some(number(5)))),
];

/// A write of a key fails while another transaction that wrote it is open; that transaction commits.
pub fn of_two_active_writers(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (first, second) = (place.session(), place.session());
    for (name, write) in WRITES {
        for (other, first_write) in WRITES {
            fill(&*first, &table, [1]);
            second.begin().unwrap();
            first.begin().unwrap();
            first_write(&*first, &table).unwrap();
            let result = write(&*second, &table);
            assert!(result.is_err(), "{name} over an open {other} succeeded");
            conflicts(&*second, result);
            first.commit(Durability::Buffered).unwrap();
            second.begin().unwrap();
            write(&*second, &table)
                .unwrap_or_else(|error| panic!("{name} after the end of {other}: {error}"));
            second.rollback();
        }
    }
}

/// A transaction cannot write a key that another session committed after its snapshot, although the key is no longer locked.
pub fn with_a_commit_after_the_snapshot(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (first, second) = (place.session(), place.session());
    for in_transaction in [true, false] {
        for (name, write) in WRITES {
            fill(&*first, &table, [1, 2]);
            second.begin().unwrap();
            assert_eq!(read(&*second, &table, number(1)).as_deref(), Some(&b"1"[..]));
            let change = || first.put(&table, number(1), b"first").unwrap();
            if in_transaction {
                committed(&*first, change)
            } else {
                change()
            }
            assert_eq!(read(&*second, &table, number(1)).as_deref(), Some(&b"1"[..]));
            let result = write(&*second, &table);
            assert!(result.is_err(), "{name} overwrote a commit that it had not seen: a lost update");
            conflicts(&*second, result);
            second.begin().unwrap();
            write(&*second, &table).unwrap_or_else(|error| panic!("{name} in a new transaction: {error}"));
            second.commit(Durability::Buffered).unwrap();
        }
    }
}

/// Two inserts of a new key are a conflict, never a duplicate, as long as the second cannot see the first.
pub fn of_two_inserts(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (first, second) = (place.session(), place.session());
    second.begin().unwrap();
    first.begin().unwrap();
    first.insert(&table, number(1), b"first").unwrap();
    conflicts(&*second, second.insert(&table, number(1), b"second"));
    conflicts(&*second, second.insert(&table, number(1), b"outside a transaction"));
    first.rollback();
    second.begin().unwrap();
    second.insert(&table, number(1), b"second").expect("the first insert was rolled back");
    second.commit(Durability::Buffered).unwrap();

    second.begin().unwrap();
    committed(&*first, || first.insert(&table, number(2), b"first").unwrap());
    conflicts(&*second, second.insert(&table, number(2), b"second"));
    second.begin().unwrap();
    assert_eq!(failed(second.insert(&table, number(2), b"second")), Kind::Duplicate, "now it is seen");
    second.rollback();
}

/// A removal is a write like any other, of an existing key and of a removed one.
pub fn with_a_removal(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (first, second) = (place.session(), place.session());
    fill(&*first, &table, [1]);
    second.begin().unwrap();
    committed(&*first, || assert!(first.remove(&table, number(1)).unwrap()));
    conflicts(&*second, second.put(&table, number(1), b"second"));

    second.begin().unwrap();
    first.begin().unwrap();
    first.insert(&table, number(1), b"1").unwrap();
    assert!(first.remove(&table, number(1)).unwrap());
    first.rollback();
    second.insert(&table, number(1), b"second").expect("nothing is left of what was rolled back");
    second.commit(Durability::Buffered).unwrap();

    second.begin().unwrap();
    committed(&*first, || {
        assert!(first.remove(&table, number(1)).unwrap());
        first.insert(&table, number(1), b"again").unwrap();
    });
    conflicts(&*second, second.remove(&table, number(1)));
    assert_eq!(read(&*second, &table, number(1)).as_deref(), Some(&b"again"[..]));
}

/// The loser can roll back and retry at once, any number of times, and loses nothing else.
pub fn end_with_a_rollback(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (first, second) = (place.session(), place.session());
    fill(&*first, &table, [1]);
    first.begin().unwrap();
    first.put(&table, number(1), b"first").unwrap();
    for round in 0..100 {
        second.begin().unwrap();
        second.put(&table, number(100 + round), b"lost with the rollback").unwrap();
        conflicts(&*second, second.put(&table, number(1), b"second"));
        assert!(!second.in_transaction());
    }
    assert_eq!(numbers(&*second, &table), [1]);
    first.commit(Durability::Buffered).unwrap();
    committed(&*second, || second.put(&table, number(1), b"second").unwrap());
    assert_eq!(read(&*first, &table, number(1)).as_deref(), Some(&b"second"[..]));
}

/// A write outside a transaction conflicts with open writers only: it has no snapshot that could be old.
pub fn outside_a_transaction(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (first, second) = (place.session(), place.session());
    fill(&*first, &table, [1]);
    first.begin().unwrap();
    first.put(&table, number(1), b"first").unwrap();
    assert_eq!(failed(second.put(&table, number(1), b"second")), Kind::WriteConflict);
    assert!(!second.in_transaction(), "a conflict outside a transaction leaves none behind");
    first.commit(Durability::Buffered).unwrap();
    for round in 0..20_i64 {
        let (one, other) = if round % 2 == 0 { (&first, &second) } else { (&second, &first) };
        one.put(&table, number(1), b"by one").unwrap();
        other.put(&table, number(1), b"by the other").unwrap();
        assert_eq!(read(&**one, &table, number(1)).as_deref(), Some(&b"by the other"[..]));
    }
}

/// Writes of neighbouring keys, or of the same number in another table, do not conflict.
pub fn none_on_different_keys(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let (table, other) = (place.records("t"), place.records("other"));
    let sessions: Vec<_> = (0..20).map(|_| place.session()).collect();
    sessions.iter().for_each(|session| session.begin().unwrap());
    for (number_of, session) in (0_i64..).zip(&sessions) {
        session.insert(&table, number(number_of), b"").unwrap();
        session.insert(&other, number((number_of + 1) % 20), b"").unwrap();
    }
    sessions.iter().for_each(|session| session.commit(Durability::Buffered).unwrap());
    let expected: Vec<i64> = (0..20).collect();
    let session = place.session();
    assert_eq!(numbers(&*session, &table), expected);
    assert_eq!(numbers(&*session, &other), expected);
}
