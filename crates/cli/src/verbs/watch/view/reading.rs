//! Reads series for the view: current values, recent increases, and means over operations.
//!
//! There is no figure for a moment that was not read. A series that is late, and every series of a server that is silent, has no
//! current value: an old number among new ones would be taken for a new one. Rates and means begin after the last gap, so that the
//! seconds before it do not count for those after it.

use fathom_explain::Evidence;
use fathom_record::{Point, Series};
use serde::Serialize;

pub(super) const SECOND_NS: u64 = 1_000_000_000;
/// The span of rates and means: short enough to show a change, long enough not to flicker.
pub(super) const LATELY_NS: u64 = 10 * SECOND_NS;
/// The longest period of samplers: that of a series whose period is not known yet, since it has one point.
const MAX_PERIOD_NS: u64 = 10 * SECOND_NS;
/// A series' period is the shortest distance of so many of its last points: a gap is no longer period.
const PERIOD_POINTS: usize = 5;
/// Series of a server that its own sampler does not read: those that the set or the router tells, and those of the host.
const OF_OTHERS: [&str; 3] = ["replication.", "sharding.", "process."];

/// Whether a server is read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MemberCondition {
    Up,
    /// Its answer is late by two intervals.
    Stalled,
    /// Its last answer was none: the connection failed, or the time was over.
    Down,
}

impl MemberCondition {
    /// The word for a server that is not up.
    pub(crate) fn alarm(self) -> Option<&'static str> {
        match self {
            MemberCondition::Up => None,
            MemberCondition::Stalled => Some("STALLED"),
            MemberCondition::Down => Some("DOWN"),
        }
    }
}

/// The evidence as seen from a moment.
#[derive(Clone, Copy)]
pub(super) struct EvidenceView<'e> {
    pub(super) evidence: &'e Evidence,
    /// The present moment, which advances while nothing is read.
    pub(super) now_ns: u64,
    /// The interval at which servers are read, and readings come: a second at least.
    pub(super) interval_ns: u64,
}

impl<'e> EvidenceView<'e> {
    pub(super) fn series(&self, name: &str) -> Option<&'e Series> {
        self.evidence.series.get(name)
    }

    /// Whether a server answers; `None` before the first request.
    pub(super) fn condition(&self, number: &str) -> Option<MemberCondition> {
        let up = self.series(&format!("server.{number}.up"));
        // A recording need not say whether the server was up.
        let read = up.or_else(|| self.series(&format!("server.{number}.reads.operations")))?;
        let last = read.points.last()?;
        let period_ns = self.period_ns(&read.points).unwrap_or(self.interval_ns);
        Some(if up.is_some() && last.value == 0.0 {
            MemberCondition::Down
        } else if last.end_ns.saturating_add(2 * period_ns) <= self.now_ns {
            MemberCondition::Stalled
        } else {
            MemberCondition::Up
        })
    }

    /// The distance of a series' points, an interval at least; `None` if it has one.
    fn period_ns(&self, points: &[Point]) -> Option<u64> {
        let last = points.get(points.len().saturating_sub(PERIOD_POINTS)..).unwrap_or_default();
        let distance = |pair: &[Point]| match pair {
            [before, after] => Some(after.end_ns.saturating_sub(before.end_ns)),
            _ => None,
        };
        last.windows(2).filter_map(distance).min().map(|period_ns| period_ns.max(self.interval_ns))
    }

    fn is_of_silent_server(&self, name: &str) -> bool {
        let Some((number, what)) = name.strip_prefix("server.").and_then(|rest| rest.split_once('.')) else {
            return false;
        };
        !OF_OTHERS.iter().any(|others| what.starts_with(others))
            && self.condition(number).is_some_and(|condition| condition != MemberCondition::Up)
    }

    /// The points since the last gap; empty if the series is not read now. A point may come half a period late.
    fn read_now(&self, name: &str) -> &'e [Point] {
        let points = self.series(name).map_or(&[][..], |series| &series.points);
        let Some(last) = points.last().filter(|_| !self.is_of_silent_server(name)) else { return &[] };
        let period_ns = self.period_ns(points).unwrap_or(MAX_PERIOD_NS);
        let late_ns = period_ns + period_ns / 2;
        if last.end_ns.saturating_add(late_ns) < self.now_ns {
            return &[];
        }
        let is_gap = |pair: &[Point]| match pair {
            [before, after] => after.begin_ns.saturating_sub(before.end_ns) > late_ns,
            _ => false,
        };
        let from = points.windows(2).rposition(is_gap).map_or(0, |gap| gap + 1);
        points.get(from..).unwrap_or_default()
    }

    /// The last point, if the series is read now.
    pub(super) fn last(&self, name: &str) -> Option<f64> {
        self.read_now(name).last().map(|point| point.value)
    }

    /// The points of the last `span_ns`, also of a series that is not read now.
    pub(super) fn since(&self, name: &str, span_ns: u64) -> &'e [Point] {
        let from_ns = self.now_ns.saturating_sub(span_ns);
        self.series(name).map_or(&[], |series| series.within(from_ns, self.now_ns))
    }

    fn lately(&self, name: &str) -> &'e [Point] {
        let points = self.read_now(name);
        let from_ns = self.now_ns.saturating_sub(LATELY_NS);
        points.get(points.partition_point(|point| point.end_ns <= from_ns)..).unwrap_or_default()
    }

    /// The recent increase of a counter, and the seconds that it took.
    pub(super) fn added(&self, name: &str) -> Option<(f64, f64)> {
        let points = self.lately(name);
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
        let points = self.lately(name);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A second's increase of ten, at each of these seconds, after the second before or after the last reading.
    fn evidence(name: &str, seconds: &[u64], after_gaps: bool) -> Evidence {
        let mut evidence = Evidence::default();
        let mut before = None;
        for second in seconds {
            let begin = before.filter(|_| after_gaps).unwrap_or(second - 1);
            let (begin_ns, end_ns) = (begin * SECOND_NS, second * SECOND_NS);
            let value = 10.0 * (second - begin) as f64;
            evidence.series.add(name, "1", Point { begin_ns, end_ns, value });
            before = Some(*second);
        }
        evidence
    }

    fn look(evidence: &Evidence, now_ms: u64) -> EvidenceView<'_> {
        EvidenceView { evidence, now_ns: now_ms * 1_000_000, interval_ns: SECOND_NS }
    }

    #[test]
    fn a_moment_that_was_not_read_has_no_figure() {
        let evidence = evidence("device.a.reads", &[1, 2, 3, 4, 5], false);
        let rate = |now_ms: u64| look(&evidence, now_ms).rate("device.a.reads");
        assert_eq!([rate(5000), rate(6400)], [Some(10.0); 2], "the next reading is due");
        assert_eq!([rate(6600), rate(60_000)], [None; 2]);
        assert_eq!(look(&evidence, 60_000).since("device.a.reads", u64::MAX).len(), 5, "the history stays");
    }

    #[test]
    fn figures_begin_after_the_last_gap() {
        // It was not read for seconds, and what was added meanwhile is not known.
        let restarted = evidence("device.a.reads", &[1, 2, 3, 7, 8], false);
        assert_eq!(look(&restarted, 8000).added("device.a.reads"), Some((20.0, 2.0)));
        // The next reading covers the seconds: they passed, and count.
        let paused = evidence("device.a.reads", &[1, 2, 3, 7, 8], true);
        assert_eq!(look(&paused, 8000).added("device.a.reads"), Some((80.0, 8.0)));
    }

    #[test]
    fn a_slow_series_is_late_by_its_own_period() {
        let evidence = evidence("server.0.sharding.chunks", &[10, 20, 30], false);
        let last = |now_ms: u64| look(&evidence, now_ms).last("server.0.sharding.chunks");
        assert_eq!([last(44_000), last(46_000)], [Some(10.0), None]);
        let mut one = Evidence::default();
        one.series.add("host.x", "1", Point { begin_ns: 0, end_ns: 0, value: 1.0 });
        assert_eq!([14_000, 16_000].map(|now_ms| look(&one, now_ms).last("host.x")), [Some(1.0), None]);
    }

    #[test]
    fn a_server_is_stalled_after_two_intervals_and_down_when_it_failed_to_answer() {
        let mut evidence = evidence("server.0.reads.operations", &[1, 2, 3, 4, 5], false);
        let condition = |evidence: &Evidence, now_ms| look(evidence, now_ms).condition("0");
        let (up, stalled) = (Some(MemberCondition::Up), Some(MemberCondition::Stalled));
        assert_eq!([6900, 7000].map(|now_ms| condition(&evidence, now_ms)), [up, stalled], "a recording");
        for second in 1..=5 {
            let (begin_ns, end_ns) = ((second - 1) * SECOND_NS, second * SECOND_NS);
            for (name, value) in [("up", 1.0), ("tickets.read.out", 3.0), ("process.cpu_us", 1.0)] {
                evidence.series.add(&format!("server.0.{name}"), "1", Point { begin_ns, end_ns, value });
            }
        }
        assert_eq!([6900, 7000].map(|now_ms| condition(&evidence, now_ms)), [up, stalled]);
        assert_eq!(look(&evidence, 5100).last("server.0.tickets.read.out"), Some(3.0));
        let failed = Point { begin_ns: 5 * SECOND_NS, end_ns: 5 * SECOND_NS + 1000, value: 0.0 };
        evidence.series.add("server.0.up", "1", failed);
        // The second before was read, but the server that is shown as down has no figures.
        let down = look(&evidence, 5100);
        assert_eq!(down.condition("0"), Some(MemberCondition::Down));
        assert_eq!(
            (down.last("server.0.tickets.read.out"), down.rate("server.0.reads.operations")),
            (None, None)
        );
        assert_eq!(down.last("server.0.process.cpu_us"), Some(1.0), "the host tells");
        assert_eq!(condition(&evidence, 600_000), Some(MemberCondition::Down));
        assert_eq!(look(&evidence, 600_000).condition("7"), None, "it was never asked");
    }
}
