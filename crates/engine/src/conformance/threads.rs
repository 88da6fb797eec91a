//! Test cases with many threads at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::Subject;
use super::fixture::{Fixture, bytes, committed, number, numbers, read, retried};
use super::random::Random;
use crate::{Kind, Session, Table};

const THREADS: i64 = 6;

fn balance(session: &dyn Session, table: &Table, account: i64) -> i64 {
    let value = read(session, table, number(account)).expect("an account is gone");
    i64::from_le_bytes(value.try_into().expect("a balance has eight bytes"))
}

/// Counters that every thread adds to, read and written in one transaction, end with the sum.
pub fn lose_no_update(subject: &Subject<'_>) {
    const ROUNDS: i64 = 300;
    let place = Fixture::new(subject);
    let table = place.records("counters");
    let session = place.session();
    (0..3).for_each(|counter| session.put(&table, number(counter), &0_i64.to_le_bytes()).unwrap());
    thread::scope(|scope| {
        for who in 0..THREADS {
            let (table, session) = (&table, place.session());
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let counter = (who + round) % 3;
                    retried(&*session, || {
                        let sum = balance(&*session, table, counter) + 1;
                        session.update(table, number(counter), &sum.to_le_bytes(), None)
                    });
                }
            });
        }
    });
    let sum: i64 = (0..3).map(|counter| balance(&*session, &table, counter)).sum();
    assert_eq!(sum, THREADS * ROUNDS, "updates were lost, or done twice");
}

/// Money moves between accounts in two tables; every snapshot has the same sum, and so does the final state.
pub fn keep_the_sum_of_accounts(subject: &Subject<'_>) {
    const ACCOUNTS: i64 = 20;
    let place = Fixture::new(subject);
    let tables = [place.records("bank-1"), place.records("bank-2")];
    let session = place.session();
    for table in &tables {
        committed(&*session, || {
            (0..ACCOUNTS).for_each(|one| session.put(table, number(one), &100_i64.to_le_bytes()).unwrap());
        });
    }
    let total = |session: &dyn Session| -> i64 {
        tables.iter().flat_map(|table| (0..ACCOUNTS).map(move |one| balance(session, table, one))).sum()
    };
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let movers: Vec<_> = (0..THREADS)
            .map(|who| {
                let (tables, session) = (&tables, place.session());
                scope.spawn(move || {
                    move_money(&*session, tables, who.cast_unsigned(), ACCOUNTS.cast_unsigned())
                })
            })
            .collect();
        let auditor = place.session();
        let (total, finished) = (&total, &finished);
        scope.spawn(move || {
            while !finished.load(Ordering::Relaxed) {
                committed(&*auditor, || assert_eq!(total(&*auditor), 2 * ACCOUNTS * 100, "in the middle"));
            }
        });
        let results: Vec<_> = movers.into_iter().map(|mover| mover.join()).collect();
        finished.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "a thread that moves money failed");
    });
    assert_eq!(total(&*session), 2 * ACCOUNTS * 100, "at the end");
}

fn move_money(session: &dyn Session, tables: &[Table; 2], seed: u64, accounts: u64) {
    let mut random = Random::new(seed);
    for _ in 0..200 {
        let [from, to] = [0, 1].map(|_| (random.once_in(2), random.below(accounts).cast_signed()));
        let amount = random.below(50).cast_signed();
        let table = |(first, _): (bool, i64)| if first { &tables[0] } else { &tables[1] };
        if from == to {
            continue;
        }
        retried(session, || {
            let left = balance(session, table(from), from.1) - amount;
            let right = balance(session, table(to), to.1) + amount;
            session.put(table(from), number(from.1), &left.to_le_bytes())?;
            session.put(table(to), number(to.1), &right.to_le_bytes())
        });
    }
}

/// Threads that race to insert the same keys: each key has one winner, and the others get an error.
pub fn insert_each_key_once(subject: &Subject<'_>) {
    const KEYS: i64 = 400;
    let place = Fixture::new(subject);
    let (table, index) = (place.records("t"), place.index("i"));
    let won: i64 = thread::scope(|scope| {
        let racers: Vec<_> = (0..THREADS)
            .map(|_| {
                let (table, index, session) = (&table, &index, place.session());
                scope
                    .spawn(move || (0..KEYS).filter(|key| race(&*session, table, index, *key)).count() as i64)
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().expect("a thread that inserts failed")).sum()
    });
    assert_eq!(won, KEYS, "as many winners as keys");
    let session = place.session();
    assert_eq!(numbers(&*session, &table), (0..KEYS).collect::<Vec<_>>());
    for key in 0..KEYS {
        assert!(read(&*session, &index, bytes(&key.to_be_bytes())).is_some(), "no index entry for {key}");
    }
}

/// True for the thread that inserted.
fn race(session: &dyn Session, table: &Table, index: &Table, key: i64) -> bool {
    retried(session, || {
        match session.insert(table, number(key), b"value") {
            Err(error) if error.kind() == Kind::Duplicate => return Ok(false),
            other => other?,
        }
        session.insert(index, bytes(&key.to_be_bytes()), b"").map(|()| true)
    })
}
