//! YCSB's reports of the measurements: the final one as text or JSON, and the status lines during a run (docs/methods.md#ycsb).
//!
//! Names, order and numbers are those that scripts around YCSB parse; each file states where it deliberately differs from
//! YCSB's source. Nothing is printed here: the functions return texts.
//!
//! Minimum, maximum and mean are exact and percentiles within 0.8 %. `Operations` counts documents, also those of a batch, which
//! has one latency. So does `Return=`, which is listed under the operation itself even for failures. Failures of
//! `READ-MODIFY-WRITE` and `VERIFY` are `-FAILED` like all others, whereas YCSB mixes them with successes.

mod distributions;
mod java_double;
mod lines;
mod metrics;
mod points;
mod settings;
mod status_line;

use std::borrow::Cow;

use fathom_stats::Histogram;

use crate::measurements::OperationMeasurements;

pub use java_double::java_double;
pub use points::{Means, MetricSeries, RawPoints, write_raw_points};
pub use settings::{MeasurementInterval, MeasurementType, ReportSettings};
pub use status_line::{RunProgress, eta, seconds_left, status_line, wall_clock};

use lines::ReportLines;
use metrics::{ReportBlock, metrics};
use settings::Exporter;

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTotals<'a> {
    /// The time by the wall clock, connecting and closing included.
    pub run_time_ms: u64,
    /// All operations done, including failed ones and each document of a batch.
    pub operations: u64,
    /// Measurements by the operation's name, such as `READ` or `CLEANUP`, in any order.
    pub metrics: &'a [(String, OperationMeasurements)],
    /// The series for [`MeasurementType::TimeSeries`].
    pub series: &'a [MetricSeries],
    /// The points for [`MeasurementType::Raw`] and [`MeasurementType::HdrAndRaw`], whose summary is made from them.
    pub raw: &'a [RawPoints],
}

/// The final report, with a line break at its end.
pub fn report(settings: &ReportSettings, totals: &RunTotals<'_>) -> String {
    let lines = all_lines(settings, totals);
    match settings.exporter {
        Exporter::Text => lines.text(),
        Exporter::Json => lines.json(),
        Exporter::JsonArray => lines.json_array(),
    }
}

/// The latencies of each metric of the report, by the names of YCSB's histogram logs: failed operations have their own, as has the
/// second clock, and a type that is one of two has its prefix.
pub fn latencies_by_name<'m>(
    settings: &ReportSettings,
    measured: &'m [(String, OperationMeasurements)],
) -> Vec<(String, Cow<'m, Histogram>)> {
    let prefix = match settings.shape {
        MeasurementType::HdrAndBuckets | MeasurementType::HdrAndRaw => "Hdr",
        _ => "",
    };
    let named = |block: ReportBlock<'m>| (format!("{prefix}{}", block.name), block.latencies);
    metrics(settings, measured, false).into_iter().map(named).collect()
}

/// All lines of the report. Those of the garbage collector, which does not exist here, have zeroes, since parsers look for them
/// (docs/methods.md#ycsb).
fn all_lines(settings: &ReportSettings, totals: &RunTotals<'_>) -> ReportLines {
    let mut lines = ReportLines::default();
    lines.add("OVERALL", "RunTime(ms)", totals.run_time_ms);
    let throughput = 1000.0 * totals.operations as f64 / totals.run_time_ms as f64;
    lines.add("OVERALL", "Throughput(ops/sec)", throughput);
    lines.add("TOTAL_GCs", "Count", 0_u64);
    lines.add("TOTAL_GC_TIME", "Time(ms)", 0_u64);
    lines.add("TOTAL_GC_TIME_%", "Time(%)", 0.0);
    for metric in metrics(settings, totals.metrics, false) {
        let name = metric.name.as_str();
        match settings.shape {
            MeasurementType::Hdr => distributions::add_hdr(&mut lines, settings, name, &metric),
            MeasurementType::Buckets => {
                distributions::add_histogram(&mut lines, settings, name, &metric);
            }
            MeasurementType::HdrAndBuckets => {
                distributions::add_hdr(&mut lines, settings, &format!("Hdr{name}"), &metric);
                let silent = ReportBlock { returns: None, ..metric };
                distributions::add_histogram(
                    &mut lines,
                    settings,
                    &format!("Bucket{}", silent.name),
                    &silent,
                );
            }
            MeasurementType::HdrAndRaw => {
                distributions::add_hdr(&mut lines, settings, &format!("Hdr{name}"), &metric);
                let silent = ReportBlock { returns: None, ..metric };
                points::add_raw(&mut lines, settings, &format!("Raw{}", silent.name), &silent, totals.raw);
            }
            MeasurementType::TimeSeries => points::add_series(&mut lines, name, &metric, totals.series),
            MeasurementType::Raw => points::add_raw(&mut lines, settings, name, &metric, totals.raw),
        }
    }
    lines
}
