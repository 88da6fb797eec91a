//! The child process that the crash test kills: several threads commit in order and print what is durable.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::content::{
    Content, ENTRIES, KEPT, RECORDS, WRITERS, acknowledgement, entry_key, head_key, record_key,
};
use crate::conformance::Subject;
use crate::conformance::fixture::{bytes, number, read, retried};
use crate::{Durability, Engine, Kind, Result, Session, Table, TableSpec};

/// A child that is not killed ends by itself.
const MAX_LIFE: Duration = Duration::from_secs(120);

/// Writes until the process is killed or its standard output is closed.
pub fn write_until_killed(subject: &Subject<'_>, folder: &Path) {
    let engine = (subject.open)(folder).expect("the engine must open after a kill");
    let open = |ident, spec| match engine.create_table(ident, spec) {
        Err(error) if error.kind() == Kind::Duplicate => engine.open_table(ident).unwrap(),
        made => made.unwrap(),
    };
    let writing = CrashWorkload {
        engine: &*engine,
        records: open(RECORDS, &TableSpec::records()),
        entries: open(ENTRIES, &TableSpec::index()),
        committed: Default::default(),
        ends: Instant::now() + MAX_LIFE,
    };
    let session = engine.session().unwrap();
    for (writer, committed) in writing.committed.iter().enumerate() {
        if let Some(value) = read(&*session, &writing.records, number(head_key(writer))) {
            let head = Content::decode(&value).expect("the head of a writer is torn");
            committed.store(head.sequence, Ordering::SeqCst);
        }
    }
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let writing = &writing;
            scope.spawn(move || writing.write(writer));
        }
        while !writing.is_over() {
            thread::sleep(Duration::from_millis(70));
            engine.checkpoint().unwrap();
        }
    });
}

struct CrashWorkload<'a> {
    engine: &'a dyn Engine,
    records: Table,
    entries: Table,
    /// The newest sequence of each writer whose commit has returned.
    committed: [AtomicU64; WRITERS],
    ends: Instant,
}

impl CrashWorkload<'_> {
    fn is_over(&self) -> bool {
        Instant::now() > self.ends
    }

    /// Writers 0 and 3 wait for each commit; 1 and 2 flush the journal from time to time, as w:1 does.
    fn write(&self, writer: usize) {
        let session = self.engine.session().unwrap();
        let waits = writer == 0 || writer == 3;
        while !self.is_over() {
            let seen = [0, 1, 2, 3].map(|one: usize| self.committed[one].load(Ordering::SeqCst));
            let content = Content { writer, sequence: seen[writer] + 1, seen };
            if content.sequence.is_multiple_of(7) {
                self.give_up(&*session, &content);
            }
            let durability = if waits { Durability::Durable } else { Durability::Buffered };
            self.commit(&*session, &content, durability);
            self.committed[writer].store(content.sequence, Ordering::SeqCst);
            if !waits {
                if !content.sequence.is_multiple_of(16) {
                    // The kill should find commits that are not flushed, and others that saw them.
                    if content.sequence.is_multiple_of(3) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    continue;
                }
                self.engine.flush_journal().unwrap();
            }
            let line = acknowledgement(writer, content.sequence);
            let mut out = std::io::stdout().lock();
            if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    }

    fn commit(&self, session: &dyn Session, content: &Content, durability: Durability) {
        if durability == Durability::Buffered {
            return retried(session, || self.put(session, content));
        }
        loop {
            session.begin().unwrap();
            match self.put(session, content).and_then(|()| session.commit(durability)) {
                Ok(()) => return,
                Err(error) => assert_eq!(error.kind(), Kind::WriteConflict, "{error}"),
            }
            session.rollback();
        }
    }

    /// Writes records that must never be found, and rolls them back.
    fn give_up(&self, session: &dyn Session, content: &Content) {
        let never = Content { sequence: content.sequence + 1_000_000, ..content.clone() };
        session.begin().unwrap();
        match self.put(session, &never) {
            Ok(()) => (),
            Err(error) => assert_eq!(error.kind(), Kind::WriteConflict, "{error}"),
        }
        session.rollback();
    }

    fn put(&self, session: &dyn Session, content: &Content) -> Result<()> {
        let (writer, sequence) = (content.writer, content.sequence);
        let key = record_key(writer, sequence);
        let value = content.encode();
        session.insert(&self.records, number(key), &value)?;
        session.insert(&self.entries, bytes(&entry_key(writer, sequence)), &key.to_le_bytes())?;
        session.put(&self.records, number(head_key(writer)), &value)?;
        let old = sequence.checked_sub(KEPT[writer]).filter(|old| *old > 0);
        if let Some(old) = old {
            session.remove(&self.records, number(record_key(writer, old)))?;
            session.remove(&self.entries, bytes(&entry_key(writer, old)))?;
        }
        Ok(())
    }
}
