//! The oplog: what a member changed, in the order in which all others change it too.
//!
//! An entry is written in the transaction of what it describes, under its timestamp as the record's number, so that both are
//! there after a crash or neither is. Readers see it only up to where no earlier entry can come any more and the journal
//! holds all (server.md, 4.1); that point is moved by [`Oplog::publish`].

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use bson::{DateTime, Document, RawDocumentBuf, doc};
use fathom_engine::{Durability, Key, Session};
use fathom_query::{Code, Failure};
use fathom_replication::OpTime;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::clock::{OplogClock, Reserved, Stamp};
use super::entry::{Change, ChangeKind, Entry, Statement, read_optime};
use crate::Result;
use crate::storage::{Collection, CollectionOptions, OpObserver, document_of};

/// Its name.
pub(crate) const OPLOG: &str = "local.oplog.rs";
/// The records of sessions, where a mongod has them: each member's own.
pub(crate) const TRANSACTIONS: &str = "config.transactions";

/// Whether this member may log now, and in which term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) writable: bool,
    pub(crate) term: i64,
}

/// The oplog of a member.
#[derive(Debug, Default)]
pub(crate) struct Oplog {
    /// Made when the set is initiated or joined.
    collection: OnceLock<Arc<Collection>>,
    clock: OplogClock,
    /// Held shared from the timestamp to the commit, and alone to step up or down.
    role: RwLock<Role>,
    /// From which timestamp on each term's entries stand.
    terms: Mutex<Vec<OpTime>>,
    /// Up to where others may read.
    visible: Mutex<Stamp>,
}

/// Entries in a transaction that is still open; to be kept until it is committed or rolled back.
#[derive(Debug)]
pub(crate) struct Logged<'o> {
    // In this order: others may go on before this member may step down.
    reserved: Reserved<'o>,
    role: RwLockReadGuard<'o, Role>,
    collection: &'o Collection,
    bytes: i64,
    /// The statements of retryable writes, with their entries.
    statements: Vec<(Statement, OpTime)>,
}

impl Logged<'_> {
    /// The last entry.
    pub(crate) fn last(&self) -> OpTime {
        OpTime { timestamp: self.reserved.last(), term: self.role.term }
    }

    /// The transaction is committed: counts the entries, and hands over the statements that are done.
    pub(crate) fn committed(self, mut done: impl FnMut(&Statement, OpTime)) -> OpTime {
        let last = self.last();
        self.statements.iter().for_each(|(statement, at)| done(statement, *at));
        let count = last.timestamp - self.reserved.first() + 1;
        self.collection.note(i64::try_from(count).unwrap_or(0), self.bytes);
        // Before the role may change: who steps down must know of the entry.
        self.reserved.commit();
        drop(self.role);
        last
    }
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, what this thread writes is not logged: it applies what another member logged, or recovers what this one did.
///
/// It is the thread that knows, as in mongod, where an operation's context carries the same mark: an applier is a thread of its
/// own and does nothing else.
#[derive(Debug)]
pub(crate) struct Unreplicated {
    /// It must go on the thread that made it.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Unreplicated {
    /// Begins.
    pub(crate) fn begin() -> Unreplicated {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Unreplicated { _thread: std::marker::PhantomData }
    }

    /// Whether this thread's writes are not logged.
    pub(crate) fn is_on() -> bool {
        DEPTH.with(Cell::get) > 0
    }
}

impl Drop for Unreplicated {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

impl Oplog {
    /// How the collection is made: capped by the server, without an index on `_id`, as mongod has it.
    pub(crate) fn options(size_bytes: i64) -> CollectionOptions {
        CollectionOptions { document: doc! { "capped": true, "size": size_bytes, "autoIndexId": false } }
    }

    /// Goes on in a collection; `ends` are its oldest and its newest entry.
    pub(crate) fn open(&self, collection: Arc<Collection>, ends: Option<(OpTime, OpTime)>) {
        if let Some((first, last)) = ends {
            self.clock.advance(last.timestamp);
            // Nobody asks about entries in between: those that matter are the newest.
            self.note_term(first);
            self.note_term(last);
        }
        let _ = self.collection.set(collection);
        let settled = self.clock.settled();
        *self.visible.lock() = settled;
        self.show(settled);
    }

    /// The collection, once there is one.
    pub(crate) fn collection(&self) -> Option<&Arc<Collection>> {
        self.collection.get()
    }

    /// The logical clock.
    pub(crate) fn clock(&self) -> &OplogClock {
        &self.clock
    }

    /// Whether this member may log now.
    pub(crate) fn role(&self) -> Role {
        *self.role.read()
    }

    /// Waits until no transaction is between its timestamp and its commit, and changes the role.
    pub(crate) fn set_role(&self, role: Role) {
        *self.role.write() = role;
    }

    /// Logs what the thread's transaction changes, unless its changes came from the log; none if there is nothing to log.
    /// `NotWritablePrimary` if this member may not change anything now.
    pub(crate) fn log(&self, session: &dyn Session, changes: &[Change]) -> Result<Option<Logged<'_>>> {
        let replicated: Vec<&Change> =
            changes.iter().filter(|change| is_replicated(&change.namespace)).collect();
        if replicated.is_empty() || Unreplicated::is_on() {
            return Ok(None);
        }
        let role = self.role.read();
        let (true, Some(collection)) = (role.writable, self.collection.get()) else {
            return Err(not_primary());
        };
        let reserved = self.clock.reserve(now_seconds(), replicated.iter().map(|one| one.entries()).sum());
        let (mut bytes, mut statements) = (0, Vec::new());
        let wall = DateTime::now();
        let table = collection.records_table()?;
        let mut at = OpTime { timestamp: reserved.first(), term: role.term };
        for change in replicated {
            if let Some(image) = change.image_entry(at, wall) {
                bytes += i64::try_from(image.len()).unwrap_or(0);
                session.put(table, key(at.timestamp), &image)?;
                at.timestamp += 1;
            }
            #[expect(clippy::cast_possible_wrap, reason = "any 64 bits")]
            let entry = change.entry(at, crate::random::number() as i64, wall);
            bytes += i64::try_from(entry.len()).unwrap_or(0);
            session.put(table, key(at.timestamp), &entry)?;
            statements.extend(change.statement.clone().map(|statement| (statement, at)));
            at.timestamp += 1;
        }
        self.note_term(OpTime { timestamp: reserved.first(), term: role.term });
        Ok(Some(Logged { reserved, role, collection, bytes, statements }))
    }

    /// Writes the entry with which a set's oplog begins, in the session's transaction.
    pub(crate) fn write_first(&self, session: &dyn Session, change: &Change, at: OpTime) -> Result<()> {
        let collection = self.collection.get().ok_or_else(no_oplog)?;
        let entry = change.entry(at, 0, DateTime::now());
        session.put(collection.records_table()?, key(at.timestamp), &entry)?;
        self.note_term(at);
        collection.note(1, i64::try_from(entry.len()).unwrap_or(0));
        Ok(())
    }

    /// Writes entries of another member, in the session's transaction.
    pub(crate) fn copy(&self, session: &dyn Session, entries: &[Entry]) -> Result<()> {
        let collection = self.collection.get().ok_or_else(no_oplog)?;
        let mut bytes = 0;
        for entry in entries {
            bytes += i64::try_from(entry.raw.as_bytes().len()).unwrap_or(0);
            session.put(collection.records_table()?, key(entry.at.timestamp), entry.raw.as_bytes())?;
            self.note_term(entry.at);
        }
        collection.note(i64::try_from(entries.len()).unwrap_or(0), bytes);
        Ok(())
    }

    /// The term's first entry, if it is one.
    fn note_term(&self, at: OpTime) {
        let mut terms = self.terms.lock();
        match terms.last() {
            Some(last) if last.term >= at.term => {}
            _ => terms.push(at),
        }
    }

    /// Which term's an entry is, by its timestamp.
    pub(crate) fn optime_of(&self, stamp: Stamp) -> OpTime {
        let terms = self.terms.lock();
        let term = terms.iter().rev().find(|one| one.timestamp <= stamp).or_else(|| terms.first());
        term.map_or(OpTime::default(), |one| OpTime { timestamp: stamp, term: one.term })
    }

    /// Forgets entries behind `end`, which were taken out of the collection.
    pub(crate) fn cut(&self, end: OpTime) {
        self.clock.cut(end.timestamp);
        self.terms.lock().retain(|one| one.timestamp <= end.timestamp);
        // After a start only the terms of the oldest and the newest entry are known.
        self.note_term(end);
        *self.visible.lock() = end.timestamp;
        self.show(end.timestamp);
    }

    /// Up to where others may read.
    pub(crate) fn visible(&self) -> Stamp {
        *self.visible.lock()
    }

    /// Lets others read up to `stamp`.
    pub(crate) fn publish(&self, stamp: Stamp) {
        let mut visible = self.visible.lock();
        if stamp > *visible {
            *visible = stamp;
            self.show(stamp);
            drop(visible);
            self.announce();
        }
    }

    fn show(&self, stamp: Stamp) {
        if let Some(collection) = self.collection.get() {
            collection.set_readable_to(i64::try_from(stamp).unwrap_or(i64::MAX));
        }
    }

    /// Wakes those who follow.
    pub(crate) fn announce(&self) {
        if let Some(collection) = self.collection.get() {
            collection.capped().announce();
        }
    }

    /// The entry of a timestamp.
    pub(crate) fn get(&self, session: &dyn Session, stamp: Stamp) -> Result<Option<Entry>> {
        let Some(collection) = self.collection.get() else { return Ok(None) };
        let mut bytes = Vec::new();
        if !session.get(collection.records_table()?, key(stamp), &mut bytes)? {
            return Ok(None);
        }
        read(&bytes).map(Some)
    }

    /// The entry of a timestamp, or the newest before it.
    pub(crate) fn at_or_before(&self, session: &dyn Session, stamp: Stamp) -> Result<Option<Entry>> {
        let Some(collection) = self.collection.get() else { return Ok(None) };
        let mut cursor = session.cursor(collection.records_table()?)?;
        if !cursor.seek_back(key(stamp))? {
            return Ok(None);
        }
        read(cursor.value()).map(Some)
    }

    /// Removes all entries after one; how many.
    pub(crate) fn truncate_after(&self, session: &dyn Session, end: OpTime) -> Result<i64> {
        let collection = self.collection.get().ok_or_else(no_oplog)?;
        let (mut count, mut bytes) = (0, 0);
        {
            let mut cursor = session.cursor(collection.records_table()?)?;
            let mut more = cursor.seek(key(end.timestamp + 1))?;
            while more {
                count += 1;
                bytes += i64::try_from(cursor.value().len()).unwrap_or(0);
                more = cursor.next()?;
            }
        }
        if count > 0 {
            session.truncate(collection.records_table()?, Some(key(end.timestamp + 1)), None)?;
            collection.note(-count, -bytes);
        }
        self.cut(end);
        Ok(count)
    }

    /// At most `most` entries after `stamp`, in order.
    pub(crate) fn after(&self, session: &dyn Session, stamp: Stamp, most: usize) -> Result<Vec<Entry>> {
        let collection = self.collection.get().ok_or_else(no_oplog)?;
        let mut cursor = session.cursor(collection.records_table()?)?;
        let mut entries = Vec::new();
        let mut more = cursor.seek(key(stamp + 1))?;
        while more && entries.len() < most {
            entries.push(read(cursor.value())?);
            more = cursor.next()?;
        }
        Ok(entries)
    }

    /// The oldest and the newest entry of a collection that is one.
    pub(crate) fn ends(session: &dyn Session, collection: &Collection) -> Result<Option<(OpTime, OpTime)>> {
        let mut cursor = session.cursor(collection.records_table()?)?;
        if !cursor.first()? {
            return Ok(None);
        }
        let first = read_optime(document_of(cursor.value())?);
        cursor.last()?;
        let last = read_optime(document_of(cursor.value())?);
        Ok(first.zip(last))
    }
}

impl OpObserver for Oplog {
    /// Logs the commands for the other members.
    fn on_commands(
        &self,
        session: &dyn Session,
        collection: &Collection,
        commands: &[Document],
        durability: Durability,
    ) -> Result<()> {
        let mut changes = Vec::with_capacity(commands.len());
        for command in commands {
            changes.push(Change::command(collection.namespace(), Some(collection.uuid()), command)?);
        }
        let logged = self.log(session, &changes)?;
        session.commit(durability)?;
        if let Some(logged) = logged {
            logged.committed(|_, _| {});
        }
        Ok(())
    }
}

/// The key of an entry.
pub(crate) fn key(stamp: Stamp) -> Key<'static> {
    Key::Number(i64::try_from(stamp).unwrap_or(i64::MAX))
}

fn read(bytes: &[u8]) -> Result<Entry> {
    let raw = RawDocumentBuf::from_bytes(bytes.to_vec()).map_err(|error| crate::parse::malformed(&error))?;
    Entry::parse(raw)
}

fn now_seconds() -> u32 {
    u32::try_from(DateTime::now().timestamp_millis() / 1000).unwrap_or(u32::MAX)
}

fn no_oplog() -> Failure {
    Failure::new(Code::InternalError, "this member has no oplog yet")
}

/// The failure that makes drivers look for another primary.
pub(crate) fn not_primary() -> Failure {
    Failure::new(Code::NotWritablePrimary, "not master")
}

/// Whether changes of a collection go to other members: all but what is a member's own.
pub(crate) fn is_replicated(namespace: &str) -> bool {
    let (database, name) = namespace.split_once('.').unwrap_or((namespace, ""));
    database != "local" && name != "system.profile" && namespace != TRANSACTIONS
}

impl Change {
    /// A command that changes the catalog; `namespace` names the database.
    pub(crate) fn command(
        namespace: &str,
        collection: Option<bson::Uuid>,
        command: &Document,
    ) -> Result<Change> {
        let database = namespace.split('.').next().unwrap_or_default();
        // A namespace that is not replicated stays one.
        let target = if is_replicated(namespace) { format!("{database}.$cmd") } else { namespace.to_owned() };
        let mut change = Change::new(ChangeKind::Command, &target, crate::parse::raw_of(command)?);
        change.collection = collection;
        Ok(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_that_was_cut_keeps_its_term() {
        // As after a start: only the first and the last entry are known with their terms.
        let oplog = Oplog::default();
        oplog.note_term(OpTime { timestamp: 1, term: -1 });
        oplog.note_term(OpTime { timestamp: 80, term: 1 });
        let end = OpTime { timestamp: 77, term: 1 };
        oplog.cut(end);
        assert_eq!(oplog.optime_of(77), end);
        assert_eq!(oplog.optime_of(oplog.clock().settled()), end);
    }
}
