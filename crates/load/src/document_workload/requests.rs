//! The messages of a workload's operations, and the sessions of its transactions. A session has one transaction at a time,
//! with an increasing number.

use std::cell::Cell;

use bson::spec::BinarySubtype;
use bson::{RawDocumentBuf, Uuid};
use fathom_wire::{DocumentWriter, OpMsgWriter, flag};

use super::operations::{StepCommand, UpdateStatement, WorkloadStep};
use super::shared::DocumentShared;
use super::template::{Drawing, Template};

/// The parts that all messages of a run share.
#[derive(Debug)]
pub(super) struct SharedParts {
    pub(super) write_concern: Option<RawDocumentBuf>,
    pub(super) read_preference: Option<RawDocumentBuf>,
}

/// The transaction that a command belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandTransaction<'a> {
    pub(super) session: &'a ActiveSession,
    /// Whether the command begins the transaction.
    pub(super) is_first: bool,
    pub(super) read_concern: Option<&'a str>,
}

/// Builds the messages of operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requests<'a> {
    pub(super) shared: &'a DocumentShared,
    pub(super) fixed: &'a SharedParts,
    pub(super) transaction: Option<CommandTransaction<'a>>,
    /// Whether a write is not answered.
    pub(super) unanswered: bool,
    /// Counts BSON bytes of documents and of updates that are written.
    pub(super) user_bytes: &'a Cell<u64>,
}

impl SharedParts {
    pub(super) fn new(shared: &DocumentShared) -> SharedParts {
        SharedParts {
            write_concern: shared.binding.write_concern.clone(),
            read_preference: shared.binding.read_preference.clone(),
        }
    }
}

impl Requests<'_> {
    /// Writes a command other than an insert.
    pub(super) fn command(
        &self,
        step: &WorkloadStep,
        drawing: &mut Drawing<'_>,
        message: &mut OpMsgWriter<'_>,
    ) {
        let collection = self.collection(step.collection);
        match &step.command {
            // Its documents have numbers: see `insert`.
            StepCommand::Insert { .. } => {}
            StepCommand::Update { statements, times, ordered } => {
                self.begin_write("update", collection, *ordered, message);
                let mut updates = message.sequence("updates");
                for _ in 0..*times {
                    for statement in statements {
                        let mut update = updates.begin_document();
                        self.write_statement(statement, drawing, &mut update);
                    }
                }
            }
            StepCommand::Delete { filter, multi } => {
                self.begin_write("delete", collection, true, message);
                let mut deletes = message.sequence("deletes");
                let mut delete = deletes.begin_document();
                filter.append_field("q", drawing, &mut delete);
                delete.i32("limit", i32::from(!multi));
            }
            StepCommand::FindAndModify { filter, sort, projection, update, new, upsert } => {
                let mut body = message.body();
                body.string("findAndModify", collection);
                filter.append_field("query", drawing, &mut body);
                optional("sort", sort.as_ref(), drawing, &mut body);
                optional("fields", projection.as_ref(), drawing, &mut body);
                match update {
                    Some(update) => self.update("update", update, drawing, &mut body),
                    None => body.bool("remove", true),
                }
                truth("new", *new, &mut body);
                truth("upsert", *upsert, &mut body);
                self.end(true, &mut body);
            }
            reader => self.reader(reader, collection, drawing, &mut message.body()),
        }
    }

    /// Writes a command that only reads.
    fn reader(
        &self,
        command: &StepCommand,
        collection: &str,
        drawing: &mut Drawing<'_>,
        body: &mut DocumentWriter<'_>,
    ) {
        body.string(command.name(), collection);
        match command {
            StepCommand::Find { filter, sort, projection, hint, skip, limit, batch_size } => {
                filter.append_field("filter", drawing, body);
                optional("sort", sort.as_ref(), drawing, body);
                optional("projection", projection.as_ref(), drawing, body);
                optional("hint", hint.as_ref(), drawing, body);
                count("skip", *skip, body);
                count("limit", *limit, body);
                count("batchSize", batch_size.map(|size| limit.map_or(size, |limit| size.min(limit))), body);
                truth("singleBatch", *limit == Some(1), body);
            }
            StepCommand::Aggregate { pipeline, allow_disk_use, batch_size, .. } => {
                pipeline.append_field("pipeline", drawing, body);
                count("batchSize", *batch_size, &mut body.begin_document("cursor"));
                truth("allowDiskUse", *allow_disk_use, body);
            }
            StepCommand::Count { filter, limit } => {
                filter.append_field("query", drawing, body);
                count("limit", *limit, body);
            }
            StepCommand::Distinct { key, filter } => {
                body.string("key", key);
                filter.append_field("query", drawing, body);
            }
            StepCommand::Insert { .. }
            | StepCommand::Update { .. }
            | StepCommand::Delete { .. }
            | StepCommand::FindAndModify { .. } => {}
        }
        self.end(false, body);
    }

    /// Writes an insert of documents with these numbers.
    pub(super) fn insert(
        &self,
        place: usize,
        document: &Template,
        (first, count): (u64, u64),
        ordered: bool,
        drawing: &mut Drawing<'_>,
        message: &mut OpMsgWriter<'_>,
    ) {
        self.begin_write("insert", self.collection(place), ordered, message);
        let mut documents = message.sequence("documents");
        for number in first..first.saturating_add(count) {
            drawing.number = number;
            let before = documents.buffer().len();
            document.append_document(drawing, documents.buffer());
            self.count_user_bytes(before, documents.buffer().len());
        }
    }

    /// Writes the request for the next batch of a cursor.
    pub(super) fn get_more(
        &self,
        id: i64,
        collection: &str,
        size: Option<u64>,
        message: &mut OpMsgWriter<'_>,
    ) {
        let mut body = message.body();
        body.i64("getMore", id);
        body.string("collection", collection);
        count("batchSize", size, &mut body);
        // The read concern was sent when the cursor was opened; the read preference must be sent again.
        match (self.transaction, &self.fixed.read_preference) {
            (Some(transaction), _) => transaction.session.write(false, &mut body),
            (None, Some(preference)) => body.document("$readPreference", preference),
            (None, None) => {}
        }
        body.string("$db", &self.shared.binding.database);
    }

    /// Writes the command that closes a cursor before its end.
    pub(super) fn kill_cursor(&self, id: i64, collection: &str, message: &mut OpMsgWriter<'_>) {
        let mut body = message.body();
        body.string("killCursors", collection);
        let mut cursors = body.begin_array("cursors");
        cursors.i64(id);
        cursors.end();
        if let Some(transaction) = self.transaction {
            transaction.session.write(false, &mut body);
        }
        body.string("$db", &self.shared.binding.database);
    }

    /// Writes the command that ends a transaction.
    pub(super) fn end_transaction(
        &self,
        session: &ActiveSession,
        commit: bool,
        message: &mut OpMsgWriter<'_>,
    ) {
        let mut body = message.body();
        body.i32(if commit { "commitTransaction" } else { "abortTransaction" }, 1);
        session.write(false, &mut body);
        if let Some(concern) =
            self.fixed.write_concern.as_deref().filter(|_| commit && self.shared.binding.acknowledged)
        {
            body.document("writeConcern", concern);
        }
        body.string("$db", "admin");
    }

    fn write_statement(
        &self,
        statement: &UpdateStatement,
        drawing: &mut Drawing<'_>,
        update: &mut DocumentWriter<'_>,
    ) {
        statement.filter.append_field("q", drawing, update);
        self.update("u", &statement.update, drawing, update);
        truth("multi", statement.multi, update);
        truth("upsert", statement.upsert, update);
        optional("arrayFilters", statement.array_filters.as_ref(), drawing, update);
    }

    /// Writes the update of a document.
    fn update(
        &self,
        name: &str,
        update: &Template,
        drawing: &mut Drawing<'_>,
        body: &mut DocumentWriter<'_>,
    ) {
        let before = body.buffer().len();
        update.append_field(name, drawing, body);
        self.count_user_bytes(before, body.buffer().len());
    }

    fn count_user_bytes(&self, before: usize, after: usize) {
        self.user_bytes.set(self.user_bytes.get() + after.saturating_sub(before) as u64);
    }

    fn collection(&self, place: usize) -> &str {
        self.shared.workload.collections.get(place).map_or("", |collection| &collection.name)
    }

    fn begin_write(&self, command: &str, collection: &str, ordered: bool, message: &mut OpMsgWriter<'_>) {
        if self.unanswered {
            message.set_flags(flag::MORE_TO_COME);
        }
        let mut body = message.body();
        body.string(command, collection);
        body.bool("ordered", ordered);
        self.end(true, &mut body);
    }

    /// Writes the fields at the end of every command.
    fn end(&self, is_write: bool, body: &mut DocumentWriter<'_>) {
        let Requests { shared, fixed, transaction, .. } = self;
        match transaction {
            // Concerns belong to the whole transaction, which runs on the primary.
            Some(CommandTransaction { session, is_first, read_concern }) => {
                session.write(*is_first, body);
                if let Some(level) = read_concern.filter(|_| *is_first) {
                    body.begin_document("readConcern").string("level", level);
                }
            }
            None if is_write => {
                if let Some(concern) = &fixed.write_concern {
                    body.document("writeConcern", concern);
                }
            }
            None => {
                if let Some(level) = &shared.binding.read_concern {
                    body.begin_document("readConcern").string("level", level);
                }
                if let Some(preference) = &fixed.read_preference {
                    body.document("$readPreference", preference);
                }
            }
        }
        body.string("$db", &shared.binding.database);
    }
}

fn optional(
    name: &str,
    template: Option<&Template>,
    drawing: &mut Drawing<'_>,
    body: &mut DocumentWriter<'_>,
) {
    if let Some(template) = template {
        template.append_field(name, drawing, body);
    }
}

/// Writes a boolean field if it is true.
fn truth(name: &str, truth: bool, body: &mut DocumentWriter<'_>) {
    if truth {
        body.bool(name, true);
    }
}

/// Writes a count in the type that drivers use, if there is one.
fn count(name: &str, count: Option<u64>, body: &mut DocumentWriter<'_>) {
    match count.map(i32::try_from) {
        None => {}
        Some(Ok(small)) => body.i32(name, small),
        Some(Err(_)) => body.i64(name, count.and_then(|count| i64::try_from(count).ok()).unwrap_or(i64::MAX)),
    }
}

/// A session that is in use.
#[derive(Debug)]
pub(super) struct ActiveSession {
    id: [u8; 16],
    /// The number of the transaction.
    number: i64,
}

/// Sessions that are free.
#[derive(Debug, Default)]
pub(super) struct SessionPool(Vec<ActiveSession>);

impl SessionPool {
    /// A session for a new transaction. Its id is unique: it is random and does not depend on the seed.
    pub(super) fn take(&mut self) -> ActiveSession {
        let mut session =
            self.0.pop().unwrap_or_else(|| ActiveSession { id: Uuid::new().bytes(), number: 0 });
        session.next();
        session
    }

    /// Returns a session to the pool.
    pub(super) fn put(&mut self, session: ActiveSession) {
        self.0.push(session);
    }
}

impl ActiveSession {
    /// Moves to the next transaction, which ends an open previous one.
    pub(super) fn next(&mut self) {
        self.number += 1;
    }

    /// Writes the fields that make a command part of the transaction.
    pub(super) fn write(&self, is_first: bool, body: &mut DocumentWriter<'_>) {
        let mut id = body.begin_document("lsid");
        id.binary("id", BinarySubtype::Uuid, &self.id);
        id.end();
        body.i64("txnNumber", self.number);
        if is_first {
            body.bool("startTransaction", true);
        }
        body.bool("autocommit", false);
    }
}
