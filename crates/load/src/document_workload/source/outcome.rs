//! What replies come to: the next step, the end of a transaction, success or a failure.

use std::sync::atomic::Ordering;

use bson::{RawBsonRef, RawDocument};
use fathom_wire::{Code, Failure, OpMsgWriter};

use super::super::operations::{Command, Operation};
use super::super::requests::Requests;
use super::{DocumentSource, DocumentState, LOAD_METRIC, Turn, operation_metric, transaction_of};
use crate::measurements::Status;
use crate::reply::{Answer, status_of};
use crate::source::{Metric, Step};

/// What a server says of a command that it does not have: CommandNotFound, CommandNotSupported, and FerretDB's NotImplemented.
const LACKING: [i32; 3] = [59, 115, 238];
/// What it says besides where it has no transactions: IllegalOperation, OperationNotSupportedInTransaction.
const LACKING_IN_TRANSACTION: [i32; 2] = [20, 263];

impl DocumentSource {
    /// The end of an insert of the load.
    pub(super) fn loaded(&mut self, state: &DocumentState, answer: &Answer<'_>, reply: &RawDocument) -> Step {
        self.acknowledge(state);
        if answer.is_clean() {
            return Step { whole: Some((LOAD_METRIC, Status::Ok)), ..Step::default() };
        }
        self.partly_inserted(state, LOAD_METRIC, answer, reply)
    }

    /// An insert of which some or all documents failed.
    fn partly_inserted(
        &self,
        state: &DocumentState,
        metric: Metric,
        answer: &Answer<'_>,
        reply: &RawDocument,
    ) -> Step {
        let failure = answer.failure(reply);
        let count: u64 = state.claims.iter().map(|claim| claim.count).sum();
        let inserted = u64::try_from(answer.n).unwrap_or(0).min(count);
        if answer.ok && inserted > 0 {
            let failed_documents = count - inserted;
            return Step { whole: Some((metric, Status::Ok)), failed_documents, failure, ..Step::default() };
        }
        let status = failure.as_ref().map_or(Status::Error, status_of);
        Step { whole: Some((metric, status)), failure, ..Step::default() }
    }

    /// The reply to a step's command that was carried out.
    pub(super) fn answered(
        &mut self,
        operation: &Operation,
        state: &mut DocumentState,
        answer: &Answer<'_>,
        reply: &RawDocument,
        message: &mut OpMsgWriter<'_>,
    ) -> Step {
        let Some(step) = operation.steps.get(state.step) else {
            return self.end(operation, state, Status::Error);
        };
        if let Command::Find { limit, batch_size, .. } | Command::Aggregate { limit, batch_size, .. } =
            &step.command
        {
            let (batch, id) = answer.batch();
            state.seen += batch.map_or(0, |batch| batch.into_iter().count() as u64);
            let left = limit.map(|limit| limit.saturating_sub(state.seen));
            if id != 0 {
                let collection = self.shared.workload.collections.get(step.collection);
                let name = collection.map_or("", |collection| collection.name.as_str());
                let transaction = transaction_of(operation, state)
                    .map(|transaction| super::InTransaction { is_first: false, ..transaction });
                let requests = Requests {
                    shared: &self.shared,
                    fixed: &self.fixed,
                    transaction,
                    unanswered: false,
                    user_bytes: &self.user_bytes,
                };
                if left == Some(0) {
                    requests.kill_cursor(id, name, message);
                    state.turn = Turn::Kill(Status::Ok);
                } else {
                    let size = [*batch_size, left].into_iter().flatten().min();
                    requests.get_more(id, name, size, message);
                }
                return Step { more: true, ..Step::default() };
            }
        }
        let found = !step.must_match || has_matched(&step.command, state.seen, answer, reply);
        let status = if found { Status::Ok } else { Status::NotFound };
        self.step_ended(operation, state, status, message)
    }

    /// The end of a step: the next one, the end of the transaction, or of the operation.
    pub(super) fn step_ended(
        &mut self,
        operation: &Operation,
        state: &mut DocumentState,
        status: Status,
        message: &mut OpMsgWriter<'_>,
    ) -> Step {
        let part = self.part_metric(state, state.step).map(|metric| (metric, status));
        state.seen = 0;
        state.turn = Turn::Step;
        if !status.is_success() {
            if state.session.is_some() {
                let step = self.abort(state, status, false, message);
                return Step { part, ..step };
            }
            return Step { part, ..self.end(operation, state, status) };
        }
        if state.step + 1 < operation.steps.len() {
            state.step += 1;
            self.write_step(operation, state, message);
            return Step { part, more: true, ..Step::default() };
        }
        let Some(session) = &state.session else {
            return Step { part, ..self.end(operation, state, status) };
        };
        self.requests().end_transaction(session, true, message);
        state.turn = Turn::Commit;
        Step { part, more: true, ..Step::default() }
    }

    /// The end of an operation.
    pub(super) fn end(&mut self, operation: &Operation, state: &mut DocumentState, status: Status) -> Step {
        self.acknowledge(state);
        if let Some(session) = state.session.take() {
            self.sessions.put(session);
        }
        let commit = match state.turn {
            Turn::Commit => self.part_metric(state, operation.steps.len()).map(|metric| (metric, status)),
            _ => None,
        };
        let metric = state.operation.map_or(LOAD_METRIC, operation_metric);
        Step { part: commit, whole: Some((metric, status)), ..Step::default() }
    }

    fn requests(&self) -> Requests<'_> {
        Requests {
            shared: &self.shared,
            fixed: &self.fixed,
            transaction: None,
            unanswered: false,
            user_bytes: &self.user_bytes,
        }
    }

    fn part_metric(&self, state: &DocumentState, part: usize) -> Option<Metric> {
        self.parts.get(state.operation?)?.get(part).copied()
    }

    /// Ends a transaction that failed.
    fn abort(
        &self,
        state: &mut DocumentState,
        status: Status,
        again: bool,
        message: &mut OpMsgWriter<'_>,
    ) -> Step {
        if let Some(session) = &state.session {
            self.requests().end_transaction(session, false, message);
        }
        state.turn = Turn::Abort { status, again };
        Step { more: true, ..Step::default() }
    }

    /// The end of a transaction that failed: it begins again, or that was it.
    pub(super) fn aborted(
        &mut self,
        operation: &Operation,
        state: &mut DocumentState,
        status: Status,
        again: bool,
        message: &mut OpMsgWriter<'_>,
    ) -> Step {
        let Some(session) = state.session.as_mut().filter(|_| again) else {
            return self.end(operation, state, status);
        };
        session.next();
        state.step = 0;
        state.turn = Turn::Step;
        state.tries += 1;
        self.write_step(operation, state, message);
        Step { more: true, ..Step::default() }
    }

    /// What a reply with an error comes to.
    #[cold]
    pub(super) fn refused(
        &mut self,
        operation: &Operation,
        state: &mut DocumentState,
        answer: &Answer<'_>,
        reply: &RawDocument,
        message: &mut OpMsgWriter<'_>,
    ) -> Step {
        let is_insert =
            matches!(operation.steps.as_slice(), [one] if matches!(one.command, Command::Insert { .. }));
        if is_insert && state.session.is_none() && answer.ok {
            self.acknowledge(state);
            let metric = state.operation.map_or(LOAD_METRIC, operation_metric);
            return self.partly_inserted(state, metric, answer, reply);
        }
        let failure = answer.failure(reply);
        let lacking = failure.as_ref().is_some_and(|failure| is_lacking(failure, state.session.is_some()));
        if lacking {
            // What the server lacks it lacks each time: told once, counted always.
            let told = state.operation.and_then(|place| self.shared.told.get(place));
            let told = told.is_some_and(|told| told.swap(true, Ordering::Relaxed));
            let step = self.end(operation, state, Status::NotImplemented);
            return Step { failure: failure.filter(|_| !told), ..step };
        }
        let status = failure.as_ref().map_or(Status::Error, status_of);
        let at = if state.turn == Turn::Commit { operation.steps.len() } else { state.step };
        let part = self.part_metric(state, at).map(|metric| (metric, status));
        if let Some(transaction) = &operation.transaction {
            let again = is_transient(reply) && state.tries < transaction.retries;
            return Step { part, failure, ..self.abort(state, status, again, message) };
        }
        Step { part, failure, ..self.end(operation, state, status) }
    }
}

/// Whether a command found what it was to find.
fn has_matched(command: &Command, seen: u64, answer: &Answer<'_>, reply: &RawDocument) -> bool {
    match command {
        Command::Find { .. } | Command::Aggregate { .. } => seen > 0,
        Command::FindAndModify { upsert, .. } => {
            *upsert || matches!(reply.get("value"), Ok(Some(RawBsonRef::Document(_))))
        }
        Command::Distinct { .. } => {
            matches!(reply.get("values"), Ok(Some(RawBsonRef::Array(values))) if values.into_iter().next().is_some())
        }
        Command::Update { .. } | Command::Delete { .. } | Command::Count { .. } | Command::Insert { .. } => {
            answer.n > 0
        }
    }
}

/// Whether the server does not have what was asked for.
fn is_lacking(failure: &Failure, in_transaction: bool) -> bool {
    let Code(code) = failure.code();
    LACKING.contains(&code) || in_transaction && LACKING_IN_TRANSACTION.contains(&code)
}

/// Whether the server says that the transaction may succeed if it is begun again.
fn is_transient(reply: &RawDocument) -> bool {
    let Ok(Some(RawBsonRef::Array(labels))) = reply.get("errorLabels") else { return false };
    labels.into_iter().flatten().any(|label| label.as_str() == Some("TransientTransactionError"))
}
