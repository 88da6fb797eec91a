//! The line that says how far a run is (facts/ycsb.md 5.2).
//!
//! With two types of measurement at once YCSB breaks the line between the two summaries; here it stays one line. A type that says
//! nothing of an interval without operations leaves no blank behind either.

use std::time::Duration;

use fathom_stats::Histogram;

use super::clock::eta;
use super::hdr::{max_us, mean_us, min_us, percentile_us};
use super::java_double::two_decimals;
use super::metrics::{Metric, metrics};
use super::settings::{ReportSettings, Shape};
use crate::measurements::Measured;

/// How far a run is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress<'a> {
    /// What stands in front of the line, without a blank between.
    pub label: &'a str,
    /// The time of day, as `wall_clock` writes it.
    pub clock: &'a str,
    /// Since the start.
    pub elapsed: Duration,
    /// Done since then.
    pub operations: u64,
    /// Operations a second since the line before.
    pub current_rate: f64,
    /// Until the end (`seconds_left`); none where nothing is left, or nobody knows.
    pub seconds_left: Option<u64>,
    /// What was measured since the line before, of all operations that were ever seen.
    pub interval: &'a [(String, Measured)],
}

/// The line, without its end.
pub fn status_line(settings: &ReportSettings, progress: &Progress<'_>) -> String {
    let Progress { label, clock, operations, .. } = progress;
    let mut line = format!("{label}{clock} {} sec: {operations} operations; ", progress.elapsed.as_secs());
    if *operations > 0 {
        line.push_str(&format!("{} current ops/sec; ", two_decimals(progress.current_rate)));
    }
    if let Some(seconds) = progress.seconds_left {
        line.push_str(&format!("est completion in {} ", eta(seconds)));
    }
    for metric in metrics(settings, progress.interval, true) {
        for summary in summaries(settings.shape, &metric).into_iter().flatten() {
            line.push_str(&summary);
            line.push(' ');
        }
    }
    line
}

fn summaries(shape: Shape, metric: &Metric<'_>) -> [Option<String>; 2] {
    let (name, latencies) = (metric.name.as_str(), metric.latencies.as_ref());
    let (hdr, bucket, raw) = (format!("Hdr{name}"), format!("Bucket{name}"), format!("Raw{name}"));
    match shape {
        Shape::Hdr => [Some(distribution(name, metric)), None],
        Shape::Buckets | Shape::TimeSeries => [average(name, latencies), None],
        Shape::HdrAndBuckets => [Some(distribution(&hdr, metric)), average(&bucket, latencies)],
        Shape::HdrAndRaw => [Some(distribution(&hdr, metric)), count_and_average(&raw, latencies)],
        Shape::Raw => [count_and_average(name, latencies), None],
    }
}

fn distribution(name: &str, metric: &Metric<'_>) -> String {
    let latencies = metric.latencies.as_ref();
    let mut text = format!(
        "[{name}: Count={}, Max={}, Min={}, Avg={}",
        metric.operations,
        max_us(latencies).unwrap_or(0),
        min_us(latencies).unwrap_or(0),
        two_decimals(mean_us(latencies).unwrap_or(0.0))
    );
    for percentile in [50.0, 90.0, 99.0, 99.9, 99.99] {
        text.push_str(&format!(", {percentile}={}", percentile_us(latencies, percentile)));
    }
    text.push(']');
    text
}

fn average(name: &str, latencies: &Histogram) -> Option<String> {
    mean_us(latencies).map(|mean_us| format!("[{name} AverageLatency(us)={}]", two_decimals(mean_us)))
}

fn count_and_average(name: &str, latencies: &Histogram) -> Option<String> {
    let mean_us = mean_us(latencies)?;
    Some(format!("{name} count: {}, average latency(us): {mean_us:.2}", latencies.len()))
}
