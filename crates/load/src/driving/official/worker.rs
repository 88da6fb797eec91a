//! A task of the driver's runtime, which does one operation after another, as a program's thread would call the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use bson::RawDocument;
use fathom_wire::{Message, OpMsgWriter};

use super::super::plan::LoopsState;
use super::super::recorder::{LatencyPoint, OperationTimes};
use super::command::{CommandDefaults, DriverCall};
use super::execution::{Execution, MissingReply};
use super::pacer::{TaskLane, TaskPace};
use crate::driving::recorder;
use crate::measurements::Status;
use crate::source::{ReplyOutcome, Source, all_metrics};

/// The wait of a task that found no operation left, as another task may give some back.
const EMPTY_CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// The interval at which a pausing task checks whether the run is over.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
const UNANSWERED: &str = "the official driver refuses writes that nothing answers (w=0)";

pub(super) struct DriverTask<S> {
    pub(super) shared: Arc<LoopsState>,
    pub(super) lane: Arc<TaskLane>,
    pub(super) pace: Option<Arc<TaskPace>>,
    pub(super) source: S,
    pub(super) usual: Arc<CommandDefaults>,
    pub(super) execution: Execution,
    /// The message that the source wrote.
    pub(super) frame: Vec<u8>,
    /// The driver's result, as a reply.
    pub(super) reply: Vec<u8>,
    pub(super) leaving: TaskEndGuard,
}

/// Reports that a task has ended, for any reason.
pub(super) struct TaskEndGuard {
    shared: Arc<LoopsState>,
    running: Arc<AtomicUsize>,
    pacer: Thread,
}

impl TaskEndGuard {
    pub(super) fn new(shared: &Arc<LoopsState>, running: &Arc<AtomicUsize>, pacer: &Thread) -> TaskEndGuard {
        TaskEndGuard { shared: Arc::clone(shared), running: Arc::clone(running), pacer: pacer.clone() }
    }
}

impl Drop for TaskEndGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.stop_because("a task that called the driver ended in a panic");
        }
        self.running.fetch_sub(1, Ordering::AcqRel);
        self.pacer.unpark();
    }
}

/// An operation under way.
struct PendingOperation<State> {
    state: State,
    records: u64,
    moments: OperationTimes,
}

impl<S: Source> DriverTask<S> {
    /// Works until no operation is left or the run is over.
    pub(super) async fn run(mut self) {
        while !self.is_over() {
            let due_ns = match &self.pace {
                None => None,
                Some(pace) => match pace.next().await {
                    Some(due_ns) => Some(due_ns),
                    None => break,
                },
            };
            if !self.operation(due_ns).await {
                self.pace.iter().for_each(|pace| pace.close());
                break;
            }
        }
        self.clean_up();
        drop(self.leaving);
    }

    /// Measures the end of the task, as YCSB measures that of a thread: the connections are the driver's, which closes them later.
    fn clean_up(&self) {
        // The last of all metrics.
        let metric = all_metrics(&self.source).len() - 1;
        let end_ns = self.shared.clock.now_ns();
        let point = LatencyPoint { metric, status: Status::Ok, end_ns, service_ns: 0, response_ns: 0 };
        self.lane.piece.lock().record(&self.shared, point);
    }

    fn is_over(&self) -> bool {
        self.shared.is_over(self.shared.clock.now_ns())
    }

    /// Claims up to a batch of the remaining operations; 0 if none is left.
    async fn claim(&mut self) -> u64 {
        let batch = self.shared.batch;
        match self.shared.budget.claim(batch) {
            0 if batch > 1 => {
                tokio::time::sleep(EMPTY_CHECK_INTERVAL).await;
                self.shared.budget.claim(batch)
            }
            claimed => claimed,
        }
    }

    /// Does the next operation; `false` if there is none.
    async fn operation(&mut self, due_ns: Option<u64>) -> bool {
        // As in an event loop, operations of the warm-up do not count towards the requested number, if they can be done in addition.
        let now_ns = self.shared.clock.now_ns();
        let warms = due_ns.unwrap_or(now_ns) < self.shared.warm_ns && self.source.repeats();
        let claimed = if warms { self.shared.batch } else { self.claim().await };
        if claimed == 0 {
            return false;
        }
        let from_ns = self.shared.clock.now_ns();
        self.frame.clear();
        let mut message = OpMsgWriter::begin(&mut self.frame, 0, 0);
        let begun = self.source.begin(claimed, &mut message);
        if !warms {
            let used = begun.as_ref().map_or(0, |begun| begun.records);
            self.shared.budget.give_back(claimed.saturating_sub(used));
        }
        let Some(begun) = begun else { return false };
        if let Err(failure) = message.finish() {
            self.shared.stop_because(&format!("a request is too large: {}", failure.message()));
            return false;
        }
        if begun.unanswered.is_some() {
            self.shared.stop_because(UNANSWERED);
            return false;
        }
        let sent_ns = self.shared.clock.now_ns();
        let was_due_ns = due_ns.unwrap_or(if warms { now_ns } else { sent_ns });
        let moments = OperationTimes { due_ns: was_due_ns, begun_ns: sent_ns, sent_ns };
        {
            let mut piece = self.lane.piece.lock();
            piece.preparing_ns += sent_ns.saturating_sub(from_ns);
            if due_ns.is_some() && moments.due_ns >= self.shared.warm_ns {
                piece.lag.record(sent_ns.saturating_sub(moments.due_ns));
            }
        }
        self.lane.gauge.in_flight.fetch_add(1, Ordering::Relaxed);
        self.carry_out(PendingOperation { state: begun.state, records: begun.records, moments }).await;
        self.lane.gauge.in_flight.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Carries out an operation with all its messages.
    async fn carry_out(&mut self, mut job: PendingOperation<S::State>) {
        loop {
            let command = match self.command() {
                Ok(command) => command,
                Err(why) => return self.shared.stop_because(&why),
            };
            let answered = self.ask(command).await;
            let now_ns = self.shared.clock.now_ns();
            let (step, whole) = self.judge(&mut job.state, answered.as_ref().err());
            let pause = step.again_after.filter(|_| !self.shared.is_over(now_ns));
            self.note(&job, &step, answered, pause.is_some(), now_ns);
            if step.unanswered.is_some() {
                return self.shared.stop_because(UNANSWERED);
            }
            if step.more && whole {
                job.moments.sent_ns = self.shared.clock.now_ns();
                continue;
            }
            let Some(pause) = pause else {
                if step.stop {
                    let said =
                        step.failure.as_ref().map_or("the connection was lost", |failure| failure.message());
                    self.shared.stop_because(&format!("an insert failed: {said}"));
                }
                return;
            };
            let measured = if job.moments.due_ns >= self.shared.warm_ns { job.records } else { 0 };
            if !self.rest(pause).await {
                // It is not tried again; its attempts were measured.
                self.source.lost(&mut job.state);
                self.lane.piece.lock().operations += measured;
                return;
            }
            self.lane.piece.lock().retries += measured;
            self.frame.clear();
            let mut message = OpMsgWriter::begin(&mut self.frame, 0, 0);
            self.source.again(&mut job.state, &mut message);
            // It was sent once already, so it is not too large.
            let _ = message.finish();
            // Each attempt is measured by itself.
            job.moments.sent_ns = self.shared.clock.now_ns();
            job.moments.begun_ns = job.moments.sent_ns;
        }
    }

    fn note(
        &mut self,
        job: &PendingOperation<S::State>,
        step: &ReplyOutcome,
        answered: Result<(), MissingReply>,
        tried_again: bool,
        now_ns: u64,
    ) {
        let (user_bytes, draws) = (self.source.take_user_bytes(), self.source.take_key_draws());
        let mut piece = self.lane.piece.lock();
        piece.user_bytes += user_bytes;
        piece.draws.merge(draws);
        match answered {
            Ok(()) => piece.answered += 1,
            Err(lost) => recorder::note(&mut piece.failures, lost.kind, &lost.said),
        }
        piece.note(job.moments, job.records, step, tried_again, &self.shared, now_ns);
    }

    /// The call of the message in the frame.
    fn command(&self) -> Result<DriverCall, String> {
        match Message::parse(&self.frame) {
            Ok(Message::Msg(message)) => DriverCall::new(&message, &self.usual),
            Ok(_) => Err("the source wrote something else than OP_MSG".to_owned()),
            Err(failure) => Err(format!("the source wrote a wrong message: {}", failure.message())),
        }
    }

    /// Lets the driver carry out a command; the answer is in `reply`.
    async fn ask(&mut self, command: DriverCall) -> Result<(), MissingReply> {
        self.reply.clear();
        let Some(deadline_ns) = self.shared.deadline_ns else {
            return self.execution.execute(command, &mut self.reply).await;
        };
        let deadline = Duration::from_nanos(deadline_ns);
        let asked = self.execution.execute(command, &mut self.reply);
        match tokio::time::timeout(deadline, asked).await {
            Ok(answered) => answered,
            Err(_) => Err(MissingReply { kind: "no reply", said: format!("no reply within {deadline:?}") }),
        }
    }

    /// The outcome of the answer, and whether the next message is complete.
    fn judge(&mut self, state: &mut S::State, lost: Option<&MissingReply>) -> (ReplyOutcome, bool) {
        if lost.is_some() {
            return (self.source.lost(state), false);
        }
        match RawDocument::from_bytes(&self.reply) {
            Ok(reply) => {
                self.frame.clear();
                let mut message = OpMsgWriter::begin(&mut self.frame, 0, 0);
                let step = self.source.answer(state, reply, &mut message);
                let whole = !step.more || message.finish().is_ok();
                (step, whole)
            }
            Err(_) => (self.source.lost(state), false),
        }
    }

    /// Pauses; `false` if the run is over before the pause is.
    async fn rest(&mut self, pause: Duration) -> bool {
        let until_ns = self.shared.clock.now_ns().saturating_add(crate::driving::plan::nanos(pause));
        loop {
            if self.is_over() {
                return false;
            }
            let left_ns = until_ns.saturating_sub(self.shared.clock.now_ns());
            if left_ns == 0 {
                return true;
            }
            tokio::time::sleep(Duration::from_nanos(left_ns).min(STOP_CHECK_INTERVAL)).await;
        }
    }
}
