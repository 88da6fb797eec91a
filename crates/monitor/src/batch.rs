//! What samplers hand over: readings, and notes about what could not be read.

use fathom_record::Reading;
use fathom_record::disk::Entry;
use fathom_stats::Histogram;

use crate::Clock;

/// Readings and notes on their way to the run folder and to live views.
#[derive(Debug)]
pub struct Batch {
    /// The run's clock.
    pub clock: Clock,
    /// The readings.
    pub readings: Vec<Reading>,
    /// Typed results (slow operations, events).
    pub entries: Vec<Entry>,
    /// Whole distributions for latency logs: name, window in nanoseconds since the run's start, what was counted in it.
    pub histograms: Vec<(String, (u64, u64), Histogram)>,
    /// Facts for the manifest's environment (`server.0.engine`).
    pub facts: Vec<(String, String)>,
    /// What could not be read and which finding that costs, a sentence each; a sampler says each once.
    pub notes: Vec<String>,
}

impl Batch {
    /// An empty one.
    pub fn new(clock: Clock) -> Batch {
        Batch {
            clock,
            readings: Vec::new(),
            entries: Vec::new(),
            histograms: Vec::new(),
            facts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty()
            && self.entries.is_empty()
            && self.histograms.is_empty()
            && self.facts.is_empty()
            && self.notes.is_empty()
    }

    /// Adds a reading over a window.
    pub fn put(&mut self, name: impl Into<String>, unit: &str, window_ns: (u64, u64), value: f64) {
        self.readings.push(Reading::new(name, unit, window_ns, value));
    }
}
