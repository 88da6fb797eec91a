//! Prints the cost of operations without judging it:
//! `cargo test --release -p fathom-engine-rocks --test engine-rocks -- speed --ignored --nocapture`.

use std::time::Instant;

use crate::common::noise;
use fathom_engine::{Durability, Engine, Key, Session, Table, TableSpec};
use fathom_engine_rocks::{Options, RocksEngine};

const RECORDS: i64 = 200_000;
const RECORD_BYTES: usize = 1000;

/// A full-period walk over the records that looks random.
fn shuffled(step: i64) -> i64 {
    (step * 123_457) % RECORDS
}

fn timed(name: &str, operations: i64, work: impl FnOnce()) {
    let begin = Instant::now();
    work();
    let seconds = begin.elapsed().as_secs_f64();
    let per_operation = seconds * 1e9 / operations as f64;
    println!("{name:45} {per_operation:9.0} ns/op  {:9.0} op/s", operations as f64 / seconds);
}

fn in_pair(session: &dyn Session, work: impl FnOnce()) {
    session.begin().unwrap();
    work();
    session.rollback();
}

fn committed(session: &dyn Session, work: impl FnOnce()) {
    session.begin().unwrap();
    work();
    session.commit(Durability::Buffered).unwrap();
}

fn read(session: &dyn Session, table: &Table) {
    let mut out = Vec::new();
    for step in 0..RECORDS {
        in_pair(session, || {
            out.clear();
            assert!(session.get(table, Key::Number(shuffled(step)), &mut out).unwrap());
        });
    }
}

#[test]
#[ignore = "a measurement"]
fn of_single_operations() {
    let folder = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Options::new(folder.path(), 1 << 30)).unwrap();
    let session = engine.session().unwrap();
    let session = session.as_ref();
    let records = engine.create_table("r", &TableSpec::records()).unwrap();
    let index = engine.create_table("i", &TableSpec::index()).unwrap();
    let value = noise(1, RECORD_BYTES);
    let index_key = |number: i64| {
        let mut key = *b"\x3cuser0000000000000000\0\x04";
        key[5..21].copy_from_slice(format!("{:016x}", shuffled(number)).as_bytes());
        key
    };
    timed("insert of a record and its index entry", RECORDS, || {
        for number in 0..RECORDS {
            committed(session, || {
                session.insert(&records, Key::Number(number), &value).unwrap();
                session.insert(&index, Key::Bytes(&index_key(number)), &number.to_be_bytes()).unwrap();
            });
        }
    });
    timed("begin and rollback", RECORDS, || (0..RECORDS).for_each(|_| in_pair(session, || ())));
    timed("get in begin and rollback, part in memtables", RECORDS, || read(session, &records));
    engine.compact(&records).unwrap();
    engine.compact(&index).unwrap();
    read(session, &records);
    timed("get in begin and rollback, from the cache", RECORDS, || read(session, &records));
    timed("get outside a transaction, from the cache", RECORDS, || {
        let mut out = Vec::new();
        for step in 0..RECORDS {
            out.clear();
            assert!(session.get(&records, Key::Number(shuffled(step)), &mut out).unwrap());
        }
    });
    timed("new cursor, seek, 10 keys, from the cache", RECORDS / 10, || {
        for step in 0..RECORDS / 10 {
            in_pair(session, || {
                let mut cursor = session.cursor(&records).unwrap();
                assert!(cursor.seek(Key::Number(shuffled(step).min(RECORDS - 20))).unwrap());
                (0..9).for_each(|_| assert!(cursor.next().unwrap()));
            });
        }
    });
    timed("walk over all records, per key", RECORDS, || {
        assert_eq!(crate::common::count(session, &records), RECORDS as usize)
    });
    timed("get and update", RECORDS, || {
        let mut out = Vec::new();
        for step in 0..RECORDS {
            committed(session, || {
                out.clear();
                let key = Key::Number(shuffled(step));
                assert!(session.get(&records, key, &mut out).unwrap());
                session.update(&records, key, &value, None).unwrap();
            });
        }
    });
    timed("update, durable", 2000, || {
        for step in 0..2000 {
            session.begin().unwrap();
            session.update(&records, Key::Number(step), &value, None).unwrap();
            session.commit(Durability::Durable).unwrap();
        }
    });
    timed("statistics", 100, || (0..100).for_each(|_| drop(engine.statistics().unwrap())));
    println!("{:?}", engine.statistics().unwrap().get("counters", "stall-micros"));
}

#[test]
#[ignore = "a measurement"]
fn of_two_threads() {
    let folder = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Options::new(folder.path(), 1 << 30)).unwrap();
    let records = engine.create_table("r", &TableSpec::records()).unwrap();
    crate::common::fill(engine.session().unwrap().as_ref(), &records, RECORDS, RECORD_BYTES);
    engine.compact(&records).unwrap();
    for threads in [1, 2, 4] {
        let each = |work: &(dyn Fn(&dyn Session, i64) + Sync)| {
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let engine = &engine;
                    scope.spawn(move || work(engine.session().unwrap().as_ref(), thread));
                }
            });
        };
        timed(&format!("{threads} threads get"), RECORDS * threads, || {
            each(&|session, _| read(session, &records))
        });
        timed(&format!("{threads} threads update their own"), RECORDS / 4 * threads, || {
            each(&|session, thread| {
                let value = noise(thread, RECORD_BYTES);
                for step in 0..RECORDS / 4 {
                    let key = Key::Number(shuffled(step) / threads * threads + thread);
                    committed(session, || session.update(&records, key, &value, None).unwrap());
                }
            });
        });
    }
}

#[test]
#[ignore = "a measurement"]
fn of_counting() {
    for counters in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let engine = RocksEngine::open(Options { counters, ..Options::new(folder.path(), 1 << 30) }).unwrap();
        let records = engine.create_table("r", &TableSpec::records()).unwrap();
        let session = engine.session().unwrap();
        crate::common::fill(session.as_ref(), &records, RECORDS, RECORD_BYTES);
        engine.compact(&records).unwrap();
        read(session.as_ref(), &records);
        timed(&format!("get, counters {counters}"), RECORDS, || read(session.as_ref(), &records));
    }
}
