//! Retryable writes: the executed statements of each session's newest transaction number, so that a retry by the driver does
//! not execute them again (docs/methods.md#the-oplog).
//!
//! The oplog records the executed statements: an entry carries the session, the transaction number and the statement. Every member learns
//! them from the entries that it writes or applies, and after a start from those of the last half hour, after which a session has expired.
//! mongod also keeps a document for each session in `config.transactions`; this server does not, so a retryable write costs one record less
//! than mongod's.

use std::collections::HashMap;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_engine::Session;
use fathom_query::{Code, Failure};
use fathom_replication::OpTime;
use parking_lot::{Condvar, Mutex};

use super::entry::{ChangeKind, OplogEntry, RetryStatement, read_optime};
use super::oplog::Oplog;
use crate::Result;

/// The time after which an unused session expires.
const SESSION_TIMEOUT_S: i64 = 30 * 60;
/// The number of entries read at once.
const READ_ENTRIES: usize = 10_000;

/// The statements known of a session.
#[derive(Clone, Debug, Default)]
struct SessionState {
    transaction: i64,
    /// Whether one of its writes is in progress.
    busy: bool,
    last: OpTime,
    /// The entry of each executed statement.
    statements: HashMap<i32, OpTime>,
}

impl SessionState {
    /// Advances to a later transaction number.
    fn go_on(&mut self, transaction: i64) {
        if transaction > self.transaction {
            *self = SessionState { transaction, busy: self.busy, ..SessionState::default() };
        }
    }
}

/// The sessions with retryable writes.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    known: Mutex<HashMap<Vec<u8>, SessionState>>,
    freed: Condvar,
}

/// A session that one operation owns.
#[derive(Debug)]
pub(crate) struct Checkout<'t> {
    transactions: &'t Transactions,
    session: RawDocumentBuf,
}

impl Drop for Checkout<'_> {
    fn drop(&mut self) {
        if let Some(known) = self.transactions.known.lock().get_mut(self.session.as_bytes()) {
            known.busy = false;
        }
        self.transactions.freed.notify_all();
    }
}

impl Transactions {
    /// Begins a write with a transaction number; waits while another connection writes in the same session. Refused if the session
    /// has a later number already.
    pub(crate) fn begin(
        &self,
        session: RawDocumentBuf,
        transaction: i64,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<(Checkout<'_>, RetryStatement)> {
        let mut all = self.known.lock();
        loop {
            let known = all.entry(session.as_bytes().to_vec()).or_default();
            if transaction < known.transaction {
                let what = format!(
                    "Cannot start transaction {transaction} on session because a newer transaction {} has already started.",
                    known.transaction
                );
                return Err(Failure::new(Code::TransactionTooOld, what));
            }
            if !known.busy {
                known.go_on(transaction);
                known.busy = true;
                let previous = known.last;
                let statement = RetryStatement { session: session.clone(), transaction, number: 0, previous };
                return Ok((Checkout { transactions: self, session }, statement));
            }
            self.freed.wait_for(&mut all, std::time::Duration::from_millis(100));
            check()?;
        }
    }

    /// The entry of an executed statement.
    pub(crate) fn done(&self, statement: &RetryStatement, number: i32) -> Option<OpTime> {
        let known = self.known.lock();
        let known = known.get(statement.session.as_bytes())?;
        (known.transaction == statement.transaction).then(|| known.statements.get(&number).copied()).flatten()
    }

    /// The session's last entry of the transaction, to which the next one refers.
    pub(crate) fn last(&self, statement: &RetryStatement) -> OpTime {
        let known = self.known.lock();
        known
            .get(statement.session.as_bytes())
            .filter(|known| known.transaction == statement.transaction)
            .map_or(OpTime::default(), |known| known.last)
    }

    /// Records a statement that was committed with its entry.
    pub(crate) fn note(&self, statement: &RetryStatement, at: OpTime) {
        let mut known = self.known.lock();
        let known = known.entry(statement.session.as_bytes().to_vec()).or_default();
        known.go_on(statement.transaction);
        if statement.transaction == known.transaction {
            known.last = known.last.max(at);
            known.statements.insert(statement.number, at);
        }
    }

    /// Records the statements in entries of another member.
    pub(crate) fn learn(&self, entries: &[OplogEntry]) {
        for entry in entries {
            if let Some(statement) = &entry.statement {
                self.note(statement, entry.at);
            }
        }
    }

    /// Forgets all sessions, after a start, a copy or a rollback. A session that is checked out is returned later; its statements may have been
    /// rolled back.
    pub(crate) fn forget(&self) {
        let mut known = self.known.lock();
        known.retain(|_, known| known.busy);
        known.values_mut().for_each(|known| *known = SessionState { busy: true, ..SessionState::default() });
    }

    /// Reads all statements again from the oplog.
    pub(crate) fn learn_all(&self, oplog: &Oplog, session: &dyn Session) -> Result<()> {
        let since = bson::DateTime::now().timestamp_millis() / 1000 - SESSION_TIMEOUT_S;
        let mut from = u64::try_from(since).unwrap_or(0) << 32;
        loop {
            let entries = oplog.after(session, from, READ_ENTRIES)?;
            let Some(last) = entries.last() else { return Ok(()) };
            from = last.at.timestamp;
            self.learn(&entries);
        }
    }
}

/// The result of an executed statement, taken from its entry: a retry gets it again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PriorResult {
    pub(crate) matched: u64,
    pub(crate) modified: u64,
    pub(crate) deleted: u64,
    /// The `_id` that an upsert inserted.
    pub(crate) upserted: Option<bson::Bson>,
    /// The document that findAndModify returned, or the one that was inserted.
    pub(crate) image: Option<RawDocumentBuf>,
}

/// Reads the result from the statement's entry.
pub(crate) fn again(oplog: &Oplog, session: &dyn Session, at: OpTime) -> Result<PriorResult> {
    let entry = entry_at(oplog, session, at)?;
    let mut again = PriorResult::default();
    match entry.kind {
        ChangeKind::Insert => {
            again.upserted = entry.id().map(crate::parse::owned_value).transpose()?;
            again.image = Some(entry.object.clone());
        }
        ChangeKind::Update => (again.matched, again.modified) = (1, 1),
        ChangeKind::Delete => again.deleted = 1,
        ChangeKind::Command | ChangeKind::Noop => {}
    }
    for name in ["preImageOpTime", "postImageOpTime"] {
        if let Ok(Some(RawBsonRef::Document(image))) = entry.raw.get(name)
            && let Some(at) = read_optime(image)
        {
            again.image = Some(entry_at(oplog, session, at)?.object);
        }
    }
    Ok(again)
}

fn entry_at(oplog: &Oplog, session: &dyn Session, at: OpTime) -> Result<OplogEntry> {
    oplog.get(session, at.timestamp)?.ok_or_else(|| {
        let what = "Incomplete history detected for a retryable write: its entry is no longer in the oplog";
        Failure::new(Code::IncompleteTransactionHistory, what)
    })
}

/// `{id, uid}` of a session, in the form that entries use.
pub(crate) fn session_of(id: &[u8; 16], owner: &[u8; 32]) -> Result<RawDocumentBuf> {
    use bson::spec::BinarySubtype;
    let mut bytes = Vec::with_capacity(80);
    let mut writer = fathom_wire::DocumentWriter::new(&mut bytes);
    writer.binary("id", BinarySubtype::Uuid, id);
    writer.binary("uid", BinarySubtype::Generic, owner);
    writer.end();
    RawDocument::from_bytes(&bytes)
        .map(RawDocument::to_owned)
        .map_err(|error| crate::parse::malformed(&error))
}
