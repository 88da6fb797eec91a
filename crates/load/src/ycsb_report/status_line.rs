//! The status line with the progress of a run (docs/methods.md#ycsb), and its times: the wall clock, and the remaining
//! time of the run.
//!
//! With two types of measurement at once YCSB breaks the line between the two summaries; here it stays one line. A type
//! without a summary for an interval without operations leaves no blank either.

use std::time::{Duration, SystemTime};

use fathom_stats::Histogram;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::distributions::{max_us, mean_us, min_us, percentile_us};
use super::java_double::two_decimals;
use super::metrics::{ReportBlock, metrics};
use super::settings::{MeasurementType, ReportSettings};
use crate::measurements::OperationMeasurements;

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunProgress<'a> {
    /// The text before the line, without a blank between.
    pub label: &'a str,
    /// The time of day, as `wall_clock` writes it.
    pub clock: &'a str,
    /// Time since the run's start.
    pub elapsed: Duration,
    /// Operations done since the previous line.
    pub operations: u64,
    /// Operations a second since the line before.
    pub current_rate: f64,
    /// The seconds until the end (`seconds_left`); `None` if nothing is left, or if it is unknown.
    pub seconds_left: Option<u64>,
    /// The measurements since the line before, of all operations that occurred so far.
    pub interval: &'a [(String, OperationMeasurements)],
}

/// The line, without its end.
pub fn status_line(settings: &ReportSettings, progress: &RunProgress<'_>) -> String {
    let RunProgress { label, clock, operations, .. } = progress;
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

fn summaries(shape: MeasurementType, metric: &ReportBlock<'_>) -> [Option<String>; 2] {
    let (name, latencies) = (metric.name.as_str(), metric.latencies.as_ref());
    let (hdr, bucket, raw) = (format!("Hdr{name}"), format!("Bucket{name}"), format!("Raw{name}"));
    match shape {
        MeasurementType::Hdr => [Some(distribution(name, metric)), None],
        MeasurementType::Buckets | MeasurementType::TimeSeries => [average(name, latencies), None],
        MeasurementType::HdrAndBuckets => [Some(distribution(&hdr, metric)), average(&bucket, latencies)],
        MeasurementType::HdrAndRaw => [Some(distribution(&hdr, metric)), count_and_average(&raw, latencies)],
        MeasurementType::Raw => [count_and_average(name, latencies), None],
    }
}

fn distribution(name: &str, metric: &ReportBlock<'_>) -> String {
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

/// The value that YCSB's status thread shows before any operation is done: Java's largest number of seconds.
const NEVER_S: u64 = i64::MAX as u64;

const DAY_S: u64 = 86_400;
const HOUR_S: u64 = 3_600;
const MINUTE_S: u64 = 60;

/// A moment as `yyyy-MM-dd HH:mm:ss:SSS`, in the local time zone.
pub fn wall_clock(moment: SystemTime) -> String {
    // A clock beyond the calendar's years is a broken one; its lines still have a time.
    let moment = Timestamp::try_from(moment).unwrap_or_default();
    zoned(&moment.to_zoned(TimeZone::system()))
}

fn zoned(moment: &Zoned) -> String {
    moment.strftime("%Y-%m-%d %H:%M:%S:%3f").to_string()
}

/// The seconds that the remaining operations will take at the rate so far, rounded up; a huge number if none is done yet.
/// `None` if nothing is left.
pub fn seconds_left(operations: u64, left: u64, elapsed: Duration) -> Option<u64> {
    match (operations, left) {
        (_, 0) => None,
        (0, _) => Some(NEVER_S),
        _ => {
            let seconds = left as f64 * elapsed.as_secs_f64() / operations as f64;
            Some((seconds.ceil() as u64).min(NEVER_S))
        }
    }
}

/// Seconds in words, as YCSB rounds them: days and hours, hours and minutes, or seconds, where any single digit is singular.
pub fn eta(seconds: u64) -> String {
    let (days, hours) = (seconds / DAY_S, seconds % DAY_S / HOUR_S);
    let minutes = if days == 0 { seconds % HOUR_S / MINUTE_S } else { 0 };
    let parts = [(days, "day"), (hours, "hour"), (minutes, "minute")];
    let counted = |(count, unit): (u64, &str)| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
    let words: Vec<String> = parts.into_iter().filter(|(count, _)| *count > 0).map(counted).collect();
    if words.is_empty() {
        let unit = if seconds < 10 { "second" } else { "seconds" };
        return format!("{seconds} {unit}");
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_in_words() {
        for (seconds, words) in [
            (0, "0 second"),
            (1, "1 second"),
            (9, "9 second"),
            (10, "10 seconds"),
            (59, "59 seconds"),
            (60, "1 minute"),
            (3_599, "59 minutes"),
            (3_600, "1 hour"),
            (7_325, "2 hours 2 minutes"),
            (86_400, "1 day"),
            (86_400 + 59 * 60, "1 day"),
            (2 * 86_400 + 3_600, "2 days 1 hour"),
            (NEVER_S, "106751991167300 days 15 hours"),
        ] {
            assert_eq!(eta(seconds), words);
        }
    }

    #[test]
    fn the_rest_follows_from_the_rate() {
        let elapsed = Duration::from_secs(10);
        assert_eq!(seconds_left(0, 5, elapsed), Some(NEVER_S));
        assert_eq!(seconds_left(1000, 0, elapsed), None);
        assert_eq!(seconds_left(1000, 101, elapsed), Some(2));
        assert_eq!(seconds_left(1, u64::MAX, Duration::MAX), Some(NEVER_S));
    }

    #[test]
    fn moments_have_milliseconds_behind_a_colon() {
        let moment = Timestamp::from_millisecond(1_700_000_000_007).unwrap().to_zoned(TimeZone::UTC);
        assert_eq!(zoned(&moment), "2023-11-14 22:13:20:007");
        assert_eq!(wall_clock(SystemTime::now()).len(), "2023-11-14 22:13:20:007".len());
    }
}
