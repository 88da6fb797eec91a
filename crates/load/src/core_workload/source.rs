//! A `CoreWorkload` at work: draws operations and judges what comes back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bson::{RawBsonRef, RawDocument};
use fathom_stats::Seeded;
use fathom_wire::OpMsgWriter;

use super::requests::Requests;
use super::{CoreShared, Operation, Phase};
use crate::generators::KeyChooser;
use crate::measurements::Status;
use crate::reply::{Answer, status_of};
use crate::source::{Begun, Metric, Source, Step};

/// The kinds of operations, at the places that the constants below name.
const METRICS: [&str; 7] = ["READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE", "DELETE", "VERIFY"];
const READ: Metric = 0;
const UPDATE: Metric = 1;
const INSERT: Metric = 2;
const SCAN: Metric = 3;
const READ_MODIFY_WRITE: Metric = 4;
const DELETE: Metric = 5;
const VERIFY: Metric = 6;

/// One loop's share of the work.
#[derive(Debug)]
pub struct CoreSource {
    shared: Arc<CoreShared>,
    requests: Requests,
    chooser: KeyChooser,
    random: Seeded,
}

/// What an operation remembers.
#[derive(Debug)]
pub enum CoreState {
    /// A read of this record.
    Read(u64),
    /// An update.
    Update,
    /// Inserts of records from a number on.
    Insert {
        /// The first.
        first: u64,
        /// How many.
        count: u64,
        /// How often it was tried again.
        tries: u64,
    },
    /// A scan.
    Scan {
        /// How many records it wants more.
        left: u64,
        /// Whether it has found any.
        found: bool,
    },
    /// A read with an update behind it, of this record.
    ReadThenUpdate(u64),
    /// The update behind the read.
    UpdateBehindRead,
    /// A removal.
    Delete,
}

impl CoreSource {
    /// The share of the loop of this number.
    pub fn new(shared: &Arc<CoreShared>, seed: u64, number: u64) -> CoreSource {
        CoreSource {
            requests: Requests::new(shared),
            chooser: shared.chooser.clone(),
            random: Seeded::from_seed(seed).split(number),
            shared: Arc::clone(shared),
        }
    }

    fn draw_key(&mut self) -> u64 {
        self.chooser.draw(&mut self.random, self.shared.acknowledged.newest())
    }

    fn begin_insert(&mut self, most: u64, message: &mut OpMsgWriter<'_>) -> Begun<CoreState> {
        let count = self.shared.binding.batch.min(most).max(1);
        let first = self.shared.next.fetch_add(count, Ordering::Relaxed);
        self.requests.insert(first, count, &mut self.random, message);
        let unanswered = (!self.shared.binding.acknowledged).then_some(INSERT);
        if unanswered.is_some() {
            self.acknowledge(first, count);
        }
        Begun { state: CoreState::Insert { first, count, tries: 0 }, records: count, unanswered }
    }

    fn acknowledge(&self, first: u64, count: u64) {
        if self.shared.workload.phase == Phase::Run {
            (first..first + count).for_each(|number| self.shared.acknowledged.acknowledge(number));
        }
    }

    /// The end of an insert, or another try.
    fn inserted(&mut self, state: &mut CoreState, mut step: Step, failed: bool) -> Step {
        let CoreState::Insert { first, count, tries } = state else { return step };
        let load = self.shared.workload.phase == Phase::Load;
        if failed && load && *tries < self.shared.retry.limit {
            *tries += 1;
            let pause = self.shared.retry.interval.mul_f64(0.8 + 0.4 * self.random.uniform());
            return Step { again_after: Some(pause), ..step };
        }
        step.stop = failed && load && !self.shared.retry.keep_going;
        let (first, count) = (*first, *count);
        self.acknowledge(first, count);
        step
    }

    fn answer_read(&mut self, number: u64, answer: &Answer<'_>) -> (Status, Option<(Metric, Status, u64)>) {
        let found = answer.batch().0.and_then(|batch| batch.into_iter().flatten().next());
        let Some(RawBsonRef::Document(document)) = found else { return (Status::NotFound, None) };
        if !self.shared.workload.values.integrity {
            return (Status::Ok, None);
        }
        let begun = Instant::now();
        let right = self.requests.is_right(number, document);
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let status = if right { Status::Ok } else { Status::UnexpectedState };
        (Status::Ok, Some((VERIFY, status, took)))
    }

    fn answer_scan(
        &self,
        (left, found): (u64, bool),
        answer: &Answer<'_>,
        message: &mut OpMsgWriter<'_>,
    ) -> (CoreState, Step) {
        let (batch, id) = answer.batch();
        let count = batch.map_or(0, |batch| batch.into_iter().count() as u64);
        let (left, found) = (left.saturating_sub(count), found || count > 0);
        let state = CoreState::Scan { left, found };
        if id != 0 && left > 0 {
            self.requests.get_more(id, left, message);
            return (state, Step { more: true, ..Step::default() });
        }
        // YCSB calls a scan that finds nothing an error.
        let status = if found { Status::Ok } else { Status::Error };
        (state, Step { whole: Some((SCAN, status)), ..Step::default() })
    }
}

/// The kind of an operation as it is measured as a whole.
fn metric_of(state: &CoreState) -> Metric {
    match state {
        CoreState::Read(_) => READ,
        CoreState::Update => UPDATE,
        CoreState::Insert { .. } => INSERT,
        CoreState::Scan { .. } => SCAN,
        CoreState::ReadThenUpdate(_) | CoreState::UpdateBehindRead => READ_MODIFY_WRITE,
        CoreState::Delete => DELETE,
    }
}

impl Source for CoreSource {
    type State = CoreState;

    fn metrics(&self) -> Vec<String> {
        METRICS.map(str::to_owned).to_vec()
    }

    fn begin(&mut self, most: u64, message: &mut OpMsgWriter<'_>) -> Option<Begun<CoreState>> {
        let operation = match self.shared.workload.phase {
            Phase::Load => Operation::Insert,
            Phase::Run => self.shared.workload.mix.draw(&mut self.random),
        };
        if operation == Operation::Insert {
            return Some(self.begin_insert(most, message));
        }
        let number = self.draw_key();
        let (requests, random) = (&mut self.requests, &mut self.random);
        let (state, write) = match operation {
            Operation::Read => {
                requests.read(number, random, message);
                (CoreState::Read(number), None)
            }
            Operation::ReadModifyWrite => {
                requests.read(number, random, message);
                (CoreState::ReadThenUpdate(number), None)
            }
            Operation::Scan => {
                (CoreState::Scan { left: requests.scan(number, random, message), found: false }, None)
            }
            Operation::Delete => {
                requests.delete(number, message);
                (CoreState::Delete, Some(DELETE))
            }
            Operation::Update | Operation::Insert => {
                requests.update(number, random, message);
                (CoreState::Update, Some(UPDATE))
            }
        };
        let unanswered = write.filter(|_| !self.shared.binding.acknowledged);
        Some(Begun { state, records: 1, unanswered })
    }

    fn answer(&mut self, state: &mut CoreState, reply: &RawDocument, message: &mut OpMsgWriter<'_>) -> Step {
        let answer = Answer::of(reply);
        if !answer.is_clean() {
            return self.refused(state, &answer, reply);
        }
        let missing = if answer.n == 0 { Status::NotFound } else { Status::Ok };
        match state {
            CoreState::Read(number) => {
                let number = *number;
                let (status, aside) = self.answer_read(number, &answer);
                Step { whole: Some((READ, status)), aside, ..Step::default() }
            }
            CoreState::ReadThenUpdate(number) => {
                let number = *number;
                let (status, aside) = self.answer_read(number, &answer);
                self.requests.update(number, &mut self.random, message);
                *state = CoreState::UpdateBehindRead;
                let unanswered = (!self.shared.binding.acknowledged).then_some((UPDATE, READ_MODIFY_WRITE));
                Step { part: Some((READ, status)), aside, more: true, unanswered, ..Step::default() }
            }
            CoreState::UpdateBehindRead => Step {
                part: Some((UPDATE, missing)),
                whole: Some((READ_MODIFY_WRITE, Status::Ok)),
                ..Step::default()
            },
            CoreState::Update => Step { whole: Some((UPDATE, missing)), ..Step::default() },
            CoreState::Delete => Step { whole: Some((DELETE, missing)), ..Step::default() },
            CoreState::Insert { .. } => {
                let step = Step { whole: Some((INSERT, Status::Ok)), ..Step::default() };
                self.inserted(state, step, false)
            }
            CoreState::Scan { left, found } => {
                let (next, step) = self.answer_scan((*left, *found), &answer, message);
                *state = next;
                step
            }
        }
    }

    fn again(&mut self, state: &mut CoreState, message: &mut OpMsgWriter<'_>) {
        if let CoreState::Insert { first, count, .. } = state {
            self.requests.insert(*first, *count, &mut self.random, message);
        }
    }

    fn take_user_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.requests.user_bytes)
    }

    fn repeats(&self) -> bool {
        self.shared.workload.phase == Phase::Run
    }

    fn lost(&mut self, state: &mut CoreState) -> Step {
        let step = Step { whole: Some((metric_of(state), Status::Error)), ..Step::default() };
        // A connection that was lost is no reason to give a load up: it is made anew.
        Step { stop: false, ..self.inserted(state, step, true) }
    }
}

impl CoreSource {
    /// What a reply with an error comes to.
    #[cold]
    fn refused(&mut self, state: &mut CoreState, answer: &Answer<'_>, reply: &RawDocument) -> Step {
        let failure = answer.failure(reply);
        let status = failure.as_ref().map_or(Status::Error, status_of);
        let failed = answer.failed_writes();
        match state {
            // Of a batch that was not stopped at its first failure, the others are there.
            CoreState::Insert { count, .. } if answer.ok && (1..*count).contains(&failed) => {
                let step = Step {
                    whole: Some((INSERT, Status::Ok)),
                    failed_documents: failed,
                    failure,
                    ..Step::default()
                };
                let (limit, load) = (self.shared.retry.keep_going, self.shared.workload.phase == Phase::Load);
                let mut step = self.inserted(state, step, false);
                step.stop = load && !limit;
                step
            }
            CoreState::ReadThenUpdate(_) => Step {
                part: Some((READ, status)),
                whole: Some((READ_MODIFY_WRITE, status)),
                failure,
                ..Step::default()
            },
            CoreState::UpdateBehindRead => Step {
                part: Some((UPDATE, status)),
                whole: Some((READ_MODIFY_WRITE, status)),
                failure,
                ..Step::default()
            },
            _ => {
                let step = Step { whole: Some((metric_of(state), status)), failure, ..Step::default() };
                self.inserted(state, step, true)
            }
        }
    }
}
