//! The source of a document workload: draws operations, takes them from step to step with their state between messages,
//! and judges replies.

mod outcome;

use std::cell::Cell;
use std::sync::Arc;

use bson::RawDocument;
use fathom_stats::SeededRandom;
use fathom_wire::OpMsgWriter;

use super::DocumentWorkload;
use super::operations::{Operation, StepCommand};
use super::requests::{CommandTransaction, Requests, SessionPool, SharedParts};
use super::shared::{DocumentShared, Part};
use super::template::{Drawing, TemplateVariables};
use crate::document_workload::requests::ActiveSession;
use crate::generators::{KeyChooser, KeyDraws};
use crate::measurements::Status;
use crate::reply::ReplyContent;
use crate::source::{MetricIndex, OperationStart, ReplyOutcome, Source};

/// The metric of the load; those of operations follow.
const LOAD_METRIC: MetricIndex = 0;

/// One loop's share of the work.
#[derive(Debug)]
pub struct DocumentSource {
    shared: Arc<DocumentShared>,
    /// A copy of the workload: loops that share one reference count would contend for its cache line.
    workload: Arc<DocumentWorkload>,
    fixed: SharedParts,
    part: Part,
    choosers: Vec<Option<KeyChooser>>,
    random: SeededRandom,
    sessions: SessionPool,
    /// For each operation with parts, the metrics of its steps and of the commit.
    parts: Vec<Vec<MetricIndex>>,
    scratch: Vec<u8>,
    /// BSON bytes of documents and of updates written since the last reading.
    user_bytes: Cell<u64>,
}

impl DocumentShared {
    /// The share of the loop of this number in a part of the workload.
    pub fn source(self: &Arc<Self>, part: Part, seed: u64, number: u64) -> DocumentSource {
        DocumentSource::new(self, part, seed, number)
    }
}

impl DocumentSource {
    /// The share of the loop of this number.
    pub fn new(shared: &Arc<DocumentShared>, part: Part, seed: u64, number: u64) -> DocumentSource {
        // Loops draw independently of each other, and so do phases.
        let phase = match part {
            Part::Load => 0,
            Part::Phase(place) => place as u64 + 1,
        };
        DocumentSource {
            fixed: SharedParts::new(shared),
            part,
            choosers: shared.choosers(part),
            random: SeededRandom::from_seed(seed).split(phase << 32 | number),
            sessions: SessionPool::default(),
            parts: part_metrics(&shared.workload.operations),
            scratch: Vec::new(),
            user_bytes: Cell::new(0),
            workload: Arc::new(shared.workload.clone()),
            shared: Arc::clone(shared),
        }
    }

    fn begin_load(
        &mut self,
        most: u64,
        message: &mut OpMsgWriter<'_>,
    ) -> Option<OperationStart<DocumentState>> {
        let load = &self.shared.workload.load;
        let (collection, first, count) = self.shared.claim_load(load.batch.min(most).max(1))?;
        let state = DocumentState::load(DocumentRange { step: 0, collection, first, count });
        self.write_load(&state, message);
        let unanswered = (!self.shared.binding.acknowledged).then_some(LOAD_METRIC);
        if unanswered.is_some() {
            self.shared.acknowledge(collection, first, count);
        }
        Some(OperationStart { state, records: count, unanswered })
    }

    fn write_load(&mut self, state: &DocumentState, message: &mut OpMsgWriter<'_>) {
        let DocumentSource { shared, fixed, choosers, random, user_bytes, .. } = self;
        let Some(claim) = state.claims.first() else { return };
        let template = shared.workload.collections.get(claim.collection);
        let Some(document) = template.and_then(|collection| collection.document.as_ref()) else { return };
        let unanswered = !shared.binding.acknowledged;
        let requests = Requests { shared, fixed, transaction: None, unanswered, user_bytes };
        let mut drawing = Drawing {
            random,
            existing: &shared.workload.existing,
            collections: &shared.collections,
            choosers,
            variables: &state.variables,
            number: claim.first,
        };
        // A batch continues after a failed document. For a single document this makes no difference, and drivers send ordered.
        let ordered = shared.workload.load.ordered || claim.count == 1;
        let numbers = (claim.first, claim.count);
        requests.insert(claim.collection, document, numbers, ordered, &mut drawing, message);
    }

    fn begin_operation(
        &mut self,
        phase: usize,
        most: u64,
        message: &mut OpMsgWriter<'_>,
    ) -> Option<OperationStart<DocumentState>> {
        let workload = Arc::clone(&self.workload);
        let place = workload.phases.get(phase)?.at(self.random.uniform());
        let operation = workload.operations.get(place)?;
        let mut state = DocumentState::operation(place);
        self.draw_variables(operation, &mut state);
        if operation.transaction.is_some() {
            state.session = Some(self.sessions.take());
        }
        state.most = most;
        self.write_step(operation, &mut state, message);
        let records = match operation.batch() {
            1 => 1,
            _ => state.claims.first().map_or(1, |claim| claim.count),
        };
        let unanswered = self.is_unanswered(operation).then_some(operation_metric(place));
        if unanswered.is_some() {
            self.acknowledge(&state);
        }
        Some(OperationStart { state, records, unanswered })
    }

    /// Whether the server does not answer an operation (`w:0`).
    fn is_unanswered(&self, operation: &Operation) -> bool {
        let alone = operation.steps.len() == 1 && operation.transaction.is_none();
        let may = operation.steps.first().is_some_and(|step| step.command.may_go_unanswered());
        !self.shared.binding.acknowledged && alone && may
    }

    fn draw_variables(&mut self, operation: &Operation, state: &mut DocumentState) {
        let DocumentSource { shared, choosers, random, scratch, .. } = self;
        for template in &operation.variables {
            let mut drawing = Drawing {
                random,
                existing: &shared.workload.existing,
                collections: &shared.collections,
                choosers,
                variables: &state.variables,
                number: 0,
            };
            scratch.clear();
            let element_type = template.append(&mut drawing, scratch);
            state.variables.add(element_type, scratch);
        }
    }

    /// Writes the command of an operation's current step.
    fn write_step(
        &mut self,
        operation: &Operation,
        state: &mut DocumentState,
        message: &mut OpMsgWriter<'_>,
    ) {
        let unanswered = self.is_unanswered(operation);
        let DocumentSource { shared, fixed, choosers, random, user_bytes, .. } = self;
        let Some(step) = operation.steps.get(state.step) else { return };
        let transaction = transaction_of(operation, state);
        let requests = Requests { shared, fixed, transaction, unanswered, user_bytes };
        let mut drawing = Drawing {
            random,
            existing: &shared.workload.existing,
            collections: &shared.collections,
            choosers,
            variables: &state.variables,
            number: 0,
        };
        let StepCommand::Insert { document, documents, ordered } = &step.command else {
            requests.command(step, &mut drawing, message);
            return;
        };
        let collection = shared.workload.collections.get(step.collection);
        let own = collection.and_then(|collection| collection.document.as_ref());
        let Some(document) = document.as_ref().or(own) else { return };
        // A retried transaction inserts documents with the same numbers.
        let claimed = state.claims.iter().find(|claim| claim.step == state.step).copied();
        let claim = claimed.unwrap_or_else(|| {
            let count = if operation.batch() > 1 { state.most.clamp(1, *documents) } else { *documents };
            let first = shared.claim(step.collection, count);
            DocumentRange { step: state.step, collection: step.collection, first, count }
        });
        let numbers = (claim.first, claim.count);
        requests.insert(step.collection, document, numbers, *ordered, &mut drawing, message);
        if claimed.is_none() {
            state.claims.push(claim);
        }
    }

    fn acknowledge(&self, state: &DocumentState) {
        for DocumentRange { collection, first, count, .. } in &state.claims {
            self.shared.acknowledge(*collection, *first, *count);
        }
    }
}

/// The transaction that the command of an operation's step belongs to.
fn transaction_of<'a>(operation: &'a Operation, state: &'a DocumentState) -> Option<CommandTransaction<'a>> {
    let read_concern = operation.transaction.as_ref()?.read_concern.as_deref();
    let session = state.session.as_ref()?;
    Some(CommandTransaction { session, is_first: state.step == 0, read_concern })
}

/// The metric of an operation.
fn operation_metric(place: usize) -> MetricIndex {
    LOAD_METRIC + 1 + place
}

fn part_metrics(operations: &[Operation]) -> Vec<Vec<MetricIndex>> {
    let mut first = operation_metric(operations.len());
    let metrics = |operation: &Operation| {
        let names = operation.parts();
        let place = |name: &str| first + names.iter().position(|known| known == name).unwrap_or(0);
        let steps = operation.steps.iter().map(|step| format!("{}.{}", operation.name, step.command.name()));
        let commit = std::iter::once(format!("{}.commit", operation.name));
        let metrics: Vec<MetricIndex> = if names.is_empty() {
            Vec::new()
        } else {
            steps.chain(commit).map(|name| place(&name)).collect()
        };
        first += names.len();
        metrics
    };
    operations.iter().map(metrics).collect()
}

impl Source for DocumentSource {
    type State = DocumentState;

    fn metrics(&self) -> Vec<String> {
        self.shared.workload.metrics()
    }

    fn begin(&mut self, most: u64, message: &mut OpMsgWriter<'_>) -> Option<OperationStart<DocumentState>> {
        match self.part {
            Part::Load => self.begin_load(most, message),
            Part::Phase(place) => self.begin_operation(place, most, message),
        }
    }

    fn answer(
        &mut self,
        state: &mut DocumentState,
        reply: &RawDocument,
        message: &mut OpMsgWriter<'_>,
    ) -> ReplyOutcome {
        let workload = Arc::clone(&self.workload);
        let answer = ReplyContent::from_reply(reply);
        let Some(operation) = state.operation.and_then(|place| workload.operations.get(place)) else {
            return self.loaded(state, &answer, reply);
        };
        match state.turn {
            LastMessage::Step if answer.is_clean() => {
                self.answered(operation, state, &answer, reply, message)
            }
            LastMessage::Commit if answer.is_clean() => self.end(operation, state, Status::Ok),
            LastMessage::Step | LastMessage::Commit => {
                self.refused(operation, state, &answer, reply, message)
            }
            // The reply about a cursor that is no longer read does not matter.
            LastMessage::Kill(status) => self.step_ended(operation, state, status, message),
            LastMessage::Abort { status, again } => self.aborted(operation, state, status, again, message),
        }
    }

    fn again(&mut self, state: &mut DocumentState, message: &mut OpMsgWriter<'_>) {
        // No step asks for a pause; the last message would be sent again.
        let workload = Arc::clone(&self.workload);
        match state.operation.and_then(|place| workload.operations.get(place)) {
            Some(operation) => self.write_step(operation, state, message),
            None => self.write_load(state, message),
        }
    }

    fn take_user_bytes(&mut self) -> u64 {
        self.user_bytes.take()
    }

    fn take_key_draws(&mut self) -> KeyDraws {
        let mut draws = KeyDraws::default();
        self.choosers.iter_mut().flatten().for_each(|chooser| draws.merge(chooser.take_draws()));
        draws
    }

    fn repeats(&self) -> bool {
        matches!(self.part, Part::Phase(_))
    }

    fn lost(&mut self, state: &mut DocumentState) -> ReplyOutcome {
        self.acknowledge(state);
        if let Some(session) = state.session.take() {
            self.sessions.put(session);
        }
        let metric = state.operation.map_or(LOAD_METRIC, operation_metric);
        ReplyOutcome { whole: Some((metric, Status::Error)), ..ReplyOutcome::default() }
    }
}

/// The state of an operation between its messages.
#[derive(Debug)]
pub struct DocumentState {
    /// The operation's index; `None` for an insert of the load.
    operation: Option<usize>,
    /// The operation's current step.
    step: usize,
    turn: LastMessage,
    variables: TemplateVariables,
    /// The numbers of the documents that it inserts.
    claims: Vec<DocumentRange>,
    /// The number of documents that the cursor of this step has returned so far.
    seen: u64,
    session: Option<ActiveSession>,
    /// The number of retries of its transaction.
    tries: u64,
    /// The most records that it may touch.
    most: u64,
}

/// The last message of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastMessage {
    /// The command of the step, or a request for more of its cursor.
    Step,
    /// The close of the step's cursor, with the status of the step.
    Kill(Status),
    /// The end of the transaction.
    Commit,
    /// The abort of a transaction that failed: its status, and whether it is retried.
    Abort { status: Status, again: bool },
}

/// Numbers of documents that a step inserts.
#[derive(Clone, Copy, Debug)]
struct DocumentRange {
    step: usize,
    collection: usize,
    first: u64,
    count: u64,
}

impl DocumentState {
    fn load(claim: DocumentRange) -> DocumentState {
        DocumentState { claims: vec![claim], ..DocumentState::new(None) }
    }

    fn operation(place: usize) -> DocumentState {
        DocumentState::new(Some(place))
    }

    fn new(operation: Option<usize>) -> DocumentState {
        DocumentState {
            operation,
            step: 0,
            turn: LastMessage::Step,
            variables: TemplateVariables::default(),
            claims: Vec::new(),
            seen: 0,
            session: None,
            tries: 0,
            most: 1,
        }
    }
}
