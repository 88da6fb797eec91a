//! A part of servers' recordings as a run, written to a run folder or replayed, for the report page, the live view and the rules for runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_errors::{Error, Result};
use fathom_explain::Evidence;
use fathom_explain::recording::{RecordingJudge, SEGMENT_MS};
use fathom_ftdc::{SampleFilter, visit_samples};
use fathom_monitor::{RecordedEvent, RecordedSegment, read_recorded_series};
use fathom_record::{Manifest, Reading, RunWriter, SeriesSet, State};

use crate::recording::{NO_SAMPLE, recorded_facts};
use crate::replay::Replay;
use crate::run_folders;

/// The longest part of a recording that is one run, in seconds: each second has some hundred readings.
pub const MAX_RECORDED_S: u64 = 6 * 3600;
const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// Servers on one clock, which begins with the first sample.
#[derive(Debug, Default)]
pub struct RecordedRun {
    /// Times are nanoseconds since 1970.
    segments: Vec<SeriesSet>,
    environment: BTreeMap<String, String>,
    notes: Vec<String>,
    window_ns: (u64, u64),
    /// The number of servers in it.
    pub servers: usize,
    /// The errors of parts that could not be read.
    pub problems: Vec<Error>,
}

/// A server's facts, and the judge that finds its disk.
#[derive(Default)]
struct ServerRecording {
    facts: Vec<(String, String)>,
    judge: RecordingJudge,
}

impl ServerRecording {
    fn add(&mut self, segment: &RecordedSegment<'_>) {
        let facts = recorded_facts(segment.facts);
        self.facts = [
            ("", facts.host.clone()),
            (".engine", facts.engine.clone()),
            (".version", facts.version.clone()),
            (".role", if facts.is_router { "router" } else { "standalone" }.to_owned()),
            (".here", "false".to_owned()),
            (".recording", segment.directory.to_owned()),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(rest, value)| (format!("server.{}{rest}", segment.member), value))
        .collect();
        self.judge.add_segment(facts, segment.series.clone(), segment.window_ns);
    }
}

impl RecordedRun {
    /// Reads the samples that pass a filter.
    ///
    /// # Errors
    /// If an input holds no recording, no sample passes, or they are more than six hours apart.
    pub fn read(inputs: &[PathBuf], filter: SampleFilter) -> Result<RecordedRun> {
        let mut run = RecordedRun { window_ns: (u64::MAX, 0), ..RecordedRun::default() };
        let mut servers: Vec<ServerRecording> = Vec::new();
        run.problems = read_recorded_series(inputs, filter, SEGMENT_MS, &mut |event| {
            let RecordedEvent::Segment(segment) = event else { return Ok(()) };
            while servers.len() <= segment.member {
                let judge = RecordingJudge::new(servers.len());
                servers.push(ServerRecording { judge, ..ServerRecording::default() });
            }
            let (begin_ns, end_ns) = run.window_ns;
            run.window_ns = (begin_ns.min(segment.window_ns.0), end_ns.max(segment.window_ns.1));
            if run.window_ns.1 - run.window_ns.0 > MAX_RECORDED_S * NS_PER_S {
                let what = "a run is six hours of a recording at most, and this one is longer";
                return Err(Error::usage(what)
                    .advise("choose a part with --from and --to; 'fathom explain' judges all of it, and says which part is of interest"));
            }
            if let Some(server) = servers.get_mut(segment.member) {
                server.add(&segment);
            }
            run.segments.push(own_series(segment));
            Ok(())
        })?;
        run.servers = servers.len();
        if servers.is_empty() {
            return Err(Error::usage(NO_SAMPLE).advise("'fathom ftdc info' shows its span"));
        }
        for (member, server) in servers.into_iter().enumerate() {
            run.environment.extend(server.facts);
            let disk = server.judge.finish().and_then(|judgement| judgement.disk);
            run.environment.extend(disk.map(|disk| (format!("server.{member}.device"), disk)));
        }
        if run.servers > 1 {
            let note = "The processors and disks in this run are those of the first server's host.";
            run.notes.push(note.to_owned());
        }
        Ok(run)
    }

    /// The same for the first six hours.
    ///
    /// # Errors
    /// If an input holds no recording.
    pub fn read_first(inputs: &[PathBuf]) -> Result<RecordedRun> {
        let mut first_ms = i64::MAX;
        visit_samples(inputs, SampleFilter::new(i64::MIN..=i64::MAX), &|_| false, &mut |block| {
            first_ms = block.starts_ms.iter().copied().fold(first_ms, i64::min);
            Ok(())
        })?;
        let last_ms = first_ms.saturating_add(MAX_RECORDED_S as i64 * 1000);
        RecordedRun::read(inputs, SampleFilter::new(first_ms..=last_ms))
    }

    /// Begin and end, in milliseconds since 1970 in UTC.
    pub fn span_ms(&self) -> (i64, i64) {
        let ms = |ns: u64| i64::try_from(ns / NS_PER_MS).unwrap_or(i64::MAX);
        (ms(self.window_ns.0), ms(self.window_ns.1))
    }

    /// The readings of one series after the other, on the clock of the run.
    fn readings(&self) -> impl Iterator<Item = Vec<Reading>> {
        let begin_ns = self.window_ns.0;
        self.segments.iter().flat_map(|segment| segment.iter()).map(move |(name, series)| {
            let reading = |point: &fathom_record::Point| {
                let shifted = |ns: u64| ns.saturating_sub(begin_ns);
                let window_ns = (shifted(point.begin_ns), shifted(point.end_ns));
                Reading::new(name, &series.unit, window_ns, point.value)
            };
            series.points.iter().map(reading).collect()
        })
    }

    /// Writes it to a new run folder below `parent`. Returns the folder and the number of readings.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn write(&self, parent: Option<&Path>, command_line: Vec<String>) -> Result<(PathBuf, usize)> {
        let time = |ms: i64| jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string());
        let (begin_ms, end_ms) = self.span_ms();
        let mut manifest = Manifest::new("import", env!("CARGO_PKG_VERSION"), command_line);
        manifest.started = time(begin_ms).unwrap_or(manifest.started);
        manifest.finished = time(end_ms).ok();
        manifest.environment = self.environment.clone();
        self.notes.iter().for_each(|note| manifest.add_note(note));
        let mut run = RunWriter::create(&run_folders::parent(parent)?, manifest)?;
        let mut count = 0;
        for batch in self.readings() {
            count += batch.len();
            run.readings(&batch)?;
        }
        Ok((run.finish(State::Complete, None)?, count))
    }

    /// Replays it from a time, in milliseconds since 1970, or from its beginning without one.
    pub fn replay(&self, from_ms: Option<i64>, speed: u32, hindsight: Duration) -> Replay {
        let (begin_ns, end_ns) = self.window_ns;
        let evidence = Evidence {
            environment: self.environment.clone(),
            window_ns: (0, end_ns - begin_ns),
            ..Evidence::default()
        };
        let readings = self.readings().flatten().collect();
        let replay = Replay::start(&evidence, &self.notes, readings, speed, Some(hindsight));
        let from_ns = from_ms.and_then(|ms| u64::try_from(ms).ok()).map(|ms| ms * NS_PER_MS);
        replay.from_moment(from_ns.map_or(0, |ns| ns.saturating_sub(begin_ns)))
    }
}

/// The series of a segment that a run of several servers keeps: readings of several hosts would be mixed, so only the first
/// server's host series are kept.
fn own_series(segment: RecordedSegment<'_>) -> SeriesSet {
    if segment.member == 0 {
        return segment.series;
    }
    let mut own = SeriesSet::default();
    for (name, series) in segment.series.iter().filter(|(name, _)| name.starts_with("server.")) {
        own.extend(name, &series.unit, series.points.iter().copied());
    }
    own
}
