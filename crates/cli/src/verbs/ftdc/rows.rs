//! Samples as rows of CSV and as lines of JSON.

use std::borrow::Cow;
use std::collections::HashMap;

use fathom_errors::Result;
use fathom_ftdc::{Metric, SampleBlock};
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::output;
use crate::recording_arguments::precise_time;

/// The names of the metrics of a block. If a path occurs twice, as on a host that lists a mount point twice, the second name ends in `#2`.
fn column_names<'m>(metrics: &[&'m Metric]) -> Vec<Cow<'m, str>> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let name = |metric: &&'m Metric| {
        let count = seen.entry(&metric.path).or_default();
        *count += 1;
        match *count {
            1 => Cow::Borrowed(metric.path.as_str()),
            count => Cow::Owned(format!("{}#{count}", metric.path)),
        }
    };
    metrics.iter().map(name).collect()
}

/// The columns of a CSV file: the time, the server, and each metric of the recordings in the order of their appearance.
#[derive(Debug, Default)]
pub(super) struct CsvHeader {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl CsvHeader {
    /// Adds the metrics that it lacks.
    pub(super) fn add(&mut self, metrics: &[&Metric]) {
        for name in column_names(metrics) {
            if !self.numbers.contains_key(name.as_ref()) {
                self.numbers.insert(name.to_string(), self.names.len());
                self.names.push(name.into_owned());
            }
        }
    }

    /// The first line of the file.
    pub(super) fn line(&self) -> String {
        let mut line = "time,server".to_owned();
        for name in &self.names {
            line.push(',');
            line.push_str(&quoted(name));
        }
        line.push('\n');
        line
    }
}

/// The samples of a block as rows of CSV (RFC 4180 except for the line ends). Metrics that it lacks are empty.
pub(super) fn csv_rows(block: &SampleBlock<'_>, header: &CsvHeader, zone: &TimeZone) -> String {
    let mut columns: Vec<Option<&Vec<i64>>> = vec![None; header.names.len()];
    for (name, column) in column_names(block.metrics).iter().zip(block.columns) {
        if let Some(slot) = header.numbers.get(name.as_ref()).and_then(|number| columns.get_mut(*number)) {
            *slot = Some(column);
        }
    }
    let server = quoted(block.directory);
    let mut rows = String::new();
    for (row, start_ms) in block.starts_ms.iter().enumerate() {
        rows.push_str(&precise_time(*start_ms, zone));
        rows.push(',');
        rows.push_str(&server);
        for column in &columns {
            rows.push(',');
            if let Some(value) = column.and_then(|column| column.get(row)) {
                rows.push_str(&value.to_string());
            }
        }
        rows.push('\n');
    }
    rows
}

/// A field of CSV, quoted if its text needs it.
fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}

/// The samples of a block as JSON objects, each on a line.
pub(super) fn json_lines(block: &SampleBlock<'_>, zone: &TimeZone) -> Result<String> {
    let names = column_names(block.metrics);
    let mut lines = String::new();
    for (row, start_ms) in block.starts_ms.iter().enumerate() {
        let mut metrics = Map::new();
        for (name, column) in names.iter().zip(block.columns) {
            if let Some(value) = column.get(row) {
                metrics.insert(name.to_string(), Value::from(*value));
            }
        }
        let sample = serde_json::json!({
            "time": precise_time(*start_ms, zone),
            "server": block.directory,
            "metrics": metrics,
        });
        lines.push_str(&output::json(&sample)?);
        lines.push('\n');
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use fathom_ftdc::MetricKind;

    use super::*;

    fn metric(path: &str) -> Metric {
        Metric { path: path.to_owned(), kind: MetricKind::Int64, first: 0 }
    }

    #[test]
    fn rows_have_a_field_for_each_column_of_the_file() {
        let (reads, twice, named) =
            (metric("disks.sda.reads"), metric("mounts./data.free"), metric("a,\"b\""));
        let mut header = CsvHeader::default();
        header.add(&[&named]);
        let metrics = [&reads, &twice, &twice];
        header.add(&metrics);
        header.add(&metrics);
        assert_eq!(
            header.line(),
            "time,server,\"a,\"\"b\"\"\",disks.sda.reads,mounts./data.free,mounts./data.free#2\n"
        );
        let block = SampleBlock {
            directory: "db1/diagnostic.data",
            file: "metrics.interim",
            facts: &fathom_ftdc::ServerFacts::default(),
            reference: &bson::RawDocumentBuf::new(),
            starts_ms: &[1_752_175_680_125, 1_752_175_681_125],
            metrics: &metrics,
            columns: &[vec![1, 2], vec![-3, 4], vec![5, 6]],
        };
        assert_eq!(
            csv_rows(&block, &header, &TimeZone::UTC),
            "2025-07-10T19:28:00.125Z,db1/diagnostic.data,,1,-3,5\n2025-07-10T19:28:01.125Z,db1/diagnostic.data,,2,4,6\n"
        );
        let lines = json_lines(&block, &TimeZone::UTC).unwrap();
        let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(first["metrics"]["mounts./data.free#2"], 5);
        assert_eq!((first["time"].as_str(), lines.lines().count()), (Some("2025-07-10T19:28:00.125Z"), 2));
    }
}
