//! Charts whose x axis is not time: the percentile curve of each latency, the performance of a device at each depth, and that of a server
//! at each rate.

use std::collections::BTreeMap;

use fathom_record::disk::{Entry, Latency, Step, burst_allowance};
use fathom_record::load::Load;
use fathom_stats::Histogram;

use super::chart::ChartPlan;
use super::heat::PageLatencyLog;
use super::scale::Scale;
use super::svg::{ChartLine, XAxis};

/// The percentiles that the curve shows: as many nines as a histogram supports.
const QUANTILES: [f64; 16] =
    [0.0, 0.1, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999];

/// The fewest operations for a curve.
const MIN_OPERATIONS: u64 = 100;

/// The percentile curves of a run's latencies: one chart for each load or operation, with service and response time.
pub(super) fn percentiles(latencies: &[PageLatencyLog]) -> Vec<ChartPlan> {
    let mut by_operation: BTreeMap<&str, Vec<(&str, &Histogram)>> = BTreeMap::new();
    for (name, histogram, _) in latencies.iter().filter(|(_, histogram, _)| histogram.len() >= MIN_OPERATIONS)
    {
        let (operation, clock) = name.rsplit_once('.').unwrap_or((name, "latency"));
        by_operation.entry(operation).or_default().push((clock, histogram));
    }
    by_operation.into_iter().map(|(operation, clocks)| percentile(operation, &clocks)).collect()
}

fn percentile(operation: &str, clocks: &[(&str, &Histogram)]) -> ChartPlan {
    let nines = |quantile: f64| -(1.0 - quantile).log10();
    let lines = clocks.iter().map(|(clock, histogram)| ChartLine {
        ends: Vec::new(),
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
    ChartPlan {
        id: format!("percentiles-{operation}"),
        title: format!("Share of operations that took no longer: {operation}"),
        unit: "µs",
        across: XAxis {
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

/// The phases of `fathom disk --sustain` that have a chart.
const DRIVES: [&str; 2] = ["sustain", "after a rest"];

/// A figure of a step.
type StepFigure = fn(&Step) -> Option<f64>;

/// Throughput and mean latency of a probe at each depth: a chart each for every shape with a ladder.
pub(super) fn depths(results: &[Entry]) -> Vec<ChartPlan> {
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

fn ladder(phase: &str, mut steps: Vec<(u32, &Step)>) -> Vec<ChartPlan> {
    steps.sort_by_key(|(depth, _)| *depth);
    steps.dedup_by_key(|(depth, _)| *depth);
    let shown: [(&str, &str, StepFigure); 2] = [
        ("Operations a second", "1/s", |step| Some(step.per_s())),
        ("Mean latency", "µs", |step| step.mean_latency_ns().map(|ns| ns / 1e3)),
    ];
    let plans = shown.into_iter().enumerate().map(|(number, (title, unit, value))| ChartPlan {
        id: format!("depth-{number}-{}", phase.replace(' ', "-")),
        title: format!("{title} at each depth: {phase}"),
        unit,
        across: XAxis {
            name: "depth",
            places: steps.iter().map(|(depth, _)| f64::from(*depth)).collect(),
            ticks: steps
                .iter()
                .filter(|(depth, _)| depth.is_power_of_two() && *depth >= 8)
                .map(|(depth, _)| (f64::from(*depth), depth.to_string()))
                .collect(),
            is_log: false,
        },
        lines: vec![ChartLine {
            ends: Vec::new(),
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

/// The rate of each drive that tested for a burst allowance, second by second.
pub(super) fn drives(results: &[Entry]) -> Vec<ChartPlan> {
    if burst_allowance(results).is_none_or(|allowance| allowance.levels.is_empty()) {
        return Vec::new();
    }
    let steps =
        results.iter().filter_map(|entry| if let Entry::Step(step) = entry { Some(step) } else { None });
    let driven: Vec<&Step> = steps.filter(|step| DRIVES.contains(&step.phase.as_str())).collect();
    driven.iter().enumerate().map(|(number, step)| drive(number, step)).collect()
}

fn drive(number: usize, step: &Step) -> ChartPlan {
    let count = step.per_interval.len();
    let interval_s = (step.end_ns - step.begin_ns) as f64 / 1e9 / count.max(1) as f64;
    let ends = Scale::between(0.0, interval_s * count as f64);
    ChartPlan {
        id: format!("drive-{number}"),
        title: format!("Operations in each second: {}", step.phase),
        unit: "1/s",
        across: XAxis {
            name: "seconds",
            places: (1..=count).map(|index| interval_s * index as f64).collect(),
            ticks: ends.ticks().into_iter().map(|tick| (tick, fathom_units::decimal(tick))).collect(),
            is_log: false,
        },
        lines: vec![ChartLine {
            ends: Vec::new(),
            name: step.phase.clone(),
            values: step.per_interval.iter().copied().map(Some).collect(),
        }],
        is_log: false,
        readings: count,
        window: fathom_units::hours(interval_s * count as f64),
        how: "The probe kept as many requests in flight all the time. A fall that stays shows that a burst allowance ran out."
            .to_owned(),
        bands: Vec::new(),
    }
}

/// Loads at rising rates: the latency of operations, and the served rate compared with the offered rate.
pub(super) fn rates(results: &[Entry]) -> Vec<ChartPlan> {
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

fn rate_ladder(number: usize, mut loads: Vec<(f64, &Load)>) -> Vec<ChartPlan> {
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
    let line = |kind: &str, word: &str, value: fn(&Latency) -> Option<u64>| ChartLine {
        ends: Vec::new(),
        name: format!("{kind} {word}"),
        values: loads.iter().map(|(_, load)| response(load, kind, value)).collect(),
    };
    let times = kinds.iter().flat_map(|kind| {
        [line(kind, "median", |one| Some(one.p50_ns)), line(kind, "99 %", |one| one.p99_ns)]
    });
    let done = ChartLine {
        ends: Vec::new(),
        name: "done".to_owned(),
        values: loads.iter().map(|(_, load)| Some(load.per_s)).collect(),
    };
    let ends = Scale::between(0.0, loads.last().map_or(1.0, |(offered, _)| *offered));
    let across = XAxis {
        name: "offered per second",
        places: loads.iter().map(|(offered, _)| *offered).collect(),
        ticks: ends.ticks().into_iter().map(|tick| (tick, fathom_units::count(tick))).collect(),
        is_log: false,
    };
    let plan = |part: &str, title: &str, unit, lines, is_log| ChartPlan {
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
    use fathom_record::burst_allowance::{BurstAllowance, BurstLevel, BurstVerdict};

    use super::super::chart::Chart;
    use super::*;

    fn drawn(plans: Vec<ChartPlan>) -> Vec<Chart> {
        plans.into_iter().filter_map(ChartPlan::draw).collect()
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
    fn a_drive_has_its_rate_of_each_second() {
        let step = |phase: &str| {
            Entry::Step(Step {
                phase: phase.to_owned(),
                begin_ns: 5_000_000_000,
                end_ns: 8_000_000_000,
                streams: Vec::new(),
                run_queue_wait_pct: None,
                cpu_us_per_operation: None,
                machine_busy_pct: None,
                generator_busy_pct: None,
                ready_after_ns: None,
                devices: Vec::new(),
                per_interval: vec![2000.0, 1990.0, 500.0],
            })
        };
        let allowance = BurstAllowance {
            verdict: BurstVerdict::Burst,
            words: String::new(),
            seconds: 3.0,
            requests: 4490,
            levels: vec![BurstLevel { begin_ns: 0, end_ns: 1, per_s: 500.0, interval_per_s: None }],
            bucket: None,
            excluded_requests: None,
            device_class: None,
        };
        let mut results = vec![step("randread"), step("sustain"), step("after a rest")];
        assert!(drives(&results).is_empty(), "another run may have phases of these names");
        results.push(Entry::BurstAllowance(Box::new(allowance)));
        let [drive, after] = drawn(drives(&results)).try_into().unwrap();
        assert_eq!(drive.csv, "seconds,sustain (1/s)\n1,2000\n2,1990\n3,500");
        assert_eq!(after.lines, ["after a rest"]);
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
