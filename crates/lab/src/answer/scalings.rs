//! Throughput and latency as functions of a numeric factor: the gain of each further step, and the point at which gains end.

use fathom_record::study::{ScalingPoint, StudyScaling};
use fathom_stats::experiment::{
    EffectThresholds, MIN_PAIRS, combinations, levels_that_pay, scaling_laws, speed_ups,
};
use fathom_stats::{SeededRandom, median};

use crate::{Measures, Study, TrialPlan};

use super::sentences;
use super::table::MeasurementTable;

/// A further step pays if it gains more than this share.
const MIN_GAIN: f64 = 0.05;

/// A curve: its phase, the metric that counts, and the latency drawn with it.
type CurveMetrics = (Option<&'static str>, &'static str, Option<&'static str>);

/// The curves of a kind of study.
fn curves(measures: Measures) -> &'static [CurveMetrics] {
    match measures {
        Measures::Load => {
            &[(Some("run"), "throughput", Some("latency")), (Some("load"), "load_throughput", None)]
        }
        Measures::Probe => &[(None, "iops", Some("request_latency"))],
    }
}

/// A scaling for each phase and each combination of the other factors.
pub(super) fn all(study: &Study, plan: &TrialPlan, table: &MeasurementTable) -> Vec<StudyScaling> {
    let Some(across) = study.across else { return Vec::new() };
    let shape: Vec<usize> = study
        .factors
        .iter()
        .enumerate()
        .map(|(at, varied)| if at == across { 1 } else { varied.levels.len() })
        .collect();
    let others = combinations(&shape);
    let of_curve = |curve: &CurveMetrics| {
        others.iter().filter_map(|levels| one(study, plan, table, *curve, across, levels)).collect::<Vec<_>>()
    };
    curves(study.measures).iter().flat_map(of_curve).collect()
}

fn one(
    study: &Study,
    plan: &TrialPlan,
    table: &MeasurementTable,
    (phase, throughput, latency): CurveMetrics,
    across: usize,
    levels: &[usize],
) -> Option<StudyScaling> {
    let place = |name: &str| study.metrics.iter().position(|(metric, _)| metric.name == name);
    let (throughput, latency) = (place(throughput)?, latency.and_then(place));
    let varied = study.factors.get(across)?;
    let others = |cell: &[usize]| {
        cell.iter().zip(levels).enumerate().all(|(at, (one, two))| at == across || one == two)
    };
    let counts: Vec<f64> = varied.levels.iter().filter_map(|level| level.value.as_f64()).collect();
    let cell_of =
        |level: usize| plan.cells.iter().position(|cell| others(cell) && cell.get(across) == Some(&level));
    let logs = table.logs(throughput);
    let mut stream = SeededRandom::from_seed(study.design.seed).split(2);
    let effects = speed_ups(&counts, &plan.cells, &logs, across, &others, &mut stream);
    let point = |(level, count): (usize, &f64)| {
        let cell = cell_of(level)?;
        let middle =
            |metric: usize| median(&table.row(metric, cell).into_iter().flatten().collect::<Vec<_>>());
        let effect = effects.iter().find(|one| one.level == level).map(|one| &one.effect);
        Some(ScalingPoint {
            count: *count,
            throughput_per_s: middle(throughput)?,
            latency_ns: latency.and_then(middle),
            speedup: effect.map_or(1.0, |effect| effect.ratio),
            interval: effect.and_then(|effect| effect.interval).map(|interval| (interval.low, interval.high)),
        })
    };
    let points: Vec<ScalingPoint> = counts.iter().enumerate().filter_map(point).collect();
    let by_level: Vec<Vec<Option<f64>>> = (0..counts.len())
        .map(|level| cell_of(level).and_then(|cell| logs.get(cell)).cloned().unwrap_or_default())
        .collect();
    let end = if table.blocks_complete() >= MIN_PAIRS {
        let pays = levels_that_pay(&by_level, EffectThresholds::plain(MIN_GAIN), &mut stream);
        pays.and_then(|level| counts.get(level).copied())
    } else {
        saturation(&points)
    };
    let mut scaling = StudyScaling {
        factor: varied.factor.name.to_owned(),
        phase: phase.map(str::to_owned),
        given: given(study, across, levels),
        points,
        words: String::new(),
    };
    scaling.words = sentences::scaling(&scaling, end, scaling_laws(&counts, &by_level).ok().as_ref());
    (scaling.points.len() > 1).then_some(scaling)
}

/// The levels of the other factors that have several.
fn given(study: &Study, across: usize, levels: &[usize]) -> Vec<(String, String)> {
    let others = study.factors.iter().zip(levels).enumerate();
    let others = others.filter(|(at, (varied, _))| *at != across && varied.levels.len() > 1);
    others.map(|(at, (_, level))| (study.name_of(at), study.label_of(at, *level))).collect()
}

/// The level after which no larger one gains more than [`MIN_GAIN`], by medians alone, for studies with too few blocks for intervals.
fn saturation(points: &[ScalingPoint]) -> Option<f64> {
    let best_after =
        |at: usize| points.iter().skip(at + 1).map(|point| point.throughput_per_s).reduce(f64::max);
    let found = points.iter().enumerate().find(|(at, point)| {
        best_after(*at).is_some_and(|best| best <= point.throughput_per_s * (1.0 + MIN_GAIN))
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
        // A dip does not end the gains.
        assert_eq!(saturation(&points(&[100.0, 90.0, 200.0, 205.0])), Some(4.0));
    }
}
