//! Tells from a `serverStatus` whether operations wait or keep the server busy, so that questions about them are worth their cost.

use bson::RawDocument;

use super::collection::number_at;

/// Operations in progress on average, from which on the server counts as busy: a quarter of one processor, or of one wait.
const MIN_IN_PROGRESS: f64 = 0.25;
/// The time for which it still counts as busy, so that the end of what kept it busy is seen too.
const HELD_NS: u64 = 3_000_000_000;

/// Whether transactions are open. Versions before 4.0 have none, and do not know idle sessions.
pub(super) fn has_transactions(status: &RawDocument) -> bool {
    ["currentOpen", "currentInactive", "currentPrepared"]
        .into_iter()
        .any(|count| number_at(status, &["transactions", count]).is_some_and(|count| count > 0.0))
}

/// The signs so far.
#[derive(Debug, Default)]
pub(super) struct BusySigns {
    /// The time of operations that had ended, in microseconds, and when it was read.
    last: Option<(u64, f64)>,
    /// The end of the time for which the server counts as busy.
    until_ns: u64,
}

impl BusySigns {
    /// Takes a reply that was read at `at_ns`, and returns whether the server is busy.
    pub(super) fn take(&mut self, status: &RawDocument, at_ns: u64) -> bool {
        let sum = |paths: &[[&str; 3]]| paths.iter().filter_map(|path| number_at(status, path)).sum::<f64>();
        let waiting =
            sum(&[["globalLock", "currentQueue", "readers"], ["globalLock", "currentQueue", "writers"]]);
        let active =
            sum(&[["globalLock", "activeClients", "readers"], ["globalLock", "activeClients", "writers"]]);
        let ended_us = sum(&[
            ["opLatencies", "reads", "latency"],
            ["opLatencies", "writes", "latency"],
            ["opLatencies", "commands", "latency"],
        ]);
        // By Little's law: the time of operations in a second is the mean number of them.
        let in_progress = self
            .last
            .filter(|(last_ns, last_us)| at_ns > *last_ns && ended_us >= *last_us)
            .map(|(last_ns, last_us)| (ended_us - last_us) * 1000.0 / (at_ns - last_ns) as f64);
        self.last = Some((at_ns, ended_us));
        if waiting > 0.0 || active > 0.0 || in_progress.is_some_and(|count| count >= MIN_IN_PROGRESS) {
            self.until_ns = at_ns.saturating_add(HELD_NS);
        }
        at_ns < self.until_ns
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn status(queued: i32, active: i32, latency_us: i64) -> RawDocumentBuf {
        rawdoc! {
            "globalLock": {
                "currentQueue": { "total": queued, "readers": queued, "writers": 0 },
                "activeClients": { "total": 30, "readers": 0, "writers": active },
            },
            "opLatencies": { "reads": { "latency": latency_us, "ops": 1_i64 } },
        }
    }

    /// Whether it is busy after each reading, one a second.
    fn busy(readings: &[RawDocumentBuf]) -> Vec<bool> {
        let mut signs = BusySigns::default();
        (1..).zip(readings).map(|(second, status)| signs.take(status, second * SECOND_NS)).collect()
    }

    #[test]
    fn a_quiet_server_is_not_busy_and_one_with_work_is_for_some_seconds() {
        let quiet = status(0, 0, 5_000_000);
        assert_eq!(
            busy(&[quiet.clone(), status(0, 0, 5_100_000)]),
            [false, false],
            "a tenth of an operation"
        );
        assert_eq!(busy(&[quiet.clone(), status(0, 0, 5_400_000)]), [false, true]);
        assert_eq!(busy(&[status(3, 0, 0)]), [true]);
        let after = [status(0, 1, 0), status(0, 0, 0), status(0, 0, 0), status(0, 0, 0), status(0, 0, 0)];
        assert_eq!(busy(&after), [true, true, true, false, false]);
        // A server that was restarted counts from zero.
        assert_eq!(busy(&[quiet, status(0, 0, 10)]), [false, false]);
    }

    #[test]
    fn an_open_transaction_is_seen_on_a_server_at_rest() {
        let with = |transactions: RawDocumentBuf| {
            let mut status = status(0, 0, 0);
            status.append(bson::cstr!("transactions"), transactions);
            has_transactions(&status)
        };
        assert!(with(rawdoc! { "currentActive": 0, "currentInactive": 1, "currentOpen": 1 }));
        assert!(with(rawdoc! { "currentOpen": 0, "currentPrepared": 1_i64 }));
        assert!(!with(rawdoc! { "currentActive": 0, "currentInactive": 0, "currentOpen": 0 }));
        assert!(!has_transactions(&status(3, 1, 0)), "a server before 4.0");
    }
}
