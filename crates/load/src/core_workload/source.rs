//! The source of a `CoreWorkload`: draws operations and judges replies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bson::{RawBsonRef, RawDocument};
use fathom_stats::SeededRandom;
use fathom_wire::OpMsgWriter;

use super::requests::Requests;
use super::{CoreShared, Operation, Phase};
use crate::generators::{KeyChooser, KeyDraws};
use crate::measurements::Status;
use crate::reply::{ReplyContent, status_of};
use crate::source::{MetricIndex, OperationStart, ReplyOutcome, Source};

/// The kinds of operations, at the places that the constants below name.
const METRICS: [&str; 7] = ["READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE", "DELETE", "VERIFY"];
const READ: MetricIndex = 0;
const UPDATE: MetricIndex = 1;
const INSERT: MetricIndex = 2;
const SCAN: MetricIndex = 3;
const READ_MODIFY_WRITE: MetricIndex = 4;
const DELETE: MetricIndex = 5;
const VERIFY: MetricIndex = 6;
/// The metrics behind them, which only YCSB's report has.
const REPORT_ONLY: [&str; 1] = ["SCAN-LATENCY-PER-RECORD"];
const SCAN_FOR_EACH_RECORD: MetricIndex = METRICS.len();

/// One loop's share of the work.
#[derive(Debug)]
pub struct CoreSource {
    shared: Arc<CoreShared>,
    requests: Requests,
    chooser: KeyChooser,
    random: SeededRandom,
}

/// The state of an operation.
#[derive(Debug)]
pub enum CoreState {
    /// A read of this record.
    Read(u64),
    Update,
    /// Inserts of records from a number on.
    Insert {
        first: u64,
        /// How many records it returns.
        count: u64,
        /// The number of retries.
        tries: u64,
    },
    Scan {
        /// The number of records that it still wants.
        left: u64,
        /// The number of records that it has found.
        found: u64,
    },
    /// The read of a read-modify-write of this record.
    ReadThenUpdate(u64),
    /// The update of a read-modify-write.
    UpdateBehindRead,
    Delete,
}

impl CoreSource {
    /// The share of the loop of this number.
    pub fn new(shared: &Arc<CoreShared>, seed: u64, number: u64) -> CoreSource {
        CoreSource {
            requests: Requests::new(shared),
            chooser: shared.chooser.clone(),
            random: SeededRandom::from_seed(seed).split(number),
            shared: Arc::clone(shared),
        }
    }

    fn draw_key(&mut self) -> u64 {
        self.chooser.draw(&mut self.random, self.shared.acknowledged.newest())
    }

    fn begin_insert(&mut self, most: u64, message: &mut OpMsgWriter<'_>) -> OperationStart<CoreState> {
        let count = self.shared.binding.batch.min(most).max(1);
        let first = self.shared.next.fetch_add(count, Ordering::Relaxed);
        self.requests.insert(first, count, &mut self.random, message);
        let unanswered = (!self.shared.binding.acknowledged).then_some(INSERT);
        if unanswered.is_some() {
            self.acknowledge(first, count);
        }
        OperationStart { state: CoreState::Insert { first, count, tries: 0 }, records: count, unanswered }
    }

    fn acknowledge(&self, first: u64, count: u64) {
        if self.shared.workload.phase == Phase::Run {
            (first..first + count).for_each(|number| self.shared.acknowledged.acknowledge(number));
        }
    }

    /// The end of an insert, or another try.
    fn inserted(&mut self, state: &mut CoreState, mut step: ReplyOutcome, failed: bool) -> ReplyOutcome {
        let CoreState::Insert { first, count, tries } = state else { return step };
        let load = self.shared.workload.phase == Phase::Load;
        if failed && load && *tries < self.shared.retry.limit {
            *tries += 1;
            let pause = self.shared.retry.interval.mul_f64(0.8 + 0.4 * self.random.uniform());
            return ReplyOutcome { again_after: Some(pause), ..step };
        }
        step.stop = failed && load && !self.shared.retry.keep_going;
        let (first, count) = (*first, *count);
        self.acknowledge(first, count);
        step
    }

    fn answer_read(
        &mut self,
        number: u64,
        answer: &ReplyContent<'_>,
    ) -> (Status, Option<(MetricIndex, Status, u64)>) {
        let found = answer.batch().0.and_then(|batch| batch.into_iter().flatten().next());
        let Some(RawBsonRef::Document(document)) = found else {
            return (Status::NotFound, self.unverified());
        };
        if !self.shared.workload.values.integrity {
            return (Status::Ok, None);
        }
        let begun = Instant::now();
        let right = self.requests.is_right(number, document);
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let status = if right { Status::Ok } else { Status::UnexpectedState };
        (Status::Ok, Some((VERIFY, status, took)))
    }

    /// The verification of a read that returned no record: an error, as in YCSB, if values are verified.
    fn unverified(&self) -> Option<(MetricIndex, Status, u64)> {
        self.shared.workload.values.integrity.then_some((VERIFY, Status::Error, 0))
    }

    fn answer_scan(
        &self,
        (left, found): (u64, u64),
        answer: &ReplyContent<'_>,
        message: &mut OpMsgWriter<'_>,
    ) -> (CoreState, ReplyOutcome) {
        let (batch, id) = answer.batch();
        let count = batch.map_or(0, |batch| batch.into_iter().count() as u64);
        let (left, found) = (left.saturating_sub(count), found + count);
        let state = CoreState::Scan { left, found };
        if id != 0 && left > 0 {
            self.requests.get_more(id, left, message);
            return (state, ReplyOutcome { more: true, ..ReplyOutcome::default() });
        }
        // YCSB calls a scan that finds nothing an error.
        let status = if found > 0 { Status::Ok } else { Status::Error };
        let for_each_record = (found > 0).then_some((SCAN_FOR_EACH_RECORD, found));
        (state, ReplyOutcome { whole: Some((SCAN, status)), for_each_record, ..ReplyOutcome::default() })
    }
}

/// The kind of an operation as it is measured as a whole.
fn metric_of(state: &CoreState) -> MetricIndex {
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

    fn report_only(&self) -> &'static [&'static str] {
        &REPORT_ONLY
    }

    fn begin(&mut self, most: u64, message: &mut OpMsgWriter<'_>) -> Option<OperationStart<CoreState>> {
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
                (CoreState::Scan { left: requests.scan(number, random, message), found: 0 }, None)
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
        Some(OperationStart { state, records: 1, unanswered })
    }

    fn answer(
        &mut self,
        state: &mut CoreState,
        reply: &RawDocument,
        message: &mut OpMsgWriter<'_>,
    ) -> ReplyOutcome {
        let answer = ReplyContent::from_reply(reply);
        if !answer.is_clean() {
            return self.refused(state, &answer, reply);
        }
        let missing = if answer.n == 0 { Status::NotFound } else { Status::Ok };
        match state {
            CoreState::Read(number) => {
                let number = *number;
                let (status, aside) = self.answer_read(number, &answer);
                ReplyOutcome { whole: Some((READ, status)), aside, ..ReplyOutcome::default() }
            }
            CoreState::ReadThenUpdate(number) => {
                let number = *number;
                let (status, aside) = self.answer_read(number, &answer);
                self.requests.update(number, &mut self.random, message);
                *state = CoreState::UpdateBehindRead;
                let unanswered = (!self.shared.binding.acknowledged).then_some((UPDATE, READ_MODIFY_WRITE));
                ReplyOutcome {
                    part: Some((READ, status)),
                    aside,
                    more: true,
                    unanswered,
                    ..ReplyOutcome::default()
                }
            }
            CoreState::UpdateBehindRead => ReplyOutcome {
                part: Some((UPDATE, missing)),
                whole: Some((READ_MODIFY_WRITE, Status::Ok)),
                ..ReplyOutcome::default()
            },
            CoreState::Update => ReplyOutcome { whole: Some((UPDATE, missing)), ..ReplyOutcome::default() },
            CoreState::Delete => ReplyOutcome { whole: Some((DELETE, missing)), ..ReplyOutcome::default() },
            CoreState::Insert { .. } => {
                let step = ReplyOutcome { whole: Some((INSERT, Status::Ok)), ..ReplyOutcome::default() };
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

    fn take_key_draws(&mut self) -> KeyDraws {
        self.chooser.take_draws()
    }

    fn repeats(&self) -> bool {
        self.shared.workload.phase == Phase::Run
    }

    fn lost(&mut self, state: &mut CoreState) -> ReplyOutcome {
        let is_read = matches!(state, CoreState::Read(_) | CoreState::ReadThenUpdate(_));
        let step = ReplyOutcome {
            whole: Some((metric_of(state), Status::Error)),
            aside: self.unverified().filter(|_| is_read),
            ..ReplyOutcome::default()
        };
        // A lost connection does not end a load: it is opened again.
        ReplyOutcome { stop: false, ..self.inserted(state, step, true) }
    }
}

impl CoreSource {
    /// The outcome of a reply with an error.
    #[cold]
    fn refused(
        &mut self,
        state: &mut CoreState,
        answer: &ReplyContent<'_>,
        reply: &RawDocument,
    ) -> ReplyOutcome {
        let failure = answer.failure(reply);
        let status = failure.as_ref().map_or(Status::Error, status_of);
        let failed = answer.failed_writes();
        match state {
            // The batch was not stopped at its first failure, so the other documents were inserted.
            CoreState::Insert { count, .. } if answer.ok && (1..*count).contains(&failed) => {
                let step = ReplyOutcome {
                    whole: Some((INSERT, Status::Ok)),
                    failed_documents: failed,
                    failure,
                    ..ReplyOutcome::default()
                };
                let (limit, load) = (self.shared.retry.keep_going, self.shared.workload.phase == Phase::Load);
                let mut step = self.inserted(state, step, false);
                step.stop = load && !limit;
                step
            }
            CoreState::ReadThenUpdate(_) => ReplyOutcome {
                part: Some((READ, status)),
                whole: Some((READ_MODIFY_WRITE, status)),
                aside: self.unverified(),
                failure,
                ..ReplyOutcome::default()
            },
            CoreState::UpdateBehindRead => ReplyOutcome {
                part: Some((UPDATE, status)),
                whole: Some((READ_MODIFY_WRITE, status)),
                failure,
                ..ReplyOutcome::default()
            },
            _ => {
                let step = ReplyOutcome {
                    whole: Some((metric_of(state), status)),
                    aside: self.unverified().filter(|_| matches!(state, CoreState::Read(_))),
                    failure,
                    ..ReplyOutcome::default()
                };
                self.inserted(state, step, true)
            }
        }
    }
}
