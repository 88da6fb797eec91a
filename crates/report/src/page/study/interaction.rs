//! Two factors crossed: the levels of one on the x axis, a line for each level of the other. If the distance between the lines is the same
//! everywhere, neither factor changes the effect of the other.

use fathom_record::study::{StudyCell, StudyFactor, StudyInteraction, StudyResult};
use fathom_stats::{SeededRandom, hodges_lehmann, mean};

use super::super::chart::Chart;
use super::super::scale::Scale;
use super::dots::{Axis, Dot, Dots, ratios};
use crate::study::labels::{capital, interaction, metric};
use crate::terminal_text::cut;

/// Draws of the interval if there are too many blocks to try all subsets.
const SUBSETS: usize = 999;
/// The distance between the points of two lines at the same level, as a share of the distance between levels.
const LINE_DISTANCE: f64 = 0.06;

/// A chart for each pair of factors and each metric that has an interaction.
pub(super) fn charts(study: &StudyResult) -> Vec<Chart> {
    let mut done: Vec<(&(String, String), &str)> = Vec::new();
    let mut charts = Vec::new();
    for one in &study.interactions {
        let key = (&one.factors, one.metric.as_str());
        if !done.contains(&key) {
            done.push(key);
            charts.extend(chart(study, done.len() - 1, one));
        }
    }
    charts
}

/// The unit of a chart of values, and the factor for a value in the metric's unit.
pub(super) fn shown_unit(unit: &str, highest: f64) -> (&'static str, f64) {
    match unit {
        "ns" if highest >= 1e7 => ("ms", 1e-6),
        "ns" => ("µs", 1e-3),
        "1/s" => ("1/s", 1.0),
        "bytes" => ("bytes", 1.0),
        "1" => ("1", 1.0),
        "MiB/s" => ("MiB/s", 1.0),
        _ => ("its unit", 1.0),
    }
}

fn chart(study: &StudyResult, number: usize, one: &StudyInteraction) -> Option<Chart> {
    let place = |name: &str| study.factors.iter().position(|factor| factor.name == name);
    let (first, second) = (place(&one.factors.0)?, place(&one.factors.1)?);
    let at = study.metrics.iter().position(|metric| metric.name == one.metric)?;
    let (along, lines) = (study.factors.get(first)?, study.factors.get(second)?);
    let InteractionPoints { mut dots, blocks, readings } =
        crossed(study, at, (first, along), (second, lines));
    let highest = dots.iter().map(|dot| dot.value).fold(0.0, f64::max);
    let (unit, factor) = shown_unit(&metric(study, &one.metric)?.unit, highest);
    for dot in &mut dots {
        dot.value *= factor;
        dot.interval = dot.interval.map(|(low, high)| (low * factor, high * factor));
    }
    let ends = dots.iter().filter_map(|dot| dot.interval).flat_map(|(low, high)| [low, high]);
    let values: Vec<f64> = dots.iter().map(|dot| dot.value).chain(ends).collect();
    let few = if dots.iter().any(|dot| dot.interval.is_none()) {
        " Fewer than six blocks give no interval."
    } else {
        ""
    };
    let told =
        study.interactions.iter().filter(|other| other.factors == one.factors && other.metric == one.metric);
    let chart = Dots {
        id: format!("interaction-{number}"),
        title: format!("{} over {}, for each {}", capital(&one.metric), along.name, lines.name),
        unit,
        places: along.name.clone(),
        lines: lines.levels.iter().map(|level| format!("{} {level}", lines.name)).collect(),
        along: Axis {
            scale: Scale::between(-0.5, along.levels.len() as f64 - 0.5),
            ticks: along
                .levels
                .iter()
                .enumerate()
                .map(|(step, level)| (step as f64, cut(level, 24)))
                .collect(),
        },
        up: ratios(values.into_iter()),
        readings,
        dots,
        is_log: true,
        band: None,
        guide: Vec::new(),
        window: format!("{blocks} blocks"),
        how: format!(
            "Hodges-Lehmann estimates over blocks of the mean of logarithms over the other factors' levels, with 95 %. Equal ratios are \
             equally far apart, so that lines without an interaction run alike; the axis does not begin at 0. What all levels of a block \
             share is in these intervals, and not in those of the pairs.{few}"
        ),
        sentences: told.map(interaction).collect(),
    };
    chart.draw()
}

/// The points of a chart.
#[derive(Default)]
struct InteractionPoints {
    dots: Vec<Dot>,
    /// The most blocks in a point.
    blocks: usize,
    /// The number of blocks in all points.
    readings: usize,
}

/// A point for each level of the first factor at each level of the second, in the metric's own unit.
fn crossed(
    study: &StudyResult,
    metric: usize,
    along: (usize, &StudyFactor),
    lines: (usize, &StudyFactor),
) -> InteractionPoints {
    let mut crossed = InteractionPoints::default();
    for (line, other) in lines.1.levels.iter().enumerate() {
        let beside = (line as f64 - (lines.1.levels.len() as f64 - 1.0) / 2.0) * LINE_DISTANCE;
        for (step, level) in along.1.levels.iter().enumerate() {
            let logs = logs(study, metric, (along.0, level), (lines.0, other));
            let Some(shift) = hodges_lehmann(&logs, 0.95, SUBSETS, &mut SeededRandom::from_seed(study.seed))
            else {
                continue;
            };
            crossed.blocks = crossed.blocks.max(logs.len());
            crossed.readings += logs.len();
            crossed.dots.push(Dot {
                line,
                at: step as f64 + beside,
                place: level.clone(),
                value: shift.estimate.exp(),
                interval: shift.interval.map(|interval| (interval.low.exp(), interval.high.exp())),
                mark: None,
            });
        }
    }
    crossed
}

/// The mean of the values' logarithms, for each block in which all cells of these two levels gave a value.
fn logs(study: &StudyResult, metric: usize, one: (usize, &String), other: (usize, &String)) -> Vec<f64> {
    let has = |cell: &&StudyCell| {
        [one, other].iter().all(|(factor, level)| cell.levels.get(*factor) == Some(*level))
    };
    let rows: Vec<&[Option<f64>]> = study
        .cells
        .iter()
        .filter(has)
        .map(|cell| cell.values.get(metric).map_or(&[][..], Vec::as_slice))
        .collect();
    let blocks = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let of_block = |block: usize| {
        let value = |row: &&[Option<f64>]| {
            row.get(block).copied().flatten().filter(|value| value.is_finite() && *value > 0.0)
        };
        mean(&rows.iter().map(|row| value(row).map(f64::ln)).collect::<Option<Vec<f64>>>()?)
    };
    (0..blocks).filter_map(of_block).collect()
}
