//! How the view reads series: what is current, what was added lately, means over operations.
//!
//! What was not read lately is not there: an old number beside new ones would be taken for a new one.

use fathom_explain::Evidence;
use fathom_record::{Point, Series};

pub(super) const SECOND_NS: u64 = 1_000_000_000;
/// Rates and means are over this: short enough to see a change, long enough not to flicker.
pub(super) const LATELY_NS: u64 = 10 * SECOND_NS;
/// A gauge older than this is not shown; the slowest sampler reads every ten seconds.
const FRESH_NS: u64 = 25 * SECOND_NS;

/// A look at the evidence from its newest moment.
#[derive(Clone, Copy)]
pub(super) struct Look<'e> {
    pub(super) evidence: &'e Evidence,
}

impl<'e> Look<'e> {
    pub(super) fn newest_ns(&self) -> u64 {
        self.evidence.window_ns.1
    }

    pub(super) fn series(&self, name: &str) -> Option<&'e Series> {
        self.evidence.series.get(name)
    }

    /// The last point, where it is fresh.
    pub(super) fn last(&self, name: &str) -> Option<f64> {
        let point = self.series(name)?.points.last()?;
        (point.end_ns + FRESH_NS >= self.newest_ns()).then_some(point.value)
    }

    /// The points of the last `span_ns`.
    pub(super) fn since(&self, name: &str, span_ns: u64) -> &'e [Point] {
        let newest_ns = self.newest_ns();
        self.series(name).map_or(&[], |series| series.within(newest_ns.saturating_sub(span_ns), newest_ns))
    }

    /// What was added lately, and over how many seconds.
    pub(super) fn added(&self, name: &str) -> Option<(f64, f64)> {
        let points = self.since(name, LATELY_NS);
        let covered_ns: u64 = points.iter().map(|point| point.end_ns.saturating_sub(point.begin_ns)).sum();
        let sum = points.iter().map(|point| point.value).sum();
        (covered_ns > 0).then(|| (sum, covered_ns as f64 / SECOND_NS as f64))
    }

    /// What was added a second lately.
    pub(super) fn rate(&self, name: &str) -> Option<f64> {
        self.added(name).map(|(sum, seconds)| sum / seconds)
    }

    /// A sum of times over a sum of events lately; none where nothing happened.
    pub(super) fn mean(&self, times: &str, events: &str) -> Option<f64> {
        let ((time, _), (count, _)) = (self.added(times)?, self.added(events)?);
        (count > 0.0).then(|| time / count)
    }

    /// The mean of a gauge lately.
    pub(super) fn level(&self, name: &str) -> Option<f64> {
        let points = self.since(name, LATELY_NS);
        (!points.is_empty())
            .then(|| points.iter().map(|point| point.value).sum::<f64>() / points.len() as f64)
    }

    /// A fact about the run.
    pub(super) fn fact(&self, name: &str) -> Option<&'e str> {
        self.evidence.environment.get(name).map(String::as_str)
    }

    /// The first words after a prefix, in order, once each: the devices of `device.`, which may hold dots, by a known ending.
    pub(super) fn named(&self, prefix: &str, ending: &str) -> Vec<String> {
        let names = self.evidence.series.starting(prefix);
        names.filter_map(|(name, _)| name.strip_suffix(ending)).map(str::to_owned).collect()
    }
}
