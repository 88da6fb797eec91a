//! Reads a run folder, complete or cut off, of this schema or an older one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fathom_errors::{Error, Kind, Result};
use fathom_stats::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogHistogram, IntervalLogIterator, LogEntry};

use crate::entry::Entry;
use crate::files::{self, FINDINGS, LATENCY, MANIFEST, MAX_MANIFEST_BYTES, RESULTS};
use crate::source_recording::SourceRecording;
use crate::{Finding, LatencyMap, Manifest, Point, Reading, SCHEMA, SeriesSet, series_parts};

/// The largest file of findings.
const MAX_FINDINGS_BYTES: u64 = 64 << 20;
/// The largest file of results.
const MAX_RESULTS_BYTES: u64 = 1 << 30;
/// The largest latency log.
const MAX_LATENCY_BYTES: u64 = 4 << 30;

/// Passes the readings of a recording in a run folder on, as [`Run::each_reading`] does. What reads recordings is in a higher layer.
pub type RecordingReader = fn(&Path, &SourceRecording, &mut dyn FnMut(&str, &str, Point)) -> Result<()>;

/// A run folder opened for reading.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
    pub manifest: Manifest,
    recordings: Option<RecordingReader>,
}

impl Run {
    /// Opens a folder of this or an older schema.
    ///
    /// # Errors
    /// When the manifest is missing or invalid, or its schema is newer than this program.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let path = folder.join(MANIFEST);
        let text = files::text(&path, MAX_MANIFEST_BYTES)?;
        let malformed =
            |e| Error::new(Kind::Malformed, format!("{} is not a manifest", path.display())).because(e);
        let head: serde_json::Value = serde_json::from_str(&text).map_err(malformed)?;
        let schema = head.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if schema > u64::from(SCHEMA) {
            let what = format!(
                "{} was written by a newer version (schema {schema}, we read up to {SCHEMA})",
                folder.display()
            );
            return Err(Error::new(Kind::Unsupported, what)
                .with_id("newer-run")
                .advise("open it with that version or a newer one"));
        }
        let manifest = serde_json::from_value(head).map_err(malformed)?;
        Ok(Run { folder, manifest, recordings: None })
    }

    /// The same run, whose series are read by `reader` if they are in a recording.
    #[must_use]
    pub fn with_recordings(self, reader: RecordingReader) -> Run {
        Run { recordings: Some(reader), ..self }
    }

    /// Its results in order. A line that does not parse is skipped: a killed writer may leave its last line torn, and a newer one may
    /// add kinds of entries.
    pub fn results(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        files::each_line(&self.folder.join(RESULTS), MAX_RESULTS_BYTES, &mut |line| {
            entries.extend(serde_json::from_slice(line).ok());
            Ok(())
        })?;
        Ok(entries)
    }

    /// Calls `take` with the name, the unit and the value of each reading, in the order of writing. Keeps one row group in memory.
    ///
    /// # Errors
    /// When a file of readings is missing or cannot be read.
    pub fn each_reading(&self, take: &mut dyn FnMut(&str, &str, Point)) -> Result<()> {
        match (&self.manifest.recording, self.recordings) {
            (None, _) => series_parts::each_reading(&self.folder, take),
            (Some(kept), Some(read)) => read(&self.folder, kept, take),
            (Some(_), None) => {
                let what = format!("the series of {} are in its recording", self.folder.display());
                Err(Error::new(Kind::Unsupported, what)
                    .advise("read it with 'fathom explain' or 'fathom ftdc'"))
            }
        }
    }

    /// All its readings; those of one series are in the order of time.
    pub fn readings(&self) -> Result<Vec<Reading>> {
        let mut readings = Vec::new();
        self.each_reading(&mut |name, unit, Point { begin_ns, end_ns, value }| {
            readings.push(Reading::new(name, unit, (begin_ns, end_ns), value));
        })?;
        Ok(readings)
    }

    /// Its readings by name.
    pub fn series(&self) -> Result<SeriesSet> {
        let mut set = SeriesSet::default();
        self.each_reading(&mut |name, unit, point| set.add(name, unit, point))?;
        Ok(set)
    }

    /// Its findings. Empty if the run ended before they were judged.
    pub fn findings(&self) -> Result<Vec<Finding>> {
        let path = self.folder.join(FINDINGS);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = files::text(&path, MAX_FINDINGS_BYTES)?;
        serde_json::from_str(&text)
            .map_err(|e| Error::new(Kind::Malformed, format!("cannot read {}", path.display())).because(e))
    }

    /// The names of its latency logs.
    pub fn latency_names(&self) -> Result<Vec<String>> {
        let folder = self.latency_folder()?;
        let entries = fs::read_dir(&folder).map_err(|e| Error::io("list", &folder, e))?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| {
                entry.file_name().into_string().ok()?.strip_suffix(".hlog").map(str::to_owned)
            })
            .collect();
        names.sort();
        Ok(names)
    }

    /// One latency log merged over all its intervals; a torn last line is skipped.
    pub fn latency(&self, name: &str) -> Result<Histogram> {
        let mut merged = Histogram::new();
        self.each_latency(name, &mut |_, interval| merged.merge(&interval))?;
        Ok(merged)
    }

    /// The same log, and its distribution over time.
    pub fn latency_over_time(&self, name: &str) -> Result<(Histogram, LatencyMap)> {
        let (mut merged, mut map) = (Histogram::new(), LatencyMap::default());
        self.each_latency(name, &mut |window_ns, interval| {
            merged.merge(&interval);
            map.add(window_ns, &interval);
        })?;
        Ok((merged, map))
    }

    /// The intervals of one latency log: the window of each, in nanoseconds since the run's start, and its histogram. Seconds in which
    /// no operation ended are absent.
    pub fn latency_intervals(&self, name: &str) -> Result<Vec<((u64, u64), Histogram)>> {
        let mut intervals = Vec::new();
        self.each_latency(name, &mut |window_ns, histogram| intervals.push((window_ns, histogram)))?;
        Ok(intervals)
    }

    /// The folder of latency logs. A link to another folder is refused.
    fn latency_folder(&self) -> Result<PathBuf> {
        let folder = self.folder.join(LATENCY);
        let about = fs::symlink_metadata(&folder).map_err(|e| Error::io("open", &folder, e))?;
        if about.is_dir() {
            return Ok(folder);
        }
        Err(Error::new(Kind::Malformed, format!("{} is not a folder", folder.display())))
    }

    fn each_latency(&self, name: &str, take: &mut dyn FnMut((u64, u64), Histogram)) -> Result<()> {
        let path = self.latency_folder()?.join(format!("{name}.hlog"));
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        files::each_line(&path, MAX_LATENCY_BYTES, &mut |line| {
            // A torn line does not parse, and neither does text that a later writer appended to it.
            if let Some(Ok(LogEntry::Interval(interval))) = IntervalLogIterator::new(line).next() {
                let begin_ns = ns(interval.start_timestamp());
                let window_ns = (begin_ns, begin_ns.saturating_add(ns(interval.duration())));
                take(window_ns, decode(&interval, &path)?);
            }
            Ok(())
        })
    }
}

fn decode(interval: &IntervalLogHistogram<'_>, path: &Path) -> Result<Histogram> {
    let bad = |why: String| {
        Error::new(Kind::Malformed, format!("{} holds a broken histogram", path.display())).because(why)
    };
    let bytes = STANDARD.decode(interval.encoded_histogram()).map_err(|e| bad(e.to_string()))?;
    let counts = hdrhistogram::serialization::Deserializer::new()
        .deserialize::<u64, _>(&mut bytes.as_slice())
        .map_err(|e| bad(e.to_string()))?;
    Ok(Histogram::from_counts(counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Meaning;
    use crate::{RunWriter, Severity, State};

    fn writer(parent: &Path) -> RunWriter {
        let arguments = ["fathom", "disk", "--uri", "mongodb://a:b@h/"].map(str::to_owned);
        RunWriter::create(parent, Manifest::new("disk", "0.0.0", arguments)).unwrap()
    }

    fn fill(writer: &mut RunWriter) -> Histogram {
        let mut whole = Histogram::new();
        for second in 0..3u64 {
            let mut interval = Histogram::new();
            (0..500).for_each(|i| interval.record(10_000 + i * 997 * (second + 1)));
            let window = (second * 1_000_000_000, (second + 1) * 1_000_000_000);
            writer.latency("randread-read", window, &interval).unwrap();
            writer.readings(&[Reading::new("disk.read.per_s", "1/s", window, 500.0)]).unwrap();
            writer.readings(&[Reading::new("bad", "1/s", window, f64::NAN)]).unwrap();
            whole.merge(&interval);
        }
        let meaning = Meaning { id: "x".into(), sentence: "y".into(), arithmetic: "1 = 1".into() };
        writer.result(&Entry::Meaning(meaning)).unwrap();
        writer.findings(&[Finding::new("capped", Severity::Warning, "It is capped")]).unwrap();
        whole
    }

    fn check(run: &Run, whole: &Histogram) {
        assert_eq!(run.results().unwrap().len(), 1);
        assert_eq!(run.findings().unwrap()[0].id, "capped");
        let readings = run.readings().unwrap();
        assert_eq!(readings.len(), 3);
        assert_eq!(readings[2].begin_ns, 2_000_000_000);
        assert_eq!(run.latency_names().unwrap(), ["randread-read"]);
        let intervals = run.latency_intervals("randread-read").unwrap();
        let windows: Vec<(u64, u64)> = intervals.iter().map(|(window_ns, _)| *window_ns).collect();
        assert_eq!(
            windows,
            [(0, 1_000_000_000), (1_000_000_000, 2_000_000_000), (2_000_000_000, 3_000_000_000)]
        );
        let read_back = run.latency("randread-read").unwrap();
        assert_eq!(read_back.buckets().collect::<Vec<_>>(), whole.buckets().collect::<Vec<_>>());
        assert!(run.manifest.command_line.contains(&"mongodb://***@h/".to_owned()));
    }

    #[test]
    fn a_finished_run_reads_back_whole() {
        let parent = tempfile::tempdir().unwrap();
        let mut writer = writer(parent.path());
        let whole = fill(&mut writer);
        let folder = writer.finish(State::Complete, None).unwrap();
        assert!(folder.join("series.parquet").exists() && !folder.join("series.jsonl").exists());
        let run = Run::open(&folder).unwrap();
        assert_eq!(run.manifest.state, State::Complete);
        check(&run, &whole);
    }

    #[test]
    fn a_killed_run_reads_back_up_to_its_torn_last_line() {
        let parent = tempfile::tempdir().unwrap();
        let mut writer = writer(parent.path());
        let whole = fill(&mut writer);
        let folder = writer.folder().to_owned();
        drop(writer);
        for (file, torn) in [
            (RESULTS, "{\"type\":\"me"),
            ("series.jsonl", "{\"na"),
            ("latency/randread-read.hlog", "3.000,1.0"),
        ] {
            let mut text = fs::read(folder.join(file)).unwrap();
            text.extend_from_slice(torn.as_bytes());
            fs::write(folder.join(file), text).unwrap();
        }
        let run = Run::open(&folder).unwrap();
        assert_eq!(run.manifest.state, State::Running);
        check(&run, &whole);
    }

    #[test]
    fn a_run_killed_while_its_series_were_sealed_loses_none() {
        let parent = tempfile::tempdir().unwrap();
        let mut writer = writer(parent.path());
        let whole = fill(&mut writer);
        let folder = writer.folder().to_owned();
        drop(writer);
        fs::write(folder.join("series.parquet"), "PAR1 and no end").unwrap();
        let run = Run::open(&folder).unwrap();
        check(&run, &whole);
        assert_eq!(run.series().unwrap().get("disk.read.per_s").unwrap().points.len(), 3);
    }

    #[test]
    fn no_file_of_a_run_is_followed_elsewhere_or_read_without_end() {
        let parent = tempfile::tempdir().unwrap();
        let mut writer = writer(parent.path());
        fill(&mut writer);
        let folder = writer.finish(State::Complete, None).unwrap();
        let run = Run::open(&folder).unwrap();
        for file in [RESULTS, FINDINGS, MANIFEST] {
            fs::rename(folder.join(file), parent.path().join(file)).unwrap();
            std::os::unix::fs::symlink(parent.path().join(file), folder.join(file)).unwrap();
        }
        assert!(run.results().is_err() && run.findings().is_err() && Run::open(&folder).is_err());
        fs::remove_file(folder.join(MANIFEST)).unwrap();
        fs::File::create(folder.join(MANIFEST)).unwrap().set_len(MAX_MANIFEST_BYTES + 1).unwrap();
        let endless = Run::open(&folder).unwrap_err();
        assert!(endless.to_string().contains("more than"), "{endless}");
        fs::remove_file(folder.join(RESULTS)).unwrap();
        let results = fs::read(parent.path().join(RESULTS)).unwrap();
        let senseless = vec![b'x'; (files::MAX_LINE_BYTES + 5) as usize];
        fs::write(folder.join(RESULTS), [senseless, b"\n".to_vec(), results, b"\xff\n".to_vec()].concat())
            .unwrap();
        assert_eq!(run.results().unwrap().len(), 1, "what is behind a line without sense is read");
    }

    /// Every part of a run, as `fathom runs --check` reads it.
    fn read_whole(run: &Run) -> Result<()> {
        run.results()?;
        run.findings()?;
        run.readings()?;
        run.series()?;
        run.latency_names()?.iter().try_for_each(|name| run.latency(name).map(drop))
    }

    fn oversized(path: &Path) {
        fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    }

    fn pipe(path: &Path) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    }

    fn link_to_a_device(path: &Path) {
        std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    }

    #[test]
    fn a_pipe_a_link_or_an_oversized_file_is_one_error_and_never_a_wait() {
        type FileReplacer = fn(&Path);
        const LOG: &str = "latency/randread-read.hlog";
        let replacements: [(&str, FileReplacer); 3] =
            [("pipe", pipe), ("link", link_to_a_device), ("oversized", oversized)];
        for file in [LOG, "series.parquet", "series.jsonl", RESULTS, FINDINGS] {
            for (what, replace) in replacements {
                let parent = tempfile::tempdir().unwrap();
                let mut writer = writer(parent.path());
                fill(&mut writer);
                let folder = writer.finish(State::Complete, None).unwrap();
                let run = Run::open(&folder).unwrap();
                let _ = fs::remove_file(folder.join(file));
                replace(&folder.join(file));
                let (sender, receiver) = std::sync::mpsc::channel();
                std::thread::spawn(move || sender.send(read_whole(&run)));
                let read = receiver.recv_timeout(Duration::from_secs(10));
                let error = read.unwrap_or_else(|_| panic!("{what} for {file} is waited for")).unwrap_err();
                assert!(error.to_string().contains(file), "{what} for {file}: {error}");
            }
        }
    }

    #[test]
    fn a_link_to_a_folder_of_latency_logs_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let mut writer = writer(parent.path());
        fill(&mut writer);
        let folder = writer.finish(State::Complete, None).unwrap();
        let run = Run::open(&folder).unwrap();
        fs::rename(folder.join(LATENCY), parent.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(parent.path().join("elsewhere"), folder.join(LATENCY)).unwrap();
        assert!(run.latency_names().is_err() && run.latency("randread-read").is_err());
    }

    #[test]
    fn a_newer_schema_is_refused_by_name() {
        let parent = tempfile::tempdir().unwrap();
        let mut writer = writer(parent.path());
        writer.amend(|manifest| manifest.schema = SCHEMA + 1).unwrap();
        let error = Run::open(writer.folder()).unwrap_err();
        assert!(error.to_string().contains("newer version"), "{error}");
    }
}
