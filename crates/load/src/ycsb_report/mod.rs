//! YCSB's reports from what was measured: the final one as text or JSON, and the status lines on the way (facts/ycsb.md 5).
//!
//! Names, order and numbers are those that scripts around YCSB parse; where its source and common sense part, the file at hand
//! says so. Nothing is printed here: texts go back to the caller.
//!
//! Minimum, maximum and mean are exact and percentiles within 0.8 %. `Operations` counts documents, also those of a batch, which
//! has one latency; so does `Return=`, which stands under the operation itself even for failures. Failures of
//! `READ-MODIFY-WRITE` and `VERIFY` are `-FAILED` as all others, where YCSB mixes them with what succeeded.

mod distributions;
mod java_double;
mod lines;
mod metrics;
mod points;
mod settings;
mod status_line;

use crate::measurements::Measured;

pub use java_double::java_double;
pub use points::{Means, RawPoints, Series, write_raw_points};
pub use settings::{Clock, ReportSettings, Shape};
pub use status_line::{Progress, eta, seconds_left, status_line, wall_clock};

use lines::Lines;
use metrics::{Metric, metrics};
use settings::Exporter;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTotals<'a> {
    /// By the wall clock, connecting and closing included.
    pub run_time_ms: u64,
    /// All that were done, also those that failed and each document of a batch.
    pub operations: u64,
    /// By the operation's name, such as `READ` or `CLEANUP`, in any order.
    pub metrics: &'a [(String, Measured)],
    /// For [`Shape::TimeSeries`].
    pub series: &'a [Series],
    /// For [`Shape::Raw`] and [`Shape::HdrAndRaw`], the summary of which is made from these.
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

/// All lines of the report. Those of the garbage collector are there with zeroes, since parsers look for them (facts/ycsb.md 10).
/// There is none here.
fn all_lines(settings: &ReportSettings, totals: &RunTotals<'_>) -> Lines {
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
            Shape::Hdr => distributions::add_hdr(&mut lines, settings, name, &metric),
            Shape::Buckets => {
                distributions::add_histogram(&mut lines, settings, name, &metric);
            }
            Shape::HdrAndBuckets => {
                distributions::add_hdr(&mut lines, settings, &format!("Hdr{name}"), &metric);
                let silent = Metric { returns: None, ..metric };
                distributions::add_histogram(
                    &mut lines,
                    settings,
                    &format!("Bucket{}", silent.name),
                    &silent,
                );
            }
            Shape::HdrAndRaw => {
                distributions::add_hdr(&mut lines, settings, &format!("Hdr{name}"), &metric);
                let silent = Metric { returns: None, ..metric };
                points::add_raw(&mut lines, settings, &format!("Raw{}", silent.name), &silent, totals.raw);
            }
            Shape::TimeSeries => points::add_series(&mut lines, name, &metric, totals.series),
            Shape::Raw => points::add_raw(&mut lines, settings, name, &metric, totals.raw),
        }
    }
    lines
}
