//! Figures of a run among those of earlier runs of its kind: a point for each run with its variation within the run, the level between
//! changes, and each change with its certainty.
//!
//! The runs of the same kind and the changes are determined by the caller (as in `fathom runs trend`); with too few runs
//! there is no chart.

use std::fmt::Write;

use fathom_record::folders::UtcTime;
use fathom_record::history::{ChangeState, History, HistoryChange, HistoryPoint, Reach};
use fathom_stats::{mean, median};

use super::chart::{Chart, cell};
use super::scale::Scale;
use super::svg::{Axes, HEIGHT, PlotFrame, figure};
use crate::history::{reach, told};

/// The space before the first and after the last point, as a share of the time between them.
const AXIS_MARGIN: f64 = 0.02;
/// The most labels of the x axis.
const MAX_LABELS: usize = 5;
/// If runs span fewer seconds than this, labels include the hour.
const MAX_SPAN_WITH_HOURS_S: f64 = 3.0 * 86_400.0;

/// A run's value in the unit of the chart.
struct HistoryValue<'h> {
    point: &'h HistoryPoint,
    /// Seconds since the first run began.
    at_s: f64,
    value: f64,
    interval: Option<(f64, f64)>,
    /// The median between the changes around it.
    level: f64,
    change: Option<&'h HistoryChange>,
}

/// A chart for each history with enough runs.
pub(super) fn charts(histories: &[History]) -> Vec<Chart> {
    let told = histories.iter().filter(|history| history.reach != Reach::TooFew);
    told.enumerate().filter_map(|(number, history)| chart(number, history)).collect()
}

fn chart(number: usize, history: &History) -> Option<Chart> {
    let (unit, factor) = match history.unit.as_str() {
        "ns" => ("µs", 1e-3),
        "1/s" => ("1/s", 1.0),
        "MiB/s" => ("MiB/s", 1.0),
        _ => ("1", 1.0),
    };
    let shown = shown(history, factor)?;
    let values: Vec<f64> = shown.iter().map(|one| one.value).collect();
    let (first, last) = (shown.first()?, shown.last()?);
    let title = format!("Runs of this kind: {}, {}", history.metric, history.subject);
    let mut sentences: Vec<String> = history.changes.iter().map(|change| told(change, history)).collect();
    sentences.push(reach(history).to_owned());
    Some(Chart {
        svg: draw(&title, &shown),
        csv: csv(history, unit, &shown),
        id: format!("history-{number}"),
        unit,
        kind: "still",
        lines: vec![
            "a run, with 95 % of its own parts".to_owned(),
            "level: the median between changes".to_owned(),
        ],
        is_log: false,
        readings: shown.len(),
        window: format!("{} to {}, by when each began (UTC)", day(first.point), day(last.point)),
        how: format!(
            "Complete runs of 'fathom {}' on the same kind of machine ({}), up to this one, which is the last. A change of level ('!', \
             where it is only suspected '?') passed the tests of 'fathom runs trend'. The axis does not begin at 0.",
            history.command, history.environment
        ),
        title,
        summary: vec![(
            history.metric.clone(),
            figure(values.iter().copied().fold(f64::INFINITY, f64::min)),
            figure(mean(&values)?),
            figure(values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        )],
        sentences,
        below: None,
    })
}

/// The points with the label of each; `None` if one has no time.
fn shown(history: &History, factor: f64) -> Option<Vec<HistoryValue<'_>>> {
    let begin = UtcTime::parse(&history.points.first()?.started)?;
    let mut edges: Vec<usize> = history.changes.iter().map(|change| change.index).collect();
    edges.push(history.points.len());
    let mut points = Vec::new();
    let mut from = 0;
    for to in edges {
        let part = history.points.get(from..to)?;
        let level = median(&part.iter().map(|point| point.value).collect::<Vec<_>>())? * factor;
        for (at, point) in (from..).zip(part) {
            points.push(HistoryValue {
                point,
                at_s: UtcTime::parse(&point.started)?.seconds_since(begin),
                value: point.value * factor,
                interval: point.interval.map(|(low, high)| (low * factor, high * factor)),
                level,
                change: history.changes.iter().find(|change| change.index == at),
            });
        }
        from = to;
    }
    Some(points)
}

/// The day on which a run began.
fn day(point: &HistoryPoint) -> &str {
    point.started.get(..10).unwrap_or(&point.started)
}

fn csv(history: &History, unit: &str, shown: &[HistoryValue<'_>]) -> String {
    let metric = cell(&format!("{} ({unit})", history.metric));
    let mut text = format!("started,{metric},95 % from ({unit}),95 % to ({unit}),level ({unit}),change,run");
    for one in shown {
        let end = |end: Option<f64>| end.map_or_else(String::new, figure);
        let (low, high) = (end(one.interval.map(|ends| ends.0)), end(one.interval.map(|ends| ends.1)));
        let change = one.change.map_or("", |change| match (change.state, change.improved) {
            (ChangeState::Change, true) => "better",
            (ChangeState::Change, false) => "worse",
            (ChangeState::Suspect, true) => "better?",
            (ChangeState::Suspect, false) => "worse?",
        });
        let (started, run) = (cell(&one.point.started), cell(&one.point.run));
        let _ = write!(
            text,
            "\n{started},{},{low},{high},{},{change},{run}",
            figure(one.value),
            figure(one.level)
        );
    }
    text
}

fn draw(title: &str, shown: &[HistoryValue<'_>]) -> String {
    let ends = shown.iter().flat_map(|one| {
        let (low, high) = one.interval.unwrap_or((one.value, one.value));
        [low.min(one.value), high.max(one.value)]
    });
    let (lowest, highest) =
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)));
    let last_s = shown.last().map_or(0.0, |one| one.at_s).max(1.0);
    let mut frame = PlotFrame::open(Axes {
        title,
        along: Scale::between(-AXIS_MARGIN * last_s, (1.0 + AXIS_MARGIN) * last_s),
        up: Scale::around(lowest, highest),
        ticks: &labels(shown, last_s),
        rules: &[],
        bands: &[],
        height: HEIGHT,
    });
    for pair in shown.windows(2) {
        let [before, one] = pair else { continue };
        let Some(change) = one.change else { continue };
        let x = frame.x(f64::midpoint(before.at_s, one.at_s));
        let (top, bottom) = frame.heights();
        let way = if change.improved { "better" } else { "worse" };
        let mark = if change.state == ChangeState::Change { '!' } else { '?' };
        let _ = write!(
            frame.out,
            "<path class=\"change {way}\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/><text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\">{mark}</text>",
            x + 4.0,
            top + 10.0
        );
    }
    for level in shown.chunk_by(|_, next| next.change.is_none()) {
        let (Some(first), Some(last)) = (level.first(), level.last()) else { continue };
        // The level of a single moment is drawn as a stroke wide enough to see.
        let (from, to) = (frame.x(first.at_s) - 3.0, frame.x(last.at_s) + 3.0);
        let y = frame.y(first.level);
        let _ = write!(frame.out, "<path class=\"level c1\" d=\"M{from:.1} {y:.1}H{to:.1}\"/>");
    }
    for (number, one) in shown.iter().enumerate() {
        let (x, y) = (frame.x(one.at_s), frame.y(one.value));
        if let Some((low, high)) = one.interval {
            let (low, high) = (frame.y(low), frame.y(high));
            let _ = write!(frame.out, "<path class=\"whisker c0\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>");
        }
        let size = if number + 1 == shown.len() { 5 } else { 3 };
        let _ = write!(frame.out, "<circle class=\"point c0\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{size}\"/>");
    }
    frame.closed()
}

/// Days, or hours if all runs are within a few days, at about even intervals over the time.
fn labels(shown: &[HistoryValue<'_>], last_s: f64) -> Vec<(f64, String)> {
    let label = |one: &HistoryValue<'_>| match last_s < MAX_SPAN_WITH_HOURS_S {
        true => one.point.started.get(5..16).unwrap_or_default().replace('T', " "),
        false => day(one.point).to_owned(),
    };
    let nearest = |at_s: f64| {
        shown.iter().min_by(|one, two| (one.at_s - at_s).abs().total_cmp(&(two.at_s - at_s).abs()))
    };
    let places = (0..MAX_LABELS).map(|place| last_s * place as f64 / (MAX_LABELS - 1) as f64);
    let mut labels: Vec<(f64, String)> =
        places.filter_map(nearest).map(|one| (one.at_s, label(one))).collect();
    labels.dedup_by(|one, two| one.0 == two.0);
    labels
}

#[cfg(test)]
mod tests {
    use fathom_record::figure::BetterDirection;

    use super::*;

    fn history(count: usize, reach: Reach) -> History {
        let point = |day: usize| HistoryPoint {
            run: format!("run-{day}"),
            started: format!("2026-{:02}-{:02}T09:30:00Z", 1 + day / 28, 1 + day % 28),
            value: if day < 8 { 4000.0 } else { 2000.0 } + day as f64,
            interval: (day != 3).then_some((1900.0, 4100.0)),
        };
        let points: Vec<HistoryPoint> = (0..count).map(point).collect();
        let changes = (count > 8).then(|| HistoryChange {
            index: 8,
            run: "run-8".into(),
            started: "2026-01-09T09:30:00Z".into(),
            before: 4003.5,
            after: 2012.0,
            improved: true,
            p: 0.001,
            superiority: 1.0,
            state: ChangeState::Suspect,
        });
        History {
            subject: "workload \"a\"".into(),
            metric: "read p99".into(),
            unit: "ns".into(),
            better: BetterDirection::Lower,
            verb: "ycsb".into(),
            command: "ycsb run".into(),
            environment: "2 CPUs [abcdef]".into(),
            points,
            changes: changes.into_iter().collect(),
            reach,
            noise_floor: 0.02,
        }
    }

    #[test]
    fn each_run_is_a_point_with_its_interval_and_changes_part_the_levels() {
        let charts = charts(&[history(17, Reach::Suspicion)]);
        let [chart] = charts.as_slice() else { panic!("{charts:#?}") };
        assert_eq!((chart.id.as_str(), chart.unit, chart.readings), ("history-0", "µs", 17));
        let rows: Vec<&str> = chart.csv.lines().collect();
        assert_eq!(rows[0], "started,read p99 (µs),95 % from (µs),95 % to (µs),level (µs),change,run");
        assert_eq!(rows[1], "2026-01-01T09:30:00Z,4,1.9,4.1,4.0035,,run-0");
        assert_eq!(rows[4], "2026-01-04T09:30:00Z,4.003,,,4.0035,,run-3");
        assert_eq!(rows[9], "2026-01-09T09:30:00Z,2.008,1.9,4.1,2.012,better?,run-8");
        let count = |what: &str| chart.svg.matches(what).count();
        assert_eq!((count("class=\"point"), count("class=\"whisker"), count("class=\"level")), (17, 16, 2));
        assert_eq!((count("class=\"change better\""), count(">?</text>"), count("r=\"5\"")), (1, 1, 1));
        assert!(
            chart.sentences[0].starts_with("? suspected, better since 2026-01-09"),
            "{:?}",
            chart.sentences
        );
        assert!(chart.sentences[1].contains("Fewer than 50 runs"), "{:?}", chart.sentences);
        assert!(!chart.svg.contains("NaN"), "{}", chart.svg);
    }

    #[test]
    fn too_few_runs_are_no_chart_and_neither_is_what_has_no_time() {
        assert!(charts(&[history(5, Reach::TooFew)]).is_empty());
        let mut timeless = history(12, Reach::Suspicion);
        timeless.points[3].started = "soon".into();
        assert!(charts(&[timeless]).is_empty());
        let mut at_once = history(12, Reach::Suspicion);
        at_once.points.iter_mut().for_each(|point| {
            (point.started, point.value, point.interval) = ("2026-01-01T09:30:00Z".into(), 1.0, None);
        });
        assert!(!charts(&[at_once])[0].svg.contains("NaN"), "all at one moment, all the same");
    }
}
