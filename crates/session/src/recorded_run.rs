//! A part of servers' recordings as a run, imported to a run folder or replayed, for the report page, the live view and the rules for runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fathom_errors::{Error, Result};
use fathom_explain::Evidence;
use fathom_explain::recording::{RecordingJudge, SEGMENT_MS};
use fathom_ftdc::{SampleFilter, ServerDumps, visit_samples};
use fathom_monitor::{RecordedEvent, RecordedSegment, read_recorded_series};
use fathom_record::{Reading, SeriesSet};

use crate::recorded_series::{DATA_PATH, each_point, own_series};
use crate::recording::{no_sample, recorded_facts};
use crate::replay::Replay;

/// The longest part of a recording that is one run, in seconds: each second has some hundred readings.
pub const MAX_RECORDED_S: u64 = 6 * 3600;
const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// The error of a recording that is too long for a run.
pub(crate) fn too_long() -> Error {
    Error::usage("a run is six hours of a recording at most, and this one is longer")
        .advise("choose a part with --from and --to; 'fathom explain' judges all of it, and says which part is of interest")
}

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
        // Later readers of a run folder have no dump.
        let data_path = segment.facts.db_path.clone().filter(|_| !segment.facts.dumps.is_empty());
        self.facts = [
            ("", facts.host.clone()),
            (".engine", facts.engine.clone()),
            (".version", facts.version.clone()),
            (".role", if facts.is_router { "router" } else { "standalone" }.to_owned()),
            (".here", "false".to_owned()),
            (".recording", segment.directory.to_owned()),
            (DATA_PATH, data_path.unwrap_or_default()),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(rest, value)| (format!("server.{}{rest}", segment.member), value))
        .collect();
        self.judge.add_segment(facts, segment.series.clone(), segment.window_ns);
    }
}

impl RecordedRun {
    /// Reads the samples that pass a filter; `dumps` have facts that a recording lacks.
    ///
    /// # Errors
    /// If an input holds no recording, no sample passes, or they are more than six hours apart.
    pub fn read(inputs: &[PathBuf], filter: SampleFilter, dumps: &ServerDumps) -> Result<RecordedRun> {
        let mut run = RecordedRun { window_ns: (u64::MAX, 0), ..RecordedRun::default() };
        let mut servers: Vec<ServerRecording> = Vec::new();
        run.problems = read_recorded_series(inputs, filter, dumps, SEGMENT_MS, &mut |event| {
            let RecordedEvent::Segment(segment) = event else { return Ok(()) };
            while servers.len() <= segment.member {
                let judge = RecordingJudge::new(servers.len());
                servers.push(ServerRecording { judge, ..ServerRecording::default() });
            }
            let (begin_ns, end_ns) = run.window_ns;
            run.window_ns = (begin_ns.min(segment.window_ns.0), end_ns.max(segment.window_ns.1));
            if run.window_ns.1 - run.window_ns.0 > MAX_RECORDED_S * NS_PER_S {
                return Err(too_long());
            }
            if let Some(server) = servers.get_mut(segment.member) {
                server.add(&segment);
            }
            run.segments.push(own_series(segment));
            Ok(())
        })?;
        run.servers = servers.len();
        if servers.is_empty() {
            return Err(no_sample(run.problems));
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
    pub fn read_first(inputs: &[PathBuf], dumps: &ServerDumps) -> Result<RecordedRun> {
        let mut first_ms = i64::MAX;
        visit_samples(inputs, SampleFilter::new(i64::MIN..=i64::MAX), &|_| false, &mut |block| {
            first_ms = block.starts_ms.iter().copied().fold(first_ms, i64::min);
            Ok(())
        })?;
        let last_ms = first_ms.saturating_add(MAX_RECORDED_S as i64 * 1000);
        RecordedRun::read(inputs, SampleFilter::new(first_ms..=last_ms), dumps)
    }

    /// Begin and end, in milliseconds since 1970 in UTC.
    pub fn span_ms(&self) -> (i64, i64) {
        let ms = |ns: u64| i64::try_from(ns / NS_PER_MS).unwrap_or(i64::MAX);
        (ms(self.window_ns.0), ms(self.window_ns.1))
    }

    /// The readings of one series after the other, on the clock of the run.
    fn readings(&self) -> Vec<Reading> {
        let mut readings = Vec::new();
        for segment in &self.segments {
            each_point(segment, self.window_ns.0, &mut |name, unit, point| {
                readings.push(Reading::new(name, unit, (point.begin_ns, point.end_ns), point.value));
            });
        }
        readings
    }

    /// The number of its readings.
    pub fn readings_count(&self) -> usize {
        self.segments.iter().flat_map(|segment| segment.iter()).map(|(_, series)| series.points.len()).sum()
    }

    /// Facts on its servers, for a manifest.
    pub(crate) fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// Sentences on its limits, for a manifest.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Adds a sentence on what it lacks.
    pub(crate) fn add_note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Gives the directory of a server's recording another name.
    pub(crate) fn rename_directory(&mut self, from: &str, to: &str) {
        let is_directory = |name: &str| name.ends_with(".recording");
        for (_, value) in
            self.environment.iter_mut().filter(|(name, value)| is_directory(name) && *value == from)
        {
            to.clone_into(value);
        }
    }

    /// Replays it from a time, in milliseconds since 1970, or from its beginning without one.
    pub fn replay(&self, from_ms: Option<i64>, speed: u32, hindsight: Duration) -> Replay {
        let (begin_ns, end_ns) = self.window_ns;
        let evidence = Evidence {
            environment: self.environment.clone(),
            window_ns: (0, end_ns - begin_ns),
            ..Evidence::default()
        };
        let replay = Replay::start(&evidence, &self.notes, self.readings(), speed, Some(hindsight));
        let from_ns = from_ms.and_then(|ms| u64::try_from(ms).ok()).map(|ms| ms * NS_PER_MS);
        replay.from_moment(from_ns.map_or(0, |ns| ns.saturating_sub(begin_ns)))
    }
}
