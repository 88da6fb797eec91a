//! A chart of points with their intervals; lines join the points of a series. It shows figures that were measured at few places, each with its
//! own uncertainty.
//!
//! The picture needs no script. Its CSV has a row for each point, in the order in which they are drawn.

use std::fmt::Write;

use fathom_stats::mean;

use super::super::chart::{Chart, cell};
use super::super::scale::Scale;
use super::super::svg::{Axes, HEIGHT, PlotFrame, escaped, figure};

/// The number of colours of the page, which lines use in turn.
const COLOURS: usize = 8;
/// About the width of a letter and the height of a line, in the picture's units.
const LETTER: (f64, f64) = (7.0, 13.0);
/// The largest x position of text; the picture's width is slightly larger.
const RIGHT_END: f64 = 716.0;

pub(super) struct Dot {
    pub(super) line: usize,
    /// Its position on the x axis.
    pub(super) at: f64,
    /// Its place on the x axis in words, for the CSV.
    pub(super) place: String,
    pub(super) value: f64,
    /// The 95 % interval.
    pub(super) interval: Option<(f64, f64)>,
    /// A label next to it, if it fits.
    pub(super) mark: Option<String>,
}

/// An axis with its ticks.
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) ticks: Vec<(f64, String)>,
}

/// A plot of points with intervals.
pub(super) struct Dots {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) unit: &'static str,
    /// The head of the column of places in the CSV.
    pub(super) places: String,
    /// Names of the lines.
    pub(super) lines: Vec<String>,
    /// The points; those of a line in the order in which they are joined.
    pub(super) dots: Vec<Dot>,
    pub(super) along: Axis,
    pub(super) up: Axis,
    /// Whether equal ratios are equally far apart on the y axis.
    pub(super) is_log: bool,
    /// A band behind everything: begin and end on the y axis.
    pub(super) band: Option<(f64, f64)>,
    /// The points of a dashed line, as x and y.
    pub(super) guide: Vec<(f64, f64)>,
    /// The number of values that it was made of.
    pub(super) readings: usize,
    pub(super) window: String,
    pub(super) how: String,
    pub(super) sentences: Vec<String>,
}

impl Dots {
    /// Draws the plot. Returns `None` without a point.
    pub(super) fn draw(self) -> Option<Chart> {
        if self.dots.is_empty() {
            return None;
        }
        Some(Chart {
            svg: self.picture(),
            csv: self.csv(),
            summary: self.summary(),
            kind: "still",
            readings: self.readings,
            id: self.id,
            title: self.title,
            unit: self.unit,
            lines: self.lines,
            is_log: self.is_log,
            window: self.window,
            how: self.how,
            sentences: self.sentences,
            below: None,
        })
    }

    fn picture(&self) -> String {
        let mut frame = PlotFrame::open(Axes {
            title: &self.title,
            along: self.along.scale,
            up: self.up.scale,
            ticks: &self.along.ticks,
            rules: &self.up.ticks,
            bands: &[],
            height: HEIGHT,
        });
        if let Some((low, high)) = self.band {
            let (left, top, bottom) = (frame.x(f64::NEG_INFINITY), frame.y(high), frame.y(low));
            let (wide, tall) = (frame.x(f64::INFINITY) - left, (bottom - top).max(1.0));
            let _ = write!(
                frame.out,
                "<rect class=\"band\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\"/>"
            );
        }
        let path = |frame: &PlotFrame, points: &mut dyn Iterator<Item = (f64, f64)>| {
            let mut path = String::new();
            for (x, y) in points {
                let letter = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{letter}{:.1} {:.1}", frame.x(x), frame.y(y));
            }
            path
        };
        if !self.guide.is_empty() {
            let guide = path(&frame, &mut self.guide.iter().copied());
            let _ = write!(frame.out, "<path class=\"guide\" d=\"{guide}\"/>");
        }
        for number in 0..self.lines.len() {
            let own = || self.dots.iter().filter(move |dot| dot.line == number);
            if own().nth(1).is_some() {
                let line = path(&frame, &mut own().map(|dot| (dot.at, dot.value)));
                let _ = write!(frame.out, "<path class=\"line c{}\" d=\"{line}\"/>", number % COLOURS);
            }
        }
        self.points(&mut frame);
        frame.closed()
    }

    /// Draws intervals, points and their labels.
    fn points(&self, frame: &mut PlotFrame) {
        for dot in &self.dots {
            let (x, y, colour) = (frame.x(dot.at), frame.y(dot.value), dot.line % COLOURS);
            if let Some((low, high)) = dot.interval {
                let (low, high) = (frame.y(low), frame.y(high));
                let _ =
                    write!(frame.out, "<path class=\"whisker c{colour}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>");
            }
            let _ =
                write!(frame.out, "<circle class=\"dot c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
        }
        let mut taken: Vec<(f64, f64, f64, f64)> = self
            .dots
            .iter()
            .map(|dot| {
                (
                    frame.x(dot.at) - 5.0,
                    frame.y(dot.value) - 5.0,
                    frame.x(dot.at) + 5.0,
                    frame.y(dot.value) + 5.0,
                )
            })
            .collect();
        let (top, bottom) = frame.heights();
        for dot in &self.dots {
            let Some(mark) = &dot.mark else { continue };
            let (x, y) = (frame.x(dot.at), frame.y(dot.value));
            let wide = LETTER.0 * mark.chars().count() as f64;
            let left_ends = [
                (x + 7.0, y - 5.0),
                (x + 7.0, y + 14.0),
                (x - 7.0 - wide, y - 5.0),
                (x - 7.0 - wide, y + 14.0),
            ];
            let free = left_ends
                .into_iter()
                .map(|(left, base)| (left, base - LETTER.1, left + wide, base + 2.0))
                .find(|(left, above, right, below)| {
                    let is_within = *left > frame.x(f64::NEG_INFINITY)
                        && *right < RIGHT_END
                        && *above > top
                        && *below < bottom;
                    is_within
                        && taken.iter().all(|other| {
                            *right < other.0 || *left > other.2 || *below < other.1 || *above > other.3
                        })
                });
            // If there is no space for the label, it is only in the CSV.
            let Some(place) = free else { continue };
            taken.push(place);
            let (left, base) = (place.0, place.3 - 2.0);
            let _ = write!(
                frame.out,
                "<text class=\"beside\" x=\"{left:.1}\" y=\"{base:.1}\">{}</text>",
                escaped(mark)
            );
        }
    }

    fn csv(&self) -> String {
        let unit = self.unit;
        let mut text =
            format!("line,{},value ({unit}),95 % from ({unit}),95 % to ({unit})", cell(&self.places));
        for dot in &self.dots {
            let name = self.lines.get(dot.line).map_or("", String::as_str);
            let (low, high) = ends(dot.interval);
            let _ = write!(text, "\n{},{},{},{low},{high}", cell(name), cell(&dot.place), figure(dot.value));
        }
        text
    }

    fn summary(&self) -> Vec<(String, String, String, String)> {
        let of = |(number, name): (usize, &String)| {
            let values: Vec<f64> =
                self.dots.iter().filter(|dot| dot.line == number).map(|dot| dot.value).collect();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            Some((name.clone(), figure(least), figure(mean(&values)?), figure(most)))
        };
        self.lines.iter().enumerate().filter_map(of).collect()
    }
}

/// The ends of an interval as cells of a CSV, empty without an interval.
pub(super) fn ends(interval: Option<(f64, f64)>) -> (String, String) {
    interval.map_or_else(Default::default, |(low, high)| (figure(low), figure(high)))
}

/// An axis of ratios around these values.
pub(super) fn ratios(values: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = values
        .filter(|value| value.is_finite() && *value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let (scale, ticks) = Scale::around_ratios(low, high);
    Axis { scale, ticks: labelled(ticks) }
}

/// An axis from 0 on.
pub(super) fn from_zero(values: impl Iterator<Item = f64>) -> Axis {
    let scale = Scale::from_zero(values.filter(|value| value.is_finite()).fold(0.0, f64::max));
    Axis { scale, ticks: labelled(scale.ticks()) }
}

/// An axis of round numbers around these values, which need not begin at 0.
pub(super) fn around(values: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let scale = Scale::around(low, high);
    Axis { scale, ticks: labelled(scale.ticks()) }
}

/// Ticks with figures as their labels.
fn labelled(ticks: Vec<f64>) -> Vec<(f64, String)> {
    ticks.into_iter().map(|tick| (tick, super::super::svg::short(tick))).collect()
}
