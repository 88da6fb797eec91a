//! Counters of the whole server, for `serverStatus`, and latency histograms like mongod's: a sum, a number, and 51
//! buckets (mongodb/mongo:src/mongo/db/stats/operation_latency_histogram.cpp).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fathom_service::{CommandCounters, NetworkCounters};
use fathom_wire::Code;

use crate::request::OperationClass;

pub(crate) use fathom_service::Counter;

/// The time that an operation has taken so far, in microseconds.
pub(crate) fn elapsed_micros(since: Instant) -> u64 {
    micros(since.elapsed())
}

/// A duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

const BUCKETS: usize = 51;

/// The lower bounds of the buckets in microseconds: powers of two below 2048, then also half steps up to 2^21, then powers
/// of two again.
static LOWER_MICROS: [u64; BUCKETS] = bounds();

const fn bounds() -> [u64; BUCKETS] {
    let mut bounds = [0; BUCKETS];
    let mut at = 1;
    let mut power = 1;
    while at < BUCKETS {
        bounds[at] = 1 << power;
        at += 1;
        if power >= 11 && power < 21 && at < BUCKETS {
            bounds[at] = (1 << power) + (1 << (power - 1));
            at += 1;
        }
        power += 1;
    }
    bounds
}

/// Latencies of one kind of operation.
#[derive(Debug)]
pub(crate) struct LatencyHistogram {
    buckets: [AtomicU64; BUCKETS],
    sum_micros: AtomicU64,
    count: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        LatencyHistogram {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_micros: AtomicU64::new(0),
            count: AtomicU64::new(0),
        }
    }
}

impl LatencyHistogram {
    /// Counts an operation that took `micros`.
    pub(crate) fn record(&self, micros: u64) {
        let bucket = LOWER_MICROS.partition_point(|lower| *lower <= micros).saturating_sub(1);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The sum in microseconds, and the number of operations.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.sum_micros.load(Ordering::Relaxed), self.count.load(Ordering::Relaxed))
    }

    /// The non-empty buckets: lower bound in microseconds, and count.
    pub(crate) fn buckets(&self) -> Vec<(u64, u64)> {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        LOWER_MICROS.iter().copied().zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

/// The counters of section `opcounters`.
#[derive(Debug, Default)]
pub(crate) struct OperationCounters {
    pub(crate) inserts: Counter,
    pub(crate) queries: Counter,
    pub(crate) updates: Counter,
    pub(crate) deletes: Counter,
    pub(crate) getmores: Counter,
    pub(crate) commands: Counter,
}

impl OperationCounters {
    pub(crate) fn insert(&self, number: u64) {
        self.inserts.add(number);
    }

    pub(crate) fn query(&self, number: u64) {
        self.queries.add(number);
    }

    pub(crate) fn update(&self, number: u64) {
        self.updates.add(number);
    }

    pub(crate) fn delete(&self, number: u64) {
        self.deletes.add(number);
    }

    pub(crate) fn getmore(&self, number: u64) {
        self.getmores.add(number);
    }
}

/// `asserts`: failures by kind.
#[derive(Debug, Default)]
pub(crate) struct AssertCounters {
    regular: Counter,
    user: Counter,
}

impl AssertCounters {
    /// Counts a failure that a client sees. A failure that should be impossible is a regular assertion, like mongod's
    /// invariants; all others are user assertions.
    pub(crate) fn count(&self, code: Code) {
        let unexpected = [Code::InternalError, Code::UnknownError].contains(&code);
        if unexpected { self.regular.add(1) } else { self.user.add(1) }
    }

    /// Counts failures of single writes within a command that succeeded.
    pub(crate) fn users(&self, number: usize) {
        self.user.add(number as u64);
    }

    /// The counts of all kinds under mongod's names. Warnings are zero, as in mongod since 4.0; message assertions do not exist
    /// here, and 64-bit numbers do not roll over.
    pub(crate) fn all(&self) -> [(&'static str, u64); 5] {
        [
            ("regular", self.regular.get()),
            ("warning", 0),
            ("msg", 0),
            ("user", self.user.get()),
            ("rollovers", 0),
        ]
    }
}

#[derive(Debug)]
pub(crate) struct ServerCounters {
    pub(crate) operations: OperationCounters,
    pub(crate) network: NetworkCounters,
    pub(crate) commands: CommandCounters,
    reads: LatencyHistogram,
    writes: LatencyHistogram,
    others: LatencyHistogram,
    pub(crate) documents_inserted: Counter,
    pub(crate) documents_returned: Counter,
    pub(crate) documents_updated: Counter,
    pub(crate) documents_deleted: Counter,
    pub(crate) keys_scanned: Counter,
    pub(crate) documents_scanned: Counter,
    pub(crate) collection_scans: Counter,
    /// Those of tailable cursors, which are among the scans of collections.
    pub(crate) tailable_scans: Counter,
    pub(crate) scan_and_order: Counter,
    pub(crate) write_conflicts: Counter,
    pub(crate) ttl_passes: Counter,
    pub(crate) ttl_deleted: Counter,
    pub(crate) asserts: AssertCounters,
}

impl ServerCounters {
    /// Makes the counters for this number of commands.
    pub(crate) fn new(commands: usize) -> ServerCounters {
        ServerCounters {
            operations: OperationCounters::default(),
            network: NetworkCounters::default(),
            commands: CommandCounters::new(commands),
            reads: LatencyHistogram::default(),
            writes: LatencyHistogram::default(),
            others: LatencyHistogram::default(),
            documents_inserted: Counter::default(),
            documents_returned: Counter::default(),
            documents_updated: Counter::default(),
            documents_deleted: Counter::default(),
            keys_scanned: Counter::default(),
            documents_scanned: Counter::default(),
            collection_scans: Counter::default(),
            tailable_scans: Counter::default(),
            scan_and_order: Counter::default(),
            write_conflicts: Counter::default(),
            ttl_passes: Counter::default(),
            ttl_deleted: Counter::default(),
            asserts: AssertCounters::default(),
        }
    }
}

impl ServerCounters {
    /// The server-wide latencies of a kind.
    pub(crate) fn latency(&self, kind: OperationClass) -> &LatencyHistogram {
        match kind {
            OperationClass::Read => &self.reads,
            OperationClass::Write => &self.writes,
            OperationClass::Command => &self.others,
        }
    }

    /// Counts the keys and documents examined.
    pub(crate) fn scanned(&self, keys: u64, documents: u64) {
        self.keys_scanned.add(keys);
        self.documents_scanned.add(documents);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_mongod() {
        assert_eq!(
            &LOWER_MICROS[..16],
            [0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192]
        );
        assert!(LOWER_MICROS.is_sorted());
        let histogram = LatencyHistogram::default();
        for micros in [0, 3071, 3072, u64::MAX / 2] {
            histogram.record(micros);
        }
        let buckets = histogram.buckets();
        assert_eq!(buckets[..3], [(0, 1), (2048, 1), (3072, 1)]);
        assert_eq!(buckets.len(), 4);
    }
}
