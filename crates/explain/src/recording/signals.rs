//! Table: the figures by which incidents of a recording are found.

use super::bins::Bins;

/// A mean that grows during incidents.
#[derive(Debug)]
pub(super) struct Signal {
    /// The subject of the mean, for sentences.
    pub(super) words: &'static str,
    /// Series after `server.{member}.` that are summed up.
    time: &'static [&'static str],
    /// The series that the sum is divided by.
    count: &'static str,
    /// The fewest in ten seconds for a mean.
    min_count: f64,
    /// The least growth, in microseconds.
    pub(super) min_growth_us: f64,
    /// The least factor of growth.
    pub(super) min_ratio: f64,
    /// Whether all of it is a wait of clients.
    pub(super) is_operations: bool,
}

pub(super) static SIGNALS: &[Signal] = &[
    Signal {
        words: "a read within the server",
        time: &["reads.latency_us"],
        count: "reads.operations",
        min_count: 10.0,
        min_growth_us: 50.0,
        min_ratio: 1.25,
        is_operations: true,
    },
    Signal {
        words: "a write within the server",
        time: &["writes.latency_us"],
        count: "writes.operations",
        min_count: 10.0,
        min_growth_us: 50.0,
        min_ratio: 1.25,
        is_operations: true,
    },
    Signal {
        words: "a sync of the journal",
        time: &["journal.sync_us"],
        count: "journal.syncs",
        min_count: 0.5,
        min_growth_us: 20_000.0,
        min_ratio: 2.0,
        is_operations: false,
    },
    Signal {
        words: "a read of a page",
        time: &["wait.page_read_us"],
        count: "pages.read",
        min_count: 10.0,
        min_growth_us: 1000.0,
        min_ratio: 2.0,
        is_operations: false,
    },
];

impl Signal {
    /// The mean of each bin in microseconds, with the count; `None` if there are too few.
    pub(super) fn means_us(&self, bins: &Bins, member: usize) -> Vec<Option<(f64, f64)>> {
        (0..bins.len()).map(|bin| self.mean_us(bins, member, &[bin])).collect()
    }

    /// The mean over bins in microseconds, with the count.
    pub(super) fn mean_us(&self, bins: &Bins, member: usize, over: &[usize]) -> Option<(f64, f64)> {
        let count = bins.sum(&format!("server.{member}.{}", self.count), over)?;
        let names: Vec<String> = self.time.iter().map(|time| format!("server.{member}.{time}")).collect();
        let time_us = bins.sum_of(&names, over)?;
        (count >= self.min_count).then(|| (time_us / count, count))
    }
}
