//! A chart as the page holds it: a picture that needs no script, its data as CSV, and what it rests on.
//!
//! All charts of a page share the steps of time. A step is a second, or longer where a run is so long that nobody could
//! tell seconds apart. A value is the mean of what was read within the step; a step without a reading is a gap and
//! stays one.

use fathom_record::Point;
use serde::Serialize;

use super::svg::{self, Across, Line, figure};

/// What is drawn, before it is drawn.
pub(super) struct Plan {
    pub(super) id: String,
    pub(super) title: String,
    /// Of the y axis.
    pub(super) unit: &'static str,
    pub(super) across: Across,
    pub(super) lines: Vec<Line>,
    pub(super) is_log: bool,
    /// How many readings it was made of.
    pub(super) readings: usize,
    /// The time that it covers, in words.
    pub(super) window: String,
    /// How it was computed, as a sentence.
    pub(super) how: String,
    /// Bands behind the lines, from and to on the x axis.
    pub(super) bands: Vec<(f64, f64)>,
}

/// A chart for the template.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Chart {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) unit: &'static str,
    /// `time` where scripts may take its place by one that can be zoomed, `heat` where they do so with cells, `bars` with bars.
    pub(super) kind: &'static str,
    pub(super) lines: Vec<String>,
    pub(super) is_log: bool,
    pub(super) readings: usize,
    pub(super) window: String,
    pub(super) how: String,
    pub(super) svg: String,
    pub(super) csv: String,
    /// Each line's least, mean and most, as text.
    pub(super) summary: Vec<(String, String, String, String)>,
    /// What is to be said of it beyond how it was computed.
    pub(super) sentences: Vec<String>,
    /// What stands below it on the same time.
    pub(super) below: Option<Box<Chart>>,
}

impl Plan {
    /// The same with its lines named as those of one of two runs.
    pub(super) fn named(mut self, side: &str) -> Plan {
        for line in &mut self.lines {
            line.name = format!("{side}: {}", line.name);
        }
        self
    }

    /// This and the same chart of another run in one, without bands: whose they are nobody could tell.
    pub(super) fn with(mut self, other: Plan) -> Plan {
        let mut places = [self.across.places.as_slice(), &other.across.places].concat();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let mut lines: Vec<Line> =
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

    /// Draws it; none where no line has a value.
    pub(super) fn draw(self) -> Option<Chart> {
        let has_value = |line: &Line| line.values.iter().any(Option::is_some);
        let lines: Vec<Line> = self.lines.into_iter().filter(has_value).collect();
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

fn summary(line: &Line) -> (String, String, String, String) {
    let values: Vec<f64> = line.values.iter().flatten().copied().collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    (line.name.clone(), figure(least), figure(mean), figure(most))
}

/// The lines side by side, a row for each place; gaps are empty. The head of a line ends with the unit of its values; that of the
/// places has theirs in its words.
fn csv(across: &Across, lines: &[Line], unit: &str) -> String {
    let of_line = |line: &Line| cell(&format!("{} ({unit})", line.name));
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

/// A cell of text, quoted where it must be (RFC 4180).
pub(super) fn cell(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// The most steps of a page.
const MOST: u64 = 3600;
const SECOND_NS: u64 = 1_000_000_000;

/// The steps, from the run's start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Length of a step, in nanoseconds.
    step_ns: u64,
    /// How many.
    count: usize,
}

impl Grid {
    /// Whole seconds up to `end_ns`, as many to a step as are needed.
    pub(super) fn until(end_ns: u64) -> Grid {
        let seconds = end_ns.div_ceil(SECOND_NS);
        let step_s = seconds.div_ceil(MOST).max(1);
        Grid { step_ns: step_s.saturating_mul(SECOND_NS), count: seconds.div_ceil(step_s) as usize }
    }

    /// The steps as the x axis of a chart.
    pub(super) fn across(&self) -> Across {
        seconds((0..self.count).map(|at| self.end_s(at)))
    }

    /// The time that they cover, in words.
    pub(super) fn window(&self) -> String {
        let end_s = self.count.checked_sub(1).map_or(0.0, |last| self.end_s(last));
        format!("0 to {} s, in steps of {} s", figure(end_s), figure(self.step_ns as f64 / 1e9))
    }

    /// When a step ends, in seconds since the run's start.
    fn end_s(&self, at: usize) -> f64 {
        (at as f64 + 1.0) * self.step_ns as f64 / 1e9
    }

    /// The mean of the values whose windows end in each step.
    pub(super) fn means(&self, points: impl IntoIterator<Item = Point>) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0u32); self.count];
        for point in points.into_iter().filter(|point| point.value.is_finite()) {
            let at = (point.end_ns.saturating_sub(1) / self.step_ns) as usize;
            if let Some((sum, count)) = sums.get_mut(at) {
                *sum += point.value;
                *count += 1;
            }
        }
        sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect()
    }
}

/// Moments in seconds since the run's start as the x axis of a chart.
pub(super) fn seconds(places: impl Iterator<Item = f64>) -> Across {
    Across { name: "second", places: places.collect(), ticks: Vec::new(), is_log: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_stand_as_csv_with_gaps_and_quoted_names() {
        let across = Across { name: "second", places: vec![1.0, 2.0], ticks: Vec::new(), is_log: false };
        let lines = [
            Line { name: "a,\"b\"".into(), values: vec![Some(1.5), None] },
            Line { name: "c".into(), values: vec![None, Some(2.0)] },
        ];
        assert_eq!(csv(&across, &lines, "ms"), "second,\"a,\"\"b\"\" (ms)\",c (ms)\n1,1.5,\n2,,2");
    }

    fn point(end_ns: u64, value: f64) -> Point {
        Point { begin_ns: 0, end_ns, value }
    }

    #[test]
    fn a_long_run_has_longer_steps_and_gaps_stay() {
        assert_eq!(Grid::until(90 * SECOND_NS), Grid { step_ns: SECOND_NS, count: 90 });
        assert_eq!(Grid::until(7200 * SECOND_NS), Grid { step_ns: 2 * SECOND_NS, count: 3600 });
        assert_eq!(Grid::until(0).count, 0);
        let grid = Grid::until(3 * SECOND_NS);
        let points = [point(1, 1.0), point(SECOND_NS, 3.0), point(3 * SECOND_NS, 7.0), point(u64::MAX, 9.0)];
        assert_eq!(grid.means(points), [Some(2.0), None, Some(7.0)]);
        assert!((grid.end_s(2) - 3.0).abs() < 1e-12);
    }
}
