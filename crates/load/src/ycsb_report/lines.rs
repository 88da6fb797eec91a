//! What the report says, a metric, a measurement of it and a value in each line; and how YCSB's exporters write that.
//!
//! The two JSON exporters write with Jackson's pretty printer, as one array or without one. Without the array there is only a blank
//! between objects, so that the whole is no JSON document; who reads that form knows it. Behind the last character stands a line
//! break, which YCSB leaves out.

use serde_json::Value as Json;

use super::java_double;
use super::metrics::Metric;
use crate::measurements::Status;

/// A value, which the report writes as Java writes its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Whole(i64),
    Real(f64),
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Whole(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Real(number)
    }
}

/// A line of the report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) metric: String,
    pub(super) measurement: String,
    pub(super) value: Value,
}

/// Lines as they grow.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<Line>);

impl Lines {
    pub(super) fn add(&mut self, metric: &str, measurement: impl Into<String>, value: impl Into<Value>) {
        self.0.push(Line { metric: metric.to_owned(), measurement: measurement.into(), value: value.into() });
    }

    /// How often the operation ended in which way, if this block says so.
    pub(super) fn add_returns(&mut self, name: &str, metric: &Metric<'_>) {
        let Some(measured) = metric.returns else { return };
        for status in Status::ALL {
            match measured.returned(status) {
                0 => {}
                count => self.add(name, format!("Return={}", status.name()), count),
            }
        }
    }

    /// As YCSB's `TextMeasurementsExporter` writes them, one each: `[METRIC], measurement, value`.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.0 {
            text.push_str(&format!("[{}], {}, {}\n", line.metric, line.measurement, number(line.value)));
        }
        text
    }

    /// `{…} {…}`.
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
fn number(value: Value) -> String {
    match value {
        Value::Whole(number) => number.to_string(),
        Value::Real(number) => java_double(number),
    }
}

fn object(line: &Line) -> String {
    let value = match line.value {
        // JSON has no such numbers.
        Value::Real(real) if !real.is_finite() => format!("\"{}\"", number(line.value)),
        value => number(value),
    };
    let (metric, measurement) = (Json::from(line.metric.as_str()), Json::from(line.measurement.as_str()));
    format!("{{\n  \"metric\" : {metric},\n  \"measurement\" : {measurement},\n  \"value\" : {value}\n}}")
}
