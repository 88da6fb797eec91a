//! Test cases for truncates: ranges are removed including both ends.

use super::Subject;
use super::fixture::{Fixture, OwnedKey, all, bytes, conflicts, failed, fill, number, numbers};
use crate::{Durability, Kind};

/// With and without ends, ends that are no keys, empty ranges, crossed ranges.
pub fn of_all_shapes_are_truncated(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.index("t");
    let session = place.session();
    let keys: [&[u8]; 7] = [b"", b"a", b"a\0", b"b", b"b\xff", b"c", b"\xff"];
    let ends: [Option<&[u8]>; 9] = [
        None,
        Some(b""),
        Some(b"\0"),
        Some(b"a"),
        Some(b"aa"),
        Some(b"b"),
        Some(b"c"),
        Some(b"\xff"),
        Some(b"\xff\xff"),
    ];
    for from in ends {
        for to in ends {
            for key in keys {
                session.put(&table, bytes(key), b"value").unwrap();
            }
            session.truncate(&table, from.map(bytes), to.map(bytes)).unwrap();
            let goes = |key: &[u8]| from.is_none_or(|from| from <= key) && to.is_none_or(|to| key <= to);
            let expected: Vec<_> =
                keys.iter().filter(|key| !goes(key)).map(|key| OwnedKey::Bytes(key.to_vec())).collect();
            let left: Vec<_> = all(&*session, &table).into_iter().map(|(key, _)| key).collect();
            assert_eq!(left, expected, "truncated from {from:?} to {to:?}");
        }
    }
}

/// Many records, from the front as in an oplog, and across zero.
pub fn of_numbers_are_truncated(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    let mut expected: Vec<i64> = (-1000..5000).collect();
    fill(&*session, &table, expected.iter().copied());
    for (from, to) in [(None, Some(-900)), (Some(-5), Some(5)), (Some(1000), Some(3000)), (Some(4999), None)]
    {
        session.truncate(&table, from.map(number), to.map(number)).unwrap();
        expected.retain(|one| from.is_some_and(|from| *one < from) || to.is_some_and(|to| *one > to));
        assert_eq!(numbers(&*session, &table), expected, "truncated from {from:?} to {to:?}");
    }
    assert_eq!(failed(session.truncate(&table, Some(bytes(b"x")), None)), Kind::Usage);
    session.truncate(&table, None, None).unwrap();
    assert_eq!(numbers(&*session, &table), [0; 0]);
    fill(&*session, &table, 0..10);
    assert_eq!(numbers(&*session, &table).len(), 10, "a truncated table is filled again");
}

/// A truncate is part of the transaction: it removes own rows too, others still see theirs, and a rollback restores all.
pub fn truncate_within_a_transaction(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (session, other) = (place.session(), place.session());
    fill(&*session, &table, 0..1000);
    for commits in [false, true] {
        session.begin().unwrap();
        session.put(&table, number(10_000), b"own").unwrap();
        session.truncate(&table, Some(number(500)), None).unwrap();
        assert_eq!(numbers(&*session, &table), (0..500).collect::<Vec<_>>());
        session.put(&table, number(600), b"600").unwrap();
        assert_eq!(numbers(&*other, &table), (0..1000).collect::<Vec<_>>());
        if commits { session.commit(Durability::Buffered).unwrap() } else { session.rollback() }
    }
    assert_eq!(numbers(&*other, &table), (0..500).chain([600]).collect::<Vec<_>>());
}

/// A row in the range that another session has written is a conflict; rows outside the range are not.
pub fn truncate_conflicts(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (session, other) = (place.session(), place.session());
    fill(&*session, &table, 0..100);
    session.begin().unwrap();
    other.begin().unwrap();
    other.put(&table, number(50), b"other").unwrap();
    session.truncate(&table, Some(number(51)), None).unwrap();
    conflicts(&*session, session.truncate(&table, Some(number(40)), Some(number(50))));
    assert_eq!(failed(session.truncate(&table, None, None)), Kind::WriteConflict, "outside a transaction");
    other.rollback();
    assert_eq!(numbers(&*session, &table).len(), 100, "a truncate that failed left nothing out");

    session.begin().unwrap();
    session.truncate(&table, Some(number(10)), Some(number(20))).unwrap();
    other.begin().unwrap();
    conflicts(&*other, other.put(&table, number(15), b"other"));
    session.commit(Durability::Buffered).unwrap();
    assert_eq!(numbers(&*other, &table).len(), 89);
}
