//! What one loop measured since the last second ended.

use fathom_stats::Histogram;

use super::failures::FailuresByKind;
use crate::measurements::{Measured, Status};
use crate::source::Metric;

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
    /// Time that the loop was on a processor, in nanoseconds.
    pub(super) cpu_ns: u64,
    pub(super) failures: FailuresByKind,
    /// Connections that were made anew.
    pub(super) reconnects: u64,
}

impl Piece {
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
