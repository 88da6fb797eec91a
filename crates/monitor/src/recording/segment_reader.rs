//! Turns the samples of one server into series: maps each column of a chunk to its use, and computes the intervals between samples.

use std::collections::HashMap;

use fathom_errors::Result;
use fathom_ftdc::{ROLES, SampleBlock, ServerDumps, ServerFacts};
use fathom_record::{HeartbeatTimes, Point, SeriesSet};
use serde::Serialize;

use super::counter_track::CounterTrack;
use super::cpu_times::RecordedCpuTimes;
use super::engine_times;
use super::heartbeat_reader::{HeartbeatField, HeartbeatReader};
use super::host_columns::{HostColumn, mount_of};
use crate::server::{NAMES, NameTree};

/// A stretch of one server's recording.
#[derive(Debug)]
pub struct RecordedSegment<'s> {
    /// The number of the server, in the order in which servers were found. Its series are `server.{member}.*`.
    pub member: usize,
    /// The directory of its files.
    pub directory: &'s str,
    /// The facts on the server so far.
    pub facts: &'s ServerFacts,
    /// Times are nanoseconds since 1970 in UTC.
    pub series: SeriesSet,
    /// Begin and end, on the same clock.
    pub window_ns: (u64, u64),
}

/// A step of a host's clock to an earlier time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockStep {
    /// The sample before it, in milliseconds since 1970 in UTC.
    pub from_ms: i64,
    /// The sample after it.
    pub to_ms: i64,
}

/// A process of a recorded server. Times are milliseconds since 1970 in UTC by its host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedProcess {
    pub pid: i64,
    /// When it started, by its uptime.
    pub started_ms: i64,
    /// The time of its last sample.
    pub last_ms: i64,
}

/// The server that a recording is of.
#[derive(Debug)]
pub struct RecordingOwner {
    /// Its number, as in [`RecordedSegment::member`].
    pub member: usize,
    /// The directory of its files.
    pub directory: String,
    pub facts: ServerFacts,
    /// Its heartbeats with other members of its set.
    pub heartbeats: HeartbeatTimes,
    /// The steps of its clock to an earlier time, a thousand at most.
    pub clock_steps: Vec<ClockStep>,
    /// Its processes, a thousand at most.
    pub processes: Vec<RecordedProcess>,
}

/// Thirty days. No interval spans a longer time without samples: the clock was set, or the server was off.
const MAX_INTERVAL_MS: i64 = 30 * 86_400_000;
/// A damaged recording may have a step in each sample.
const MAX_CLOCK_STEPS: usize = 1000;
/// The same for processes.
const MAX_PROCESSES: usize = 1000;
/// The start of a process, as its uptime and the host's clock give it, drifts with that clock.
const MAX_START_DRIFT_MS: u64 = 60_000;

/// A metric's path without the role that it is recorded under.
fn without_role(path: &str) -> &str {
    let rest = |role: &&str| path.strip_prefix(*role).and_then(|rest| rest.strip_prefix('.'));
    ROLES.iter().find_map(rest).unwrap_or(path)
}

/// The dbPath of a server that was started without one.
const DEFAULT_DB_PATH: &str = "/data/db";

/// The use of a column.
#[derive(Clone, Debug)]
pub(super) enum ColumnUse {
    /// It adds to these value paths of the table of names, times these factors.
    Status(Vec<(usize, f64)>),
    Host(HostColumn),
    /// A bucket of times of the engine's reads or writes: the series behind `server.{member}.`.
    EngineTimes(String),
    Heartbeat(HeartbeatField),
    Pid,
    UptimeMs,
    /// When the sample ended.
    End,
    Unused,
}

impl ColumnUse {
    pub(super) fn from_path(path: &str, names: &NameTree) -> ColumnUse {
        // Each role has an end of its own.
        if path == "end" {
            return ColumnUse::End;
        }
        let path = without_role(path);
        match path.strip_prefix("serverStatus.") {
            Some("pid") => ColumnUse::Pid,
            Some("uptimeMillis") => ColumnUse::UptimeMs,
            Some(status) => match names.counts_at(status) {
                counts if counts.is_empty() => {
                    engine_times::series_of(status).map_or(ColumnUse::Unused, ColumnUse::EngineTimes)
                }
                counts => ColumnUse::Status(counts),
            },
            None => match path.strip_prefix("systemMetrics.") {
                Some(metric) => HostColumn::parse(metric).map_or(ColumnUse::Unused, ColumnUse::Host),
                None => HeartbeatField::parse(path).map_or(ColumnUse::Unused, ColumnUse::Heartbeat),
            },
        }
    }
}

/// A column of a chunk with its use, series by their numbers.
enum ChunkColumn {
    Status(Vec<(usize, f64)>),
    Host(usize, f64),
    /// A counter of the server's process.
    EngineTimes(usize),
    CpuTime(usize),
    Heartbeat(HeartbeatField),
    Pid,
    UptimeMs,
    End,
}

/// A sample's time and process, to compare with the next sample.
#[derive(Clone, Copy, Debug)]
struct SampleOrigin {
    at_ms: i64,
    end_ms: Option<i64>,
    pid: Option<i64>,
    uptime_ms: Option<i64>,
}

impl SampleOrigin {
    /// Returns whether `later` is of the same process.
    fn is_before(self, later: SampleOrigin) -> bool {
        let same_pid = self.pid.zip(later.pid).is_none_or(|(before, after)| before == after);
        let is_older = self.uptime_ms.zip(later.uptime_ms).is_none_or(|(before, after)| after >= before);
        same_pid && is_older
    }
}

/// Reads the samples of one server.
pub(super) struct SegmentReader<'n> {
    names: &'n NameTree,
    dumps: &'n ServerDumps,
    pub(super) directory: String,
    /// The facts that the recording itself says.
    recorded: ServerFacts,
    /// The same with those of dumps.
    facts: ServerFacts,
    member: usize,
    segment_ms: i64,
    /// The series of each row of the table of names.
    status: Vec<Option<CounterTrack>>,
    /// The series of the host, and those of the server that have no row in that table.
    host: Vec<CounterTrack>,
    /// Numbers of `host` by the name of the series.
    host_numbers: HashMap<String, usize>,
    cpu: RecordedCpuTimes,
    heartbeats: HeartbeatReader,
    /// The series that shows whether the server answered, with the window of each sample.
    up: Vec<Point>,
    /// How long samples took.
    sample_ms: Vec<Point>,
    clock_steps: Vec<ClockStep>,
    processes: Vec<RecordedProcess>,
    /// The file of the last sample.
    file: String,
    samples: u64,
    last: Option<SampleOrigin>,
    begin_ms: Option<i64>,
}

impl<'n> SegmentReader<'n> {
    pub(super) fn new(
        (names, dumps): (&'n NameTree, &'n ServerDumps),
        directory: &str,
        member: usize,
        segment_ms: i64,
    ) -> SegmentReader<'n> {
        let track = |series: &str| CounterTrack::new(format!("server.{member}.{series}"));
        SegmentReader {
            names,
            dumps,
            directory: directory.to_owned(),
            recorded: ServerFacts::default(),
            facts: ServerFacts::default(),
            member,
            segment_ms,
            status: NAMES.iter().map(|name| track(name.series)).collect(),
            host: Vec::new(),
            host_numbers: HashMap::new(),
            cpu: RecordedCpuTimes::new(),
            heartbeats: HeartbeatReader::default(),
            up: Vec::new(),
            sample_ms: Vec::new(),
            clock_steps: Vec::new(),
            processes: Vec::new(),
            file: String::new(),
            samples: 0,
            last: None,
            begin_ms: None,
        }
    }

    /// Adds the samples of a chunk, and passes each segment on that is full.
    pub(super) fn add(
        &mut self,
        block: &SampleBlock<'_>,
        visit: &mut dyn FnMut(RecordedSegment<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.recorded != *block.facts {
            self.recorded.clone_from(block.facts);
            self.facts.clone_from(block.facts);
            self.dumps.complete(&mut self.facts);
        }
        let uses: Vec<ColumnUse> =
            block.metrics.iter().map(|metric| ColumnUse::from_path(&metric.path, self.names)).collect();
        let mounts = uses.iter().filter_map(|one| match one {
            ColumnUse::Host(HostColumn::Mount(mount, _)) => Some(mount.as_str()),
            _ => None,
        });
        let db_path = self.facts.db_path.as_deref().unwrap_or(DEFAULT_DB_PATH);
        let has_data = self.facts.process.as_deref() != Some("mongos");
        let data_mount = mount_of(db_path, mounts).filter(|_| has_data).map(str::to_owned);
        let columns: Vec<(ChunkColumn, &Vec<i64>)> = uses
            .into_iter()
            .zip(block.columns)
            .filter_map(|(one, column)| Some((self.column(one, data_mount.as_deref())?, column)))
            .collect();
        for (row, at_ms) in block.starts_ms.iter().enumerate() {
            self.follow_clock(block.file, *at_ms, visit)?;
            self.add_sample(*at_ms, row, &columns);
            let length_ms = self.begin_ms.map_or(0, |begin_ms| at_ms.saturating_sub(begin_ms));
            if length_ms >= self.segment_ms {
                self.finish(visit)?;
            }
        }
        Ok(())
    }

    /// Notes a step of the clock before a sample. A segment ends before a step back, and before one forward that is longer than any interval.
    fn follow_clock(
        &mut self,
        file: &str,
        at_ms: i64,
        visit: &mut dyn FnMut(RecordedSegment<'_>) -> Result<()>,
    ) -> Result<()> {
        // Files of an archive may come in any order.
        let is_same_file = self.file == file;
        if !is_same_file {
            file.clone_into(&mut self.file);
        }
        let Some(last) = self.last else { return Ok(()) };
        let is_back = at_ms < last.at_ms;
        if is_back && is_same_file && self.clock_steps.len() < MAX_CLOCK_STEPS {
            self.clock_steps.push(ClockStep { from_ms: last.at_ms, to_ms: at_ms });
        }
        if is_back || at_ms.saturating_sub(last.at_ms) > MAX_INTERVAL_MS {
            self.finish(visit)?;
            (self.begin_ms, self.last) = (None, None);
        }
        Ok(())
    }

    /// Passes on what was read since the last segment.
    pub(super) fn finish(&mut self, visit: &mut dyn FnMut(RecordedSegment<'_>) -> Result<()>) -> Result<()> {
        let (Some(begin_ms), Some(last)) = (self.begin_ms, self.last) else { return Ok(()) };
        let mut series = SeriesSet::default();
        let tracks = self.status.iter_mut().flatten().chain(&mut self.host).chain(self.cpu.tracks());
        tracks.for_each(|track| track.drain_into(&mut series));
        series.extend(&format!("server.{}.up", self.member), "1", self.up.drain(..));
        let sample_name = format!("server.{}.recorder.sample_ms", self.member);
        series.extend(&sample_name, "ms", self.sample_ms.drain(..));
        self.begin_ms = Some(last.at_ms);
        if series.iter().next().is_none() {
            return Ok(());
        }
        visit(RecordedSegment {
            member: self.member,
            directory: &self.directory,
            facts: &self.facts,
            series,
            window_ns: (to_ns(begin_ms), to_ns(last.at_ms)),
        })
    }

    pub(super) fn into_owner(self) -> RecordingOwner {
        RecordingOwner {
            member: self.member,
            directory: self.directory,
            facts: self.facts,
            heartbeats: self.heartbeats.times,
            clock_steps: self.clock_steps,
            processes: self.processes,
        }
    }

    /// Notes the process of a sample.
    fn follow_process(&mut self, sample: SampleOrigin) {
        let Some(pid) = sample.pid else { return };
        let started_ms = sample.at_ms.saturating_sub(sample.uptime_ms.unwrap_or(0));
        let is_same = |one: &&mut RecordedProcess| {
            one.pid == pid && one.started_ms.abs_diff(started_ms) <= MAX_START_DRIFT_MS
        };
        let is_full = self.processes.len() >= MAX_PROCESSES;
        match self.processes.iter_mut().rev().find(is_same) {
            Some(process) => process.last_ms = process.last_ms.max(sample.at_ms),
            None if is_full => {}
            None => self.processes.push(RecordedProcess { pid, started_ms, last_ms: sample.at_ms }),
        }
    }

    /// The column of a use; `data_mount` is the mount of the file system that holds the data.
    fn column(&mut self, column: ColumnUse, data_mount: Option<&str>) -> Option<ChunkColumn> {
        Some(match column {
            ColumnUse::Status(counts) => ChunkColumn::Status(counts),
            ColumnUse::Host(HostColumn::CpuTime(number)) => ChunkColumn::CpuTime(number),
            ColumnUse::Host(HostColumn::Series(name, factor)) => {
                ChunkColumn::Host(self.host_number(name)?, factor)
            }
            ColumnUse::Host(HostColumn::Mount(mount, figure)) => {
                let series = figure.series(self.member);
                ChunkColumn::Host(
                    self.host_number(series).filter(|_| Some(mount.as_str()) == data_mount)?,
                    1.0,
                )
            }
            ColumnUse::EngineTimes(series) => {
                ChunkColumn::EngineTimes(self.host_number(format!("server.{}.{series}", self.member))?)
            }
            ColumnUse::Heartbeat(field) => ChunkColumn::Heartbeat(field),
            ColumnUse::Pid => ChunkColumn::Pid,
            ColumnUse::UptimeMs => ChunkColumn::UptimeMs,
            ColumnUse::End => ChunkColumn::End,
            ColumnUse::Unused => return None,
        })
    }

    fn host_number(&mut self, name: String) -> Option<usize> {
        if let Some(number) = self.host_numbers.get(&name) {
            return Some(*number);
        }
        let number = self.host.len();
        self.host.push(CounterTrack::new(name.clone())?);
        self.host_numbers.insert(name, number);
        Some(number)
    }

    fn add_sample(&mut self, at_ms: i64, row: usize, columns: &[(ChunkColumn, &Vec<i64>)]) {
        let mut sample = SampleOrigin { at_ms, end_ms: None, pid: None, uptime_ms: None };
        for (column, values) in columns {
            match column {
                ChunkColumn::Pid => sample.pid = values.get(row).copied(),
                ChunkColumn::UptimeMs => sample.uptime_ms = values.get(row).copied(),
                ChunkColumn::End => sample.end_ms = values.get(row).copied(),
                _ => {}
            }
        }
        self.follow_process(sample);
        // A clock that stepped back gives no interval, and a restart gives no interval of the server.
        let window_ns =
            self.last.filter(|last| last.at_ms < at_ms).map(|last| (to_ns(last.at_ms), to_ns(at_ms)));
        let is_same_process = self.last.is_none_or(|last| last.is_before(sample));
        let status_window_ns = window_ns.filter(|_| is_same_process);
        self.samples += 1;
        let number = self.samples;
        let mut found = vec![None; self.names.paths()];
        for (column, values) in columns {
            let Some(value) = values.get(row).copied() else { continue };
            match column {
                ChunkColumn::Status(counts) => {
                    for (path, factor) in counts {
                        if let Some(sum) = found.get_mut(*path) {
                            *sum = Some(sum.unwrap_or(0.0) + value as f64 * factor);
                        }
                    }
                }
                ChunkColumn::Host(track, factor) => {
                    if let Some(track) = self.host.get_mut(*track) {
                        track.add(number, window_ns, value as f64 * factor);
                    }
                }
                ChunkColumn::EngineTimes(track) => {
                    if let Some(track) = self.host.get_mut(*track) {
                        track.add(number, status_window_ns, value as f64);
                    }
                }
                ChunkColumn::CpuTime(time) => self.cpu.set(*time, value),
                ChunkColumn::Heartbeat(field) => self.heartbeats.set(*field, value),
                ChunkColumn::Pid | ChunkColumn::UptimeMs | ChunkColumn::End => {}
            }
        }
        self.cpu.end_sample(number, window_ns);
        self.heartbeats.end_sample();
        for (track, value) in self.status.iter_mut().zip(self.names.values(found)) {
            if let (Some(track), Some(value)) = (track, value) {
                track.add(number, status_window_ns, value);
            }
        }
        if let Some((begin_ns, end_ns)) = window_ns {
            let value = f64::from(u8::from(is_same_process));
            self.up.push(Point { begin_ns, end_ns, value });
            let took_ms = self.last.and_then(|last| last.end_ms?.checked_sub(last.at_ms));
            let took_ms = took_ms.filter(|ms| *ms >= 0);
            self.sample_ms.extend(took_ms.map(|ms| Point { begin_ns, end_ns, value: ms as f64 }));
        }
        self.last = Some(sample);
        if self.begin_ms.is_none_or(|begin_ms| at_ms < begin_ms) {
            self.begin_ms = Some(at_ms);
        }
    }
}

/// Converts to nanoseconds since 1970 in UTC; 0 for earlier times.
fn to_ns(at_ms: i64) -> u64 {
    u64::try_from(at_ms).unwrap_or(0).saturating_mul(1_000_000)
}
