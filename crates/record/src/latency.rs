//! The latencies of a run over its time. A map counts the operations of each second by latency, for a heat map. Whole
//! histograms, interval by interval, are in a log in HdrHistogram's own format, which other tools can read.
//!
//! The map has eight latency rows for each power of ten, so that a row is 33 % wide: finer rows are not visible on a page.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use fathom_errors::{Error, Kind, Result};
use fathom_stats::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;

/// Rows for each power of ten of nanoseconds.
const ROWS_PER_DECADE: f64 = 8.0;
const SECOND_NS: u64 = 1_000_000_000;

/// Counts of operations by second and by latency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyMap {
    /// Counts by second since the run's start, then by row.
    seconds: BTreeMap<u64, BTreeMap<u32, u64>>,
}

impl LatencyMap {
    /// Adds the operations of an interval to the second in which it ended.
    pub fn add(&mut self, window_ns: (u64, u64), histogram: &Histogram) {
        let rows = self.seconds.entry(window_ns.1.saturating_sub(1) / SECOND_NS).or_default();
        for (latency_ns, count) in histogram.buckets() {
            *rows.entry(row(latency_ns)).or_default() += count;
        }
    }

    /// The number of seconds with operations.
    pub fn seconds(&self) -> usize {
        self.seconds.len()
    }

    /// One more than the last second that has operations.
    pub fn end_s(&self) -> u64 {
        self.seconds.last_key_value().map_or(0, |(second, _)| second + 1)
    }

    /// Operations in steps of `step_s` seconds, at least 1: by step and row, without empty ones.
    pub fn cells(&self, step_s: u64) -> BTreeMap<(u64, u32), u64> {
        let mut cells = BTreeMap::new();
        for (second, rows) in &self.seconds {
            for (row, count) in rows {
                *cells.entry((second / step_s.max(1), *row)).or_default() += count;
            }
        }
        cells
    }

    /// The latencies of a row in nanoseconds: the lower bound, included, and the upper bound, excluded.
    pub fn row_ns(row: u32) -> (f64, f64) {
        let edge = |row: u32| 10f64.powf(f64::from(row) / ROWS_PER_DECADE);
        (edge(row), edge(row + 1))
    }
}

fn row(latency_ns: u64) -> u32 {
    ((latency_ns.max(1) as f64).log10() * ROWS_PER_DECADE + 1e-9).floor() as u32
}

/// A log during writing; added intervals are on disk at once.
#[derive(Debug)]
pub struct LatencyLog {
    path: PathBuf,
    file: File,
    started: SystemTime,
    begun: bool,
}

impl LatencyLog {
    /// Creates the log, or appends to the one that exists. Times in it count from `started`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: PathBuf, started: SystemTime) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|e| Error::io("create", &path, e))?;
        Ok(LatencyLog { path, file, started, begun: false })
    }

    /// Adds an interval's histogram.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, window_ns: (u64, u64), histogram: &Histogram) -> Result<()> {
        let mut text = Vec::new();
        let mut builder = IntervalLogWriterBuilder::new();
        if !self.begun {
            // Both start and base are written, because readers guess if one is missing (hdrhistogram's own docs).
            builder.add_comment("latency in ns, maximum in ms; times in seconds from the run's start");
            builder.with_start_time(self.started).with_base_time(self.started);
            self.begun = true;
        }
        // Each block names the divisor again; readers take the last one.
        builder.with_max_value_divisor(1e6);
        let mut serializer = V2DeflateSerializer::new();
        let begin = Duration::from_nanos(window_ns.0);
        let length = Duration::from_nanos(window_ns.1.saturating_sub(window_ns.0));
        let written = builder
            .begin_log_with(&mut text, &mut serializer)
            .map_err(|e| Error::io("write", &self.path, e))?
            .write_histogram(histogram.counts(), begin, length, None);
        written.map_err(|e| {
            Error::new(Kind::Io, format!("cannot encode {}", self.path.display())).because(e.to_string())
        })?;
        self.file.write_all(&text).map_err(|e| Error::io("write", &self.path, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_stand_in_their_second_and_row() {
        let mut map = LatencyMap::default();
        let mut histogram = Histogram::new();
        (0..30).for_each(|_| histogram.record(1_000_000));
        histogram.record(1_340_000);
        map.add((0, SECOND_NS), &histogram);
        map.add((5 * SECOND_NS, 6 * SECOND_NS), &histogram);
        assert_eq!((map.end_s(), map.seconds()), (6, 2));
        // A histogram keeps three digits, so its value may be slightly lower.
        let cells = map.cells(3);
        let of =
            |step: u64| cells.range((step, 0)..(step + 1, 0)).map(|(_, count)| *count).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![30, 1], vec![30, 1]));
        let (from, to) = LatencyMap::row_ns(48);
        assert!((from - 1e6).abs() < 1.0 && (to / from - 1.333_5).abs() < 1e-3);
    }
}
