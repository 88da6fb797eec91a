//! The measurements of each operation: its status, and its latency by two clocks.
//!
//! Service time counts from the moment a request is sent, response time from the moment it should have been sent. Only the
//! second includes the wait while the server stalls (docs/methods.md#two-clocks). Both are always kept. Failed operations
//! have latencies of their own, which never mix with those of successful ones.

use std::collections::BTreeMap;

use fathom_stats::Histogram;

/// Latencies by both clocks.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Latencies from the sending of the request.
    pub service: Histogram,
    /// Latencies from when the request was due.
    pub response: Histogram,
}

impl Latencies {
    /// Adds all of another's.
    pub fn merge(&mut self, other: &Latencies) {
        self.service.merge(&other.service);
        self.response.merge(&other.response);
    }

    fn clear(&mut self) {
        self.service.clear();
        self.response.clear();
    }
}

/// The measurements of one kind of operation.
#[derive(Clone, Debug, Default)]
pub struct OperationMeasurements {
    /// Latencies of successful operations.
    pub succeeded: Latencies,
    /// Latencies of failed operations, by status.
    pub failed: BTreeMap<Status, Latencies>,
    /// The counts of each status, in the order of [`Status::ALL`], including operations without a latency of their own.
    pub returns: [u64; Status::ALL.len()],
}

impl OperationMeasurements {
    /// Records an operation with its latencies.
    #[inline]
    pub fn record(&mut self, status: Status, service_ns: u64, response_ns: u64) {
        self.count(status, 1);
        let latencies =
            if status.is_success() { &mut self.succeeded } else { self.failed.entry(status).or_default() };
        latencies.service.record(service_ns);
        latencies.response.record(response_ns);
    }

    /// Records operations that ended without a latency of their own, such as all documents of a batch but the last.
    #[inline]
    pub fn count(&mut self, status: Status, operations: u64) {
        if let Some(count) = self.returns.get_mut(status as usize) {
            *count += operations;
        }
    }

    /// The number of operations that ended with this status.
    pub fn returned(&self, status: Status) -> u64 {
        self.returns.get(status as usize).copied().unwrap_or(0)
    }

    /// The number of failed operations.
    pub fn failures(&self) -> u64 {
        Status::ALL.iter().filter(|status| !status.is_success()).map(|status| self.returned(*status)).sum()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.returns.iter().all(|count| *count == 0)
    }

    /// Adds all of another's.
    pub fn merge(&mut self, other: &OperationMeasurements) {
        self.succeeded.merge(&other.succeeded);
        for (status, latencies) in &other.failed {
            self.failed.entry(*status).or_default().merge(latencies);
        }
        for (count, more) in self.returns.iter_mut().zip(other.returns) {
            *count += more;
        }
    }

    /// Clears the measurements and keeps the memory.
    pub fn clear(&mut self) {
        self.succeeded.clear();
        self.failed.values_mut().for_each(Latencies::clear);
        self.returns = Default::default();
    }
}

/// The status with which an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// It ended as expected.
    Ok,
    /// It ended as expected, as one of several in a message.
    BatchedOk,
    /// The server refused it, or it was lost on the way.
    Error,
    /// The record does not exist.
    NotFound,
    /// The binding has no such operation.
    NotImplemented,
    /// The record differs from the one that was written.
    UnexpectedState,
    /// The request was wrong.
    BadRequest,
    /// It was not allowed.
    Forbidden,
    /// The server was not ready for it.
    ServiceUnavailable,
}

impl Status {
    pub const ALL: [Status; 9] = [
        Status::Ok,
        Status::BatchedOk,
        Status::Error,
        Status::NotFound,
        Status::NotImplemented,
        Status::UnexpectedState,
        Status::BadRequest,
        Status::Forbidden,
        Status::ServiceUnavailable,
    ];

    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::BatchedOk => "BATCHED_OK",
            Status::Error => "ERROR",
            Status::NotFound => "NOT_FOUND",
            Status::NotImplemented => "NOT_IMPLEMENTED",
            Status::UnexpectedState => "UNEXPECTED_STATE",
            Status::BadRequest => "BAD_REQUEST",
            Status::Forbidden => "FORBIDDEN",
            Status::ServiceUnavailable => "SERVICE_UNAVAILABLE",
        }
    }

    /// Whether the operation succeeded.
    pub fn is_success(self) -> bool {
        matches!(self, Status::Ok | Status::BatchedOk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_kept_apart() {
        let mut one = OperationMeasurements::default();
        one.record(Status::Ok, 1000, 2000);
        one.record(Status::Error, 50, 60);
        one.count(Status::BatchedOk, 9);
        let mut all = OperationMeasurements::default();
        all.merge(&one);
        all.merge(&one);
        assert_eq!((all.returned(Status::Ok), all.returned(Status::BatchedOk), all.failures()), (2, 18, 2));
        assert_eq!((all.succeeded.service.len(), all.succeeded.response.max_ns()), (2, Some(2000)));
        assert_eq!(all.failed[&Status::Error].service.len(), 2);
        all.clear();
        assert!(all.is_empty() && all.succeeded.service.is_empty());
    }
}
