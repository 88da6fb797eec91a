//! Table: the figures by which incidents of a recording are found.

use super::bins::Bins;

/// A mean that grows during incidents.
#[derive(Debug)]
pub(super) struct Signal {
    /// The subject of the mean, for sentences.
    pub(super) words: &'static str,
    /// Series after `server.{member}.` that are summed up.
    time: &'static [&'static str],
    /// The microseconds of one of their units. Of a gauge, the unit is its value for a second.
    unit_us: f64,
    /// The series that the sum is divided by.
    count: &'static [&'static str],
    /// A sum of less in ten seconds counts as one microsecond each: most of the time nothing waits.
    unnoticed_us: f64,
    /// The fewest in ten seconds for a mean.
    min_count: f64,
    /// The least growth, in microseconds.
    pub(super) min_growth_us: f64,
    /// The least factor of growth.
    pub(super) min_ratio: f64,
    /// Whether all of it is a wait of clients.
    pub(super) is_operations: bool,
    /// Whether operations wait for what it measures, so that it may explain them.
    pub(super) is_cause: bool,
    /// Whether it is known only at the end of the time that it measures.
    pub(super) is_known_late: bool,
}

pub(super) const QUEUE: &str = "a wait in the server's queues";
pub(super) const CHECKPOINT: &str = "a checkpoint";

pub(super) static SIGNALS: &[Signal] = &[
    Signal {
        words: "a read within the server",
        time: &["reads.latency_us"],
        unit_us: 1.0,
        count: &["reads.operations"],
        unnoticed_us: 0.0,
        min_count: 10.0,
        min_growth_us: 50.0,
        min_ratio: 1.25,
        is_operations: true,
        is_cause: false,
        is_known_late: false,
    },
    Signal {
        words: "a write within the server",
        time: &["writes.latency_us"],
        unit_us: 1.0,
        count: &["writes.operations"],
        unnoticed_us: 0.0,
        min_count: 10.0,
        min_growth_us: 50.0,
        min_ratio: 1.25,
        is_operations: true,
        is_cause: false,
        is_known_late: false,
    },
    Signal {
        words: "a sync of the journal",
        time: &["journal.sync_us"],
        unit_us: 1.0,
        count: &["journal.syncs"],
        unnoticed_us: 0.0,
        min_count: 0.5,
        min_growth_us: 20_000.0,
        min_ratio: 2.0,
        is_operations: false,
        is_cause: true,
        is_known_late: false,
    },
    Signal {
        words: "a read of a page",
        time: &["wait.page_read_us"],
        unit_us: 1.0,
        count: &["pages.read"],
        unnoticed_us: 0.0,
        min_count: 10.0,
        min_growth_us: 1000.0,
        min_ratio: 2.0,
        is_operations: false,
        is_cause: true,
        is_known_late: false,
    },
    // By Little's law, from the lengths of the queues in each sample.
    Signal {
        words: QUEUE,
        time: &["queue.readers", "queue.writers"],
        unit_us: 1e6,
        count: &["reads.operations", "writes.operations"],
        // One operation that always waits.
        unnoticed_us: 1e7,
        min_count: 10.0,
        min_growth_us: 1000.0,
        min_ratio: 2.0,
        is_operations: false,
        is_cause: false,
        is_known_late: false,
    },
    Signal {
        words: CHECKPOINT,
        time: &["checkpoint.total_ms"],
        unit_us: 1e3,
        count: &["checkpoint.count"],
        unnoticed_us: 0.0,
        min_count: 0.5,
        min_growth_us: 1e7,
        min_ratio: 2.0,
        is_operations: false,
        is_cause: false,
        is_known_late: true,
    },
];

impl Signal {
    /// The mean of each bin in microseconds, with the count; `None` if there are too few.
    pub(super) fn means_us(&self, bins: &Bins, member: usize) -> Vec<Option<(f64, f64)>> {
        (0..bins.len()).map(|bin| self.mean_us(bins, member, &[bin])).collect()
    }

    /// The mean over bins in microseconds, with the count.
    pub(super) fn mean_us(&self, bins: &Bins, member: usize, over: &[usize]) -> Option<(f64, f64)> {
        let names = |series: &[&str]| -> Vec<String> {
            series.iter().map(|one| format!("server.{member}.{one}")).collect()
        };
        let count = bins.sum_of(&names(self.count), over)?;
        let time_us = bins.sum_of(&names(self.time), over)? * self.unit_us;
        let is_noticed = time_us >= self.unnoticed_us * over.len() as f64;
        let mean_us = if is_noticed { time_us / count } else { 1.0 };
        (count >= self.min_count).then_some((mean_us, count))
    }
}
