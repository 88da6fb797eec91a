//! Turns the samples of one server into series: computes the intervals between samples, and what each counter grew in them.

use std::collections::HashMap;

use fathom_errors::Result;
use fathom_ftdc::{SampleBlock, ServerDumps, ServerFacts};
use fathom_record::{HeartbeatTimes, Point, SeriesSet};
use serde::Serialize;

use super::block_columns::BlockColumns;
use super::counter_track::CounterTrack;
use super::cpu_times::RecordedCpuTimes;
use super::heartbeat_reader::HeartbeatReader;
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

/// A sample of the present block, and the intervals that end with it, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
struct SampleWindow {
    /// Its place in the block.
    row: usize,
    /// Its number in the recording.
    number: u64,
    window_ns: Option<(u64, u64)>,
    /// The same, if the sample before it is of the same process.
    process_ns: Option<(u64, u64)>,
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
    /// The columns of the last block.
    columns: Option<BlockColumns>,
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
            columns: None,
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
            self.columns = None;
        }
        let columns = match self.columns.take().filter(|columns| columns.are_of(block)) {
            Some(columns) => columns,
            None => self.columns_of(block),
        };
        self.add_samples(block, &columns, visit)?;
        self.columns = Some(columns);
        Ok(())
    }

    /// The columns of a block. Series that were not seen before get a track.
    fn columns_of(&mut self, block: &SampleBlock<'_>) -> BlockColumns {
        let SegmentReader { host, host_numbers, .. } = self;
        let mut number_of = |name: String| {
            if let Some(number) = host_numbers.get(&name) {
                return Some(*number);
            }
            host.push(CounterTrack::new(name.clone())?);
            host_numbers.insert(name, host.len() - 1);
            Some(host.len() - 1)
        };
        BlockColumns::new(block, self.names, (self.member, &self.facts), &mut number_of)
    }

    fn add_samples(
        &mut self,
        block: &SampleBlock<'_>,
        columns: &BlockColumns,
        visit: &mut dyn FnMut(RecordedSegment<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut windows: Vec<SampleWindow> = Vec::with_capacity(block.starts_ms.len());
        for (row, at_ms) in block.starts_ms.iter().copied().enumerate() {
            if self.follow_clock(block.file, at_ms) {
                self.add_values(block, columns, &mut windows);
                self.finish(visit)?;
                (self.begin_ms, self.last) = (None, None);
            }
            windows.push(self.add_sample(at_ms, row, block, columns));
            let length_ms = self.begin_ms.map_or(0, |begin_ms| at_ms.saturating_sub(begin_ms));
            if length_ms >= self.segment_ms {
                self.add_values(block, columns, &mut windows);
                self.finish(visit)?;
            }
        }
        self.add_values(block, columns, &mut windows);
        Ok(())
    }

    /// Notes a step of the clock before a sample, and returns whether a segment ends before it: at a step back, and at one forward that is longer than any
    /// interval.
    fn follow_clock(&mut self, file: &str, at_ms: i64) -> bool {
        // Files of an archive may come in any order.
        let is_same_file = self.file == file;
        if !is_same_file {
            file.clone_into(&mut self.file);
        }
        let Some(last) = self.last else { return false };
        let is_back = at_ms < last.at_ms;
        if is_back && is_same_file && self.clock_steps.len() < MAX_CLOCK_STEPS {
            self.clock_steps.push(ClockStep { from_ms: last.at_ms, to_ms: at_ms });
        }
        is_back || at_ms.saturating_sub(last.at_ms) > MAX_INTERVAL_MS
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

    /// Adds a sample, except for the values of series that [`SegmentReader::add_values`] adds, and returns its window.
    fn add_sample(
        &mut self,
        at_ms: i64,
        row: usize,
        block: &SampleBlock<'_>,
        columns: &BlockColumns,
    ) -> SampleWindow {
        let value_in = |column: usize| block.columns.get(column)?.get(row).copied();
        let sample = SampleOrigin {
            at_ms,
            end_ms: columns.end.and_then(value_in),
            pid: columns.pid.and_then(value_in),
            uptime_ms: columns.uptime_ms.and_then(value_in),
        };
        self.follow_process(sample);
        // A clock that stepped back gives no interval, and a restart gives no interval of the server.
        let window_ns =
            self.last.filter(|last| last.at_ms < at_ms).map(|last| (to_ns(last.at_ms), to_ns(at_ms)));
        let is_same_process = self.last.is_none_or(|last| last.is_before(sample));
        self.samples += 1;
        let number = self.samples;
        for (column, time) in &columns.cpu_times {
            value_in(*column).into_iter().for_each(|value| self.cpu.set(*time, value));
        }
        self.cpu.end_sample(number, window_ns);
        for (column, field) in &columns.heartbeats {
            value_in(*column).into_iter().for_each(|value| self.heartbeats.set(*field, value));
        }
        self.heartbeats.end_sample();
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
        SampleWindow { row, number, window_ns, process_ns: window_ns.filter(|_| is_same_process) }
    }

    /// Adds the values of samples series by series, and forgets their windows.
    fn add_values(
        &mut self,
        block: &SampleBlock<'_>,
        columns: &BlockColumns,
        windows: &mut Vec<SampleWindow>,
    ) {
        for one in &columns.status {
            let Some(track) = self.status.get_mut(one.row).and_then(Option::as_mut) else { continue };
            for window in windows.iter() {
                track.add(window.number, window.process_ns, one.value(block.columns, window.row));
            }
        }
        for one in &columns.tracks {
            let (track, column) = (self.host.get_mut(one.track), block.columns.get(one.column));
            let (Some(track), Some(column)) = (track, column) else { continue };
            for window in windows.iter() {
                let Some(value) = column.get(window.row) else { continue };
                let window_ns = if one.is_of_process { window.process_ns } else { window.window_ns };
                track.add(window.number, window_ns, *value as f64 * one.factor);
            }
        }
        windows.clear();
    }
}

/// Converts to nanoseconds since 1970 in UTC; 0 for earlier times.
fn to_ns(at_ms: i64) -> u64 {
    u64::try_from(at_ms).unwrap_or(0).saturating_mul(1_000_000)
}
