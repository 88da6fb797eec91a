//! The arguments for recordings: the recordings, the part of their time, and the metrics.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;
use fathom_errors::{Error, Result};
use fathom_ftdc::SampleFilter;
use fathom_report::printable;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use wildmatch::WildMatch;

use crate::output;

/// The recordings, and how their times are printed.
#[derive(Debug, Args)]
pub(crate) struct RecordingArgs {
    /// Folders diagnostic.data or above it, their files, archives of them (tar, gz, zst, zip), or - for standard input
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// The time zone of times [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = parse_zone)]
    pub(crate) tz: Option<TimeZone>,
}

/// The samples and the metrics to read.
#[derive(Debug, Args)]
pub(crate) struct SelectionArgs {
    /// Only metrics whose path matches, where * matches any text and ? one character; may be repeated
    #[arg(long, value_name = "GLOB")]
    metric: Vec<String>,
    #[command(flatten)]
    time_range: TimeRangeArgs,
}

/// The part of the recorded time to read.
#[derive(Debug, Default, Args)]
pub(crate) struct TimeRangeArgs {
    /// Only samples from this time on, like 2026-11-27T19:28 or 2026-11-27T20:28+01:00
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Only samples up to this time
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
}

pub(crate) fn parse_zone(text: &str) -> Result<TimeZone> {
    TimeZone::get(text).map_err(|_| {
        Error::usage(format!("'{text}' is not a time zone that this host knows"))
            .advise("write it like UTC or Europe/Berlin")
    })
}

impl RecordingArgs {
    pub(crate) fn zone(&self) -> TimeZone {
        self.tz.clone().unwrap_or(TimeZone::UTC)
    }

    /// Whether a recording comes from standard input, which can only be read once.
    pub(crate) fn has_standard_input(&self) -> bool {
        self.paths.iter().any(|path| path == Path::new("-"))
    }
}

impl TimeRangeArgs {
    /// Whether a part was chosen.
    pub(crate) fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// The filter of samples.
    pub(crate) fn filter(&self, zone: &TimeZone) -> Result<SampleFilter> {
        self.range_ms(zone).map(SampleFilter::new)
    }

    /// The time in milliseconds since 1970.
    pub(crate) fn range_ms(&self, zone: &TimeZone) -> Result<RangeInclusive<i64>> {
        let bound = |text: &Option<String>, open: i64| {
            text.as_deref().map_or(Ok(open), |text| parse_time(text, zone))
        };
        let (from_ms, to_ms) = (bound(&self.from, i64::MIN)?, bound(&self.to, i64::MAX)?);
        if from_ms > to_ms {
            return Err(Error::usage("--from is later than --to"));
        }
        Ok(from_ms..=to_ms)
    }
}

impl SelectionArgs {
    /// The filter of samples.
    pub(crate) fn filter(&self, zone: &TimeZone) -> Result<SampleFilter> {
        self.time_range.filter(zone)
    }

    /// The patterns of metrics; an empty list means all.
    pub(crate) fn patterns(&self) -> Vec<WildMatch> {
        self.metric.iter().map(|pattern| WildMatch::new(pattern)).collect()
    }

    /// The error if no sample or no metric was found. A part that could not be read may be the reason.
    pub(crate) fn nothing_found(&self, problems: Vec<Error>) -> Error {
        let what = match self.metric.as_slice() {
            [] if self.time_range.is_given() => "no sample lies between --from and --to".to_owned(),
            [] => "the recording holds no sample".to_owned(),
            patterns => format!("no metric matches {}", patterns.join(" or ")),
        };
        let error =
            Error::usage(what).advise("'fathom ftdc info' shows the span, 'fathom ftdc metrics' the metrics");
        match problems.into_iter().next() {
            Some(problem) => error.because(problem),
            None => error,
        }
    }
}

/// Whether a path matches one of the patterns, or there is none.
pub(crate) fn matches(patterns: &[WildMatch], path: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(path))
}

/// A time with or without its offset, in milliseconds since 1970 in UTC.
pub(crate) fn parse_time(text: &str, zone: &TimeZone) -> Result<i64> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_millisecond());
    }
    let time = text.parse::<DateTime>().ok().and_then(|time| zone.to_timestamp(time).ok());
    time.map(Timestamp::as_millisecond).ok_or_else(|| {
        Error::usage(format!("'{text}' is not a time")).advise("write it like 2026-11-27T19:28")
    })
}

/// A time as `2025-07-10T19:28:00.125+00:00`.
pub(crate) fn precise_time(at_ms: i64, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(at_ms) {
        Ok(time) if *zone == TimeZone::UTC => time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        Ok(time) => time.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string(),
        Err(_) => at_ms.to_string(),
    }
}

/// A time as `2025-07-10 19:28:00`.
pub(crate) fn short_time(at_ms: i64, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(at_ms) {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => at_ms.to_string(),
    }
}

/// Prints notes on files that could not be read although the others could.
pub(crate) fn note_problems(problems: &[Error]) {
    const MAX_NOTES: usize = 5;
    for problem in problems.iter().take(MAX_NOTES) {
        output::note(&format!("fathom: note: {}", printable(&problem.to_string())));
    }
    if let Some(more) = problems.len().checked_sub(MAX_NOTES).filter(|more| *more > 0) {
        output::note(&format!("fathom: note: {more} more parts could not be read"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_their_zone_or_offset() {
        let berlin = TimeZone::fixed(jiff::tz::offset(1));
        let at = |text: &str, zone: &TimeZone| parse_time(text, zone).unwrap();
        assert_eq!(at("2026-11-27T19:28:00Z", &berlin), at("2026-11-27 19:28", &TimeZone::UTC));
        assert_eq!(at("2026-11-27T20:28", &berlin), at("2026-11-27T20:28+01:00", &TimeZone::UTC));
        assert_eq!(at("2026-11-27", &TimeZone::UTC) % 86_400_000, 0);
        for bad in ["", "yesterday", "2026-13-01", "19:28"] {
            assert_eq!(parse_time(bad, &berlin).unwrap_err().kind().exit_code(), 2, "{bad}");
        }
        assert_eq!(precise_time(1_752_175_680_125, &TimeZone::UTC), "2025-07-10T19:28:00.125Z");
        assert_eq!(precise_time(1_752_175_680_125, &berlin), "2025-07-10T20:28:00.125+01:00");
        assert_eq!(short_time(1_752_175_680_125, &TimeZone::UTC), "2025-07-10 19:28:00");
    }

    #[test]
    fn a_star_matches_dots_too() {
        let patterns = [WildMatch::new("*.disks.*"), WildMatch::new("start")];
        assert!(matches(&patterns, "systemMetrics.disks.sda.reads") && matches(&patterns, "start"));
        assert!(!matches(&patterns, "serverStatus.start") && matches(&[], "anything"));
    }
}
