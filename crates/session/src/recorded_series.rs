//! Opens run folders, and reads the series of those that keep a recording from its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fathom_errors::Result;
use fathom_explain::recording::SEGMENT_MS;
use fathom_ftdc::{SampleFilter, ServerDump, ServerDumps, ServerFacts};
use fathom_monitor::{RecordedEvent, RecordedSegment, read_recorded_series};
use fathom_record::{Point, Run, SeriesSet, SourceRecording};

/// The fact of a server that says where its data are, behind `server.{member}`, if a dump says that.
pub(crate) const DATA_PATH: &str = ".data_path";

/// Opens a run folder of any kind, those of imported recordings included.
///
/// # Errors
/// When it is no run folder that this version reads.
pub fn open_run(folder: impl Into<PathBuf>) -> Result<Run> {
    Ok(Run::open(folder)?.with_recordings(each_reading))
}

/// Passes the readings of a kept recording on, on the clock of its run.
fn each_reading(
    folder: &Path,
    kept: &SourceRecording,
    take: &mut dyn FnMut(&str, &str, Point),
) -> Result<()> {
    let paths = kept.verified_paths(folder)?;
    let begin_ns = u64::try_from(kept.begin_ms).unwrap_or(0).saturating_mul(1_000_000);
    let filter = SampleFilter::new(kept.begin_ms..=kept.end_ms);
    let dumps = facts_of_dumps(&Run::open(folder)?.manifest.environment);
    read_recorded_series(&paths, filter, &dumps, SEGMENT_MS, &mut |event| {
        if let RecordedEvent::Segment(segment) = event {
            each_point(&own_series(segment), begin_ns, take);
        }
        Ok(())
    })?;
    Ok(())
}

/// The facts of dumps that an import kept in its manifest.
fn facts_of_dumps(environment: &BTreeMap<String, String>) -> ServerDumps {
    let is_server =
        |name: &str| name.strip_prefix("server.").is_some_and(|rest| rest.ends_with(".recording"));
    let servers = environment.keys().filter(|name| is_server(name)).count();
    let mut dumps = ServerDumps::default();
    dumps.is_only_server = servers == 1;
    for member in 0..servers {
        let name = format!("server.{member}");
        let fact = |rest: &str| environment.get(&format!("{name}{rest}")).cloned();
        if let Some(path) = fact(DATA_PATH) {
            let hosts = fact("").into_iter().collect();
            let facts = ServerFacts { hosts, db_path: Some(path), ..ServerFacts::default() };
            dumps.add(name, ServerDump { facts });
        }
    }
    dumps
}

/// Passes each point of series that count from 1970 on, on a clock that begins at `begin_ns`.
pub(crate) fn each_point(series: &SeriesSet, begin_ns: u64, take: &mut dyn FnMut(&str, &str, Point)) {
    let shifted = |ns: u64| ns.saturating_sub(begin_ns);
    for (name, one) in series.iter() {
        for point in &one.points {
            let (begin_ns, end_ns) = (shifted(point.begin_ns), shifted(point.end_ns));
            take(name, &one.unit, Point { begin_ns, end_ns, value: point.value });
        }
    }
}

/// The series of a segment that a run of several servers keeps: readings of several hosts would be mixed, so only the first
/// server's host series are kept.
pub(crate) fn own_series(segment: RecordedSegment<'_>) -> SeriesSet {
    if segment.member == 0 {
        return segment.series;
    }
    let mut own = SeriesSet::default();
    for (name, series) in segment.series.iter().filter(|(name, _)| name.starts_with("server.")) {
        own.extend(name, &series.unit, series.points.iter().copied());
    }
    own
}
