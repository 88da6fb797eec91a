//! Throughput and latency over a factor that counts: how much more does more bring, and where does it stop.

use fathom_record::study::{ScalingPoint, StudyScaling};
use fathom_stats::experiment::{effect, main_contrasts};
use fathom_stats::{Seeded, median};

use crate::plan::combinations;
use crate::{Measures, Plan, Study};

use super::table::Table;
use super::words;

/// More than this share must come of a further step, or it does not pay.
const PAYS: f64 = 0.05;

/// A curve: its phase, the metric that counts, and the latency beside it.
type Curve = (Option<&'static str>, &'static str, Option<&'static str>);

/// The curves of a kind of study.
fn curves(measures: Measures) -> &'static [Curve] {
    match measures {
        Measures::Load => {
            &[(Some("run"), "throughput", Some("latency")), (Some("load"), "load_throughput", None)]
        }
        Measures::Probe => &[(None, "iops", Some("request_latency"))],
    }
}

/// A scaling for each phase and each combination of the other factors.
pub(super) fn all(study: &Study, plan: &Plan, table: &Table) -> Vec<StudyScaling> {
    let Some(across) = study.across else { return Vec::new() };
    let shape: Vec<usize> = study
        .factors
        .iter()
        .enumerate()
        .map(|(at, varied)| if at == across { 1 } else { varied.levels.len() })
        .collect();
    let others = combinations(&shape);
    let of_curve = |curve: &Curve| {
        others.iter().filter_map(|levels| one(study, plan, table, *curve, across, levels)).collect::<Vec<_>>()
    };
    curves(study.measures).iter().flat_map(of_curve).collect()
}

fn one(
    study: &Study,
    plan: &Plan,
    table: &Table,
    (phase, throughput, latency): Curve,
    across: usize,
    levels: &[usize],
) -> Option<StudyScaling> {
    let place = |name: &str| study.metrics.iter().position(|(metric, _)| metric.name == name);
    let (throughput, latency) = (place(throughput)?, latency.and_then(place));
    let varied = study.factors.get(across)?;
    let others = |cell: &[usize]| {
        cell.iter().zip(levels).enumerate().all(|(at, (one, two))| at == across || one == two)
    };
    let logs = table.logs(throughput);
    let mut stream = Seeded::from_seed(study.design.seed).split(2);
    let mut points = Vec::new();
    for (level, named) in varied.levels.iter().enumerate() {
        let cell = plan.cells.iter().position(|cell| others(cell) && cell.get(across) == Some(&level));
        let (Some(cell), Some(count)) = (cell, named.value.as_f64()) else { continue };
        let middle = |metric: usize| {
            let values: Vec<f64> = table.row(metric, cell).into_iter().flatten().collect();
            median(&values)
        };
        let Some(throughput_per_s) = middle(throughput) else { continue };
        let ratios: Vec<f64> = if level == 0 {
            Vec::new()
        } else {
            main_contrasts(&plan.cells, &logs, across, level, &others)
                .into_iter()
                .map(|(_, log)| log)
                .collect()
        };
        let effect = effect(&ratios, &mut stream);
        points.push(ScalingPoint {
            count,
            throughput_per_s,
            latency_ns: latency.and_then(middle),
            speedup: effect.as_ref().map_or(1.0, |effect| effect.ratio),
            interval: effect.and_then(|effect| effect.interval).map(|interval| (interval.low, interval.high)),
        });
    }
    points.sort_by(|one, two| one.count.total_cmp(&two.count));
    let given = study
        .factors
        .iter()
        .zip(levels)
        .enumerate()
        .filter(|(at, (varied, _))| *at != across && varied.levels.len() > 1);
    let given = given.map(|(_, (varied, level))| {
        (
            varied.factor.name.to_owned(),
            varied.levels.get(*level).map_or_else(String::new, |level| level.label.clone()),
        )
    });
    let mut scaling = StudyScaling {
        factor: varied.factor.name.to_owned(),
        phase: phase.map(str::to_owned),
        given: given.collect(),
        points,
        words: String::new(),
    };
    scaling.words = words::scaling(&scaling, saturation(&scaling.points));
    (scaling.points.len() > 1).then_some(scaling)
}

/// The level after which no larger one brings more than [`PAYS`]; `None` where the last one still does.
fn saturation(points: &[ScalingPoint]) -> Option<f64> {
    let best_after =
        |at: usize| points.iter().skip(at + 1).map(|point| point.throughput_per_s).reduce(f64::max);
    let found = points.iter().enumerate().find(|(at, point)| {
        best_after(*at).is_some_and(|best| best <= point.throughput_per_s * (1.0 + PAYS))
    });
    found.map(|(_, point)| point.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(throughputs: &[f64]) -> Vec<ScalingPoint> {
        let point = |(count, throughput_per_s): (f64, &f64)| ScalingPoint {
            count,
            throughput_per_s: *throughput_per_s,
            latency_ns: None,
            speedup: 1.0,
            interval: None,
        };
        [1.0, 2.0, 4.0, 8.0].into_iter().zip(throughputs).map(point).collect()
    }

    #[test]
    fn more_stops_paying_where_nothing_larger_brings_a_twentieth() {
        assert_eq!(saturation(&points(&[100.0, 190.0, 300.0, 310.0])), Some(4.0));
        assert_eq!(saturation(&points(&[100.0, 190.0, 300.0, 500.0])), None);
        assert_eq!(saturation(&points(&[100.0, 90.0, 80.0, 70.0])), Some(1.0));
        // A dip is no end.
        assert_eq!(saturation(&points(&[100.0, 90.0, 200.0, 205.0])), Some(4.0));
    }
}
