//! The lines of the report, each with a metric, a measurement and a value, and their output in the form of YCSB's exporters.
//!
//! The two JSON exporters write with Jackson's pretty printer, as one array or without one. Without the array, only a blank
//! separates the objects, so the whole is not a JSON document; readers of that form expect it. A line break follows the last
//! character, which YCSB leaves out.

use serde_json::Value as Json;

use super::java_double;
use super::metrics::ReportBlock;
use crate::measurements::Status;

/// A value, which the report writes as Java writes its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum JavaNumber {
    Whole(i64),
    Real(f64),
}

impl From<u64> for JavaNumber {
    fn from(number: u64) -> JavaNumber {
        JavaNumber::Whole(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for JavaNumber {
    fn from(number: f64) -> JavaNumber {
        JavaNumber::Real(number)
    }
}

/// A line of the report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReportLine {
    pub(super) metric: String,
    pub(super) measurement: String,
    pub(super) value: JavaNumber,
}

/// The lines collected so far.
#[derive(Debug, Default)]
pub(super) struct ReportLines(Vec<ReportLine>);

impl ReportLines {
    pub(super) fn add(&mut self, metric: &str, measurement: impl Into<String>, value: impl Into<JavaNumber>) {
        self.0.push(ReportLine {
            metric: metric.to_owned(),
            measurement: measurement.into(),
            value: value.into(),
        });
    }

    /// Adds the counts of each status of the operation, if this block has them.
    pub(super) fn add_returns(&mut self, name: &str, metric: &ReportBlock<'_>) {
        let Some(measured) = metric.returns else { return };
        for status in Status::ALL {
            match measured.returned(status) {
                0 => {}
                count => self.add(name, format!("Return={}", status.name()), count),
            }
        }
    }

    /// The text of YCSB's `TextMeasurementsExporter`, a line each: `[METRIC], measurement, value`.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.0 {
            text.push_str(&format!("[{}], {}, {}\n", line.metric, line.measurement, number(line.value)));
        }
        text
    }

    pub(super) fn json(&self) -> String {
        let objects: Vec<String> = self.0.iter().map(object).collect();
        format!("{}\n", objects.join(" "))
    }

    /// `[ {…}, {…} ]`.
    pub(super) fn json_array(&self) -> String {
        let objects: Vec<String> = self.0.iter().map(object).collect();
        format!("[ {} ]\n", objects.join(", "))
    }
}

/// As Java writes it.
fn number(value: JavaNumber) -> String {
    match value {
        JavaNumber::Whole(number) => number.to_string(),
        JavaNumber::Real(number) => java_double(number),
    }
}

fn object(line: &ReportLine) -> String {
    let value = match line.value {
        // JSON has no such numbers.
        JavaNumber::Real(real) if !real.is_finite() => format!("\"{}\"", number(line.value)),
        value => number(value),
    };
    let (metric, measurement) = (Json::from(line.metric.as_str()), Json::from(line.measurement.as_str()));
    format!("{{\n  \"metric\" : {metric},\n  \"measurement\" : {measurement},\n  \"value\" : {value}\n}}")
}
