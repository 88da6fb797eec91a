//! An engine in a folder of its own, and the helper functions of the test cases.

use std::sync::Arc;

use tempfile::TempDir;

use super::Subject;
use crate::{Durability, Engine, Error, Key, Kind, Result, Session, Table, TableSpec};

/// An engine that is closed, and its folder that is removed, at the end of the case.
pub(super) struct Fixture<'a> {
    subject: &'a Subject<'a>,
    pub(super) engine: Arc<dyn Engine>,
    folder: TempDir,
}

impl<'a> Fixture<'a> {
    pub(super) fn new(subject: &'a Subject<'a>) -> Self {
        let folder = tempfile::Builder::new().prefix("fathom-conformance-").tempdir().unwrap();
        let engine = (subject.open)(folder.path()).expect("the engine must open in an empty folder");
        Fixture { subject, engine, folder }
    }

    pub(super) fn records(&self, ident: &str) -> Table {
        self.engine.create_table(ident, &TableSpec::records()).unwrap()
    }

    pub(super) fn index(&self, ident: &str) -> Table {
        self.engine.create_table(ident, &TableSpec::index()).unwrap()
    }

    pub(super) fn session(&self) -> Box<dyn Session> {
        self.engine.session().unwrap()
    }

    /// Closes the engine and opens it again. All sessions must have been dropped.
    pub(super) fn reopen(&mut self) {
        self.engine.close().expect("close must succeed");
        self.engine =
            (self.subject.open)(self.folder.path()).expect("the engine must open again after a close");
    }
}

impl Drop for Fixture<'_> {
    fn drop(&mut self) {
        let closed = self.engine.close();
        if !std::thread::panicking()
            && let Err(error) = closed
        {
            assert_eq!(error.kind(), Kind::Stopped, "close failed: {error}");
        }
    }
}

/// A key that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OwnedKey {
    Number(i64),
    Bytes(Vec<u8>),
}

impl OwnedKey {
    pub(super) fn as_key(&self) -> Key<'_> {
        match self {
            OwnedKey::Number(number) => Key::Number(*number),
            OwnedKey::Bytes(bytes) => Key::Bytes(bytes),
        }
    }
}

impl From<Key<'_>> for OwnedKey {
    fn from(key: Key<'_>) -> Self {
        match key {
            Key::Number(number) => OwnedKey::Number(number),
            Key::Bytes(bytes) => OwnedKey::Bytes(bytes.to_vec()),
        }
    }
}

/// The key of a record.
pub(super) fn number(number: i64) -> Key<'static> {
    Key::Number(number)
}

/// The key of an index entry.
pub(super) fn bytes(bytes: &[u8]) -> Key<'_> {
    Key::Bytes(bytes)
}

/// The value of a key, if it exists.
pub(super) fn read(session: &dyn Session, table: &Table, key: Key<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    session.get(table, key, &mut out).unwrap().then_some(out)
}

/// All keys and values in the order of a cursor.
pub(super) fn all(session: &dyn Session, table: &Table) -> Vec<(OwnedKey, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut cursor = session.cursor(table).unwrap();
    let mut found = cursor.first().unwrap();
    while found {
        rows.push((cursor.key().into(), cursor.value().to_vec()));
        found = cursor.next().unwrap();
    }
    rows
}

/// The record numbers of a table, in order.
pub(super) fn numbers(session: &dyn Session, table: &Table) -> Vec<i64> {
    all(session, table).iter().filter_map(|(key, _)| key.as_key().number()).collect()
}

/// Puts records with these numbers, each with its number in decimal as the value, in one transaction.
pub(super) fn fill(session: &dyn Session, table: &Table, numbers: impl IntoIterator<Item = i64>) {
    committed(session, || {
        numbers
            .into_iter()
            .for_each(|one| session.put(table, number(one), one.to_string().as_bytes()).unwrap());
    });
}

/// Runs `work` in a transaction that must commit.
pub(super) fn committed(session: &dyn Session, work: impl FnOnce()) {
    session.begin().unwrap();
    work();
    session.commit(Durability::Buffered).unwrap();
}

/// Runs `work` in a transaction, and retries it until no other transaction conflicts.
pub(super) fn retried<T>(session: &dyn Session, mut work: impl FnMut() -> Result<T>) -> T {
    loop {
        session.begin().unwrap();
        match work().and_then(|done| session.commit(Durability::Buffered).map(|()| done)) {
            Ok(done) => return done,
            Err(error) => assert_eq!(error.kind(), Kind::WriteConflict, "{error}"),
        }
        session.rollback();
        std::thread::yield_now();
    }
}

/// The kind of the error that a call must end with.
pub(super) fn failed<T>(result: Result<T>) -> Kind {
    result.err().as_ref().map(Error::kind).expect("the call succeeded, and must not")
}

/// Checks that a call ends with a write conflict, and rolls back.
pub(super) fn conflicts<T>(session: &dyn Session, result: Result<T>) {
    assert_eq!(failed(result), Kind::WriteConflict);
    session.rollback();
}
