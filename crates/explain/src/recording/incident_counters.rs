//! Counters of an incident and of the calm around it, by kind of operation: a log that is read later may need them.

use fathom_record::incident::Incident;
use fathom_stats::quantile;

use super::bins::Bins;

/// The bins on either side of an incident in which calm is sought: half an hour.
const MAX_CALM_BINS: usize = 180;
/// The bins next to an incident, which hold some of its seconds.
const MARGIN_BINS: usize = 1;
/// The fewest operations of a kind that show its mean time.
const MIN_OPERATIONS: f64 = 100.0;
/// The same of one bin of the calm.
const MIN_BIN_OPERATIONS: f64 = 10.0;
/// The kinds of changes of documents, as the server counts them.
const CHANGES: [&str; 3] = ["inserted", "updated", "deleted"];

/// A figure in an incident and usually.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ComparedFigure {
    pub(super) now: f64,
    pub(super) usual: f64,
}

/// The mean time of reads or of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct KindTimes {
    pub(super) mean_us: ComparedFigure,
    /// The number in the incident.
    pub(super) count: f64,
}

/// The counters of one incident. A figure that was not recorded, or that too few operations have, is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IncidentCounters {
    pub(super) reads: Option<KindTimes>,
    pub(super) writes: Option<KindTimes>,
    /// Documents a second that were inserted, updated and deleted.
    pub(super) changed_per_s: [Option<ComparedFigure>; 3],
    /// Documents a second that queries examined.
    pub(super) examined_per_s: Option<ComparedFigure>,
    /// The part of the processors' time in the incident in which nothing ran, in percent.
    pub(super) idle_pct: Option<f64>,
}

impl IncidentCounters {
    /// The counters of each incident of one server.
    pub(super) fn of_incidents(bins: &Bins, member: usize, incidents: &[Incident]) -> Vec<IncidentCounters> {
        let ns = |ms: i64| u64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000);
        let touched: Vec<(usize, usize)> = incidents
            .iter()
            .map(|incident| bins.bins_of((ns(incident.begin_ms), ns(incident.end_ms))))
            .map(|range| (range.start, range.end))
            .collect();
        let mut is_calm = vec![true; bins.len()];
        for (begin, end) in &touched {
            let around = begin.saturating_sub(MARGIN_BINS)..(end + MARGIN_BINS).min(bins.len());
            is_calm.get_mut(around).into_iter().flatten().for_each(|calm| *calm = false);
        }
        let counters = |(begin, end): &(usize, usize)| {
            let over: Vec<usize> = (*begin..*end).collect();
            let near = begin.saturating_sub(MAX_CALM_BINS)..(end + MAX_CALM_BINS).min(bins.len());
            let calm: Vec<usize> = near.filter(|bin| is_calm.get(*bin).copied().unwrap_or(false)).collect();
            IncidentCounters::from_bins(bins, member, &over, &calm)
        };
        touched.iter().map(counters).collect()
    }

    fn from_bins(bins: &Bins, member: usize, over: &[usize], calm: &[usize]) -> IncidentCounters {
        // Of the calm the median bin: another phase of the work, such as the loading of the data, may be in some of them.
        let usual = |figure: &dyn Fn(&[usize]) -> Option<f64>| {
            let of_bins: Vec<f64> = calm.iter().filter_map(|bin| figure(&[*bin])).collect();
            quantile(&of_bins, 0.5)
        };
        let rate = |name: &str| {
            let name = format!("server.{member}.{name}");
            let figure = |over: &[usize]| bins.rate(&name, over).filter(|rate| rate.is_finite());
            Some(ComparedFigure { now: figure(over)?, usual: usual(&figure).unwrap_or(0.0) })
        };
        let kind = |name: &str| {
            let mean = |over: &[usize], least: f64| {
                let sum = |tail: &str| bins.sum(&format!("server.{member}.{name}.{tail}"), over);
                let count = sum("operations").filter(|count| *count >= least)?;
                Some((sum("latency_us")? / count, count))
            };
            let (now, count) = mean(over, MIN_OPERATIONS)?;
            let usual = usual(&|bins| Some(mean(bins, MIN_BIN_OPERATIONS)?.0))?;
            Some(KindTimes { mean_us: ComparedFigure { now, usual }, count })
        };
        IncidentCounters {
            reads: kind("reads"),
            writes: kind("writes"),
            changed_per_s: CHANGES.map(|change| rate(&format!("documents.{change}"))),
            examined_per_s: rate("scan.documents"),
            idle_pct: bins
                .rate("host.cpu.idle_pct", over)
                .map(|idle| idle + bins.rate("host.cpu.iowait_pct", over).unwrap_or(0.0)),
        }
    }
}

impl KindTimes {
    /// The time that these operations took longer than usual, in seconds, and as a share of all their time.
    pub(super) fn lost(&self) -> (f64, f64) {
        let ComparedFigure { now, usual } = self.mean_us;
        let longer_us = (now - usual).max(0.0);
        (longer_us * self.count / 1e6, if now > 0.0 { longer_us / now } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Confidence, Point, SeriesSet};

    use super::super::bins::BIN_NS;
    use super::*;

    #[test]
    fn an_incident_is_compared_with_the_calm_around_it() {
        let mut series = SeriesSet::default();
        for bin in 0..20u64 {
            let is_incident = (8..12).contains(&bin);
            let (begin_ns, end_ns) = (bin * BIN_NS, (bin + 1) * BIN_NS);
            for (name, value) in [
                ("reads.operations", 2000.0),
                ("reads.latency_us", if is_incident { 8e5 } else { 2e5 }),
                // The data were loaded in the first bins.
                ("documents.updated", if bin < 3 { 90_000.0 } else { 1000.0 }),
                ("writes.operations", 5.0),
                ("writes.latency_us", 5000.0),
                ("documents.inserted", if is_incident { 50_000.0 } else { 0.0 }),
            ] {
                series.add(&format!("server.0.{name}"), "1", Point { begin_ns, end_ns, value });
            }
        }
        let mut bins = Bins::default();
        bins.add(&series, &|_| true);
        let incident = Incident {
            member: 0,
            begin_ms: 80_000,
            end_ms: 120_000,
            cause: "unknown".to_owned(),
            domain: None,
            confidence: Confidence::CannotTell,
            sentence: String::new(),
            lost_s: 1.0,
            lost_range_s: None,
            lost_share: 1.0,
            storage_s: 0.0,
            changes: Vec::new(),
            waits: Vec::new(),
            engine_times: Vec::new(),
            evidence: Vec::new(),
            against: Vec::new(),
            next: None,
        };
        let found = IncidentCounters::of_incidents(&bins, 0, &[incident]);
        let [counters] = found.as_slice() else { panic!("{found:#?}") };
        let reads = counters.reads.unwrap();
        assert_eq!((reads.mean_us, reads.count), (ComparedFigure { now: 400.0, usual: 100.0 }, 8000.0));
        let (lost_s, share) = reads.lost();
        assert!((lost_s - 2.4).abs() < 1e-9 && (share - 0.75).abs() < 1e-9, "{lost_s} s, {share}");
        assert_eq!((counters.writes, counters.examined_per_s), (None, None));
        assert_eq!(counters.changed_per_s[0], Some(ComparedFigure { now: 5000.0, usual: 0.0 }));
        assert_eq!(counters.changed_per_s[1], Some(ComparedFigure { now: 100.0, usual: 100.0 }));
    }
}
