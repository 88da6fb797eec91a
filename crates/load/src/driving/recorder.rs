//! What one loop measured since the last second ended, what it shows in between, what went wrong by kind, and how it
//! tells of all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fathom_stats::Histogram;
use fathom_wire::Failure;

use super::plan::Shared;
use crate::measurements::{Measured, Status};
use crate::source::{Metric, Step};

/// One latency by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The place of its kind of operation.
    pub metric: Metric,
    /// How it ended.
    pub status: Status,
    /// When, in nanoseconds since the run began.
    pub end_ns: u64,
    /// From the sending of the request.
    pub service_ns: u64,
    /// From when it was due.
    pub response_ns: u64,
}

/// What one loop measured in a second.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// By the metric's place; kinds that did not occur have none, and take no memory.
    pub(super) metrics: Vec<Option<Box<Measured>>>,
    /// Each latency by itself, where that is wanted.
    pub(super) points: Vec<Point>,
    /// How much later than due operations were sent; empty in a closed loop.
    pub(super) lag: Histogram,
    /// Operations that ended, and documents of batches.
    pub(super) operations: u64,
    /// Messages that were answered, or sent where nothing answers, in the warm-up too: signs of life.
    pub(super) answered: u64,
    /// The time that operations were under way, each by itself: their number over time, summed up. 0 where nobody sums it.
    pub(super) in_flight_ns: u64,
    /// BSON bytes of what was sent to be kept: inserted documents and updates.
    pub(super) user_bytes: u64,
    /// Time that the loop was on a processor, in nanoseconds.
    pub(super) cpu_ns: u64,
    pub(super) failures: FailuresByKind,
    /// Connections that were made anew.
    pub(super) reconnects: u64,
}

/// What a loop shows at any time.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    /// Operations under way.
    pub(super) in_flight: AtomicU64,
    /// Whether an operation is due that no connection has room for.
    pub(super) overdue: AtomicBool,
}

impl Gauge {
    /// Whether something is to be done or answered.
    pub(super) fn is_waiting(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0 || self.overdue.load(Ordering::Relaxed)
    }
}

/// What a loop tells.
#[derive(Debug)]
pub(super) enum Word {
    /// What it measured in a second, counted from when measuring began; those before are negative.
    Piece(i64, Box<Piece>),
    /// It has ended, with so many operations still under way.
    Ended(u64),
}

/// The times of an operation that latencies are counted from, in nanoseconds of the run's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    /// When it was due.
    pub(super) due_ns: u64,
    /// When its first message was sent.
    pub(super) begun_ns: u64,
    /// When its last message was sent.
    pub(super) sent_ns: u64,
}

impl Piece {
    /// Notes what a step of an operation of so many records is measured as, unless it began in the warm-up. What is tried again
    /// has not ended.
    pub(super) fn note(
        &mut self,
        moments: Moments,
        records: u64,
        step: &Step,
        tried_again: bool,
        shared: &Shared,
        now_ns: u64,
    ) {
        if let Some(failure) = &step.failure {
            note_refusal(&mut self.failures, failure);
        }
        if moments.due_ns < shared.warm_ns {
            return;
        }
        let since = |from_ns: u64| now_ns.saturating_sub(from_ns);
        let mut record = |metric, status, service_ns, response_ns| {
            self.record(metric, status, service_ns, response_ns);
            if shared.points {
                self.points.push(Point { metric, status, end_ns: now_ns, service_ns, response_ns });
            }
        };
        if let Some((metric, status)) = step.part {
            // The first message was due when the operation was; those behind it when the one before was answered.
            let due_ns = if moments.sent_ns == moments.begun_ns { moments.due_ns } else { moments.sent_ns };
            record(metric, status, since(moments.sent_ns), since(due_ns));
        }
        if let Some((metric, status, took_ns)) = step.aside {
            record(metric, status, took_ns, took_ns);
        }
        if let Some((metric, status)) = step.whole.filter(|_| !tried_again) {
            record(metric, status, since(moments.begun_ns), since(moments.due_ns));
            let others = records.saturating_sub(1);
            let failed = if status.is_success() { step.failed_documents.min(others) } else { others };
            self.count(metric, Status::Error, failed);
            self.count(metric, Status::BatchedOk, others - failed);
            self.operations += records;
        }
    }

    #[inline]
    pub(super) fn metric(&mut self, metric: Metric) -> Option<&mut Measured> {
        if self.metrics.len() <= metric {
            self.metrics.resize_with(metric + 1, || None);
        }
        self.metrics.get_mut(metric).map(|place| &mut **place.get_or_insert_default())
    }

    #[inline]
    pub(super) fn record(&mut self, metric: Metric, status: Status, service_ns: u64, response_ns: u64) {
        if let Some(measured) = self.metric(metric) {
            measured.record(status, service_ns, response_ns);
        }
    }

    pub(super) fn count(&mut self, metric: Metric, status: Status, operations: u64) {
        if let Some(measured) = self.metric(metric).filter(|_| operations > 0) {
            measured.count(status, operations);
        }
    }
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How many there were.
    pub count: u64,
    /// What the first one said.
    pub first: String,
}

/// Failures by kind: the server's code and its name, or what became of the connection.
pub type FailuresByKind = BTreeMap<String, Failures>;

/// Counts a failure that the server told.
pub(super) fn note_refusal(failures: &mut FailuresByKind, failure: &Failure) {
    let code = failure.code();
    note(failures, &format!("{code:?}"), failure.message());
}

/// Counts failures of a kind.
pub(super) fn note(failures: &mut FailuresByKind, kind: &str, said: &str) {
    match failures.get_mut(kind) {
        Some(known) => known.count += 1,
        None => {
            failures.insert(kind.to_owned(), Failures { count: 1, first: said.to_owned() });
        }
    }
}

/// Adds all of another's.
pub(super) fn merge(failures: &mut FailuresByKind, others: FailuresByKind) {
    for (kind, more) in others {
        match failures.get_mut(&kind) {
            Some(known) => known.count += more.count,
            None => {
                failures.insert(kind, more);
            }
        }
    }
}
