//! YCSB's reports from what was measured: the final one as text or JSON, and the status lines on the way (facts/ycsb.md 5).
//!
//! Names, order and numbers are those that scripts around YCSB parse; where its source and common sense part, the file at hand
//! says so. Nothing is printed here: texts go back to the caller.
//!
//! Minimum, maximum and mean are exact and percentiles within 0.8 %. `Operations` counts documents, also those of a batch, which
//! has one latency; so does `Return=`, which stands under the operation itself even for failures. Failures of
//! `READ-MODIFY-WRITE` and `VERIFY` are `-FAILED` as all others, where YCSB mixes them with what succeeded.

mod clock;
mod hdr;
mod java_double;
mod json;
mod lines;
mod means;
mod metrics;
mod millisecond_buckets;
mod percentiles;
mod points;
mod settings;
mod status_line;
mod text;

use crate::measurements::Measured;

pub use clock::{eta, seconds_left, wall_clock};
pub use java_double::java_double;
pub use means::Means;
pub use points::{RawPoints, Series, write_raw_points};
pub use settings::{Clock, ReportSettings, Shape};
pub use status_line::{Progress, status_line};

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
    let lines = lines::of(settings, totals).0;
    match settings.exporter {
        Exporter::Text => text::write(&lines),
        Exporter::Json => json::write(&lines),
        Exporter::JsonArray => json::write_array(&lines),
    }
}
