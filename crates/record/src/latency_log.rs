//! A log of histograms, interval by interval, in HdrHistogram's own format: other tools read it as it is.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use fathom_errors::{Error, Kind, Result};
use fathom_stats::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;

/// A log being written; what was added is on disk at once.
#[derive(Debug)]
pub struct LatencyLog {
    path: PathBuf,
    file: File,
    started: SystemTime,
    begun: bool,
}

impl LatencyLog {
    /// Makes it, or goes on behind what is there. Times in it count from `started`.
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
            // Start and base both, since readers guess when one is missing (hdrhistogram's own docs).
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
