//! Charts whose x axis is not time: the percentile curve of each latency, what a device gave at each depth, and a server at each
//! rate.

use std::collections::BTreeMap;

use fathom_record::disk::{Entry, Latency, Step};
use fathom_record::load::Load;
use fathom_stats::Histogram;

use super::chart::Plan;
use super::heat::OverTime;
use super::scale::Scale;
use super::svg::{Across, Line};

/// Of these shares of operations the curve has a point: as many nines as a histogram can bear out.
const QUANTILES: [f64; 16] =
    [0.0, 0.1, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999];

/// Of fewer operations than this there is no curve to speak of.
const FEWEST: u64 = 100;

/// The percentile curves of a run's latencies: one chart a load or operation, service beside response time.
pub(super) fn percentiles(latencies: &[OverTime]) -> Vec<Plan> {
    let mut by_operation: BTreeMap<&str, Vec<(&str, &Histogram)>> = BTreeMap::new();
    for (name, histogram, _) in latencies.iter().filter(|(_, histogram, _)| histogram.len() >= FEWEST) {
        let (operation, clock) = name.rsplit_once('.').unwrap_or((name, "latency"));
        by_operation.entry(operation).or_default().push((clock, histogram));
    }
    by_operation.into_iter().map(|(operation, clocks)| percentile(operation, &clocks)).collect()
}

fn percentile(operation: &str, clocks: &[(&str, &Histogram)]) -> Plan {
    let nines = |quantile: f64| -(1.0 - quantile).log10();
    let lines = clocks.iter().map(|(clock, histogram)| Line {
        name: (*clock).to_owned(),
        values: QUANTILES
            .iter()
            .map(|quantile| {
                let value = match *quantile >= 0.5 {
                    true => histogram.supported_quantile(*quantile).map(|ns| ns.get()),
                    false => histogram.quantile_ns(*quantile),
                };
                value.map(|ns| ns as f64 / 1e3)
            })
            .collect(),
    });
    let ticks = [0.5, 0.9, 0.99, 0.999, 0.9999];
    Plan {
        id: format!("percentiles-{operation}"),
        title: format!("Share of operations that took no longer: {operation}"),
        unit: "µs",
        across: Across {
            name: "nines",
            places: QUANTILES.iter().map(|quantile| nines(*quantile)).collect(),
            ticks: ticks.iter().map(|tick| (nines(*tick), format!("{} %", tick * 100.0))).collect(),
            is_log: false,
        },
        lines: lines.collect(),
        is_log: true,
        readings: clocks.iter().map(|(_, histogram)| histogram.len()).max().unwrap_or(0) as usize,
        window: "the whole run".to_owned(),
        how: "Whole histograms, in which no operation is left out. x is the number of nines: 1 is 90 %, 2 is 99 %. A percentile with \
              fewer than ten operations beyond it is not drawn."
            .to_owned(),
        bands: Vec::new(),
    }
}

/// A figure of a step.
type Value = fn(&Step) -> Option<f64>;

/// What a probe found at each depth: throughput and mean latency, a chart each for the shapes that have a ladder.
pub(super) fn depths(results: &[Entry]) -> Vec<Plan> {
    let mut phases: Vec<(&str, Vec<(u32, &Step)>)> = Vec::new();
    for entry in results {
        let Entry::Step(step) = entry else { continue };
        let [stream] = step.streams.as_slice() else { continue };
        match phases.iter_mut().find(|(phase, _)| *phase == step.phase) {
            Some((_, steps)) => steps.push((stream.depth, step)),
            None => phases.push((&step.phase, vec![(stream.depth, step)])),
        }
    }
    let ladders = phases.into_iter().filter(|(_, steps)| steps.len() >= 3);
    ladders.flat_map(|(phase, steps)| ladder(phase, steps)).collect()
}

fn ladder(phase: &str, mut steps: Vec<(u32, &Step)>) -> Vec<Plan> {
    steps.sort_by_key(|(depth, _)| *depth);
    steps.dedup_by_key(|(depth, _)| *depth);
    let shown: [(&str, &str, Value); 2] = [
        ("Operations a second", "1/s", |step| Some(step.per_s())),
        ("Mean latency", "µs", |step| step.mean_latency_ns().map(|ns| ns / 1e3)),
    ];
    let plans = shown.into_iter().enumerate().map(|(number, (title, unit, value))| Plan {
        id: format!("depth-{number}-{}", phase.replace(' ', "-")),
        title: format!("{title} at each depth: {phase}"),
        unit,
        across: Across {
            name: "depth",
            places: steps.iter().map(|(depth, _)| f64::from(*depth)).collect(),
            ticks: steps
                .iter()
                .filter(|(depth, _)| depth.is_power_of_two() && *depth >= 8)
                .map(|(depth, _)| (f64::from(*depth), depth.to_string()))
                .collect(),
            is_log: false,
        },
        lines: vec![Line {
            name: phase.to_owned(),
            values: steps.iter().map(|(_, step)| value(step)).collect(),
        }],
        is_log: false,
        readings: steps.len(),
        window: "a window for each depth".to_owned(),
        how: "The probe kept so many requests in flight for the whole window.".to_owned(),
        bands: Vec::new(),
    });
    plans.collect()
}

/// Loads at rising rates: how long operations took, and what was done of what was due.
pub(super) fn rates(results: &[Entry]) -> Vec<Plan> {
    let mut ladders: Vec<Vec<(f64, &Load)>> = Vec::new();
    for entry in results {
        let Entry::Load(load) = entry else { continue };
        let Some(offered) = load.offered_per_s else { continue };
        let same = |ladder: &&mut Vec<(f64, &Load)>| {
            ladder.first().is_some_and(|(_, one)| one.server == load.server && one.workload == load.workload)
        };
        match ladders.iter_mut().find(same) {
            Some(ladder) => ladder.push((offered, load)),
            None => ladders.push(vec![(offered, load)]),
        }
    }
    let ladders = ladders.into_iter().filter(|ladder| ladder.len() >= 3);
    ladders.enumerate().flat_map(|(number, ladder)| rate_ladder(number, ladder)).collect()
}

fn rate_ladder(number: usize, mut loads: Vec<(f64, &Load)>) -> Vec<Plan> {
    loads.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, first)) = loads.first() else { return Vec::new() };
    let of = format!("{} under {}", first.server, first.workload);
    let mut kinds: Vec<&str> =
        loads.iter().flat_map(|(_, load)| &load.by_operation).map(|one| one.name.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let response = |load: &Load, kind: &str, value: fn(&Latency) -> Option<u64>| {
        let one = load.by_operation.iter().find(|one| one.name == kind)?;
        Some(value(one.response.as_ref()?)? as f64 / 1e3)
    };
    let line = |kind: &str, word: &str, value: fn(&Latency) -> Option<u64>| Line {
        name: format!("{kind} {word}"),
        values: loads.iter().map(|(_, load)| response(load, kind, value)).collect(),
    };
    let times = kinds.iter().flat_map(|kind| {
        [line(kind, "median", |one| Some(one.p50_ns)), line(kind, "99 %", |one| one.p99_ns)]
    });
    let done =
        Line { name: "done".to_owned(), values: loads.iter().map(|(_, load)| Some(load.per_s)).collect() };
    let ends = Scale::between(0.0, loads.last().map_or(1.0, |(offered, _)| *offered));
    let across = Across {
        name: "offered per second",
        places: loads.iter().map(|(offered, _)| *offered).collect(),
        ticks: ends.ticks().into_iter().map(|tick| (tick, fathom_units::count(tick))).collect(),
        is_log: false,
    };
    let plan = |part: &str, title: &str, unit, lines, is_log| Plan {
        id: format!("rates-{part}-{number}"),
        title: format!("{title} at each rate: {of}"),
        unit,
        across: across.clone(),
        lines,
        is_log,
        readings: loads.len(),
        window: "a step for each rate".to_owned(),
        how: "Operations were due at random times at that rate; response time counts from when each was due."
            .to_owned(),
        bands: Vec::new(),
    };
    vec![
        plan("response", "Response time", "µs", times.collect(), true),
        plan("done", "Operations done", "1/s", vec![done], false),
    ]
}

#[cfg(test)]
mod tests {
    use fathom_record::LatencyMap;

    use super::super::chart::Chart;
    use super::*;

    fn drawn(plans: Vec<Plan>) -> Vec<Chart> {
        plans.into_iter().filter_map(Plan::draw).collect()
    }

    #[test]
    fn steps_of_a_search_stand_in_the_order_of_their_rates() {
        let step = |offered: f64, p99_us: u64| {
            let mut histogram = Histogram::new();
            (0..2000).for_each(|_| histogram.record(p99_us * 1000));
            Entry::Load(Load {
                server: "lab".into(),
                workload: "find-max".into(),
                connections: 4,
                seconds: 10.0,
                operations: 1,
                per_s: offered.min(150.0),
                offered_per_s: Some(offered),
                by_operation: vec![fathom_record::load::LoadOperation::new(
                    "READ", 2000, 0, &histogram, &histogram,
                )],
                client_cpu_share: 0.1,
                client_limited: false,
            })
        };
        let charts = drawn(rates(&[step(100.0, 1000), step(200.0, 9000), step(150.0, 3000)]));
        let [times, done] = charts.as_slice() else { panic!("{charts:#?}") };
        assert_eq!(times.lines, ["READ median", "READ 99 %"]);
        assert_eq!(done.csv, "offered per second,done (1/s)\n100,100\n150,150\n200,150");
        assert!(rates(&[step(1.0, 1), step(2.0, 1)]).is_empty(), "two are no ladder");
    }

    #[test]
    fn a_percentile_that_nothing_bears_out_is_not_drawn() {
        let mut histogram = Histogram::new();
        (1..=1000u64).for_each(|us| histogram.record(us * 1000));
        let one = |name: &str, whole: Histogram| (name.to_owned(), whole, LatencyMap::default());
        let charts =
            drawn(percentiles(&[one("read.service", histogram), one("scan.service", Histogram::new())]));
        let [chart] = charts.as_slice() else { panic!("{charts:#?}") };
        let last = chart.csv.lines().rev().find(|line| !line.ends_with(',')).unwrap();
        assert!(last.starts_with("2,"), "99 % is the last: {}", chart.csv);
        let median: f64 = chart.csv.lines().nth(4).unwrap().rsplit(',').next().unwrap().parse().unwrap();
        assert!((median / 500.0 - 1.0).abs() < 0.01, "{median}");
    }
}
