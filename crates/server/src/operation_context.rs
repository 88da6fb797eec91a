//! The context of one operation: its client, its resources, its time limit, and its costs.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_engine::{Key, Session};
use fathom_query::{Bound, Code, Failure, KeyBuilder, Variables};
use fathom_replication::OpTime;
use fathom_sharding::Ownership;
use parking_lot::RwLockReadGuard;

use crate::Result;
use crate::buffers;
use crate::client::Client;
use crate::instance::Instance;
use crate::replica_set::{
    ChangeKind, Checkout, Image, LoggedChange, OplogSlots, PriorResult, RetryStatement,
    UnreplicatedWritesBlock, difference, is_replicated,
};
use crate::request::Request;
use crate::storage::{
    Collection, ExclusiveState, HeldLock, LockKind, SharedState, Ticket, leading_record_id,
};

/// The work of an operation, as the log, the profile and explain report it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OperationFigures {
    /// The collection that it works on, `database.collection`.
    pub(crate) namespace: String,
    pub(crate) keys_examined: u64,
    pub(crate) docs_examined: u64,
    /// Documents that a query returned.
    pub(crate) returned: Option<u64>,
    pub(crate) inserted: Option<u64>,
    pub(crate) matched: Option<u64>,
    pub(crate) modified: Option<u64>,
    pub(crate) deleted: Option<u64>,
    pub(crate) upserted: bool,
    pub(crate) write_conflicts: u64,
    pub(crate) keys_inserted: u64,
    /// `IXSCAN { a: 1 }`, `COLLSCAN`, `IDHACK`.
    pub(crate) plan: Option<Cow<'static, str>>,
    pub(crate) has_sort_stage: bool,
    pub(crate) cursor_id: i64,
    pub(crate) cursor_exhausted: bool,
}

/// The time that an operation waited for events outside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutsideWaits {
    /// For documents that did not exist yet: in no latency, as in mongod.
    pub(crate) data: Duration,
    /// For the journal and for other members, after the write: in the latency of the command, not of the write.
    pub(crate) acknowledgement: Duration,
}

/// The locks that a read holds.
#[derive(Debug)]
pub(crate) struct ReadPass<'a> {
    _reading: Option<RwLockReadGuard<'a, ()>>,
    _ticket: Ticket<'a>,
    _held: HeldLock<'a>,
}

/// The locks that a write holds. The operation may have taken the ticket before.
#[derive(Debug)]
pub(crate) struct WritePass<'a> {
    _ticket: Option<Ticket<'a>>,
    _held: HeldLock<'a>,
}

/// The context of one command, or of one task of a background thread (mongod's `OperationContext`).
#[derive(Debug)]
pub(crate) struct OperationContext<'a> {
    pub(crate) instance: &'a Arc<Instance>,
    session: &'a dyn Session,
    pub(crate) client: &'a Arc<Client>,
    pub(crate) begun: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) figures: OperationFigures,
    pub(crate) waits: OutsideWaits,
    /// The collection that it works on, if the command looked it up: saves a second look-up at its end.
    pub(crate) collection: Option<Arc<Collection>>,
    /// The command that opened the cursor that this operation continued, if that cursor is now closed.
    pub(crate) originating: Option<RawDocumentBuf>,
    /// This shard's ownership of the command's collection, if that is sharded and a router sent the command.
    pub(crate) ownership: Option<Arc<Ownership>>,
    /// Whether it may read only data that cannot be rolled back.
    pub(crate) majority: bool,
    /// This member's rollback id when the operation began.
    rollback_id: i64,
    /// The last entry that it wrote into the oplog.
    pub(crate) last: Option<OpTime>,
    /// The changes of the open transaction, for the oplog.
    changes: Vec<LoggedChange>,
    /// The statement of a retryable write in progress.
    pub(crate) statement: Option<RetryStatement>,
    /// The numbers of the batch's statements, if they differ from their positions.
    statement_numbers: Vec<i32>,
    /// Whether a retryable findAndModify returns the document after its change (true) or before it.
    pub(crate) wants_image: Option<bool>,
    variables: Option<Variables>,
}

impl<'a> OperationContext<'a> {
    /// Makes the context of an operation that begins now.
    pub(crate) fn new(
        instance: &'a Arc<Instance>,
        session: &'a dyn Session,
        client: &'a Arc<Client>,
    ) -> OperationContext<'a> {
        OperationContext {
            instance,
            session,
            client,
            begun: Instant::now(),
            deadline: None,
            figures: OperationFigures::default(),
            waits: OutsideWaits::default(),
            collection: None,
            originating: None,
            ownership: None,
            majority: false,
            rollback_id: instance.set.as_ref().map_or(0, |set| set.rollback_id()),
            last: None,
            changes: Vec::new(),
            statement: None,
            statement_numbers: Vec::new(),
            wants_image: None,
            variables: None,
        }
    }

    /// Shows the chosen plan in `currentOp`, and counts a scan of a whole collection.
    pub(crate) fn note_plan(&self, plan: &str) {
        if plan == "COLLSCAN" {
            self.instance.counters.collection_scans.add(1);
        }
        self.client.set_plan(plan);
    }

    /// The engine session of the connection.
    pub(crate) fn session(&self) -> &'a dyn Session {
        self.session
    }

    /// Sets its time limit (`maxTimeMS`).
    pub(crate) fn limit(&mut self, max_time_ms: u64) {
        if max_time_ms > 0 {
            self.deadline = self.begun.checked_add(Duration::from_millis(max_time_ms));
        }
    }

    /// Records the start of a transaction, without any changes yet.
    pub(crate) fn begin_changes(&mut self) {
        self.changes.clear();
    }

    /// Whether changes of a collection are logged for other members.
    fn logs(&self, collection: &Collection) -> bool {
        self.instance.set.is_some()
            && is_replicated(collection.namespace())
            && !UnreplicatedWritesBlock::is_on()
    }

    /// Begins a retryable write: the operation owns the session until the result is dropped.
    pub(crate) fn begin_retryable(&mut self, request: &Request<'_>) -> Result<Option<Checkout<'a>>> {
        let (Some(number), Some(set)) = (request.generic.transaction, &self.instance.set) else {
            return Ok(None);
        };
        let numbers = statement_numbers(request)?;
        let Some(id) = request.generic.session else {
            let what = "Transaction number requires a session ID to be specified";
            return Err(Failure::new(Code::InvalidOptions, what));
        };
        let owner = self.client.session_key(id).owner;
        let session = crate::replica_set::session_of(&id, owner.bytes())?;
        let (checkout, statement) = set.transactions().begin(session, number, &|| self.check_interrupt())?;
        self.statement = Some(statement);
        self.statement_numbers = numbers;
        Ok(Some(checkout))
    }

    /// The number of the statement at a position of its batch: the position itself, unless a router that split the batch gives another.
    fn statement_at(&self, place: i32) -> i32 {
        let given = usize::try_from(place).ok().and_then(|place| self.statement_numbers.get(place));
        given.copied().unwrap_or(place)
    }

    /// Begins a statement of a retryable write. Returns its earlier result if it was executed already; otherwise it must be executed now.
    pub(crate) fn begin_statement(&mut self, place: usize) -> Result<Option<PriorResult>> {
        let place = i32::try_from(place).unwrap_or(i32::MAX);
        let number = self.statement_at(place);
        let (Some(statement), Some(set)) = (&mut self.statement, &self.instance.set) else { return Ok(None) };
        statement.number = place;
        let Some(at) = set.transactions().done(statement, number) else { return Ok(None) };
        crate::replica_set::again(set.oplog(), self.session, at).map(Some)
    }

    /// Records a document that the transaction inserts.
    pub(crate) fn note_insert(&mut self, collection: &Collection, document: &RawDocument) {
        if self.logs(collection) {
            self.push(collection, ChangeKind::Insert, document.to_owned(), None, (None, Some(document)));
        }
    }

    /// Records a document that the transaction changes.
    pub(crate) fn note_update(
        &mut self,
        collection: &Collection,
        before: &RawDocument,
        after: &RawDocument,
    ) -> Result<()> {
        if self.logs(collection) {
            let (change, key) = (difference(before, after)?, key_of(after)?);
            self.push(collection, ChangeKind::Update, change, Some(key), (Some(before), Some(after)));
        }
        Ok(())
    }

    /// Records a document that the transaction removes.
    pub(crate) fn note_delete(&mut self, collection: &Collection, document: &RawDocument) -> Result<()> {
        if self.logs(collection) {
            self.push(collection, ChangeKind::Delete, key_of(document)?, None, (Some(document), None));
        }
        Ok(())
    }

    fn push(
        &mut self,
        collection: &Collection,
        kind: ChangeKind,
        object: RawDocumentBuf,
        key: Option<RawDocumentBuf>,
        images: (Option<&RawDocument>, Option<&RawDocument>),
    ) {
        let mut change = LoggedChange::new(kind, collection.namespace(), object);
        change.collection = Some(collection.uuid());
        change.key = key;
        if let (Some(statement), Some(set)) = (&self.statement, &self.instance.set) {
            // Each insert of one transaction is a statement of its own.
            let offset = if kind == ChangeKind::Insert { self.changes.len() } else { 0 };
            let offset = i32::try_from(offset).unwrap_or(i32::MAX);
            let number = self.statement_at(statement.number.saturating_add(offset));
            let previous = set.transactions().last(statement);
            change.statement = Some(RetryStatement { number, previous, ..statement.clone() });
        }
        change.image = self.wants_image.and_then(|after| match (after, kind) {
            (_, ChangeKind::Insert) => None,
            (true, _) => images.1.map(|document| Image { after, document: document.to_owned() }),
            (false, _) => images.0.map(|document| Image { after, document: document.to_owned() }),
        });
        self.changes.push(change);
    }

    /// Writes the changes of the open transaction to the oplog, in the same transaction.
    pub(crate) fn log_changes(&mut self) -> Result<Option<OplogSlots<'a>>> {
        let Some(set) = self.instance.set.as_ref() else { return Ok(None) };
        if self.changes.is_empty() {
            return Ok(None);
        }
        set.oplog().log(self.session, &self.changes)
    }

    /// The values of `$$NOW` and `let`.
    pub(crate) fn variables(&mut self) -> &Variables {
        self.variables.get_or_insert_with(|| Variables::at(bson::DateTime::now()))
    }

    /// Replaces the variables, for a command with `let`.
    pub(crate) fn set_variables(&mut self, variables: Variables) {
        self.variables = Some(variables);
    }

    /// Fails if the time limit has passed, the operation was killed, or the server is stopping.
    pub(crate) fn check_interrupt(&self) -> Result<()> {
        check_interrupt(self.instance, self.client, self.deadline)
    }

    /// A collection's state, locked shared; a wait for a schema change ends with the operation's time limit, its kill or the server's stop.
    pub(crate) fn lock<'c>(&self, collection: &'c Collection) -> Result<SharedState<'c>>
    where
        'a: 'c,
    {
        collection.lock_unless(self.client.locks(), &|| self.check_interrupt())
    }

    /// A collection's state, locked against all other operations.
    pub(crate) fn lock_exclusive<'c>(&self, collection: &'c Collection) -> Result<ExclusiveState<'c>>
    where
        'a: 'c,
    {
        collection.lock_exclusive_unless(self.client.locks(), &|| self.check_interrupt())
    }

    /// Waits for a read ticket, at most as long as the operation may take. A secondary applies no batch while it is held.
    pub(crate) fn read_ticket(&self) -> Result<ReadPass<'a>> {
        let ticket = self.instance.read_tickets.take(self.deadline).ok_or_else(out_of_time)?;
        let reading = self.instance.set.as_ref().map(|set| set.reading());
        Ok(ReadPass {
            _reading: reading,
            _ticket: ticket,
            _held: self.client.locks().hold(LockKind::GlobalRead),
        })
    }

    /// This member's rollback id when the operation began.
    pub(crate) fn rollback_id(&self) -> i64 {
        self.rollback_id
    }

    /// Waits for a write ticket, and for the end of an `fsync` with `lock`, at most as long as the operation may take. An operation
    /// that holds a ticket needs no second one, for which it could wait forever.
    pub(crate) fn write_ticket(&self) -> Result<WritePass<'a>> {
        const KIND: LockKind = LockKind::GlobalWrite;
        let locks = self.client.locks();
        if locks.is_held(KIND) {
            return Ok(WritePass { _ticket: None, _held: locks.hold(KIND) });
        }
        loop {
            let ticket = self.instance.write_tickets.take(self.deadline).ok_or_else(out_of_time)?;
            if !self.instance.write_gate.is_shut() {
                return Ok(WritePass { _ticket: Some(ticket), _held: locks.hold(KIND) });
            }
            drop(ticket);
            let waits = self.instance.catalog.lock_waits();
            locks.wait(KIND, || waits.time(KIND, || self.wait_for_unlock()))?;
        }
    }

    /// Waits until no `fsync` with `lock` is in force.
    fn wait_for_unlock(&self) -> Result<()> {
        while self.instance.write_gate.is_shut() {
            self.instance.write_gate.wait(self.deadline);
            self.check_interrupt()?;
        }
        Ok(())
    }

    /// Whether the shard owns the document with this `_id`, or `None` if the `_id` alone does not decide that.
    pub(crate) fn owns_id(&self, id: &Bson) -> Option<bool> {
        let Some(owned) = &self.ownership else { return Some(true) };
        owned.key().key_of_id(id).map(|key| owned.owns_key(&key))
    }

    /// Returns a failure that ends the whole command and not only one of its writes.
    pub(crate) fn stop_if_interrupted(&self, failure: &Failure) -> Result<()> {
        let ends = [
            Code::MaxTimeMSExpired,
            Code::Interrupted,
            Code::InterruptedAtShutdown,
            Code::ShutdownInProgress,
        ];
        if ends.contains(&failure.code()) { Err(failure.clone()) } else { Ok(()) }
    }

    /// Appends the document with an `_id` to `out`; returns its record, or `None` if it does not exist. Needs an open
    /// transaction so that both look-ups see the same snapshot.
    pub(crate) fn document_by_id(
        &mut self,
        collection: &Collection,
        id: &Bson,
        out: &mut Vec<u8>,
    ) -> Result<Option<i64>> {
        let (Some(index), Some(table)) = (collection.id_index(), collection.table()) else { return Ok(None) };
        let mut key = KeyBuilder::new();
        key.append_owned(id, false);
        key.check()?;
        let key = key.finish(Bound::Exact);
        let mut value = buffers::take();
        let found = self.session.get(index.table(), Key::Bytes(&key.bytes), &mut value)?;
        let record = if found { leading_record_id(&value).map(|(record, _)| record) } else { None };
        buffers::give(value);
        let Some(record) = record else { return Ok(None) };
        self.figures.keys_examined += 1;
        self.figures.docs_examined += 1;
        if !self.session.get(table, Key::Number(record), out)? {
            let what = format!(
                "the _id index of {} points to record {record}, which is not there",
                collection.namespace()
            );
            return Err(Failure::new(Code::InternalError, what));
        }
        Ok(Some(record))
    }
}

/// The numbers in `stmtIds`, or the single number in `stmtId`.
fn statement_numbers(request: &Request<'_>) -> Result<Vec<i32>> {
    let number = |value: RawBsonRef<'_>| {
        let number = crate::parse::integer_of(value).and_then(|number| i32::try_from(number).ok());
        number.ok_or_else(|| crate::parse::wrong_type("stmtIds", value, "int"))
    };
    match (request.field("stmtIds"), request.field("stmtId")) {
        (Some(RawBsonRef::Array(all)), _) => {
            all.into_iter().map(|one| number(one.map_err(|error| crate::parse::malformed(&error))?)).collect()
        }
        (Some(other), _) => Err(crate::parse::wrong_type("stmtIds", other, "array")),
        (None, Some(one)) => Ok(vec![number(one)?]),
        (None, None) => Ok(Vec::new()),
    }
}

/// The key document `{_id}` of a document.
fn key_of(document: &RawDocument) -> Result<RawDocumentBuf> {
    let mut bytes = Vec::with_capacity(32);
    let mut writer = fathom_wire::DocumentWriter::new(&mut bytes);
    if let Some(id) = crate::parse::field(document, "_id") {
        writer.value("_id", id);
    }
    writer.end();
    RawDocumentBuf::from_bytes(bytes).map_err(|error| crate::parse::malformed(&error))
}

/// Fails if work for a client must stop: at its deadline, on a kill, or when the server stops.
pub(crate) fn check_interrupt(instance: &Instance, client: &Client, deadline: Option<Instant>) -> Result<()> {
    if let Some(code) = client.interrupted() {
        return Err(Failure::new(code, "operation was interrupted"));
    }
    instance.check_stopping()?;
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Err(out_of_time());
    }
    Ok(())
}

fn out_of_time() -> Failure {
    Failure::new(Code::MaxTimeMSExpired, "operation exceeded time limit")
}
