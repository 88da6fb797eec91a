//! Report blocks with the distribution of latencies: type `hdrhistogram` has extremes, mean and percentiles, type
//! `histogram` has buckets of a millisecond and the two percentiles that follow from them.
//!
//! Count, mean, minimum and maximum are exact, and percentiles within 0.8 % (YCSB: 0.1 %), never beyond the extremes.
//! Latencies are kept in nanoseconds and cut to whole microseconds when shown; YCSB cuts each one, so its mean is up
//! to 1 µs lower. A block without measurements is all zeroes, as with the HdrHistogram of today's YCSB.
//!
//! The buckets are filled from the middles of our histogram's buckets, which are up to 0.8 % wide: below 256 ms a
//! latency may be in the next bucket, above that a few buckets off. The variance (us squared) follows from
//! these middles; mean, minimum and maximum are exact.

use std::collections::BTreeMap;

use fathom_stats::Histogram;

use super::lines::{JavaNumber, ReportLines};
use super::metrics::ReportBlock;
use super::settings::{self, ReportSettings};

const NS_PER_US: u64 = 1000;

/// Adds the block's lines, under a name that may have a prefix.
pub(super) fn add_hdr(
    lines: &mut ReportLines,
    settings: &ReportSettings,
    name: &str,
    metric: &ReportBlock<'_>,
) {
    let latencies = metric.latencies.as_ref();
    lines.add(name, "Operations", metric.operations);
    lines.add(name, "AverageLatency(us)", mean_us(latencies).unwrap_or(0.0));
    lines.add(name, "MinLatency(us)", min_us(latencies).unwrap_or(0));
    lines.add(name, "MaxLatency(us)", max_us(latencies).unwrap_or(0));
    for percentile in &settings.percentiles {
        let label = format!("{}PercentileLatency(us)", settings::percentile_label(*percentile));
        lines.add(name, label, percentile_us(latencies, *percentile));
    }
    lines.add_returns(name, metric);
    if settings.verbose {
        add_buckets(lines, name, latencies);
    }
}

/// Adds every bucket that is not empty, by whole microseconds. YCSB writes these counts as doubles.
fn add_buckets(lines: &mut ReportLines, name: &str, latencies: &Histogram) {
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

const NS_PER_MS: u64 = 1_000_000;
const US_PER_MS: u64 = 1000;
/// The value that YCSB shows as extremes if nothing was measured.
const NONE: JavaNumber = JavaNumber::Whole(-1);

/// Adds the block's lines, under a name that may have a prefix.
pub(super) fn add_histogram(
    lines: &mut ReportLines,
    settings: &ReportSettings,
    name: &str,
    metric: &ReportBlock<'_>,
) {
    let latencies = metric.latencies.as_ref();
    let buckets = by_millisecond(latencies);
    let variance_ns = latencies.stddev_ns().map_or(f64::NAN, |deviation_ns| deviation_ns * deviation_ns);
    lines.add(name, "Operations", metric.operations);
    lines.add(name, "AverageLatency(us)", mean_us(latencies).unwrap_or(f64::NAN));
    lines.add(name, "LatencyVariance(us)", variance_ns / 1e6);
    lines.add(name, "MinLatency(us)", min_us(latencies).map_or(NONE, JavaNumber::from));
    lines.add(name, "MaxLatency(us)", max_us(latencies).map_or(NONE, JavaNumber::from));
    for (share, label) in [(0.95, "95th"), (0.99, "99th")] {
        // Beyond the last bucket there is no line, as in YCSB.
        let millisecond = reached(&buckets, latencies.len(), share).filter(|place| *place < settings.buckets);
        if let Some(place) = millisecond {
            lines.add(name, format!("{label}PercentileLatency(us)"), place * US_PER_MS);
        }
    }
    lines.add_returns(name, metric);
    if settings.verbose {
        for place in 0..settings.buckets {
            lines.add(name, place.to_string(), buckets.get(&place).copied().unwrap_or(0));
        }
        let beyond: u64 = buckets.range(settings.buckets..).map(|(_, count)| count).sum();
        lines.add(name, format!(">{}", settings.buckets), beyond);
    }
}

/// Counts of latencies by whole milliseconds.
fn by_millisecond(latencies: &Histogram) -> BTreeMap<u64, u64> {
    let mut buckets = BTreeMap::new();
    let ends = latencies.min_ns().zip(latencies.max_ns());
    for (highest_ns, count) in latencies.buckets() {
        let middle_ns = latencies.counts().median_equivalent(highest_ns);
        let ns = ends.map_or(middle_ns, |(least, most)| middle_ns.clamp(least, most));
        *buckets.entry(ns / NS_PER_MS).or_insert(0) += count;
    }
    buckets
}

/// The first millisecond up to whose end this share of the latencies lies.
fn reached(buckets: &BTreeMap<u64, u64>, total: u64, share: f64) -> Option<u64> {
    let mut counted = 0;
    let enough = |(_, count): &(&u64, &u64)| {
        counted += **count;
        counted as f64 / total as f64 >= share
    };
    buckets.iter().find(enough).map(|(place, _)| *place)
}
