//! The recent window of a monitored system: its series of the last minutes, the facts of its servers, and notes on data that could not be read.
//!
//! It holds only the data that a judgement needs, so that the memory of a view that runs for days does not grow.

use std::time::Duration;

use fathom_explain::Evidence;
use fathom_monitor::Batch;
use fathom_record::disk::Entry;
use fathom_record::{Point, Reading};

/// The largest number of results; the slow operations of a bad hour must not fill memory.
const MAX_RESULTS: usize = 10_000;

/// The last minutes, or everything.
#[derive(Debug, Default)]
pub struct RecentWindow {
    /// The evidence for a judgement.
    pub evidence: Evidence,
    /// One sentence for each thing that could not be read.
    pub notes: Vec<String>,
    /// The length of the window; without a limit if absent.
    hindsight_ns: Option<u64>,
    now_ns: u64,
}

impl RecentWindow {
    /// An empty window that reaches back over `hindsight`, or over everything. `seed` is that of the judgement's random streams.
    pub fn new(hindsight: Option<Duration>, seed: u64) -> RecentWindow {
        let hindsight_ns = hindsight.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        RecentWindow {
            evidence: Evidence { seed, ..Evidence::default() },
            hindsight_ns,
            ..RecentWindow::default()
        }
    }

    /// The end of the newest window, on the run's clock.
    pub fn newest_ns(&self) -> u64 {
        self.evidence.window_ns.1
    }

    /// The present moment on the run's clock: that of the last [`RecentWindow::pass`], or of a reading after it.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.max(self.newest_ns())
    }

    /// Lets the time go on to a moment, also if nothing was read since.
    pub fn pass(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// Adds a batch of a sampler.
    pub fn add(&mut self, batch: &Batch) {
        self.readings(&batch.readings);
        self.evidence.results.extend(batch.entries.iter().cloned());
        self.forget_work();
        let surplus = self.evidence.results.len().saturating_sub(MAX_RESULTS);
        self.evidence.results.drain(..surplus);
        self.evidence.environment.extend(batch.facts.iter().cloned());
        for note in &batch.notes {
            self.note(note);
        }
    }

    /// Removes the work of servers from before the window: it comes every second, and must not displace rare results.
    fn forget_work(&mut self) {
        let Some(hindsight_ns) = self.hindsight_ns else { return };
        let from_ns = self.newest_ns().saturating_sub(hindsight_ns);
        self.evidence
            .results
            .retain(|entry| !matches!(entry, Entry::ServerWork(work) if work.end_ns < from_ns));
    }

    pub fn readings(&mut self, readings: &[Reading]) {
        let is_first = self.evidence.window_ns == (0, 0);
        for reading in readings.iter().filter(|reading| reading.value.is_finite()) {
            let point = Point { begin_ns: reading.begin_ns, end_ns: reading.end_ns, value: reading.value };
            self.evidence.series.add(&reading.name, &reading.unit, point);
            self.evidence.window_ns.1 = self.evidence.window_ns.1.max(reading.end_ns);
        }
        if is_first {
            let begin_ns = readings.iter().map(|reading| reading.begin_ns).min();
            self.evidence.window_ns.0 = begin_ns.unwrap_or(0);
        }
        if let Some(hindsight_ns) = self.hindsight_ns {
            let from_ns = self.newest_ns().saturating_sub(hindsight_ns);
            self.evidence.series.forget_until(from_ns);
            self.evidence.window_ns.0 = self.evidence.window_ns.0.max(from_ns);
        }
    }

    /// Adds a sentence about data that could not be read, once.
    pub fn note(&mut self, sentence: &str) {
        if !self.notes.iter().any(|known| known == sentence) {
            self.notes.push(sentence.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn it_looks_back_so_far_and_no_further() {
        let mut recent = RecentWindow::new(Some(Duration::from_secs(10)), 1);
        for second in 0..60 {
            let window = (second * SECOND_NS, (second + 1) * SECOND_NS);
            recent.readings(&[Reading::new("a", "1", window, 1.0), Reading::new("b", "1", window, f64::NAN)]);
        }
        assert_eq!(recent.evidence.window_ns, (50 * SECOND_NS, 60 * SECOND_NS));
        assert_eq!(recent.evidence.sum("a"), Some(10.0));
        assert_eq!(recent.evidence.sum("b"), None);
        recent.note("x");
        recent.note("x");
        assert_eq!(recent.notes, ["x"]);
    }
}
