//! A process that is killed while it writes: what it promised is there, and what is there is a prefix of what it did.

mod common;

use std::path::Path;

use common::{CHILD_FOLDER, get, killed_child, open};
use fathom_engine::{Durability, Engine, Key, KeyKind, Kind, Table, TableSpec};

const WRITERS: usize = 3;
const ROUNDS: usize = 3;
/// Lines of promises after which the child is killed.
const PROMISES: usize = 60;

/// The child: each writer appends to its own records and index, and prints what the journal holds.
#[test]
fn child_that_writes() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let engine = open(Path::new(&folder));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let engine = &engine;
            scope.spawn(move || write_for_ever(engine, writer));
        }
    });
}

fn tables(engine: &dyn Engine, writer: usize) -> [Table; 2] {
    let table = |ident: String, spec: TableSpec| match engine.create_table(&ident, &spec) {
        Err(error) if error.kind() == Kind::Duplicate => engine.open_table(&ident).unwrap(),
        made => made.unwrap(),
    };
    [
        table(format!("collection-{writer}"), TableSpec::records()),
        table(format!("index-{writer}"), TableSpec::index()),
    ]
}

fn write_for_ever(engine: &dyn Engine, writer: usize) {
    let [records, index] = tables(engine, writer);
    let session = engine.session().unwrap();
    let start = common::count(session.as_ref(), &records) as i64;
    for number in start.. {
        session.begin().unwrap();
        let value = common::noise(number, 200);
        session.insert(&records, Key::Number(number), &value).unwrap();
        session.insert(&index, Key::Bytes(&value[..16]), &number.to_be_bytes()).unwrap();
        if number % 7 == 0 {
            session.commit(Durability::Durable).unwrap();
        } else {
            session.commit(Durability::Buffered).unwrap();
            if number % 50 != 0 {
                continue;
            }
            engine.flush_journal().unwrap();
        }
        println!("promised {writer} {number}");
        if number % 1000 == 0 {
            engine.checkpoint().unwrap();
        }
    }
}

#[test]
fn a_kill_keeps_a_prefix_with_all_that_was_promised() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = [0; WRITERS];
    for round in 1..=ROUNDS {
        let promise = |line: &String| line.starts_with("promised");
        let lines = killed_child("child_that_writes", folder.path(), |lines| {
            lines.iter().filter(|line| promise(line)).count() >= PROMISES
        });
        let engine = open(folder.path());
        let session = engine.session().unwrap();
        for (writer, rows) in rows.iter_mut().enumerate() {
            let prefix = format!("promised {writer} ");
            let promised =
                lines.iter().filter_map(|line| line.strip_prefix(&prefix)?.parse::<i64>().ok()).max();
            let [records, index] = tables(&engine, writer);
            assert_eq!((records.keys(), index.keys()), (KeyKind::Number, KeyKind::Bytes));
            let there = common::count(session.as_ref(), &records) as i64;
            assert!(there > promised.unwrap_or(-1), "{there} of {promised:?} in round {round}");
            assert!(there >= *rows, "what an earlier round had is gone");
            *rows = there;
            for number in 0..there {
                let value = common::noise(number, 200);
                assert_eq!(
                    get(session.as_ref(), &records, Key::Number(number)).as_ref(),
                    Some(&value),
                    "a hole"
                );
                let entry = get(session.as_ref(), &index, Key::Bytes(&value[..16]));
                assert_eq!(entry.as_deref(), Some(number.to_be_bytes().as_slice()), "half a commit");
            }
            assert_eq!(common::count(session.as_ref(), &index) as i64, there, "half a commit");
            engine.verify(&records).unwrap();
            engine.verify(&index).unwrap();
        }
        drop(session);
        engine.close().unwrap();
    }
    assert!(rows.iter().all(|rows| *rows > 0), "{rows:?}");
}
