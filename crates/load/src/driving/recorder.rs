//! The measurements of one loop since the last second ended, its gauges, its failures by kind, and the messages that
//! pass them on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fathom_stats::Histogram;
use fathom_wire::Failure;

use super::plan::LoopsState;
use crate::generators::KeyDraws;
use crate::measurements::{OperationMeasurements, Status};
use crate::source::{MetricIndex, ReplyOutcome};

const NS_PER_US: u64 = 1000;

/// The latency of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyPoint {
    /// The place of its kind of operation.
    pub metric: MetricIndex,
    pub status: Status,
    /// The end, in nanoseconds since the run began.
    pub end_ns: u64,
    /// Time since the request was sent.
    pub service_ns: u64,
    /// Time since the request was due.
    pub response_ns: u64,
}

/// The measurements of one loop in a second.
#[derive(Debug, Default)]
pub(super) struct LoopSecond {
    /// Measurements by the metric's place; kinds that did not occur have none and take no memory.
    pub(super) metrics: Vec<Option<Box<OperationMeasurements>>>,
    /// Individual latencies, if the plan asks for them.
    pub(super) points: Vec<LatencyPoint>,
    /// The delay of operations, from when they were due to when they were sent; empty in a closed loop.
    pub(super) lag: Histogram,
    /// Operations that ended, and documents of batches.
    pub(super) operations: u64,
    /// Messages that were answered, or sent if no reply comes, in the warm-up too: signs of life.
    pub(super) answered: u64,
    /// The number of operations under way, summed over time; 0 if it is not summed.
    pub(super) in_flight_ns: u64,
    /// BSON bytes of stored data that was sent: inserted documents and updates.
    pub(super) user_bytes: u64,
    /// Time that the loop was on a processor, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// Time in which requests were prepared, keys drawn and documents written, in nanoseconds.
    pub(super) preparing_ns: u64,
    pub(super) draws: KeyDraws,
    /// Failed operations, and documents of batches, that were sent again.
    pub(super) retries: u64,
    pub(super) failures: FailuresByKind,
    /// Connections that were opened again.
    pub(super) reconnects: u64,
}

/// The state of a loop at any time.
#[derive(Debug, Default)]
pub(super) struct LoopGauge {
    pub(super) in_flight: AtomicU64,
    /// Whether an operation is due that no connection has room for.
    pub(super) overdue: AtomicBool,
}

impl LoopGauge {
    /// Whether an operation is due or under way.
    pub(super) fn is_waiting(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0 || self.overdue.load(Ordering::Relaxed)
    }
}

/// A message of a loop.
#[derive(Debug)]
pub(super) enum LoopMessage {
    /// The measurements of a second, counted from when measuring began; earlier seconds are negative.
    LoopSecond(i64, Box<LoopSecond>),
    /// The loop has ended, with this many operations still under way.
    Ended(u64),
}

/// The times of an operation that latencies are counted from, in nanoseconds of the run's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationTimes {
    /// When it was due.
    pub(super) due_ns: u64,
    /// When its first message was sent.
    pub(super) begun_ns: u64,
    /// When its last message was sent.
    pub(super) sent_ns: u64,
}

impl LoopSecond {
    /// Records the measurements of a step of an operation of `records` records, unless it began in the warm-up. A step that is
    /// retried is an attempt, after which the operation has not ended.
    pub(super) fn note(
        &mut self,
        moments: OperationTimes,
        records: u64,
        step: &ReplyOutcome,
        tried_again: bool,
        shared: &LoopsState,
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
            self.record(shared, LatencyPoint { metric, status, end_ns: now_ns, service_ns, response_ns });
        };
        if let Some((metric, status)) = step.part {
            // The first message was due when the operation was; later ones when the previous one was answered.
            let due_ns = if moments.sent_ns == moments.begun_ns { moments.due_ns } else { moments.sent_ns };
            record(metric, status, since(moments.sent_ns), since(due_ns));
        }
        if let Some((metric, status, took_ns)) = step.aside {
            record(metric, status, took_ns, took_ns);
        }
        if let Some((metric, records)) = step.for_each_record {
            // YCSB divides whole microseconds.
            let ns = since(moments.begun_ns) / NS_PER_US / records.max(1) * NS_PER_US;
            record(metric, Status::Ok, ns, ns);
        }
        if let Some((metric, status)) = step.whole {
            record(metric, status, since(moments.begun_ns), since(moments.due_ns));
            let others = records.saturating_sub(1);
            let failed = if status.is_success() { step.failed_documents.min(others) } else { others };
            self.count(metric, Status::Error, failed);
            self.count(metric, Status::BatchedOk, others - failed);
            self.operations += if tried_again { 0 } else { records };
        }
    }

    #[inline]
    pub(super) fn metric(&mut self, metric: MetricIndex) -> Option<&mut OperationMeasurements> {
        if self.metrics.len() <= metric {
            self.metrics.resize_with(metric + 1, || None);
        }
        self.metrics.get_mut(metric).map(|place| &mut **place.get_or_insert_default())
    }

    /// Records a latency, and keeps it by itself if individual latencies are asked for.
    #[inline]
    pub(super) fn record(&mut self, shared: &LoopsState, point: LatencyPoint) {
        if let Some(measured) = self.metric(point.metric) {
            measured.record(point.status, point.service_ns, point.response_ns);
        }
        if shared.points {
            self.points.push(point);
        }
    }

    pub(super) fn count(&mut self, metric: MetricIndex, status: Status, operations: u64) {
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
    /// The message of the first one.
    pub first: String,
}

/// Failures by kind: the server's code and its name, or the failure of the connection.
pub type FailuresByKind = BTreeMap<String, Failures>;

/// Counts a failure that the server reported.
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
