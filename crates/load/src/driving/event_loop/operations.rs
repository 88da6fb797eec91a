//! The operations of a loop: begins, answers, measures and resends them, and handles lost ones.

use bson::RawDocument;
use fathom_wire::OpMsgWriter;

use super::super::link::PendingOperation;
use super::super::recorder::OperationTimes;
use super::{ClientLoop, MAX_UNANSWERED_AT_ONCE, RetryWait};
use crate::driving::plan::nanos;
use crate::measurements::Status;
use crate::source::{MetricIndex, ReplyOutcome, Source};

/// The errors of a server that is not, or no longer, the primary (docs/methods.md#commands-and-errors): a new connection may find it.
const NOT_PRIMARY: [i32; 8] = [91, 189, 10_058, 10_107, 11_600, 11_602, 13_435, 13_436];
/// The interval at which a resting operation checks for its connection.
const RESTING_CHECK_NS: u64 = 100_000_000;
/// Operations of a schedule that begin before the loop looks at its sockets again.
const MAX_DUE_AT_ONCE: usize = 1024;
/// The time to prepare a request from which on the loop looks at its sockets before it prepares another: replies that arrive meanwhile
/// would count as slow.
const MIN_SLOW_REQUEST_NS: u64 = 10_000;

impl<S: Source> ClientLoop<S> {
    /// Begins the next operation of a connection that has room: at once, or when the loop has looked at its sockets, or when the
    /// schedule says so.
    pub(super) fn go_on(&mut self, place: usize) {
        if self.draining {
            return;
        }
        match &self.place.schedule {
            None if self.is_slow_to_prepare() => self.ready.push_back(place),
            None => self.begin(place, None),
            // A connection that is being reopened takes its turn afterwards.
            Some(_) if self.links.get(place).is_some_and(super::ConnectionSlot::is_live) => {
                self.idle.push_back(place)
            }
            Some(_) => {}
        }
    }

    /// Whether a request takes so long to prepare that replies would wait for it.
    fn is_slow_to_prepare(&self) -> bool {
        self.preparing_ns > MIN_SLOW_REQUEST_NS
    }

    /// The number of operations that begin before the loop looks at its sockets again, at most `most`.
    fn at_once(&self, most: usize) -> usize {
        if self.is_slow_to_prepare() { 1 } else { most }
    }

    /// Begins the operations that are due, as far as connections have room.
    pub(super) fn start_due(&mut self, now_ns: u64) {
        // The number at once is limited, to leave time for replies and for the end of the run, however late the schedule is.
        for _ in 0..self.at_once(MAX_DUE_AT_ONCE) {
            if self.draining {
                return;
            }
            let Some(schedule) = self.place.schedule.as_mut().filter(|one| one.due_ns() <= now_ns) else {
                return;
            };
            let Some(place) = self.idle.pop_front() else { return };
            let due_ns = schedule.due_ns();
            schedule.advance();
            self.begin(place, Some(due_ns));
        }
    }

    /// Continues on connections that wait for no reply.
    pub(super) fn go_on_ready(&mut self) {
        let depth = self.place.shared.depth;
        for _ in 0..self.at_once(MAX_UNANSWERED_AT_ONCE) {
            let Some(place) = self.ready.pop_front().filter(|_| !self.draining) else { return };
            let free = |link: &super::ConnectionSlot<S::State>| {
                link.is_live() && link.under_way() < depth && !link.is_congested()
            };
            if self.links.get(place).is_some_and(free) {
                match &self.place.schedule {
                    None => self.begin(place, None),
                    Some(_) => self.idle.push_back(place),
                }
            }
        }
    }

    /// Begins an operation that is due at a time, or now.
    fn begin(&mut self, place: usize, due_ns: Option<u64>) {
        let batch = self.place.shared.batch;
        let clock = self.place.shared.clock;
        // Operations of the warm-up do not count towards the requested number, if they can be done in addition.
        let warm_ns = self.place.shared.warm_ns;
        let now_ns = if warm_ns > 0 { clock.now_ns() } else { 0 };
        let warms = due_ns.unwrap_or(now_ns) < warm_ns && self.source.repeats();
        let claimed = if warms { batch } else { self.place.shared.budget.claim(batch) };
        let due_ns = due_ns.or(warms.then_some(now_ns));
        let give_back = |shared: &super::LoopsState, count: u64| {
            if !warms {
                shared.budget.give_back(count);
            }
        };
        let Some(link) = self.links.get_mut(place).filter(|link| link.is_live()) else {
            give_back(&self.place.shared, claimed);
            return;
        };
        if claimed == 0 {
            self.drain(clock.now_ns());
            return;
        }
        let request_id = link.next_request_id();
        let from_ns = clock.now_ns();
        self.frame.clear();
        let mut message = OpMsgWriter::begin(&mut self.frame, request_id, 0);
        let Some(begun) = self.source.begin(claimed, &mut message) else {
            give_back(&self.place.shared, claimed);
            self.drain(clock.now_ns());
            return;
        };
        give_back(&self.place.shared, claimed.saturating_sub(begun.records));
        if let Err(failure) = message.finish() {
            // The workload can never send this request.
            self.stop(&format!("a request is too large: {}", failure.message()));
            return;
        }
        let sent_ns = clock.now_ns();
        let took_ns = sent_ns.saturating_sub(from_ns);
        self.preparing_ns = (7 * self.preparing_ns + took_ns) / 8;
        self.piece.preparing_ns += took_ns;
        let due_ns = due_ns.unwrap_or(sent_ns);
        let sent = link.send(&self.frame, &mut self.packed);
        self.count_under_way(1, sent_ns);
        let job = PendingOperation {
            state: begun.state,
            records: begun.records,
            due_ns,
            begun_ns: sent_ns,
            sent_ns,
            request_id,
        };
        if self.is_measured(&job) && self.place.schedule.is_some() {
            self.piece.lag.record(sent_ns.saturating_sub(due_ns));
        }
        match (begun.unanswered, sent) {
            (Some(metric), Ok(())) => self.sent_unanswered(place, &job, metric),
            (_, sent) => {
                if let Some(link) = self.links.get_mut(place) {
                    link.jobs.push_back(job);
                }
                if let Err(error) = sent {
                    self.fail_io(place, &error);
                }
            }
        }
    }

    /// Ends an operation without a reply when it is sent.
    fn sent_unanswered(&mut self, place: usize, job: &PendingOperation<S::State>, metric: MetricIndex) {
        let now_ns = self.place.shared.clock.now_ns();
        let step = ReplyOutcome { whole: Some((metric, Status::Ok)), ..ReplyOutcome::default() };
        self.piece.answered += 1;
        self.measure(job, &step, now_ns);
        self.count_under_way(-1, now_ns);
        // The next operation does not begin at once: without a wait for a reply, other connections would wait for this one.
        self.ready.push_back(place);
    }

    /// Takes the reply to an operation's last message.
    pub(super) fn answered(
        &mut self,
        place: usize,
        mut job: PendingOperation<S::State>,
        reply: &RawDocument,
        now_ns: u64,
    ) {
        let Some(link) = self.links.get_mut(place) else { return };
        let request_id = link.next_request_id();
        self.frame.clear();
        let mut message = OpMsgWriter::begin(&mut self.frame, request_id, 0);
        let step = self.source.answer(&mut job.state, reply, &mut message);
        let finished = message.finish();
        let not_primary =
            step.failure.as_ref().is_some_and(|failure| NOT_PRIMARY.contains(&failure.code().0));
        self.piece.answered += 1;
        self.measure(&job, &step, now_ns);
        if not_primary {
            // The connection is renewed before the next operation begins on it, which would be lost.
            self.renew(place);
        }
        match step.unanswered.filter(|_| finished.is_ok()) {
            Some(metrics) => self.send_last(place, job, metrics),
            None if step.more && finished.is_ok() => self.send_on(place, job, request_id),
            None => self.settle(place, job, &step, now_ns),
        }
    }

    /// Sends an operation's last message, which gets no reply.
    fn send_last(
        &mut self,
        place: usize,
        mut job: PendingOperation<S::State>,
        (part, whole): (MetricIndex, MetricIndex),
    ) {
        job.sent_ns = self.place.shared.clock.now_ns();
        let Some(link) = self.links.get_mut(place) else { return };
        if let Err(error) = link.send(&self.frame, &mut self.packed) {
            link.jobs.push_back(job);
            self.fail_io(place, &error);
            return;
        }
        let now_ns = self.place.shared.clock.now_ns();
        let step = ReplyOutcome {
            part: Some((part, Status::Ok)),
            whole: Some((whole, Status::Ok)),
            ..ReplyOutcome::default()
        };
        self.measure(&job, &step, now_ns);
        self.count_under_way(-1, now_ns);
        self.ready.push_back(place);
    }

    /// Sends an operation's next message, which is in the frame.
    fn send_on(&mut self, place: usize, mut job: PendingOperation<S::State>, request_id: i32) {
        job.request_id = request_id;
        job.sent_ns = self.place.shared.clock.now_ns();
        let Some(link) = self.links.get_mut(place) else { return };
        let sent = link.send(&self.frame, &mut self.packed);
        link.jobs.push_back(job);
        if let Err(error) = sent {
            self.fail_io(place, &error);
        }
    }

    /// Handles an operation that will get no reply.
    pub(super) fn lost(&mut self, place: usize, mut job: PendingOperation<S::State>, now_ns: u64) {
        let step = self.source.lost(&mut job.state);
        self.measure(&job, &step, now_ns);
        self.settle(place, job, &step, now_ns);
    }

    /// Keeps an operation until it is sent again, or ends it and begins the next.
    fn settle(&mut self, place: usize, job: PendingOperation<S::State>, step: &ReplyOutcome, now_ns: u64) {
        if let Some(pause) = step.again_after.filter(|_| !self.draining) {
            if let Some(link) = self.links.get_mut(place) {
                link.resting += 1;
            }
            self.resting.push(RetryWait { due_ns: now_ns.saturating_add(nanos(pause)), link: place, job });
            return;
        }
        self.count_under_way(-1, now_ns);
        if step.stop {
            let said = step.failure.as_ref().map_or("the connection was lost", |failure| failure.message());
            self.stop(&format!("an insert failed: {said}"));
        }
        self.go_on(place);
    }

    /// Resends the operations that have rested long enough.
    pub(super) fn wake_resting(&mut self, now_ns: u64) {
        let mut place = 0;
        while place < self.resting.len() {
            if self.resting.get(place).is_none_or(|resting| resting.due_ns > now_ns) {
                place += 1;
                continue;
            }
            let mut resting = self.resting.swap_remove(place);
            let Some(link) = self.links.get_mut(resting.link) else { continue };
            if !link.is_live() {
                if self.draining {
                    link.resting -= 1;
                    self.give_up(resting.job, now_ns);
                } else {
                    resting.due_ns = now_ns + RESTING_CHECK_NS;
                    self.resting.push(resting);
                    place += 1;
                }
                continue;
            }
            link.resting -= 1;
            let request_id = link.next_request_id();
            self.frame.clear();
            let mut message = OpMsgWriter::begin(&mut self.frame, request_id, 0);
            self.source.again(&mut resting.job.state, &mut message);
            // The message was sent once already, so it is not too large.
            let _ = message.finish();
            // Each attempt is measured by itself.
            resting.job.begun_ns = self.place.shared.clock.now_ns();
            self.piece.retries += if self.is_measured(&resting.job) { resting.job.records } else { 0 };
            self.send_on(resting.link, resting.job, request_id);
        }
    }

    /// Ends an operation that is not tried again; its attempts were measured.
    fn give_up(&mut self, mut job: PendingOperation<S::State>, now_ns: u64) {
        self.source.lost(&mut job.state);
        self.piece.operations += if self.is_measured(&job) { job.records } else { 0 };
        self.count_under_way(-1, now_ns);
    }

    /// Whether an operation began after the warm-up.
    fn is_measured(&self, job: &PendingOperation<S::State>) -> bool {
        job.due_ns >= self.place.shared.warm_ns
    }

    /// Records the measurements of a step.
    fn measure(&mut self, job: &PendingOperation<S::State>, step: &ReplyOutcome, now_ns: u64) {
        let moments = OperationTimes { due_ns: job.due_ns, begun_ns: job.begun_ns, sent_ns: job.sent_ns };
        let tried_again = step.again_after.is_some() && !self.draining;
        self.piece.note(moments, job.records, step, tried_again, &self.place.shared, now_ns);
    }
}
