//! The interface of a sampler: one source, read repeatedly; its readings, and its state between them.
//!
//! All samplers of a run have one clock: nanoseconds since the run's start, monotonic. A running total becomes the
//! growth in each window, a note is made once and not each second, and a part may be due less often than its sampler.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use fathom_errors::Result;
use fathom_record::Reading;
use fathom_record::disk::Entry;
use fathom_stats::Histogram;

use crate::Clock;

/// One source of readings. It runs on its own thread or with others of its period, never on a thread of the load.
pub trait Sampler: Send {
    /// Its name in the table of samplers and in `monitor.{sampler}.…` (`diskstats`, `server.0`).
    fn name(&self) -> String;

    /// Reads its source once and adds the readings. The first call has no window yet and only remembers the counters.
    ///
    /// # Errors When the source cannot be read this time. The next call tries again, and the gap in the series remains.
    fn sample(&mut self, batch: &mut Batch) -> Result<()>;
}

/// Readings and notes on their way to the run folder and to live views.
#[derive(Debug)]
pub struct Batch {
    /// The clock that all samplers of a run share.
    pub clock: Clock,
    pub readings: Vec<Reading>,
    /// Typed results (slow operations, events).
    pub entries: Vec<Entry>,
    /// Whole distributions for latency logs: name, window in nanoseconds since the run's start, and the histogram of the window.
    pub histograms: Vec<(String, (u64, u64), Histogram)>,
    /// Facts for the manifest's environment (`server.0.engine`).
    pub facts: Vec<(String, String)>,
    /// Sources that could not be read and the finding that is lost, a sentence each; a sampler makes each note once.
    pub notes: Vec<String>,
}

impl Batch {
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

    /// Returns whether it holds nothing.
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

/// The notes that a sampler has made.
#[derive(Debug, Default)]
pub struct Notes {
    said: HashSet<String>,
}

impl Notes {
    /// Adds a note, unless it was made before.
    pub fn once(&mut self, batch: &mut Batch, what: impl Into<String>) {
        let what = what.into();
        if self.said.insert(what.clone()) {
            batch.notes.push(what);
        }
    }
}

/// The totals that one source had when it was last read.
#[derive(Debug, Default)]
pub struct Sums {
    last: HashMap<String, (u64, f64)>,
}

impl Sums {
    /// Takes a total that was read at `at_ns` and adds its growth since the last reading. The first reading of a name, and one
    /// below the last (the source was restarted), add nothing and start over.
    pub fn put(&mut self, batch: &mut Batch, name: &str, unit: &str, at_ns: u64, total: f64) {
        match self.last.get_mut(name) {
            Some((last_ns, last)) => {
                let (begin_ns, before) = (*last_ns, *last);
                (*last_ns, *last) = (at_ns, total);
                if total >= before && at_ns > begin_ns {
                    batch.put(name, unit, (begin_ns, at_ns), total - before);
                }
            }
            None => drop(self.last.insert(name.to_owned(), (at_ns, total))),
        }
    }

    /// Forgets all totals, because the source is now another one.
    pub fn restart(&mut self) {
        self.last.clear();
    }
}

/// A period, and the time at which the work is next due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeriodTimer {
    period_ns: u64,
    next_ns: u64,
}

impl PeriodTimer {
    /// Due at once, and then each `period`.
    pub(crate) fn new(period: Duration) -> PeriodTimer {
        PeriodTimer { period_ns: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX), next_ns: 0 }
    }

    /// Returns whether it is due, within a tenth of the period: the sampler's own turns are not that exact.
    pub(crate) fn due(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_add(self.period_ns / 10) < self.next_ns {
            return false;
        }
        self.next_ns = now_ns.saturating_add(self.period_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_that_fell_leaves_a_gap() {
        let mut batch = Batch::new(Clock::simulated(&[]));
        let mut sums = Sums::default();
        for (at_ns, total) in [(1, 10.0), (2, 15.0), (3, 2.0), (4, 5.0)] {
            sums.put(&mut batch, "a", "1", at_ns, total);
        }
        let windows: Vec<_> = batch.readings.iter().map(|r| (r.begin_ns, r.end_ns, r.value)).collect();
        assert_eq!(windows, [(1, 2, 5.0), (3, 4, 3.0)]);
    }

    #[test]
    fn it_is_due_at_once_and_then_each_period() {
        let mut every = PeriodTimer::new(Duration::from_nanos(100));
        let due: Vec<u64> = [0, 50, 91, 150, 191, 1000].into_iter().filter(|now| every.due(*now)).collect();
        assert_eq!(due, [0, 91, 191, 1000]);
    }
}
