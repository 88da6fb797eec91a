//! Test cases for atomicity: a transaction takes effect completely or not at all.

use super::Subject;
use super::fixture::{Fixture, all, bytes, committed, failed, fill, number, numbers, read};
use super::random::Random;
use crate::{Durability, Kind, Splice};

/// An insert that fails with a duplicate key leaves the transaction usable.
pub fn duplicate_leaves_the_transaction_usable(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let (table, index) = (place.records("t"), place.index("i"));
    let session = place.session();
    fill(&*session, &table, [1]);
    session.begin().unwrap();
    session.insert(&table, number(2), b"2").unwrap();
    assert_eq!(failed(session.insert(&table, number(1), b"x")), Kind::Duplicate, "committed before");
    assert_eq!(failed(session.insert(&table, number(2), b"x")), Kind::Duplicate, "our own");
    session.insert(&index, bytes(b"k"), b"").unwrap();
    assert_eq!(failed(session.insert(&index, bytes(b"k"), b"x")), Kind::Duplicate);
    assert!(session.remove(&table, number(1)).unwrap());
    session.insert(&table, number(1), b"again").expect("removed by ourselves, so it is free");
    assert!(session.in_transaction());
    session.commit(Durability::Buffered).unwrap();
    assert_eq!(numbers(&*session, &table), [1, 2]);
    assert_eq!(read(&*session, &table, number(1)).as_deref(), Some(&b"again"[..]));
    assert_eq!(read(&*session, &index, bytes(b"k")).as_deref(), Some(&b""[..]));
    assert_eq!(failed(session.insert(&table, number(1), b"x")), Kind::Duplicate, "outside a transaction");
}

/// A rollback restores every table to its previous content.
pub fn rollback_undoes_all(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let (table, index) = (place.records("t"), place.index("i"));
    let session = place.session();
    fill(&*session, &table, 0..100);
    let before = all(&*session, &table);
    for _ in 0..3 {
        session.begin().unwrap();
        for one in 0..150 {
            session.put(&table, number(one), b"changed").unwrap();
            session.put(&table, number(one), b"changed twice").unwrap();
            session.put(&index, bytes(&one.to_be_bytes()), b"").unwrap();
        }
        session.truncate(&table, Some(number(20)), Some(number(60))).unwrap();
        for one in 100..120 {
            assert!(session.remove(&table, number(one)).unwrap());
        }
        session.rollback();
        assert!(!session.in_transaction());
        assert_eq!(all(&*session, &table), before);
        assert_eq!(all(&*session, &index), []);
    }
    session.rollback();
    assert_eq!(all(&*session, &table), before, "a rollback without a transaction does nothing");
}

/// A session that is dropped with a transaction open rolls it back.
pub fn dropping_a_session_rolls_back(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    session.begin().unwrap();
    session.put(&table, number(1), b"lost").unwrap();
    drop(session);
    let session = place.session();
    assert_eq!(numbers(&*session, &table), [0; 0]);
    session.insert(&table, number(1), b"free").expect("nobody holds the key any more");
}

/// Another session sees the tables of one commit change together, at every moment.
pub fn commit_spans_tables(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let tables = [place.records("a"), place.records("b"), place.records("c")];
    let (writer, reader) = (place.session(), place.session());
    for round in 0..50 {
        writer.begin().unwrap();
        for table in &tables {
            writer.insert(table, number(round), b"").unwrap();
            reader.begin().unwrap();
            for table in &tables {
                assert_eq!(numbers(&*reader, table).len() as i64, round, "half a transaction is seen");
            }
            reader.rollback();
        }
        let durability = if round % 10 == 0 { Durability::Durable } else { Durability::Buffered };
        writer.commit(durability).unwrap();
        reader.begin().unwrap();
        for table in &tables {
            assert_eq!(numbers(&*reader, table).len() as i64, round + 1, "half a commit is seen");
        }
        reader.rollback();
    }
}

/// Outside a transaction each call is committed when it returns.
pub fn each_write_alone_outside_a_transaction(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let (session, other) = (place.session(), place.session());
    session.insert(&table, number(1), b"one").unwrap();
    assert!(!session.in_transaction());
    assert_eq!(read(&*other, &table, number(1)).as_deref(), Some(&b"one"[..]));
    session.update(&table, number(1), b"two", None).unwrap();
    assert_eq!(read(&*other, &table, number(1)).as_deref(), Some(&b"two"[..]));
    assert!(session.remove(&table, number(1)).unwrap());
    assert!(!session.remove(&table, number(1)).unwrap(), "there is nothing to remove any more");
    assert_eq!(read(&*other, &table, number(1)), None);
    session.rollback();
    assert_eq!(read(&*other, &table, number(1)), None, "there is nothing to roll back either");
}

/// A session has at most one transaction; a second `begin`, and a `commit` without a transaction, fail.
pub fn transactions_do_not_nest(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    assert!(!session.in_transaction());
    failed(session.commit(Durability::Buffered));
    session.begin().unwrap();
    assert!(session.in_transaction());
    session.put(&table, number(1), b"one").unwrap();
    failed(session.begin());
    assert!(session.in_transaction(), "the first transaction is still open");
    session.commit(Durability::Buffered).unwrap();
    assert!(!session.in_transaction());
    assert_eq!(numbers(&*session, &table), [1]);
    committed(&*session, || ());
}

/// An update with splices leaves the same value as one without them.
pub fn splices_equal_the_whole(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    let mut random = Random::new(11);
    for size in [10, 300, 5000, 100_000] {
        let mut value = random.bytes(size);
        session.put(&table, number(1), &value).unwrap();
        for round in 0..40 {
            let (changed, splices) = spliced(&value, &mut random);
            let update = || session.update(&table, number(1), &changed, Some(&splices)).unwrap();
            match round % 3 {
                0 => update(),
                1 => committed(&*session, update),
                _ => {
                    session.begin().unwrap();
                    update();
                    assert!(
                        read(&*session, &table, number(1)).as_ref() == Some(&changed),
                        "before the rollback"
                    );
                    session.rollback();
                    assert!(
                        read(&*session, &table, number(1)).as_ref() == Some(&value),
                        "after the rollback"
                    );
                    continue;
                }
            }
            value = changed;
            let found = read(&*session, &table, number(1));
            assert!(found.as_ref() == Some(&value), "{splices:?} made another value");
        }
    }
}

/// One transaction reads a value, changes it in every way in turn, and reads it again. No write may build on a value that was
/// read before the preceding write, and a scan begins at the first key wherever the last read was.
pub fn a_value_is_read_changed_and_read_again(subject: &Subject<'_>) {
    let place = Fixture::new(subject);
    let table = place.records("t");
    let session = place.session();
    let mut random = Random::new(12);
    for key in 0..100 {
        session.put(&table, number(key), &random.bytes(400)).unwrap();
    }
    for round in 0..60 {
        session.begin().unwrap();
        let key = number(1 + round % 50);
        let mut value = read(&*session, &table, key).unwrap();
        for step in 0..6 {
            let (changed, splices) = spliced(&value, &mut random);
            match (round + step) % 5 {
                0 => session.put(&table, key, &changed).unwrap(),
                1 => session.update(&table, key, &changed, Some(&splices)).unwrap(),
                2 => {
                    assert!(session.remove(&table, key).unwrap());
                    session.insert(&table, key, &changed).unwrap();
                }
                3 => {
                    read(&*session, &table, number(60)).unwrap();
                    session.update(&table, key, &changed, Some(&splices)).unwrap();
                }
                _ => {
                    assert!(session.cursor(&table).unwrap().first().unwrap());
                    session.update(&table, key, &changed, Some(&splices)).unwrap();
                }
            }
            value = changed;
            assert!((round + step) % 3 > 0 || read(&*session, &table, key).as_ref() == Some(&value));
        }
        let mut walk = session.cursor(&table).unwrap();
        assert!(walk.first().unwrap() && walk.key() == number(0), "a walk begins at the first key");
        drop(walk);
        session.commit(Durability::Buffered).unwrap();
        assert!(read(&*session, &table, key).as_ref() == Some(&value), "round {round}");
    }
}

/// A copy of the value with a few ranges changed, and its splices: in order, not overlapping, with offsets in the old value.
pub(super) fn spliced(value: &[u8], random: &mut Random) -> (Vec<u8>, Vec<Splice>) {
    let many = 1 + random.below(3) as usize;
    let (mut changed, mut splices, mut kept) = (Vec::new(), Vec::new(), 0);
    for part in 0..many {
        let end = value.len() * (part + 1) / many;
        let offset = kept + random.below((end - kept) as u64 + 1) as usize;
        let remove = random.below((end - offset).min(20) as u64 + 1) as usize;
        let same_length = random.once_in(2);
        let added = if same_length { remove } else { random.below(20) as usize };
        let data = random.bytes(added);
        changed.extend_from_slice(value.get(kept..offset).unwrap());
        changed.extend_from_slice(&data);
        splices.push(Splice { offset, remove, data });
        kept = offset + remove;
    }
    changed.extend_from_slice(value.get(kept..).unwrap());
    (changed, splices)
}
