//! Charts as SVG: each has one drawing, for the screen and for paper. In charts over time the drawn lines are in a nested picture within the
//! frame: a script zooms by that picture's `viewBox`, and draws nothing itself except finer lines.

use std::cmp::Ordering;
use std::fmt::Write;

use super::scale::Scale;

/// The picture, in its own units, and the place of the plot within it.
const WIDTH: f64 = 720.0;
pub(super) const HEIGHT: f64 = 220.0;
/// The height of bars below another picture.
const LOW_HEIGHT: f64 = 130.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 24.0;
/// Space above and below the plot for strokes at its ends.
const STROKE_MARGIN: f64 = 2.0;
/// The length of the stroke that is drawn for a single point.
const LONE_STROKE: f64 = 5.0;
/// The most that half of a letter's width can be, in the size of labels.
const HALF_LETTER: f64 = 4.0;
/// The most groups of neighbouring points that the picture's width can show separately. The lowest and the highest point of each group are drawn.
const MAX_GROUPS: usize = 400;
/// The number of colours of the page, which lines use in turn.
const COLOURS: usize = 8;

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChartLine {
    /// The name in the legend.
    pub(super) name: String,
    /// A value for each position on the x axis. `None` is a gap.
    pub(super) values: Vec<Option<f64>>,
    /// The lowest and the highest of the values behind each mean, drawn in its place; empty if values are not means of several.
    pub(super) ends: Vec<Option<(f64, f64)>>,
}

impl ChartLine {
    /// The line at other positions: gaps at positions that it lacks.
    pub(super) fn moved(&self, from: &[f64], to: &[f64]) -> ChartLine {
        fn at<T: Copy>(from: &[f64], values: &[Option<T>], to: &[f64]) -> Vec<Option<T>> {
            let mut own = from.iter().zip(values).peekable();
            let value = |place: &f64| {
                while own.next_if(|(at, _)| **at < *place).is_some() {}
                own.next_if(|(at, _)| **at == *place).and_then(|(_, value)| *value)
            };
            to.iter().map(value).collect()
        }
        let ends = if self.ends.is_empty() { Vec::new() } else { at(from, &self.ends, to) };
        ChartLine { name: self.name.clone(), values: at(from, &self.values, to), ends }
    }
}

/// The meaning of a chart's x axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct XAxis {
    /// The name with its unit.
    pub(super) name: &'static str,
    /// Each line has a value for each of these.
    pub(super) places: Vec<f64>,
    /// Ticks with their labels; from the places if there are none.
    pub(super) ticks: Vec<(f64, String)>,
    /// Whether equal ratios are equally far apart; every place is above 0 then.
    pub(super) is_log: bool,
}

/// Escapes text for SVG and HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The layout of a plot.
pub(super) struct Axes<'a> {
    pub(super) title: &'a str,
    pub(super) along: Scale,
    pub(super) up: Scale,
    /// Labels of the x axis. Computed ones if empty.
    pub(super) ticks: &'a [(f64, String)],
    /// Labels of the y axis. Computed ones if empty.
    pub(super) rules: &'a [(f64, String)],
    /// Bands behind the lines: begin and end on the x axis.
    pub(super) bands: &'a [(f64, f64)],
    /// The height of the whole picture.
    pub(super) height: f64,
}

/// The plot of a chart: its axes and its background.
pub(super) struct PlotFrame {
    along: Scale,
    up: Scale,
    height: f64,
    /// Whether the plot is a picture of its own that is not closed yet.
    has_open_plot: bool,
    /// The picture so far; [`PlotFrame::closed`] ends it.
    pub(super) out: String,
}

impl PlotFrame {
    /// Draws the axes, bands and ticks.
    pub(super) fn open(axes: Axes<'_>) -> PlotFrame {
        let Axes { title, along, up, ticks, rules, bands, height } = axes;
        let out =
            format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">", escaped(title));
        let mut frame = PlotFrame { along, up, height, has_open_plot: false, out };
        if !bands.is_empty() {
            frame.open_plot();
        }
        for (from, to) in bands {
            let (from, to) = (frame.x(*from), frame.x(*to));
            let _ = write!(
                frame.out,
                "<rect class=\"band\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                (to - from).max(1.0),
                height - TOP - BOTTOM
            );
        }
        frame.close_plot();
        for (tick, label) in own_unless(rules, up) {
            let at = frame.y(tick);
            let _ = write!(
                frame.out,
                "<path class=\"rule\" d=\"M{LEFT} {at:.1}H{:.1}\"/><text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                escaped(&label)
            );
        }
        let mut taken = 0.0;
        for (tick, label) in own_unless(ticks, along) {
            // A long label at the right end would be cut in half, and one that does not fit after the last one would overlap it.
            let half = HALF_LETTER * label.chars().count() as f64;
            let at = frame.x(tick);
            let (class, at) = if at + half > WIDTH { ("x last", WIDTH) } else { ("x", at) };
            let begin = if class == "x" { at - half } else { at - 2.0 * half };
            if begin < taken {
                continue;
            }
            taken = begin + 2.0 * half;
            let _ = write!(
                frame.out,
                "<text class=\"{class}\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                height - 6.0,
                escaped(&label)
            );
        }
        frame
    }

    /// The position of a value of the x axis.
    pub(super) fn x(&self, value: f64) -> f64 {
        LEFT + self.along.place(value) * (WIDTH - LEFT - RIGHT)
    }

    /// The position of a value of the y axis.
    pub(super) fn y(&self, value: f64) -> f64 {
        self.height - BOTTOM - self.up.place(value) * (self.height - TOP - BOTTOM)
    }

    /// Begins a picture within the frame along which a script can zoom by changing its `viewBox`. The picture states its y axis, so that a script
    /// can place values: the values at its ends, and whether equal ratios are equally far apart. Lines at the ends are not cut.
    pub(super) fn open_plot(&mut self) {
        let (low, high, is_log) = self.up.ends();
        let (top, width) = (TOP - STROKE_MARGIN, WIDTH - LEFT - RIGHT);
        let height = self.height - TOP - BOTTOM + 2.0 * STROKE_MARGIN;
        let _ = write!(
            self.out,
            "<svg class=\"along\" x=\"{LEFT}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"{LEFT} {top} {width} {height}\" preserveAspectRatio=\"none\" data-low=\"{low}\" \
             data-high=\"{high}\"{}>",
            if is_log { " data-log=\"1\"" } else { "" }
        );
        self.has_open_plot = true;
    }

    fn close_plot(&mut self) {
        if std::mem::take(&mut self.has_open_plot) {
            self.out.push_str("</svg>");
        }
    }

    /// The top and the bottom of the plot, from above.
    pub(super) fn heights(&self) -> (f64, f64) {
        (TOP, self.height - BOTTOM)
    }

    pub(super) fn closed(mut self) -> String {
        self.close_plot();
        self.out.push_str("</svg>");
        self.out
    }
}

/// The given ticks, else those of the scale.
fn own_unless(named: &[(f64, String)], scale: Scale) -> Vec<(f64, String)> {
    if named.is_empty() {
        return scale.ticks().into_iter().map(|tick| (tick, short(tick))).collect();
    }
    named.to_vec()
}

pub(super) fn lines(
    title: &str,
    across: &XAxis,
    lines: &[ChartLine],
    is_log: bool,
    bands: &[(f64, f64)],
) -> String {
    let ends = |line: &ChartLine| {
        line.ends.iter().flatten().flat_map(|(low, high)| [*low, *high]).collect::<Vec<_>>()
    };
    let values = || lines.iter().flat_map(|line| line.values.iter().flatten().copied().chain(ends(line)));
    let highest = values().fold(f64::NEG_INFINITY, f64::max);
    let lowest = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let up = if is_log && lowest.is_finite() {
        Scale::decades(lowest, highest)
    } else {
        Scale::from_zero(highest)
    };
    let ends = |all: &[f64]| all.first().copied().zip(all.last().copied()).unwrap_or((0.0, 1.0));
    let (first, last) = ends(&across.places);
    let along = match across.is_log {
        true => Scale::between_ratios(first, last),
        false => Scale::between(first.min(0.0), last),
    };
    let mut frame =
        PlotFrame::open(Axes { title, along, up, ticks: &across.ticks, rules: &[], bands, height: HEIGHT });
    if across.ticks.is_empty() {
        frame.open_plot();
    }
    for (number, line) in lines.iter().enumerate() {
        let path = path(&across.places, line, &|value| frame.x(value), &|value| frame.y(value));
        let _ = write!(frame.out, "<path class=\"line c{}\" d=\"{path}\"/>", number % COLOURS);
    }
    frame.closed()
}

/// Bars of equal steps from 0 on, each of which ends at its place: their tops as strokes, and the filled area below them.
pub(super) fn bars(title: &str, across: &XAxis, lines: &[ChartLine], bands: &[(f64, f64)]) -> String {
    let highest = lines.iter().flat_map(|line| line.values.iter().flatten().copied()).fold(0.0, f64::max);
    let step = across.places.first().copied().unwrap_or(1.0);
    let last = across.places.last().copied().unwrap_or(1.0);
    let (along, up) = (Scale::between(0.0, last), Scale::from_zero(highest));
    let mut frame = PlotFrame::open(Axes {
        title,
        along,
        up,
        ticks: &across.ticks,
        rules: &[],
        bands,
        height: LOW_HEIGHT,
    });
    frame.open_plot();
    let bottom = frame.heights().1;
    for (number, line) in lines.iter().enumerate() {
        let (mut tops, mut areas) = (String::new(), String::new());
        for (place, value) in across.places.iter().zip(&line.values) {
            let Some(value) = value else { continue };
            let (left, right, top) = (frame.x(place - step), frame.x(*place), frame.y(*value));
            let _ = write!(tops, "M{left:.1} {top:.1}H{right:.1}");
            let _ = write!(areas, "M{left:.1} {bottom:.1}V{top:.1}H{right:.1}V{bottom:.1}z");
        }
        let colour = number % COLOURS;
        let _ = write!(
            frame.out,
            "<path class=\"area c{colour}\" d=\"{areas}\"/><path class=\"line c{colour}\" d=\"{tops}\"/>"
        );
    }
    frame.closed()
}

/// A path with a new start after each gap. A single point is a visible stroke.
fn path(places: &[f64], line: &ChartLine, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) -> String {
    let size = places.len().div_ceil(MAX_GROUPS).max(1);
    // Each step's lowest and highest, or its value alone.
    let steps: Vec<[Option<f64>; 2]> = match line.ends.is_empty() {
        true => line.values.iter().map(|value| [*value, None]).collect(),
        false => line.ends.iter().map(|end| [end.map(|end| end.0), end.map(|end| end.1)]).collect(),
    };
    let groups = places.chunks(size).zip(steps.chunks(size));
    let points: Vec<Option<(f64, f64)>> =
        groups.flat_map(|(places, steps)| extremes(places, steps)).collect();
    let mut out = String::new();
    let mut is_down = false;
    for (at, point) in points.iter().enumerate() {
        if let Some((place, value)) = point {
            let (x, y) = (x(*place), y(*value));
            let goes_on = points.get(at + 1).is_some_and(Option::is_some);
            let _ = match (is_down, goes_on) {
                (true, _) => write!(out, "L{x:.1} {y:.1}"),
                (false, true) => write!(out, "M{x:.1} {y:.1}"),
                (false, false) => write!(out, "M{:.1} {y:.1}h{LONE_STROKE}", x - LONE_STROKE / 2.0),
            };
        }
        is_down = point.is_some();
    }
    out
}

/// The lowest and the highest point of a group, in the order of positions, so that a spike is at its own position; one gap if the group is
/// empty. A mean would hide the spike.
fn extremes(places: &[f64], steps: &[[Option<f64>; 2]]) -> Vec<Option<(f64, f64)>> {
    let of_step = |(place, step): (&f64, &[Option<f64>; 2])| step.map(|value| Some((*place, value?)));
    let points = || places.iter().zip(steps).flat_map(of_step).flatten();
    let lowest = points().min_by(|one, two| one.1.total_cmp(&two.1));
    let highest = points().max_by(|one, two| one.1.total_cmp(&two.1));
    let mut ends = vec![lowest, highest];
    ends.sort_by(|one, two| one.partial_cmp(two).unwrap_or(Ordering::Equal));
    ends.dedup();
    ends
}

/// A tick's label: thousands as k, M, G; a number with too many zeros as a power of ten.
pub(super) fn short(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        let text = format!("{value:.4e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'));
    }
    for (size, letter) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value.abs() >= size {
            return format!("{}{letter}", figure(value / size));
        }
    }
    figure(value)
}

/// Five significant digits, without meaningless zeros.
pub(super) fn figure(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let before = value.abs().log10().floor() as i32 + 1;
    let digits = usize::try_from((5 - before).clamp(0, 12)).unwrap_or(0);
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_five_digits() {
        let figures = [0.0, 1.0, 0.012_345_678, 12.345_678, 123_456.7, -2.5, f64::NAN].map(figure);
        assert_eq!(figures, ["0", "1", "0.012346", "12.346", "123457", "-2.5", "0"]);
    }

    #[test]
    fn labels_have_room_beside_the_plot() {
        let labels = [0.0, 0.5, 0.002, 0.000_001_5, 5e-7, 1500.0, 2e6].map(short);
        assert_eq!(labels, ["0", "0.5", "0.002", "1.5e-6", "5e-7", "1.5k", "2M"]);
    }

    #[test]
    fn a_gap_breaks_the_line_and_names_are_escaped() {
        let across = XAxis {
            name: "second",
            places: (1..=5).map(f64::from).collect(),
            ticks: Vec::new(),
            is_log: false,
        };
        let line = ChartLine {
            ends: Vec::new(),
            name: "a".into(),
            values: vec![Some(1.0), Some(2.0), None, Some(4.0), Some(f64::MAX)],
        };
        let svg = lines("<script>\"&", &across, &[line], false, &[(2.0, 3.0)]);
        assert!(svg.contains("aria-label=\"&lt;script&gt;&quot;&amp;\""), "{svg}");
        let drawn = svg.split("class=\"line c0\" d=\"").nth(1).unwrap();
        assert_eq!(drawn.matches('M').count(), 2, "{drawn}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("class=\"band\"").count(), 1);
        let alone = ChartLine {
            ends: Vec::new(),
            name: "b".into(),
            values: vec![None, Some(2.0), None, Some(4.0), Some(5.0)],
        };
        let svg = lines("", &across, &[alone], false, &[]);
        assert_eq!(svg.matches("h5").count(), 1, "the second has no neighbour: {svg}");
    }

    /// The points of the first line, in the order of drawing.
    fn drawn(svg: &str) -> Vec<(f64, f64)> {
        let path = svg.split("class=\"line c0\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        let point = |text: &str| {
            let (x, y) = text.split_once(' ').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        };
        path.split(['M', 'L']).filter(|text| !text.is_empty()).map(point).collect()
    }

    #[test]
    fn a_spike_and_a_dip_are_seen_among_more_points_than_are_drawn() {
        for count in [401, 3600, 4001] {
            let mut values = vec![Some(50.0); count];
            (values[100], values[count - 2]) = (Some(100.0), Some(0.0));
            let places = (0..count).map(|at| at as f64).collect();
            let across = XAxis { name: "second", places, ticks: Vec::new(), is_log: false };
            let svg =
                lines("", &across, &[ChartLine { ends: Vec::new(), name: "a".into(), values }], false, &[]);
            let points = drawn(&svg);
            let (top, bottom) = (TOP, HEIGHT - BOTTOM);
            let at = |x: f64| ((x - LEFT) / (WIDTH - LEFT - RIGHT) * (count - 1) as f64).round();
            let places = |y: f64| {
                points.iter().filter(|point| point.1 == y).map(|point| at(point.0)).collect::<Vec<_>>()
            };
            assert_eq!(places(top), [100.0], "the spike, at its place, of {count}");
            assert_eq!(places(bottom), [count as f64 - 2.0], "the dip, at its place, of {count}");
            assert!(points.is_sorted_by(|one, next| one.0 <= next.0) && points.len() <= 2 * MAX_GROUPS);
        }
    }
}
