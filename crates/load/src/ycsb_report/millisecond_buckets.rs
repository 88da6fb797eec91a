//! A block of type `histogram`: buckets of a millisecond, and the two percentiles that they give.
//!
//! The buckets are filled from our histogram by the middle of its own, which are up to 0.8 % wide: below 256 ms a latency may come
//! to lie beside its bucket, beyond that some further off. The variance (us squared) follows from these middles; mean, minimum and
//! maximum are exact.

use std::collections::BTreeMap;

use fathom_stats::Histogram;

use super::hdr::{max_us, mean_us, min_us};
use super::lines::{Lines, Value};
use super::metrics::Metric;
use super::settings::ReportSettings;

const NS_PER_MS: u64 = 1_000_000;
const US_PER_MS: u64 = 1000;
/// What YCSB shows as the extremes of nothing.
const NONE: Value = Value::Whole(-1);

/// The block's lines, under a name that may have a prefix.
pub(super) fn add(lines: &mut Lines, settings: &ReportSettings, name: &str, metric: &Metric<'_>) {
    let latencies = metric.latencies.as_ref();
    let buckets = by_millisecond(latencies);
    let variance_ns = latencies.stddev_ns().map_or(f64::NAN, |deviation_ns| deviation_ns * deviation_ns);
    lines.add(name, "Operations", metric.operations);
    lines.add(name, "AverageLatency(us)", mean_us(latencies).unwrap_or(f64::NAN));
    lines.add(name, "LatencyVariance(us)", variance_ns / 1e6);
    lines.add(name, "MinLatency(us)", min_us(latencies).map_or(NONE, Value::from));
    lines.add(name, "MaxLatency(us)", max_us(latencies).map_or(NONE, Value::from));
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

/// Counts by the millisecond that a latency began.
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

/// The first millisecond up to whose end so large a share of the latencies lies.
fn reached(buckets: &BTreeMap<u64, u64>, total: u64, share: f64) -> Option<u64> {
    let mut counted = 0;
    let enough = |(_, count): &(&u64, &u64)| {
        counted += **count;
        counted as f64 / total as f64 >= share
    };
    buckets.iter().find(enough).map(|(place, _)| *place)
}
