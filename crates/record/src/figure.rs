//! The figures of a run under stable names, so that two runs, or a hundred, can be compared.
//!
//! A figure's subject says what was measured (a shape at a depth, a workload on a server), and its metric says which quantity.
//! Only figures with the same subject and the same metric are ever compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::better::BetterDirection;
use crate::burst_allowance::BurstVerdict;
use crate::disk::{Latency, Step, Stream};
use crate::entry::Entry;
use crate::load::Load;
use crate::study::StudyResult;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The subject (`random reads: randread 4 KiB, io_uring, depth 32`).
    pub subject: String,
    /// The name (`throughput`, `read p99`).
    pub metric: String,
    /// Its unit: `1/s`, `ns`, `MiB/s`, `times`, or that of a study's metric.
    pub unit: String,
    /// The direction in which it is better.
    pub better: BetterDirection,
    pub value: f64,
    /// The same figure over parts of the run, in order, if the results contain them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<f64>,
}

impl Figure {
    fn new(
        subject: &str,
        metric: impl Into<String>,
        unit: &str,
        better: BetterDirection,
        value: f64,
    ) -> Figure {
        let (subject, metric, unit) = (subject.to_owned(), metric.into(), unit.to_owned());
        Figure { subject, metric, unit, better, value, parts: Vec::new() }
    }

    pub fn key(&self) -> (&str, &str) {
        (&self.subject, &self.metric)
    }
}

/// Every figure of these results; if a subject was measured twice, the second is `subject (2)`.
pub fn figures(results: &[Entry]) -> Vec<Figure> {
    use BetterDirection::{Higher, Lower};

    let mut figures = Vec::new();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut name = |subject: String| numbered(&mut seen, subject);
    for entry in results {
        match entry {
            Entry::Load(load) => of_load(&name(load_subject(load)), load, &mut figures),
            Entry::Step(step) => of_step(&name(step_subject(step)), step, &mut figures),
            Entry::Knee(knee) if knee.withheld.is_none() => {
                let subject = name(format!("knee of {}", knee.phase));
                let most = knee.throughput_max_per_s;
                figures.push(Figure::new(&subject, "highest throughput", "1/s", Higher, most));
                let one = knee.latency_at_one_ns;
                figures.push(Figure::new(&subject, "latency of one request", "ns", Lower, one));
            }
            Entry::Objective(objective) => {
                if let Some(rate) = objective.rate_per_s {
                    let subject = name(format!("objective {}", objective.objective));
                    figures.push(Figure::new(&subject, "highest rate within it", "1/s", Higher, rate));
                }
            }
            Entry::BurstAllowance(allowance) if allowance.verdict != BurstVerdict::CannotTell => {
                if let Some(lowest) = allowance.lowest() {
                    let subject = name("what the disk sustains".to_owned());
                    let rate = lowest.per_s;
                    figures.push(Figure::new(&subject, SUSTAINED_METRIC, "1/s", Higher, rate));
                }
            }
            Entry::Capacity(capacity) => {
                if let Some(rate) = capacity.rate_per_s {
                    let subject = name(format!("{}: {}", capacity.server, capacity.load.name()));
                    let metric = format!("{CAPACITY_METRIC}{}", capacity.objective);
                    figures.push(Figure::new(&subject, metric, "1/s", Higher, rate));
                }
            }
            Entry::Layout(layout) if !layout.reused => {
                let subject = name("layout of the test file".to_owned());
                figures.push(Figure::new(&subject, "bytes written", "MiB/s", Higher, layout.mib_per_s));
            }
            Entry::Study(study) => of_study(study, &mut name, &mut figures),
            _ => {}
        }
    }
    figures.retain(|figure| figure.value.is_finite());
    figures
}

/// The subject, or `subject (2)` if it was seen before.
fn numbered(seen: &mut BTreeMap<String, u32>, subject: String) -> String {
    let times = seen.entry(subject.clone()).or_default();
    *times += 1;
    if *times == 1 { subject } else { format!("{subject} ({times})") }
}

/// The loads among results, with the subjects of their figures.
pub fn named_loads(results: &[Entry]) -> Vec<(String, &Load)> {
    let mut seen = BTreeMap::new();
    let loads =
        results.iter().filter_map(|entry| if let Entry::Load(load) = entry { Some(load) } else { None });
    loads.map(|load| (numbered(&mut seen, load_subject(load)), load)).collect()
}

/// The metric of the rate that a disk sustains.
const SUSTAINED_METRIC: &str = "sustained rate";
/// The start of the metric of a capacity; the objective follows.
const CAPACITY_METRIC: &str = "capacity at ";
/// The metric of a level relative to its baseline.
const OVER_BASELINE: &str = "level over baseline";

/// The one figure that a list shows for a run. It is the first of these that exists: a study's first effect, the first capacity, the result of a
/// search, the rate that the disk sustains, the last load, the ceiling of the device, the first step.
pub fn main_figure(figures: &[Figure]) -> Option<&Figure> {
    let effect = figures.iter().find(|figure| figure.metric == OVER_BASELINE);
    let capacity = figures.iter().find(|figure| figure.metric.starts_with(CAPACITY_METRIC));
    let searched = figures.iter().find(|figure| figure.metric == "highest rate within it");
    let sustained = figures.iter().find(|figure| figure.metric == SUSTAINED_METRIC);
    let ceiling = || figures.iter().find(|figure| figure.metric == "highest throughput");
    let is_load = |figure: &&Figure| figure.metric == "throughput" && figure.subject.contains(" connections");
    let load = || figures.iter().rfind(is_load);
    let step = || figures.iter().find(|figure| figure.metric == "throughput");
    effect.or(capacity).or(searched).or(sustained).or_else(load).or_else(ceiling).or_else(step)
}

/// The percentile that is shown with the main figure: the first 99th percentile of the same subject.
pub fn tail_beside<'f>(main: &Figure, figures: &'f [Figure]) -> Option<&'f Figure> {
    figures.iter().find(|figure| figure.subject == main.subject && figure.metric.ends_with(" p99"))
}

/// The effects on which a study's answer rests, then the values of each cell in the same metrics, block by block.
fn of_study(study: &StudyResult, name: &mut impl FnMut(String) -> String, figures: &mut Vec<Figure>) {
    let primary = || study.metrics.iter().enumerate().filter(|(_, metric)| metric.primary);
    for one in &study.comparisons {
        let Some((_, metric)) = primary().find(|(_, metric)| metric.name == one.metric) else { continue };
        let given: String = one.given.iter().map(|(factor, level)| format!(", {factor} {level}")).collect();
        let subject = name(format!(
            "{}: {}, {} {} against {}{given}",
            study.name, metric.name, one.factor, one.level, one.baseline
        ));
        figures.push(Figure::new(&subject, OVER_BASELINE, "times", metric.better, one.ratio));
    }
    for cell in &study.cells {
        let subject = name(format!("{}: {}", study.name, cell.levels.join(", ")));
        for (place, metric) in primary() {
            let parts: Vec<f64> = cell.values.get(place).into_iter().flatten().flatten().copied().collect();
            if let Some(value) = fathom_stats::median(&parts) {
                let figure = Figure::new(&subject, metric.name.clone(), &metric.unit, metric.better, value);
                figures.push(Figure { parts, ..figure });
            }
        }
    }
}

/// The subject of a load's figures. The second of two equal subjects gets `(2)` at its end.
pub fn load_subject(load: &Load) -> String {
    let rate = load.offered_per_s.map_or_else(String::new, |rate| format!(" at {rate:.0}/s"));
    format!("{} on {}, {} connections{rate}", load.workload, load.server, load.connections)
}

fn of_load(subject: &str, load: &Load, figures: &mut Vec<Figure>) {
    figures.push(Figure::new(subject, "throughput", "1/s", BetterDirection::Higher, load.per_s));
    for operation in &load.by_operation {
        let name = operation.name.to_lowercase();
        // Latency from when it was due, which is the wait of a user.
        if let Some(latency) = operation.response.as_ref().or(operation.service.as_ref()) {
            latencies(subject, &name, latency, figures);
        }
        let failed = operation.failed as f64;
        figures.push(Figure::new(subject, format!("{name} failed"), "1", BetterDirection::Lower, failed));
    }
}

/// The subject of a step's figures. The second of two equal subjects gets `(2)` at its end.
pub fn step_subject(step: &Step) -> String {
    let streams: Vec<String> = step.streams.iter().map(shape).collect();
    format!("{}: {}", step.phase, streams.join(" + "))
}

fn shape(stream: &Stream) -> String {
    let durable = if stream.durable == "none" { String::new() } else { format!(", {} each", stream.durable) };
    let rate = stream.rate_per_s.map_or_else(String::new, |rate| format!(" at {rate:.0}/s"));
    let size = fathom_units::Bytes(stream.block_bytes);
    format!("{} {size}, {}{durable}, depth {}{rate}", stream.pattern, stream.engine, stream.depth)
}

fn of_step(subject: &str, step: &Step, figures: &mut Vec<Figure>) {
    let mut throughput = Figure::new(subject, "throughput", "1/s", BetterDirection::Higher, step.per_s());
    throughput.parts.clone_from(&step.per_interval);
    figures.push(throughput);
    for (number, stream) in (1u32..).zip(&step.streams) {
        let prefix =
            if step.streams.len() == 1 { String::new() } else { format!("{} {number} ", stream.pattern) };
        for operations in &stream.operations {
            let latency = operations.response.as_ref().unwrap_or(&operations.latency);
            latencies(subject, &format!("{prefix}{}", operations.kind), latency, figures);
        }
    }
}

fn latencies(subject: &str, operation: &str, latency: &Latency, figures: &mut Vec<Figure>) {
    let quantiles = [("p50", Some(latency.p50_ns)), ("p99", latency.p99_ns), ("p99.9", latency.p999_ns)];
    let mean = ("mean", Some(latency.mean_ns));
    let values = quantiles.map(|(name, ns)| (name, ns.map(|ns| ns as f64)));
    for (name, value) in std::iter::once(mean).chain(values) {
        if let Some(value) = value {
            figures.push(Figure::new(
                subject,
                format!("{operation} {name}"),
                "ns",
                BetterDirection::Lower,
                value,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_stats::Histogram;

    use super::*;
    use crate::load::LoadOperation;

    fn load(per_s: f64) -> Entry {
        let mut histogram = Histogram::new();
        (0..2000).for_each(|step| histogram.record(100_000 + step * 100));
        Entry::Load(Load {
            server: "built-in, WiredTiger".to_owned(),
            workload: "workload A".to_owned(),
            connections: 8,
            seconds: 2.0,
            operations: 2000,
            per_s,
            offered_per_s: None,
            by_operation: vec![LoadOperation::new("READ", 2000, 1, &histogram, &histogram)],
            client_cpu_share: 0.1,
            client_limited: false,
        })
    }

    #[test]
    fn a_subject_measured_twice_keeps_both_figures_apart() {
        let figures = figures(&[load(1000.0), load(1200.0)]);
        let found: Vec<(&str, f64)> = figures
            .iter()
            .filter(|figure| figure.metric == "throughput")
            .map(|figure| (figure.subject.as_str(), figure.value))
            .collect();
        let subject = "workload A on built-in, WiredTiger, 8 connections";
        assert_eq!(found, [(subject, 1000.0), (&*format!("{subject} (2)"), 1200.0)]);
        assert_eq!(main_figure(&figures).unwrap().value, 1200.0);
        let p99 = figures.iter().find(|figure| figure.metric == "read p99").unwrap();
        assert!(p99.value > 290_000.0 && p99.unit == "ns" && p99.better == BetterDirection::Lower);
        let p999 = figures.iter().find(|figure| figure.metric == "read p99.9");
        assert!(p999.is_none(), "2000 operations do not bear it");
    }
}
