//! The oplog: a member's changes, in the order in which all other members apply them.
//!
//! An entry is written in the transaction of the change that it describes, with its timestamp as the record's number, so that after a
//! crash both exist or neither does. Readers see it only up to the point before which no further entry can be committed and the journal
//! holds everything (docs/methods.md#the-oplog); [`Oplog::publish`] moves that point.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use bson::{DateTime, Document, RawDocumentBuf, doc};
use fathom_engine::{Durability, Key, Session};
use fathom_query::{Code, Failure};
use fathom_replication::OpTime;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::clock::{OplogClock, Stamp, TimestampReservation};
use super::entry::{ChangeKind, LoggedChange, OplogEntry, RetryStatement, read_optime};
use crate::Result;
use crate::storage::{Collection, CollectionOptions, OpObserver, document_of};

pub(crate) const OPLOG: &str = "local.oplog.rs";
/// The records of sessions in a mongod; each member has its own.
pub(crate) const TRANSACTIONS: &str = "config.transactions";

/// Whether this member may log now, and in which term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OplogRole {
    pub(crate) writable: bool,
    pub(crate) term: i64,
}

/// The oplog of a member.
#[derive(Debug, Default)]
pub(crate) struct Oplog {
    /// Made when the set is initiated or joined.
    collection: OnceLock<Arc<Collection>>,
    clock: OplogClock,
    /// Held shared from the timestamp to the commit, and exclusively to step up or down.
    role: RwLock<OplogRole>,
    /// The first entry known of each term.
    terms: Mutex<Vec<OpTime>>,
    /// The point up to which others may read.
    visible: Mutex<Stamp>,
}

/// Entries in an open transaction; to be kept until it is committed or rolled back.
#[derive(Debug)]
pub(crate) struct OplogSlots<'o> {
    // Dropped in this order: others may continue before this member may step down.
    reserved: TimestampReservation<'o>,
    role: RwLockReadGuard<'o, OplogRole>,
    collection: &'o Collection,
    bytes: i64,
    /// The statements of retryable writes, with their entries.
    statements: Vec<(RetryStatement, OpTime)>,
}

impl OplogSlots<'_> {
    pub(crate) fn last(&self) -> OpTime {
        OpTime { timestamp: self.reserved.last(), term: self.role.term }
    }

    /// Records that the transaction is committed: counts the entries, and passes on the statements that are done.
    pub(crate) fn committed(self, mut done: impl FnMut(&RetryStatement, OpTime)) -> OpTime {
        let last = self.last();
        self.statements.iter().for_each(|(statement, at)| done(statement, *at));
        let count = last.timestamp - self.reserved.first() + 1;
        self.collection.note(i64::try_from(count).unwrap_or(0), self.bytes);
        // Before the role may change: a member that steps down must know of the entry.
        self.reserved.commit();
        drop(self.role);
        last
    }
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While this exists, the thread's writes are not logged: it applies another member's entries, or recovers this member's own.
///
/// The mark belongs to the thread. In mongod an operation's context carries the same mark; an applier here is a thread of its
/// own that does nothing else.
#[derive(Debug)]
pub(crate) struct UnreplicatedWritesBlock {
    /// It must be dropped on the thread that made it.
    _thread: std::marker::PhantomData<*const ()>,
}

impl UnreplicatedWritesBlock {
    pub(crate) fn begin() -> UnreplicatedWritesBlock {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        UnreplicatedWritesBlock { _thread: std::marker::PhantomData }
    }

    /// Whether this thread's writes are not logged.
    pub(crate) fn is_on() -> bool {
        DEPTH.with(Cell::get) > 0
    }
}

impl Drop for UnreplicatedWritesBlock {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

impl Oplog {
    /// The options of the collection: capped by the server, without an index on `_id`, as in mongod.
    pub(crate) fn options(size_bytes: i64) -> CollectionOptions {
        CollectionOptions { document: doc! { "capped": true, "size": size_bytes, "autoIndexId": false } }
    }

    /// Opens the oplog over a collection; `ends` are its oldest and its newest entry.
    pub(crate) fn open(&self, collection: Arc<Collection>, ends: Option<(OpTime, OpTime)>) {
        if let Some((first, last)) = ends {
            self.clock.advance(last.timestamp);
            // The terms of the entries in between are never needed: only the newest ones matter.
            self.note_term(first);
            self.note_term(last);
        }
        let _ = self.collection.set(collection);
        let settled = self.clock.settled();
        *self.visible.lock() = settled;
        self.show(settled);
    }

    /// The collection, once it exists.
    pub(crate) fn collection(&self) -> Option<&Arc<Collection>> {
        self.collection.get()
    }

    pub(crate) fn clock(&self) -> &OplogClock {
        &self.clock
    }

    /// Whether this member may log now.
    pub(crate) fn role(&self) -> OplogRole {
        *self.role.read()
    }

    /// Waits until no transaction is between its timestamp and its commit, then changes the role.
    pub(crate) fn set_role(&self, role: OplogRole) {
        *self.role.write() = role;
    }

    /// Logs the changes of the thread's transaction, unless they came from the oplog; `None` if there is nothing to
    /// log. `NotWritablePrimary` if this member may not change anything now.
    pub(crate) fn log(
        &self,
        session: &dyn Session,
        changes: &[LoggedChange],
    ) -> Result<Option<OplogSlots<'_>>> {
        let replicated: Vec<&LoggedChange> =
            changes.iter().filter(|change| is_replicated(&change.namespace)).collect();
        if replicated.is_empty() || UnreplicatedWritesBlock::is_on() {
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
        Ok(Some(OplogSlots { reserved, role, collection, bytes, statements }))
    }

    /// Writes the first entry of a set's oplog, in the session's transaction.
    pub(crate) fn write_first(&self, session: &dyn Session, change: &LoggedChange, at: OpTime) -> Result<()> {
        let collection = self.collection.get().ok_or_else(no_oplog)?;
        let entry = change.entry(at, 0, DateTime::now());
        session.put(collection.records_table()?, key(at.timestamp), &entry)?;
        self.note_term(at);
        collection.note(1, i64::try_from(entry.len()).unwrap_or(0));
        Ok(())
    }

    /// Writes entries of another member, in the session's transaction.
    pub(crate) fn copy(&self, session: &dyn Session, entries: &[OplogEntry]) -> Result<()> {
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

    /// Records an entry as the first of its term if the term is new.
    fn note_term(&self, at: OpTime) {
        let mut terms = self.terms.lock();
        match terms.last() {
            Some(last) if last.term >= at.term => {}
            _ => terms.push(at),
        }
    }

    /// Completes a timestamp with the term of its entry.
    pub(crate) fn optime_of(&self, stamp: Stamp) -> OpTime {
        let terms = self.terms.lock();
        let term = terms.iter().rev().find(|one| one.timestamp <= stamp).or_else(|| terms.first());
        term.map_or(OpTime::default(), |one| OpTime { timestamp: stamp, term: one.term })
    }

    /// Forgets entries after `end`, which were removed from the collection.
    pub(crate) fn cut(&self, end: OpTime) {
        self.clock.cut(end.timestamp);
        self.terms.lock().retain(|one| one.timestamp <= end.timestamp);
        // After a start, only the terms of the oldest and the newest entry are known.
        self.note_term(end);
        *self.visible.lock() = end.timestamp;
        self.show(end.timestamp);
    }

    /// The point up to which others may read.
    pub(crate) fn visible(&self) -> Stamp {
        *self.visible.lock()
    }

    /// Allows others to read up to `stamp`.
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

    /// Wakes the readers that follow the oplog.
    pub(crate) fn announce(&self) {
        if let Some(collection) = self.collection.get() {
            collection.capped().announce();
        }
    }

    /// The entry with this timestamp.
    pub(crate) fn get(&self, session: &dyn Session, stamp: Stamp) -> Result<Option<OplogEntry>> {
        let Some(collection) = self.collection.get() else { return Ok(None) };
        let mut bytes = Vec::new();
        if !session.get(collection.records_table()?, key(stamp), &mut bytes)? {
            return Ok(None);
        }
        read(&bytes).map(Some)
    }

    /// The entry with this timestamp, or the newest one before it.
    pub(crate) fn at_or_before(&self, session: &dyn Session, stamp: Stamp) -> Result<Option<OplogEntry>> {
        let Some(collection) = self.collection.get() else { return Ok(None) };
        let mut cursor = session.cursor(collection.records_table()?)?;
        if !cursor.seek_back(key(stamp))? {
            return Ok(None);
        }
        read(cursor.value()).map(Some)
    }

    /// Removes all entries after `end`; returns how many.
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
    pub(crate) fn after(&self, session: &dyn Session, stamp: Stamp, most: usize) -> Result<Vec<OplogEntry>> {
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

    /// The oldest and the newest entry of an oplog collection.
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
    /// Logs the commands for other members.
    fn on_commands(
        &self,
        session: &dyn Session,
        collection: &Collection,
        commands: &[Document],
        durability: Durability,
    ) -> Result<()> {
        let mut changes = Vec::with_capacity(commands.len());
        for command in commands {
            changes.push(LoggedChange::command(collection.namespace(), Some(collection.uuid()), command)?);
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

fn read(bytes: &[u8]) -> Result<OplogEntry> {
    let raw = RawDocumentBuf::from_bytes(bytes.to_vec()).map_err(|error| crate::parse::malformed(&error))?;
    OplogEntry::parse(raw)
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

/// Whether changes of a collection are replicated: all but those of a member's own collections.
pub(crate) fn is_replicated(namespace: &str) -> bool {
    let (database, name) = namespace.split_once('.').unwrap_or((namespace, ""));
    database != "local" && name != "system.profile" && namespace != TRANSACTIONS
}

impl LoggedChange {
    /// A command that changes the catalog; `namespace` names the database.
    pub(crate) fn command(
        namespace: &str,
        collection: Option<bson::Uuid>,
        command: &Document,
    ) -> Result<LoggedChange> {
        let database = namespace.split('.').next().unwrap_or_default();
        // A namespace that is not replicated is kept as it is.
        let target = if is_replicated(namespace) { format!("{database}.$cmd") } else { namespace.to_owned() };
        let mut change = LoggedChange::new(ChangeKind::Command, &target, crate::parse::raw_of(command)?);
        change.collection = collection;
        Ok(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_that_was_cut_keeps_its_term() {
        // As after a start: only the terms of the first and the last entry are known.
        let oplog = Oplog::default();
        oplog.note_term(OpTime { timestamp: 1, term: -1 });
        oplog.note_term(OpTime { timestamp: 80, term: 1 });
        let end = OpTime { timestamp: 77, term: 1 };
        oplog.cut(end);
        assert_eq!(oplog.optime_of(77), end);
        assert_eq!(oplog.optime_of(oplog.clock().settled()), end);
    }
}
