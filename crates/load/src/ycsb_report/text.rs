//! The report as YCSB's `TextMeasurementsExporter` writes it: `[METRIC], measurement, value`.

use super::java_double;
use super::lines::{Line, Value};

/// One line for each.
pub(super) fn write(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&format!("[{}], {}, {}\n", line.metric, line.measurement, number(line.value)));
    }
    text
}

/// As Java writes it.
pub(super) fn number(value: Value) -> String {
    match value {
        Value::Whole(number) => number.to_string(),
        Value::Real(number) => java_double(number),
    }
}
