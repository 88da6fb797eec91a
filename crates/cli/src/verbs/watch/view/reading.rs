//! Reads series for the view: current values, recent increases, and means over operations.
//!
//! A series without recent readings is not shown: an old number among new ones would be taken for a new one.

use fathom_explain::Evidence;
use fathom_record::{Point, Series};

pub(super) const SECOND_NS: u64 = 1_000_000_000;
/// The span of rates and means: short enough to show a change, long enough not to flicker.
pub(super) const LATELY_NS: u64 = 10 * SECOND_NS;
/// A gauge older than this is not shown; the slowest sampler reads every ten seconds.
const FRESH_NS: u64 = 25 * SECOND_NS;

/// The evidence as seen from its newest moment.
#[derive(Clone, Copy)]
pub(super) struct EvidenceLook<'e> {
    pub(super) evidence: &'e Evidence,
}

impl<'e> EvidenceLook<'e> {
    pub(super) fn newest_ns(&self) -> u64 {
        self.evidence.window_ns.1
    }

    pub(super) fn series(&self, name: &str) -> Option<&'e Series> {
        self.evidence.series.get(name)
    }

    /// The last point, if it is fresh.
    pub(super) fn last(&self, name: &str) -> Option<f64> {
        let point = self.series(name)?.points.last()?;
        (point.end_ns + FRESH_NS >= self.newest_ns()).then_some(point.value)
    }

    /// The points of the last `span_ns`.
    pub(super) fn since(&self, name: &str, span_ns: u64) -> &'e [Point] {
        let newest_ns = self.newest_ns();
        self.series(name).map_or(&[], |series| series.within(newest_ns.saturating_sub(span_ns), newest_ns))
    }

    /// The recent increase of a counter, and the seconds that it took.
    pub(super) fn added(&self, name: &str) -> Option<(f64, f64)> {
        let points = self.since(name, LATELY_NS);
        let covered_ns: u64 = points.iter().map(|point| point.end_ns.saturating_sub(point.begin_ns)).sum();
        let sum = points.iter().map(|point| point.value).sum();
        (covered_ns > 0).then(|| (sum, covered_ns as f64 / SECOND_NS as f64))
    }

    /// The recent increase of a counter per second.
    pub(super) fn rate(&self, name: &str) -> Option<f64> {
        self.added(name).map(|(sum, seconds)| sum / seconds)
    }

    /// A sum of recent times over a sum of events; `None` without events.
    pub(super) fn mean(&self, times: &str, events: &str) -> Option<f64> {
        let ((time, _), (count, _)) = (self.added(times)?, self.added(events)?);
        (count > 0.0).then(|| time / count)
    }

    /// The recent mean of a gauge.
    pub(super) fn level(&self, name: &str) -> Option<f64> {
        let points = self.since(name, LATELY_NS);
        (!points.is_empty())
            .then(|| points.iter().map(|point| point.value).sum::<f64>() / points.len() as f64)
    }

    /// A fact about the run.
    pub(super) fn fact(&self, name: &str) -> Option<&'e str> {
        self.evidence.environment.get(name).map(String::as_str)
    }

    /// The first words after a prefix, in order, once each. For example, the devices of `device.`, whose names may contain dots, by a known ending.
    pub(super) fn named(&self, prefix: &str, ending: &str) -> Vec<String> {
        let names = self.evidence.series.starting(prefix);
        names.filter_map(|(name, _)| name.strip_suffix(ending)).map(str::to_owned).collect()
    }
}
