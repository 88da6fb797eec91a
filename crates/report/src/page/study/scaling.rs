//! A study over a factor that is a number (threads, shards): throughput and latency in the form that articles use, and the speedup for each
//! number.

use fathom_record::study::{ScalingPoint, StudyResult, StudyScaling};
use fathom_units::decimal;

use super::super::bars::{BarRow, BarTable};
use super::super::chart::Chart;
use super::super::scale::Scale;
use super::super::svg::figure;
use super::dots::{Axis, Dot, Dots, around, from_zero};
use crate::study::labels::{amount, given, ratio_interval};

/// If the ratio of the highest to the lowest number is at least this, the axis is one of ratios.
const MIN_LOGARITHMIC_RATIO: f64 = 4.0;
/// The distance between the points of two lines at the same number, as a share of the axis.
const LINE_DISTANCE: f64 = 0.012;
/// The number of points of the dashed line.
const GUIDE_POINTS: usize = 40;

/// Scalings that belong in one chart: of one factor and phase and the same other levels, with a line for each level that is compared.
struct ScalingChart<'s> {
    factor: &'s str,
    /// The phase and the levels that are not compared, in words.
    of: String,
    lines: Vec<(String, &'s StudyScaling)>,
}

fn groups(study: &StudyResult) -> Vec<ScalingChart<'_>> {
    let mut groups: Vec<ScalingChart<'_>> = Vec::new();
    for one in &study.scalings {
        // The factor to compare is the first for which this cell has a level.
        let compared =
            study.factors.iter().find(|factor| one.given.iter().any(|(name, _)| *name == factor.name));
        let is_compared = |name: &str| compared.is_some_and(|factor| factor.name == name);
        let (line, rest): (Vec<_>, Vec<_>) =
            one.given.iter().cloned().partition(|(name, _)| is_compared(name));
        let phase = one.phase.as_ref().map_or_else(String::new, |phase| format!(", {phase}"));
        let of = format!("{phase}{}", given(&rest));
        let name = line.first().map_or_else(|| "measured".to_owned(), |(_, level)| level.clone());
        match groups.iter_mut().find(|group| group.factor == one.factor && group.of == of) {
            Some(group) => group.lines.push((name, one)),
            None => groups.push(ScalingChart { factor: &one.factor, of, lines: vec![(name, one)] }),
        }
    }
    groups
}

impl ScalingChart<'_> {
    fn points(&self) -> impl Iterator<Item = (usize, &ScalingPoint)> {
        let lines = self.lines.iter().enumerate();
        lines.flat_map(|(line, (_, one))| one.points.iter().map(move |point| (line, point)))
    }

    fn names(&self) -> Vec<String> {
        self.lines.iter().map(|(name, _)| name.clone()).collect()
    }

    fn window(&self) -> String {
        format!("medians over blocks, {} to {} {}", self.ends().0, self.ends().1, self.factor)
    }

    /// The lowest and the highest number.
    fn ends(&self) -> (f64, f64) {
        let counts = || self.points().map(|(_, point)| point.count).filter(|count| count.is_finite());
        (counts().fold(f64::INFINITY, f64::min), counts().fold(0.0, f64::max))
    }
}

/// Throughput and latency, a chart for each phase and each level that is not compared.
pub(super) fn curves(study: &StudyResult) -> Vec<Chart> {
    groups(study).iter().enumerate().filter_map(|(number, group)| curve(number, group)).collect()
}

fn curve(number: usize, group: &ScalingChart<'_>) -> Option<Chart> {
    let dot = |(line, point): (usize, &ScalingPoint)| {
        Some(Dot {
            line,
            at: point.throughput_per_s,
            place: figure(point.throughput_per_s),
            value: point.latency_ns? / 1e6,
            interval: None,
            mark: Some(figure(point.count)),
        })
    };
    let dots: Vec<Dot> = group.points().filter_map(dot).collect();
    let chart = Dots {
        id: format!("curve-{number}"),
        title: format!("Throughput against latency over {}{}", group.factor, group.of),
        unit: "ms",
        places: "operations a second".to_owned(),
        lines: group.names(),
        along: around(dots.iter().map(|dot| dot.at)),
        up: from_zero(dots.iter().map(|dot| dot.value)),
        readings: dots.len(),
        dots,
        is_log: false,
        band: None,
        guide: Vec::new(),
        window: group.window(),
        how: format!(
            "Operations a second along, on an axis that need not begin at 0; their mean latency upwards. The number next to a point is its {}. \
             Lower and further right is better.",
            group.factor
        ),
        sentences: Vec::new(),
    };
    chart.draw()
}

/// The speedup at each number, a chart for each phase and each level that is not compared.
pub(super) fn speedups(study: &StudyResult) -> Vec<Chart> {
    groups(study).iter().enumerate().filter_map(|(number, group)| speedup(number, group)).collect()
}

fn speedup(number: usize, group: &ScalingChart<'_>) -> Option<Chart> {
    let (first, last) = group.ends();
    let is_wide = first > 0.0 && last / first >= MIN_LOGARITHMIC_RATIO;
    let dot = |(line, point): (usize, &ScalingPoint)| Dot {
        line,
        // Points of two lines at the same number are drawn next to each other.
        at: beside(point.count, (first, last), is_wide, line as f64 - (group.lines.len() as f64 - 1.0) / 2.0),
        place: figure(point.count),
        value: point.speedup,
        interval: point.interval,
        mark: None,
    };
    let dots: Vec<Dot> = group.points().map(dot).collect();
    let scale = if is_wide {
        Scale::between_ratios(first / 1.1, last * 1.1)
    } else {
        Scale::between(first - 0.2, last + 0.2)
    };
    let mut counts: Vec<f64> = group.points().map(|(_, point)| point.count).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    let highest = dots.iter().map(|dot| dot.interval.map_or(dot.value, |(_, high)| high)).fold(1.0, f64::max);
    // The line extends over the whole picture.
    let share = |step: usize| first * (last / first).powf(step as f64 / (GUIDE_POINTS - 1) as f64);
    let guide: Vec<(f64, f64)> = match first > 0.0 && last > first {
        true => (0..GUIDE_POINTS)
            .map(|step| (share(step), share(step) / first))
            .filter(|(_, times)| *times <= 1.1 * highest)
            .collect(),
        false => Vec::new(),
    };
    let up =
        from_zero(dots.iter().map(|dot| dot.value).chain(guide.iter().map(|point| point.1)).chain([highest]));
    let chart = Dots {
        id: format!("speedup-{number}"),
        title: format!("Speed-up over {}{}", group.factor, group.of),
        unit: "times",
        places: group.factor.to_owned(),
        lines: group.names(),
        along: Axis { scale, ticks: counts.into_iter().map(|count| (count, figure(count))).collect() },
        up,
        readings: dots.len(),
        dots,
        is_log: false,
        band: None,
        guide,
        window: group.window(),
        how: format!(
            "Throughput over that of the fewest {}, with 95 % over blocks. Dashed: as many times as there are more of them.",
            group.factor
        ),
        sentences: group.lines.iter().map(|(_, one)| one.words.clone()).collect(),
    };
    chart.draw()
}

/// The position at the given number of steps from a count.
fn beside(count: f64, (first, last): (f64, f64), is_wide: bool, steps: f64) -> f64 {
    match is_wide {
        true => count * (last / first).powf(LINE_DISTANCE * steps),
        false => count + LINE_DISTANCE * steps * (last - first),
    }
}

/// The points as tables.
pub(super) fn tables(study: &StudyResult) -> Vec<BarTable> {
    let of = |(number, group): (usize, &ScalingChart<'_>)| {
        let row = |(line, point): (usize, &ScalingPoint)| BarRow {
            cells: vec![
                group.lines.get(line).map_or_else(String::new, |(name, _)| name.clone()),
                figure(point.count),
                amount(point.throughput_per_s, "1/s"),
                point.latency_ns.map_or_else(|| "-".to_owned(), |ns| amount(ns, "ns")),
                decimal(point.speedup),
                ratio_interval(point.interval),
            ],
            ..BarRow::default()
        };
        BarTable {
            id: format!("scaling-table-{number}"),
            title: format!("Over {}{}", group.factor, group.of),
            how: "Medians over blocks; the interval is that of the speed-up.".to_owned(),
            heads: ["of", group.factor, "throughput", "mean latency", "speed-up", "95 %"]
                .map(str::to_owned)
                .to_vec(),
            rows: group.points().map(row).collect(),
            doubts: Vec::new(),
        }
    };
    groups(study).iter().enumerate().map(of).filter(|table| !table.rows.is_empty()).collect()
}
