//! The report as YCSB's two JSON exporters write it: with Jackson's pretty printer, as one array or without one.
//!
//! Without the array there is only a blank between objects, so that the whole is no JSON document; who reads that form knows it.
//! Behind the last character stands a line break, which YCSB leaves out.

use serde_json::Value as Json;

use super::lines::{Line, Value};
use super::text::number;

/// `{…} {…}`.
pub(super) fn write(lines: &[Line]) -> String {
    let objects: Vec<String> = lines.iter().map(object).collect();
    format!("{}\n", objects.join(" "))
}

/// `[ {…}, {…} ]`.
pub(super) fn write_array(lines: &[Line]) -> String {
    let objects: Vec<String> = lines.iter().map(object).collect();
    format!("[ {} ]\n", objects.join(", "))
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
