//! A block of type `hdrhistogram`: extremes, mean and percentiles.
//!
//! Count, mean, minimum and maximum are exact, and percentiles within 0.8 % (YCSB: 0.1 %), never beyond the extremes. Latencies
//! count in nanoseconds and are cut to whole microseconds when shown; YCSB cuts each one, so its mean is up to 1 µs lower.
//! Nothing measured is all zeroes, as with the HdrHistogram of today's YCSB.

use fathom_stats::Histogram;

use super::lines::Lines;
use super::metrics::Metric;
use super::percentiles;
use super::settings::ReportSettings;

const NS_PER_US: u64 = 1000;

/// The block's lines, under a name that may have a prefix.
pub(super) fn add(lines: &mut Lines, settings: &ReportSettings, name: &str, metric: &Metric<'_>) {
    let latencies = metric.latencies.as_ref();
    lines.add(name, "Operations", metric.operations);
    lines.add(name, "AverageLatency(us)", mean_us(latencies).unwrap_or(0.0));
    lines.add(name, "MinLatency(us)", min_us(latencies).unwrap_or(0));
    lines.add(name, "MaxLatency(us)", max_us(latencies).unwrap_or(0));
    for percentile in &settings.percentiles {
        let label = format!("{}PercentileLatency(us)", percentiles::label(*percentile));
        lines.add(name, label, percentile_us(latencies, *percentile));
    }
    lines.add_returns(name, metric);
    if settings.verbose {
        add_buckets(lines, name, latencies);
    }
}

/// Every bucket that is not empty, by whole microseconds. YCSB writes these counts as doubles.
fn add_buckets(lines: &mut Lines, name: &str, latencies: &Histogram) {
    let mut last: Option<(u64, u64)> = None;
    let most_ns = latencies.max_ns().unwrap_or(0);
    for (highest_ns, count) in latencies.buckets() {
        let us = highest_ns.min(most_ns) / NS_PER_US;
        last = match last {
            Some((same, counted)) if same == us => Some((us, counted + count)),
            Some((other, counted)) => {
                lines.add(name, other.to_string(), counted as f64);
                Some((us, count))
            }
            None => Some((us, count)),
        };
    }
    if let Some((us, counted)) = last {
        lines.add(name, us.to_string(), counted as f64);
    }
}

pub(super) fn mean_us(latencies: &Histogram) -> Option<f64> {
    latencies.mean_ns().map(|mean_ns| mean_ns / NS_PER_US as f64)
}

pub(super) fn min_us(latencies: &Histogram) -> Option<u64> {
    latencies.min_ns().map(|min_ns| min_ns / NS_PER_US)
}

pub(super) fn max_us(latencies: &Histogram) -> Option<u64> {
    latencies.max_ns().map(|max_ns| max_ns / NS_PER_US)
}

pub(super) fn percentile_us(latencies: &Histogram, percentile: f64) -> u64 {
    latencies.quantile_ns(percentile / 100.0).unwrap_or(0) / NS_PER_US
}
