//! What the report says, before it is text or JSON: a metric, a measurement of it, and a value.
//!
//! The lines of the garbage collector are there with zeroes, since parsers look for them (facts/ycsb.md 10). There is none here.

use super::metrics::{Metric, metrics};
use super::settings::{ReportSettings, Shape};
use super::{RunTotals, hdr, millisecond_buckets, points};
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
pub(super) struct Lines(pub(super) Vec<Line>);

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
}

/// All lines of the report.
pub(super) fn of(settings: &ReportSettings, totals: &RunTotals<'_>) -> Lines {
    let mut lines = Lines::default();
    lines.add("OVERALL", "RunTime(ms)", totals.run_time_ms);
    let throughput = 1000.0 * totals.operations as f64 / totals.run_time_ms as f64;
    lines.add("OVERALL", "Throughput(ops/sec)", throughput);
    lines.add("TOTAL_GCs", "Count", 0_u64);
    lines.add("TOTAL_GC_TIME", "Time(ms)", 0_u64);
    lines.add("TOTAL_GC_TIME_%", "Time(%)", 0.0);
    for metric in metrics(settings, totals.metrics, false) {
        let name = metric.name.as_str();
        match settings.shape {
            Shape::Hdr => hdr::add(&mut lines, settings, name, &metric),
            Shape::Buckets => {
                millisecond_buckets::add(&mut lines, settings, name, &metric);
            }
            Shape::HdrAndBuckets => {
                hdr::add(&mut lines, settings, &format!("Hdr{name}"), &metric);
                let silent = Metric { returns: None, ..metric };
                millisecond_buckets::add(&mut lines, settings, &format!("Bucket{}", silent.name), &silent);
            }
            Shape::HdrAndRaw => {
                hdr::add(&mut lines, settings, &format!("Hdr{name}"), &metric);
                let silent = Metric { returns: None, ..metric };
                points::add_raw(&mut lines, settings, &format!("Raw{}", silent.name), &silent, totals.raw);
            }
            Shape::TimeSeries => points::add_series(&mut lines, name, &metric, totals.series),
            Shape::Raw => points::add_raw(&mut lines, settings, name, &metric, totals.raw),
        }
    }
    lines
}
