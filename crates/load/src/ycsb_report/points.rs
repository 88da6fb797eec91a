//! Report blocks with more than a distribution: means over time (`timeseries`) and individual latencies (`raw`).
//!
//! The caller passes them by the metric's name in the report (`ReportSettings::metric_name`, with the prefix `Intended-` for
//! the second clock).
//!
//! YCSB has points of means over any number of milliseconds. Here they are of whole seconds, as the loops report
//! latencies by the second.

use std::collections::BTreeMap;
use std::io;

use super::distributions::{max_us, mean_us, min_us};
use super::lines::{JavaNumber, ReportLines};
use super::metrics::{ReportBlock, metrics, place};
use super::settings::{INTENDED, MeasurementType, ReportSettings};
use crate::measurements::OperationMeasurements;

/// Means of a metric over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricSeries {
    /// The metric's name in the report.
    pub metric: String,
    /// Milliseconds since the start, a multiple of the granularity, and the mean latency in microseconds of operations that ended since.
    pub points: Vec<(u64, f64)>,
}

/// The individual latencies of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawPoints {
    /// The metric's name in the report.
    pub metric: String,
    /// The end of each operation, in milliseconds since 1970, and its latency in microseconds.
    pub points: Vec<(u64, u64)>,
}

const NONE: JavaNumber = JavaNumber::Whole(-1);

/// A block of type `timeseries`.
pub(super) fn add_series(
    lines: &mut ReportLines,
    name: &str,
    metric: &ReportBlock<'_>,
    series: &[MetricSeries],
) {
    let latencies = metric.latencies.as_ref();
    lines.add(name, "Operations", metric.operations);
    lines.add(name, "AverageLatency(us)", mean_us(latencies).unwrap_or(f64::NAN));
    lines.add(name, "MinLatency(us)", min_us(latencies).map_or(NONE, JavaNumber::from));
    lines.add(name, "MaxLatency(us)", max_us(latencies).map_or(NONE, JavaNumber::from));
    lines.add_returns(name, metric);
    for series in series.iter().filter(|series| series.metric == metric.name) {
        for (since_start_ms, mean_us) in &series.points {
            lines.add(name, since_start_ms.to_string(), *mean_us);
        }
    }
}

/// The summary of a block of type `raw`, exact, under a name that may have a prefix.
pub(super) fn add_raw(
    lines: &mut ReportLines,
    settings: &ReportSettings,
    name: &str,
    metric: &ReportBlock<'_>,
    raw: &[RawPoints],
) {
    let own = raw.iter().filter(|raw| raw.metric == metric.name);
    let mut sorted: Vec<u64> = own.flat_map(|raw| raw.points.iter().map(|(_, us)| *us)).collect();
    sorted.sort_unstable();
    lines.add(name, "Total Operations", sorted.len() as u64);
    if let Some((least, most)) = sorted.first().zip(sorted.last()).filter(|_| settings.raw_summary) {
        let sum: u128 = sorted.iter().map(|us| u128::from(*us)).sum();
        // YCSB's exporters know only lines with a number.
        lines.add(name, "Below is a summary of latency in microseconds:", NONE);
        lines.add(name, "Average", sum as f64 / sorted.len() as f64);
        lines.add(name, "Min", *least);
        lines.add(name, "Max", *most);
        for (label, share) in [
            ("p1", 0.01),
            ("p5", 0.05),
            ("p50", 0.5),
            ("p90", 0.9),
            ("p95", 0.95),
            ("p99", 0.99),
            ("p99.9", 0.999),
            ("p99.99", 0.9999),
        ] {
            let place = (sorted.len() as f64 * share) as usize;
            lines.add(name, label, sorted.get(place).copied().unwrap_or(*most));
        }
    }
    lines.add_returns(name, metric);
}

/// Writes the points themselves, in the order of the report: for each metric a head line, then `READ,epoch ms,us`. They go to
/// [`ReportSettings::raw_file`], or to standard output in front of the report.
///
/// # Errors
/// Those of the writer.
pub fn write_raw_points(
    out: &mut dyn io::Write,
    settings: &ReportSettings,
    raw: &[RawPoints],
) -> io::Result<()> {
    let prefix = if settings.shape == MeasurementType::HdrAndRaw { "Raw" } else { "" };
    let mut sorted: Vec<&RawPoints> = raw.iter().collect();
    sorted.sort_by_key(|raw| match raw.metric.strip_prefix(INTENDED) {
        Some(operation) => (true, place(operation)),
        None => (false, place(&raw.metric)),
    });
    for RawPoints { metric, points } in sorted {
        writeln!(out, "{prefix}{metric} latency raw data: op, timestamp(ms), latency(us)")?;
        for (epoch_ms, us) in points {
            writeln!(out, "{prefix}{metric},{epoch_ms},{us}")?;
        }
    }
    Ok(())
}

/// Means of each metric over time; empty if no report shows them.
#[derive(Debug, Default)]
pub struct Means {
    /// By metric and point: the sum of the latencies in microseconds, and their number.
    sums: BTreeMap<String, BTreeMap<u64, (f64, u64)>>,
}

impl Means {
    /// Adds a second, counted from when measuring began.
    pub fn add(
        &mut self,
        settings: &ReportSettings,
        second: u64,
        measured: &[(String, OperationMeasurements)],
    ) {
        if settings.shape != MeasurementType::TimeSeries {
            return;
        }
        let width_ms = settings.granularity_ms();
        let point_ms = second.saturating_mul(1000) / width_ms * width_ms;
        for metric in metrics(settings, measured, false) {
            let count = metric.latencies.len();
            let Some(mean_ns) = metric.latencies.mean_ns() else { continue };
            let point = self.sums.entry(metric.name).or_default().entry(point_ms).or_default();
            point.0 += mean_ns / 1000.0 * count as f64;
            point.1 += count;
        }
    }

    /// The points, as the report takes them.
    pub fn series(&self) -> Vec<MetricSeries> {
        let mean = |(point_ms, (sum, count)): (&u64, &(f64, u64))| (*point_ms, sum / *count as f64);
        let series = |(metric, points): (&String, &BTreeMap<u64, (f64, u64)>)| MetricSeries {
            metric: metric.clone(),
            points: points.iter().map(mean).collect(),
        };
        self.sums.iter().map(series).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::Status;
    use crate::properties::Properties;

    #[test]
    fn seconds_are_put_together_into_points() {
        let mut properties = Properties::default();
        for pair in ["measurementtype=timeseries", "timeseries.granularity=2000", "measurement.interval=both"]
        {
            properties.add_flag(pair).unwrap();
        }
        let (settings, _) = ReportSettings::from_properties(&properties).unwrap();
        let mut means = Means::default();
        for (second, service_ns) in [(0, 1000), (1, 3000), (2, 8000)] {
            let mut measured = OperationMeasurements::default();
            measured.record(Status::Ok, service_ns, 2 * service_ns);
            means.add(&settings, second, &[("READ".to_owned(), measured)]);
        }
        let series = means.series();
        assert_eq!(series[0].metric, "Intended-READ");
        assert_eq!(series[1].points, [(0, 2.0), (2000, 8.0)]);
    }
}
