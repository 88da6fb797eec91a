//! The outcome of replies: the next step, the end of a transaction, success or a failure.

use std::sync::atomic::Ordering;

use bson::{RawBsonRef, RawDocument};
use fathom_wire::{Code, Failure, OpMsgWriter};

use super::super::operations::{Operation, StepCommand};
use super::super::requests::Requests;
use super::{DocumentSource, DocumentState, LOAD_METRIC, LastMessage, operation_metric, transaction_of};
use crate::measurements::Status;
use crate::reply::{ReplyContent, status_of};
use crate::source::{MetricIndex, ReplyOutcome};

/// Error codes for a command that a server lacks: CommandNotFound, CommandNotSupported, FerretDB's NotImplemented.
const LACKING: [i32; 3] = [59, 115, 238];
/// Further codes of a server without transactions: IllegalOperation, OperationNotSupportedInTransaction.
const LACKING_IN_TRANSACTION: [i32; 2] = [20, 263];

impl DocumentSource {
    /// The end of an insert of the load.
    pub(super) fn loaded(
        &mut self,
        state: &DocumentState,
        answer: &ReplyContent<'_>,
        reply: &RawDocument,
    ) -> ReplyOutcome {
        self.acknowledge(state);
        if answer.is_clean() {
            return ReplyOutcome { whole: Some((LOAD_METRIC, Status::Ok)), ..ReplyOutcome::default() };
        }
        self.partly_inserted(state, LOAD_METRIC, answer, reply)
    }

    /// The outcome of an insert of which some or all documents failed.
    fn partly_inserted(
        &self,
        state: &DocumentState,
        metric: MetricIndex,
        answer: &ReplyContent<'_>,
        reply: &RawDocument,
    ) -> ReplyOutcome {
        let failure = answer.failure(reply);
        let count: u64 = state.claims.iter().map(|claim| claim.count).sum();
        let inserted = u64::try_from(answer.n).unwrap_or(0).min(count);
        if answer.ok && inserted > 0 {
            let failed_documents = count - inserted;
            return ReplyOutcome {
                whole: Some((metric, Status::Ok)),
                failed_documents,
                failure,
                ..ReplyOutcome::default()
            };
        }
        let status = failure.as_ref().map_or(Status::Error, status_of);
        ReplyOutcome { whole: Some((metric, status)), failure, ..ReplyOutcome::default() }
    }

    /// The outcome of a step's command that was carried out.
    pub(super) fn answered(
        &mut self,
        operation: &Operation,
        state: &mut DocumentState,
        answer: &ReplyContent<'_>,
        reply: &RawDocument,
        message: &mut OpMsgWriter<'_>,
    ) -> ReplyOutcome {
        let Some(step) = operation.steps.get(state.step) else {
            return self.end(operation, state, Status::Error);
        };
        if let StepCommand::Find { limit, batch_size, .. }
        | StepCommand::Aggregate { limit, batch_size, .. } = &step.command
        {
            let (batch, id) = answer.batch();
            state.seen += batch.map_or(0, |batch| batch.into_iter().count() as u64);
            let left = limit.map(|limit| limit.saturating_sub(state.seen));
            if id != 0 {
                let collection = self.shared.workload.collections.get(step.collection);
                let name = collection.map_or("", |collection| collection.name.as_str());
                let transaction = transaction_of(operation, state)
                    .map(|transaction| super::CommandTransaction { is_first: false, ..transaction });
                let requests = Requests {
                    shared: &self.shared,
                    fixed: &self.fixed,
                    transaction,
                    unanswered: false,
                    user_bytes: &self.user_bytes,
                };
                if left == Some(0) {
                    requests.kill_cursor(id, name, message);
                    state.turn = LastMessage::Kill(Status::Ok);
                } else {
                    let size = [*batch_size, left].into_iter().flatten().min();
                    requests.get_more(id, name, size, message);
                }
                return ReplyOutcome { more: true, ..ReplyOutcome::default() };
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
    ) -> ReplyOutcome {
        let part = self.part_metric(state, state.step).map(|metric| (metric, status));
        state.seen = 0;
        state.turn = LastMessage::Step;
        if !status.is_success() {
            if state.session.is_some() {
                let step = self.abort(state, status, false, message);
                return ReplyOutcome { part, ..step };
            }
            return ReplyOutcome { part, ..self.end(operation, state, status) };
        }
        if state.step + 1 < operation.steps.len() {
            state.step += 1;
            self.write_step(operation, state, message);
            return ReplyOutcome { part, more: true, ..ReplyOutcome::default() };
        }
        let Some(session) = &state.session else {
            return ReplyOutcome { part, ..self.end(operation, state, status) };
        };
        self.requests().end_transaction(session, true, message);
        state.turn = LastMessage::Commit;
        ReplyOutcome { part, more: true, ..ReplyOutcome::default() }
    }

    /// The end of an operation.
    pub(super) fn end(
        &mut self,
        operation: &Operation,
        state: &mut DocumentState,
        status: Status,
    ) -> ReplyOutcome {
        self.acknowledge(state);
        if let Some(session) = state.session.take() {
            self.sessions.put(session);
        }
        let commit = match state.turn {
            LastMessage::Commit => {
                self.part_metric(state, operation.steps.len()).map(|metric| (metric, status))
            }
            _ => None,
        };
        let metric = state.operation.map_or(LOAD_METRIC, operation_metric);
        ReplyOutcome { part: commit, whole: Some((metric, status)), ..ReplyOutcome::default() }
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

    fn part_metric(&self, state: &DocumentState, part: usize) -> Option<MetricIndex> {
        self.parts.get(state.operation?)?.get(part).copied()
    }

    /// Ends a transaction that failed.
    fn abort(
        &self,
        state: &mut DocumentState,
        status: Status,
        again: bool,
        message: &mut OpMsgWriter<'_>,
    ) -> ReplyOutcome {
        if let Some(session) = &state.session {
            self.requests().end_transaction(session, false, message);
        }
        state.turn = LastMessage::Abort { status, again };
        ReplyOutcome { more: true, ..ReplyOutcome::default() }
    }

    /// The outcome of an abort: the transaction is retried, or the operation ends.
    pub(super) fn aborted(
        &mut self,
        operation: &Operation,
        state: &mut DocumentState,
        status: Status,
        again: bool,
        message: &mut OpMsgWriter<'_>,
    ) -> ReplyOutcome {
        let Some(session) = state.session.as_mut().filter(|_| again) else {
            return self.end(operation, state, status);
        };
        session.next();
        state.step = 0;
        state.turn = LastMessage::Step;
        state.tries += 1;
        self.write_step(operation, state, message);
        ReplyOutcome { more: true, ..ReplyOutcome::default() }
    }

    /// The outcome of a reply with an error.
    #[cold]
    pub(super) fn refused(
        &mut self,
        operation: &Operation,
        state: &mut DocumentState,
        answer: &ReplyContent<'_>,
        reply: &RawDocument,
        message: &mut OpMsgWriter<'_>,
    ) -> ReplyOutcome {
        let is_insert =
            matches!(operation.steps.as_slice(), [one] if matches!(one.command, StepCommand::Insert { .. }));
        if is_insert && state.session.is_none() && answer.ok {
            self.acknowledge(state);
            let metric = state.operation.map_or(LOAD_METRIC, operation_metric);
            return self.partly_inserted(state, metric, answer, reply);
        }
        let failure = answer.failure(reply);
        let lacking = failure.as_ref().is_some_and(|failure| is_lacking(failure, state.session.is_some()));
        if lacking {
            // A missing command is missing each time: it is reported once and always counted.
            let told = state.operation.and_then(|place| self.shared.told.get(place));
            let told = told.is_some_and(|told| told.swap(true, Ordering::Relaxed));
            let step = self.end(operation, state, Status::NotImplemented);
            return ReplyOutcome { failure: failure.filter(|_| !told), ..step };
        }
        let status = failure.as_ref().map_or(Status::Error, status_of);
        let at = if state.turn == LastMessage::Commit { operation.steps.len() } else { state.step };
        let part = self.part_metric(state, at).map(|metric| (metric, status));
        if let Some(transaction) = &operation.transaction {
            let again = is_transient(reply) && state.tries < transaction.retries;
            return ReplyOutcome { part, failure, ..self.abort(state, status, again, message) };
        }
        ReplyOutcome { part, failure, ..self.end(operation, state, status) }
    }
}

/// Whether a command found the documents that it must find.
fn has_matched(command: &StepCommand, seen: u64, answer: &ReplyContent<'_>, reply: &RawDocument) -> bool {
    match command {
        StepCommand::Find { .. } | StepCommand::Aggregate { .. } => seen > 0,
        StepCommand::FindAndModify { upsert, .. } => {
            *upsert || matches!(reply.get("value"), Ok(Some(RawBsonRef::Document(_))))
        }
        StepCommand::Distinct { .. } => {
            matches!(reply.get("values"), Ok(Some(RawBsonRef::Array(values))) if values.into_iter().next().is_some())
        }
        StepCommand::Update { .. }
        | StepCommand::Delete { .. }
        | StepCommand::Count { .. }
        | StepCommand::Insert { .. } => answer.n > 0,
    }
}

/// Whether the server lacks the requested command.
fn is_lacking(failure: &Failure, in_transaction: bool) -> bool {
    let Code(code) = failure.code();
    LACKING.contains(&code) || in_transaction && LACKING_IN_TRANSACTION.contains(&code)
}

/// Whether the server says that the transaction may succeed on a retry.
fn is_transient(reply: &RawDocument) -> bool {
    let Ok(Some(RawBsonRef::Array(labels))) = reply.get("errorLabels") else { return false };
    labels.into_iter().flatten().any(|label| label.as_str() == Some("TransientTransactionError"))
}
