//! A chart as the page holds it: a picture that needs no script, its data as CSV, and what it rests on.

use serde::Serialize;

use super::svg;

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// As the legend has it.
    pub(super) name: String,
    /// A value for each place on the x axis; none is a gap.
    pub(super) values: Vec<Option<f64>>,
}

impl Line {
    /// The line at other places: gaps where it has none of them.
    fn moved(&self, from: &[f64], to: &[f64]) -> Line {
        let mut own = from.iter().zip(&self.values).peekable();
        let values = to.iter().map(|place| {
            while own.next_if(|(at, _)| **at < *place).is_some() {}
            own.next_if(|(at, _)| **at == *place).and_then(|(_, value)| *value)
        });
        Line { name: self.name.clone(), values: values.collect() }
    }
}

/// What the x axis of a chart is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Across {
    /// With its unit.
    pub(super) name: &'static str,
    /// Each line has a value for each of these.
    pub(super) places: Vec<f64>,
    /// Ticks with their labels; from the places if there are none.
    pub(super) ticks: Vec<(f64, String)>,
    /// Whether equal ratios are equally far apart; every place is above 0 then.
    pub(super) is_log: bool,
}

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

/// Five significant digits, without zeros that say nothing.
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
    fn data_stand_as_csv_with_gaps_and_quoted_names() {
        let across = Across { name: "second", places: vec![1.0, 2.0], ticks: Vec::new(), is_log: false };
        let lines = [
            Line { name: "a,\"b\"".into(), values: vec![Some(1.5), None] },
            Line { name: "c".into(), values: vec![None, Some(2.0)] },
        ];
        assert_eq!(csv(&across, &lines, "ms"), "second,\"a,\"\"b\"\" (ms)\",c (ms)\n1,1.5,\n2,,2");
    }
}
