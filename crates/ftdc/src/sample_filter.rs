//! Selects the samples of a recording that count: each once, and within a time range.
//!
//! The interim file repeats samples of the newest archive file, and after a crash the next process writes those of its predecessor's interim file
//! again. The time at which a sample began identifies it.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use fathom_errors::Result;

use crate::chunk::MetricChunk;

/// Remembers which samples of each directory were seen.
#[derive(Debug)]
pub struct SampleFilter {
    range_ms: RangeInclusive<i64>,
    seen: HashMap<String, HashSet<i64>>,
}

/// The samples of a chunk that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleRows {
    /// Their rows in the columns of the chunk.
    pub rows: Vec<usize>,
    /// The start time of each of them, in milliseconds since 1970 in UTC.
    pub starts_ms: Vec<i64>,
    /// Samples of the chunk that were seen before.
    pub repeated: usize,
}

impl SampleFilter {
    /// A filter for samples that begin within a range, in milliseconds since 1970 in UTC.
    pub fn new(range_ms: RangeInclusive<i64>) -> SampleFilter {
        SampleFilter { range_ms, seen: HashMap::new() }
    }

    /// Frees the memory of a directory that was read whole.
    pub fn forget(&mut self, directory: &str) {
        self.seen.remove(directory);
    }

    /// The samples of a chunk that are within the range and were not seen before in a file of this directory.
    ///
    /// # Errors
    /// If the chunk is damaged.
    pub fn rows(&mut self, directory: &str, chunk: &MetricChunk<'_>) -> Result<SampleRows> {
        let seen = self.seen.entry(directory.to_owned()).or_default();
        let mut found = SampleRows::default();
        let start = chunk.metrics().iter().position(|metric| metric.path == "start");
        chunk.columns(
            |number| Some(number) == start,
            |_, starts_ms| {
                for (row, start_ms) in starts_ms.iter().enumerate() {
                    if !self.range_ms.contains(start_ms) {
                        continue;
                    }
                    if seen.insert(*start_ms) {
                        found.rows.push(row);
                        found.starts_ms.push(*start_ms);
                    } else {
                        found.repeated += 1;
                    }
                }
            },
        )?;
        Ok(found)
    }
}
