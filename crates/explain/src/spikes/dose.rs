//! Whether larger checkpoints make larger spikes: a cause has a dose.
//!
//! Spearman's correlation over cycles between how much latency rose and what the checkpoint had to write, how long it
//! took, how dirty the cache was when it began, and how much the device had queued. Under a steady load all checkpoints
//! are alike and there is no dose to see, so that a missing dose refutes nothing.

use fathom_record::Point;
use fathom_stats::{EventCycle, RankCorrelation, Seeded, spearman};

use crate::Evidence;
use crate::client::points;

const PERMUTATIONS: usize = 499;
const NS_PER_S: f64 = 1e9;
/// Correlations are called a dose from here on (analysis.md A10).
const STRONG_RHO: f64 = 0.5;

/// A quantity at an event, from the series of that name.
type DoseOf<'d> = &'d dyn Fn(&str, (f64, f64)) -> Option<f64>;

/// One quantity and how it goes with the spikes.
pub(super) struct Dose {
    /// What it is, for sentences.
    pub(super) of: &'static str,
    /// The series it was read from, if it is one.
    pub(super) series: Option<String>,
    /// The correlation over cycles.
    pub(super) correlation: RankCorrelation,
}

impl Dose {
    /// Whether it goes with the spikes.
    pub(super) fn is_strong(&self) -> bool {
        self.correlation.rho > STRONG_RHO && self.correlation.p <= 0.05
    }
}

/// All doses that were read, the strongest first.
pub(super) fn doses(
    evidence: &Evidence,
    member: &str,
    cycles: &[EventCycle],
    stream: &mut Seeded,
) -> Vec<Dose> {
    let device = evidence.environment.get(&format!("server.{member}.device"));
    let within = |points: &[Point], event: (f64, f64)| {
        let from = points.partition_point(|point| (point.end_ns as f64) < event.0 * NS_PER_S);
        // A counter moves at the end of the window after what it counts.
        let to = points.partition_point(|point| (point.end_ns as f64) <= (event.1 + 1.0) * NS_PER_S);
        points.get(from..to).unwrap_or(&[]).iter().map(|point| point.value).collect::<Vec<f64>>()
    };
    let sum = |name: &str, event| Some(within(points(evidence, name), event).iter().sum());
    let mean = |name: &str, event| fathom_stats::mean(&within(points(evidence, name), event));
    let at_begin = |name: &str, event: (f64, f64)| {
        let points = points(evidence, name);
        let until = points.partition_point(|point| (point.end_ns as f64) <= event.0 * NS_PER_S);
        points.get(until.checked_sub(1)?).map(|point| point.value)
    };
    let written = format!("server.{member}.engine.checkpoint_bytes");
    let dirty = format!("server.{member}.cache.dirty_bytes");
    let backlog = device.map(|device| format!("device.{device}.in_flight"));
    let mut doses = Vec::new();
    let mut add = |of, series: Option<String>, dose: DoseOf<'_>| {
        let name = series.as_deref().unwrap_or_default();
        if series.is_some() && points(evidence, name).is_empty() {
            return;
        }
        let pairs: Vec<(f64, f64)> =
            cycles.iter().filter_map(|cycle| Some((cycle.difference, dose(name, cycle.event_s)?))).collect();
        if let Some(correlation) = spearman(&pairs, PERMUTATIONS, stream) {
            doses.push(Dose { of, series, correlation });
        }
    };
    add("bytes written by the checkpoint", Some(written), &sum);
    add("duration of the checkpoint", None, &|_, event| Some(event.1 - event.0));
    add("dirty bytes in the cache at its begin", Some(dirty), &at_begin);
    if let Some(backlog) = backlog {
        add("requests in flight at the device", Some(backlog), &mean);
    }
    doses.sort_by(|one, two| two.correlation.rho.total_cmp(&one.correlation.rho));
    doses
}
