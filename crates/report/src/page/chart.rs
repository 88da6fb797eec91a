//! A chart in the form in which the page contains it: a picture that needs no script, its data as CSV, and its sources.
//!
//! All charts of a page share the steps of time. A step is a second, or longer if a run is so long that seconds could not
//! be distinguished. A value is the mean of the readings within the step; a step without a reading is a gap and
//! stays one.

use fathom_record::Point;
use serde::Serialize;

use super::svg::{self, ChartLine, XAxis, figure};

/// The content of a chart before it is drawn.
pub(super) struct ChartPlan {
    pub(super) id: String,
    pub(super) title: String,
    /// The unit of the y axis.
    pub(super) unit: &'static str,
    pub(super) across: XAxis,
    pub(super) lines: Vec<ChartLine>,
    pub(super) is_log: bool,
    /// The number of readings that it was made of.
    pub(super) readings: usize,
    /// The time that it covers, in words.
    pub(super) window: String,
    /// The method of its computation, as a sentence.
    pub(super) how: String,
    /// Bands behind the lines: begin and end on the x axis.
    pub(super) bands: Vec<(f64, f64)>,
}

/// A chart for the template.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Chart {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) unit: &'static str,
    /// `time` if scripts may replace it by a chart that can be zoomed, `heat` if they do so with cells, `bars` with bars.
    pub(super) kind: &'static str,
    pub(super) lines: Vec<String>,
    pub(super) is_log: bool,
    pub(super) readings: usize,
    pub(super) window: String,
    pub(super) how: String,
    pub(super) svg: String,
    pub(super) csv: String,
    /// The lowest value, the mean and the highest value of each line, as text.
    pub(super) summary: Vec<(String, String, String, String)>,
    /// Sentences about the chart in addition to the method of its computation.
    pub(super) sentences: Vec<String>,
    /// A chart below it with the same time axis.
    pub(super) below: Option<Box<Chart>>,
}

impl ChartPlan {
    /// The same chart, with its lines named as those of one of two runs.
    pub(super) fn named(mut self, side: &str) -> ChartPlan {
        for line in &mut self.lines {
            line.name = format!("{side}: {}", line.name);
        }
        self
    }

    /// This chart and the same chart of another run in one. Bands are left out, since readers could not tell to which run they belong.
    pub(super) fn with(mut self, other: ChartPlan) -> ChartPlan {
        let mut places = [self.across.places.as_slice(), &other.across.places].concat();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let mut lines: Vec<ChartLine> =
            self.lines.iter().map(|line| line.moved(&self.across.places, &places)).collect();
        lines.extend(other.lines.iter().map(|line| line.moved(&other.across.places, &places)));
        self.lines = lines;
        if other.across.places.last() > self.across.places.last() {
            self.across.ticks = other.across.ticks;
        }
        if self.window != other.window {
            self.window = format!("A: {}; B: {}", self.window, other.window);
        }
        self.across.places = places;
        self.readings += other.readings;
        self.bands.clear();
        self
    }

    /// Draws the chart. Returns `None` if no line has a value.
    pub(super) fn draw(self) -> Option<Chart> {
        let has_value = |line: &ChartLine| line.values.iter().any(Option::is_some);
        let lines: Vec<ChartLine> = self.lines.into_iter().filter(has_value).collect();
        if lines.is_empty() {
            return None;
        }
        let svg = svg::lines(&self.title, &self.across, &lines, self.is_log, &self.bands);
        Some(Chart {
            csv: csv(&self.across, &lines, self.unit),
            summary: lines.iter().map(summary).collect(),
            lines: lines.into_iter().map(|line| line.name).collect(),
            kind: if self.across.ticks.is_empty() { "time" } else { "still" },
            id: self.id,
            title: self.title,
            unit: self.unit,
            is_log: self.is_log,
            readings: self.readings,
            window: self.window,
            how: self.how,
            svg,
            sentences: Vec::new(),
            below: None,
        })
    }
}

fn summary(line: &ChartLine) -> (String, String, String, String) {
    let values: Vec<f64> = line.values.iter().flatten().copied().collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    (line.name.clone(), figure(least), figure(mean), figure(most))
}

/// The lines as columns, a row for each place; gaps are empty. The head of a line ends with the unit of its values. The head of the
/// places contains their unit.
fn csv(across: &XAxis, lines: &[ChartLine], unit: &str) -> String {
    let of_line = |line: &ChartLine| cell(&format!("{} ({unit})", line.name));
    let heads: Vec<String> = std::iter::once(cell(across.name)).chain(lines.iter().map(of_line)).collect();
    let mut text = heads.join(",");
    for (at, place) in across.places.iter().enumerate() {
        text.push('\n');
        text.push_str(&figure(*place));
        for line in lines {
            text.push(',');
            if let Some(Some(value)) = line.values.get(at) {
                text.push_str(&figure(*value));
            }
        }
    }
    text
}

/// A cell of text, quoted if RFC 4180 demands it.
pub(super) fn cell(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// The most steps of a page.
const MAX_STEPS: u64 = 3600;
const SECOND_NS: u64 = 1_000_000_000;

/// The steps, from the run's start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeGrid {
    /// Length of a step, in nanoseconds.
    step_ns: u64,
    count: usize,
    /// Readings that end after this time are not shown.
    end_ns: u64,
}

impl TimeGrid {
    /// Whole seconds up to `end_ns`, as many to a step as are needed.
    pub(super) fn until(end_ns: u64) -> TimeGrid {
        let seconds = end_ns.div_ceil(SECOND_NS);
        let step_s = seconds.div_ceil(MAX_STEPS).max(1);
        let count = seconds.div_ceil(step_s) as usize;
        TimeGrid { step_ns: step_s.saturating_mul(SECOND_NS), count, end_ns }
    }

    /// The same steps for readings that end earlier.
    pub(super) fn ending(self, end_ns: u64) -> TimeGrid {
        TimeGrid { end_ns: end_ns.min(self.end_ns), ..self }
    }

    /// The steps as the x axis of a chart.
    pub(super) fn across(&self) -> XAxis {
        seconds((0..self.count).map(|at| self.end_s(at)))
    }

    /// The time that they cover, in words.
    pub(super) fn window(&self) -> String {
        let end_s = self.count.checked_sub(1).map_or(0.0, |last| self.end_s(last));
        format!("0 to {} s, in steps of {} s", figure(end_s), figure(self.step_ns as f64 / 1e9))
    }

    /// The end of a step, in seconds since the run's start.
    fn end_s(&self, at: usize) -> f64 {
        (at as f64 + 1.0) * self.step_ns as f64 / 1e9
    }

    /// A line of the mean of the values whose windows end in each step. For steps longer than a second it also has the lowest and the highest
    /// value, because a mean would hide a spike there.
    pub(super) fn line(&self, name: &str, points: Vec<Point>) -> ChartLine {
        let mut ends: Vec<Option<(f64, f64)>> = Vec::new();
        if self.step_ns > SECOND_NS {
            ends.resize(self.count, None);
            for (at, value) in points.iter().filter_map(|point| self.step_of(point)) {
                if let Some(end) = ends.get_mut(at) {
                    *end = Some(end.map_or((value, value), |(low, high)| (value.min(low), value.max(high))));
                }
            }
        }
        ChartLine { name: name.to_owned(), values: self.means(points), ends }
    }

    /// The step in which a point's window ends, and its value.
    fn step_of(&self, point: &Point) -> Option<(usize, f64)> {
        let is_shown = point.value.is_finite() && point.end_ns <= self.end_ns;
        is_shown.then(|| ((point.end_ns.saturating_sub(1) / self.step_ns) as usize, point.value))
    }

    /// The mean of the values whose windows end in each step.
    fn means(&self, points: impl IntoIterator<Item = Point>) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0u32); self.count];
        for (at, value) in points.into_iter().filter_map(|point| self.step_of(&point)) {
            if let Some((sum, count)) = sums.get_mut(at) {
                *sum += value;
                *count += 1;
            }
        }
        sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect()
    }
}

/// The points without the last one if its window was cut short: its rate and its mean are those of a moment.
pub(super) fn whole_windows(points: &[Point]) -> &[Point] {
    let length = |point: &Point| point.end_ns.saturating_sub(point.begin_ns);
    match points {
        [whole @ .., before, last] if 4 * length(last) < 3 * length(before) => {
            points.get(..=whole.len()).unwrap_or(points)
        }
        _ => points,
    }
}

/// Moments in seconds since the run's start as the x axis of a chart.
pub(super) fn seconds(places: impl Iterator<Item = f64>) -> XAxis {
    XAxis { name: "second", places: places.collect(), ticks: Vec::new(), is_log: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_stand_as_csv_with_gaps_and_quoted_names() {
        let across = XAxis { name: "second", places: vec![1.0, 2.0], ticks: Vec::new(), is_log: false };
        let lines = [
            ChartLine { ends: Vec::new(), name: "a,\"b\"".into(), values: vec![Some(1.5), None] },
            ChartLine { ends: Vec::new(), name: "c".into(), values: vec![None, Some(2.0)] },
        ];
        assert_eq!(csv(&across, &lines, "ms"), "second,\"a,\"\"b\"\" (ms)\",c (ms)\n1,1.5,\n2,,2");
    }

    fn point(end_ns: u64, value: f64) -> Point {
        Point { begin_ns: 0, end_ns, value }
    }

    #[test]
    fn a_long_run_has_longer_steps_and_gaps_stay() {
        let steps = |seconds: u64| {
            let grid = TimeGrid::until(seconds * SECOND_NS);
            (grid.step_ns / SECOND_NS, grid.count)
        };
        assert_eq!((steps(90), steps(7200)), ((1, 90), (2, 3600)));
        assert_eq!(TimeGrid::until(0).count, 0);
        let grid = TimeGrid::until(3 * SECOND_NS);
        let points = [point(1, 1.0), point(SECOND_NS, 3.0), point(3 * SECOND_NS, 7.0), point(u64::MAX, 9.0)];
        assert_eq!(grid.means(points), [Some(2.0), None, Some(7.0)]);
        assert!((grid.end_s(2) - 3.0).abs() < 1e-12);
        assert_eq!(
            grid.ending(2 * SECOND_NS).means([point(SECOND_NS, 3.0), point(3 * SECOND_NS, 7.0)])[2],
            None
        );
    }

    #[test]
    fn a_spike_of_a_second_stays_in_a_long_step() {
        let grid = TimeGrid::until(7200 * SECOND_NS);
        let points: Vec<Point> = (1..=7200)
            .map(|second| point(second * SECOND_NS, if second == 3001 { 1000.0 } else { 2.0 }))
            .collect();
        let line = grid.line("a", points);
        assert_eq!((line.values[1500], line.ends[1500]), (Some(501.0), Some((2.0, 1000.0))));
        let across = grid.across();
        let svg = svg::lines("", &across, &[line], false, &[]);
        assert!(svg.contains(" 8.0L"), "the spike reaches the top: {svg}");
        assert!(TimeGrid::until(90 * SECOND_NS).line("a", Vec::new()).ends.is_empty());
    }

    #[test]
    fn a_last_window_that_was_cut_short_is_left_out() {
        let window = |begin_ns: u64, end_ns: u64| Point { begin_ns, end_ns, value: 1.0 };
        let points = [window(0, 1000), window(1000, 2010), window(2010, 2100)];
        assert_eq!(whole_windows(&points), &points[..2]);
        assert_eq!(whole_windows(&points[..2]), &points[..2]);
        assert_eq!(whole_windows(&points[2..]), &points[2..]);
        assert!(whole_windows(&[]).is_empty());
    }
}
