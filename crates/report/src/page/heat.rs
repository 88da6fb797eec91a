//! The heat map of a load's latencies: time across, latency by decades upwards, the darker the more operations.
//!
//! A mean hides that one operation in a hundred waited a second, and a percentile hides the time at which it waited. The map shows both, with
//! the checkpoints behind it. It has one hue from light to dark, so that readers with any colour vision can read it, also on paper.
//!
//! The servers' writes in each step are drawn as bars below the map on the same time, so that a slow second is seen
//! together with its flush.

use std::collections::BTreeMap;
use std::fmt::Write;

use fathom_record::{LatencyMap, Point, SeriesSet};
use fathom_stats::Histogram;

use super::chart::{Chart, ChartPlan, seconds};
use super::panels::Checkpoints;
use super::scale::Scale;
use super::svg::{self, Axes, ChartLine, HEIGHT, PlotFrame, figure};

/// The most columns: a cell is then three pixels wide on a usual page.
const MAX_COLUMNS: u64 = 240;
/// The number of shades, from the fewest operations of a cell to the most, by ratios.
const SHADES: usize = 8;
/// The most maps, which are those with the most operations.
const MAX_MAPS: usize = 6;
/// A map of fewer seconds or fewer operations shows no more than the percentile curve.
const MIN_SECONDS: usize = 3;
const MIN_OPERATIONS: u64 = 100;

/// A latency log in the form for the page: its name, its whole histogram, and its distribution over time.
pub type PageLatencyLog = (String, Histogram, LatencyMap);

/// The maps of the operations of a load, by response time if that is known. The bytes that servers wrote meanwhile are below the first map.
pub(super) fn maps(
    latencies: &[PageLatencyLog],
    checkpoints: &Checkpoints,
    series: &SeriesSet,
) -> Vec<Chart> {
    let has_response = |operation: &str| {
        latencies.iter().any(|(name, ..)| name.strip_suffix(".response").is_some_and(|one| one == operation))
    };
    let is_shown = |name: &str| match name.rsplit_once('.') {
        Some((_, "response")) => true,
        Some((operation, "service")) => !has_response(operation),
        _ => false,
    };
    let mut shown: Vec<&PageLatencyLog> = latencies
        .iter()
        .filter(|(name, whole, map)| {
            is_shown(name) && whole.len() >= MIN_OPERATIONS && map.seconds() >= MIN_SECONDS
        })
        .collect();
    shown.sort_by_key(|(_, whole, _)| std::cmp::Reverse(whole.len()));
    shown.truncate(MAX_MAPS);
    let mut bands: Vec<(f64, f64)> = checkpoints.values().flatten().copied().collect();
    bands.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut charts: Vec<Chart> = shown.iter().map(|one| chart(one, &bands)).collect();
    // The bytes that servers wrote would be the same below each map.
    if let (Some(first), Some((name, _, map))) = (charts.first_mut(), shown.first()) {
        let operation = name.rsplit_once('.').map_or(name.as_str(), |(operation, _)| operation);
        first.below = below(operation, steps(map), series, &bands).map(Box::new);
    }
    charts
}

/// The length of a map's steps and its end, in seconds.
fn steps(map: &LatencyMap) -> (u64, u64) {
    let step_s = map.end_s().div_ceil(MAX_COLUMNS).max(1);
    (step_s, map.end_s().div_ceil(step_s) * step_s)
}

fn chart((name, whole, map): &PageLatencyLog, bands: &[(f64, f64)]) -> Chart {
    let (operation, clock) = name.rsplit_once('.').unwrap_or((name, "latency"));
    let (step_s, end_s) = steps(map);
    let cells = map.cells(step_s);
    let most = cells.values().copied().max().unwrap_or(1);
    let title = format!("Times of operations over the run: {operation}, {clock} time");
    let behind = if bands.is_empty() { "" } else { " Bands: a checkpoint ran." };
    Chart {
        svg: draw(&title, &cells, step_s, end_s, bands),
        csv: csv(&cells, step_s),
        id: format!("heat-{operation}"),
        title,
        unit: "µs",
        kind: "heat",
        lines: Vec::new(),
        is_log: true,
        readings: whole.len() as usize,
        window: format!("0 to {end_s} s, in steps of {step_s} s"),
        how: format!(
            "Every operation is in one cell; the darkest holds {most}, and shades go by ratios. A cell is {step_s} s wide and \
             a third of its latency high.{behind}"
        ),
        summary: vec![(
            format!("{clock} time"),
            micros(whole.min_ns()),
            whole.mean_ns().map_or_else(String::new, |ns| figure(ns / 1e3)),
            micros(whole.max_ns()),
        )],
        sentences: Vec::new(),
        below: None,
    }
}

fn micros(ns: Option<u64>) -> String {
    ns.map_or_else(String::new, |ns| figure(ns as f64 / 1e3))
}

fn csv(cells: &BTreeMap<(u64, u32), u64>, step_s: u64) -> String {
    let mut text = "from second,to second,from µs,to µs,operations".to_owned();
    for ((step, row), count) in cells {
        let (from_ns, to_ns) = LatencyMap::row_ns(*row);
        let (from_s, to_s) = (step * step_s, (step + 1) * step_s);
        let _ = write!(text, "\n{from_s},{to_s},{},{},{count}", figure(from_ns / 1e3), figure(to_ns / 1e3));
    }
    text
}

fn draw(
    title: &str,
    cells: &BTreeMap<(u64, u32), u64>,
    step_s: u64,
    end_s: u64,
    bands: &[(f64, f64)],
) -> String {
    let rows = || cells.keys().map(|(_, row)| *row);
    let us = |row: u32| {
        let (from_ns, to_ns) = LatencyMap::row_ns(row);
        (from_ns / 1e3, to_ns / 1e3)
    };
    let low = us(rows().min().unwrap_or(0)).0;
    let high = us(rows().max().unwrap_or(0)).1;
    let most = (cells.values().copied().max().unwrap_or(1) as f64).ln().max(f64::MIN_POSITIVE);
    let (along, up) = (Scale::between(0.0, end_s as f64), Scale::between_ratios(low, high));
    let mut frame = PlotFrame::open(Axes { title, along, up, ticks: &[], rules: &[], bands, height: HEIGHT });
    frame.open_plot();
    let mut shades: [String; SHADES] = Default::default();
    for ((step, row), count) in cells {
        let (from_us, to_us) = us(*row);
        let (left, right) = (frame.x((step * step_s) as f64), frame.x(((step + 1) * step_s) as f64));
        let (top, bottom) = (frame.y(to_us), frame.y(from_us));
        let shade = ((*count as f64).ln() / most * (SHADES - 1) as f64).round() as usize;
        if let Some(path) = shades.get_mut(shade.min(SHADES - 1)) {
            let (wide, high) = (right - left, bottom - top);
            let _ = write!(path, "M{left:.1} {top:.1}h{wide:.1}v{high:.1}h-{wide:.1}z");
        }
    }
    for (shade, path) in shades.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let _ = write!(frame.out, "<path class=\"cell s{shade}\" d=\"{path}\"/>");
    }
    frame.closed()
}

/// Kinds of writes, with the tails of their series' names.
const WRITTEN: [(&str, &str); 4] = [
    ("journal", "journal.written_bytes"),
    ("checkpoints", "engine.checkpoint_bytes"),
    ("flushes", "flush.written_bytes"),
    ("compaction", "compaction.written_bytes"),
];
const SECOND_NS: u64 = 1_000_000_000;
const MIB: f64 = 1_048_576.0;

/// The bars below the heat map of `operation`, which has steps of `step_s` up to `end_s`; `None` if no writes of servers were read.
pub(super) fn below(
    operation: &str,
    (step_s, end_s): (u64, u64),
    series: &SeriesSet,
    bands: &[(f64, f64)],
) -> Option<Chart> {
    let members = series.words_after("server.");
    let mut readings = 0;
    let mut lines = Vec::new();
    for (name, last) in WRITTEN {
        let of = |member: &&str| series.get(&format!("server.{member}.{last}"));
        let points: Vec<Point> =
            members.iter().filter_map(of).flat_map(|one| one.points.iter().copied()).collect();
        let values = sums(&points, step_s, end_s);
        if values.iter().flatten().any(|value| *value > 0.0) {
            readings += points.len();
            lines.push(ChartLine { ends: Vec::new(), name: name.to_owned(), values });
        }
    }
    let together = if members.len() > 1 { " Of all servers together." } else { "" };
    let behind = if bands.is_empty() { "" } else { " Bands: a checkpoint ran." };
    let plan = ChartPlan {
        id: format!("written-{operation}"),
        title: "What servers wrote meanwhile".to_owned(),
        unit: "MiB",
        across: seconds((1..=end_s / step_s.max(1)).map(|step| (step * step_s) as f64)),
        lines,
        is_log: false,
        readings,
        window: format!("0 to {end_s} s, in steps of {step_s} s"),
        how: format!(
            "Bytes that the engine's counters grew by in each step of the map above, by when they were read.{together}{behind}"
        ),
        bands: bands.to_vec(),
    };
    let svg = svg::bars(&plan.title, &plan.across, &plan.lines, bands);
    Some(Chart { svg, kind: "bars", ..plan.draw()? })
}

/// The sum of the readings of each step, in MiB. `None` for a step without a reading.
fn sums(points: &[Point], step_s: u64, end_s: u64) -> Vec<Option<f64>> {
    let mut sums: Vec<Option<f64>> = vec![None; usize::try_from(end_s / step_s.max(1)).unwrap_or(0)];
    for point in points.iter().filter(|point| point.value.is_finite()) {
        let step = point.end_ns.saturating_sub(1) / SECOND_NS / step_s.max(1);
        if let Some(sum) = usize::try_from(step).ok().and_then(|step| sums.get_mut(step)) {
            *sum = Some(sum.unwrap_or(0.0) + point.value / MIB);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn log(name: &str, seconds: u64) -> PageLatencyLog {
        let (mut whole, mut map) = (Histogram::new(), LatencyMap::default());
        for second in 0..seconds {
            let mut interval = Histogram::new();
            (0..50).for_each(|_| interval.record(1_000_000));
            if second == 7 {
                interval.record(900_000_000);
            }
            whole.merge(&interval);
            map.add((second * SECOND_NS, (second + 1) * SECOND_NS), &interval);
        }
        (name.to_owned(), whole, map)
    }

    #[test]
    fn every_operation_is_in_a_cell_and_the_stall_is_seen() {
        let ran = Checkpoints::from([("0".to_owned(), vec![(6.0, 8.0)])]);
        let logs = [
            log("read.response", 20),
            log("read.service", 20),
            log("update.service", 2),
            log("schedule.lag", 20),
        ];
        let charts = maps(&logs, &ran, &SeriesSet::default());
        let [chart] = charts.as_slice() else { panic!("{charts:#?}") };
        assert_eq!((chart.id.as_str(), chart.readings), ("heat-read", 1001));
        let rows: Vec<Vec<f64>> = chart
            .csv
            .lines()
            .skip(1)
            .map(|row| row.split(',').map(|cell| cell.parse().unwrap()).collect())
            .collect();
        assert_eq!(rows.iter().map(|row| row[4]).sum::<f64>(), 1001.0);
        let slow: Vec<&Vec<f64>> = rows.iter().filter(|row| row[2] > 100_000.0).collect();
        assert!(slow.len() == 1 && slow[0][0] == 7.0 && slow[0][4] == 1.0, "{slow:?}");
        assert!(chart.svg.contains("class=\"cell s7\"") && chart.svg.contains("class=\"cell s0\""));
        assert_eq!(chart.svg.matches("class=\"band\"").count(), 1);
    }

    #[test]
    fn an_hour_has_no_more_columns_than_a_page_shows() {
        let charts = maps(&[log("read.service", 3600)], &Checkpoints::new(), &SeriesSet::default());
        let columns: std::collections::BTreeSet<&str> =
            charts[0].csv.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
        assert_eq!(columns.len(), 240);
    }

    fn add(series: &mut SeriesSet, name: &str, second: u64, mib: f64) {
        let (begin_ns, end_ns) = (second * SECOND_NS, (second + 1) * SECOND_NS);
        series.add(name, "bytes", Point { begin_ns, end_ns, value: mib * MIB });
    }

    #[test]
    fn bytes_of_each_step_are_summed_over_servers_and_gaps_stay() {
        let mut series = SeriesSet::default();
        for second in [0, 1, 2, 3, 6, 7, 9] {
            add(&mut series, "server.0.journal.written_bytes", second, 1.0);
            add(&mut series, "server.1.journal.written_bytes", second, 0.5);
            add(
                &mut series,
                "server.0.engine.checkpoint_bytes",
                second,
                if second == 3 { 40.0 } else { 0.0 },
            );
            add(&mut series, "server.0.flush.written_bytes", second, 0.0);
        }
        let chart = below("read", (2, 8), &series, &[(2.0, 4.0)]).unwrap();
        assert_eq!(chart.csv, "second,journal (MiB),checkpoints (MiB)\n2,3,0\n4,3,40\n6,,\n8,3,0");
        assert_eq!((chart.id.as_str(), chart.kind), ("written-read", "bars"));
        assert!(chart.how.contains("all servers together") && chart.how.contains("Bands"), "{}", chart.how);
        assert_eq!(chart.svg.matches("class=\"area").count(), 2);
        assert_eq!(chart.svg.matches("class=\"band\"").count(), 1);
        assert!(below("read", (2, 8), &SeriesSet::default(), &[]).is_none(), "nothing was watched");
    }
}
