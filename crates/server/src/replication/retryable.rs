//! Retryable writes: which statements of a session's newest transaction number are done, so that a driver that asks again does
//! not do them again (server.md, 2.3; mongodb/specifications: retryable-writes).
//!
//! The record of a session is a document of `config.transactions`, written in the transaction of the write itself; its statements are
//! found by going back through the oplog from its last entry. Other members derive the same from the entries.

use std::collections::HashMap;

use bson::{Document, RawDocument, RawDocumentBuf, doc};
use fathom_engine::Session;
use fathom_query::{Code, Failure};
use fathom_replication::OpTime;
use parking_lot::Mutex;

use super::entry::{Entry, Kind, Statement};
use super::oplog::Oplog;
use crate::Result;
use crate::instance::Instance;

/// What is known of a session.
#[derive(Clone, Debug, Default)]
struct Known {
    transaction: i64,
    /// Its last entry.
    last: OpTime,
    /// The entry of each statement that is done.
    statements: HashMap<i32, OpTime>,
}

/// The sessions that wrote retryably.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    known: Mutex<HashMap<Vec<u8>, Known>>,
}

impl Transactions {
    /// Begins a write of a transaction number: refused if the session is further already.
    pub(crate) fn begin(&self, session: &RawDocument, transaction: i64) -> Result<Statement> {
        let mut known = self.known.lock();
        let entry = known.entry(session.as_bytes().to_vec()).or_default();
        if transaction < entry.transaction {
            return Err(Failure::new(
                Code::TransactionTooOld,
                format!(
                    "Cannot start transaction {transaction} on session because a newer transaction {} has already started.",
                    entry.transaction
                ),
            ));
        }
        if transaction > entry.transaction {
            *entry = Known { transaction, last: OpTime::default(), statements: HashMap::new() };
        }
        Ok(Statement { session: session.to_owned(), transaction, number: 0, previous: entry.last })
    }

    /// The entry of a statement that is done.
    pub(crate) fn done(&self, statement: &Statement, number: i32) -> Option<OpTime> {
        let known = self.known.lock();
        let known = known.get(statement.session.as_bytes())?;
        (known.transaction == statement.transaction).then(|| known.statements.get(&number).copied()).flatten()
    }

    /// The session's last entry of the transaction, to which the next one points back.
    pub(crate) fn last(&self, statement: &Statement) -> OpTime {
        let known = self.known.lock();
        known
            .get(statement.session.as_bytes())
            .filter(|known| known.transaction == statement.transaction)
            .map_or(OpTime::default(), |known| known.last)
    }

    /// Notes a statement that was committed with its entry.
    pub(crate) fn note(&self, statement: &Statement, at: OpTime) {
        let mut known = self.known.lock();
        let entry = known.entry(statement.session.as_bytes().to_vec()).or_default();
        if statement.transaction < entry.transaction {
            return;
        }
        if statement.transaction > entry.transaction {
            *entry = Known { transaction: statement.transaction, ..Known::default() };
        }
        entry.last = entry.last.max(at);
        entry.statements.insert(statement.number, at);
    }

    /// Notes what entries of another member say.
    pub(crate) fn learn(&self, entries: &[Entry]) {
        for entry in entries {
            if let Some(statement) = &entry.statement {
                self.note(statement, entry.at);
            }
        }
    }

    /// Learns all again from the oplog, after a start, a copy or a rollback.
    pub(crate) fn reload(&self, instance: &Instance) -> Result<()> {
        self.known.lock().clear();
        let Some(set) = &instance.set else { return Ok(()) };
        if set.oplog().collection().is_none() {
            return Ok(());
        }
        let session = instance.engine.session()?;
        let mut from = 0;
        loop {
            let entries = set.oplog().after(&*session, from, 10_000)?;
            let Some(last) = entries.last() else { return Ok(()) };
            from = last.at.timestamp;
            self.learn(&entries);
        }
    }
}

/// What a statement that is done gave at the time, told from its entry: what its reply says again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Again {
    pub(crate) matched: u64,
    pub(crate) modified: u64,
    pub(crate) upserted: Option<bson::Bson>,
    pub(crate) deleted: u64,
}

/// Reads it; `update` says that the statement was an update, whose insert is an upsert.
pub(crate) fn again(oplog: &Oplog, session: &dyn Session, at: OpTime, update: bool) -> Result<Again> {
    let entry = oplog.get(session, at.timestamp)?.ok_or_else(|| {
        let what = "Incomplete history detected for a retryable write: its entry is no longer in the oplog";
        Failure::new(Code::IncompleteTransactionHistory, what)
    })?;
    Ok(match entry.kind {
        Kind::Insert if update => Again {
            upserted: entry.id().map(crate::parse::owned_value).transpose()?,
            ..Again::default()
        },
        Kind::Update => Again { matched: 1, modified: 1, ..Again::default() },
        Kind::Delete => Again { deleted: 1, ..Again::default() },
        Kind::Insert | Kind::Command | Kind::Noop => Again::default(),
    })
}

/// The record of a session in `config.transactions`.
pub(crate) fn record(statement: &Statement, at: OpTime) -> Result<RawDocumentBuf> {
    let session: Document = crate::parse::owned(&statement.session)?;
    crate::parse::raw_of(&doc! {
        "_id": session,
        "txnNum": statement.transaction,
        "lastWriteOpTime": at.to_document(),
        "lastWriteDate": bson::DateTime::now(),
    })
}
