//! Writes a run folder during the run. Every reading is on disk within the second, so that a kill
//! loses at most the last one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use fathom_errors::{Error, Kind, Result};
use fathom_stats::Histogram;
use serde::Serialize;

use crate::entry::Entry;
use crate::files::{FINDINGS, LATENCY, MANIFEST, RESULTS};
use crate::folders::discard;
use crate::series_parts::SeriesWriter;
use crate::{Finding, LatencyLog, Manifest, Reading, RecordingCopy, Run, RunLock, SourceRecording, State};

/// A run folder being written. A new folder without measurements is removed when the writer is dropped: it would have no
/// use, and verbs that take the newest run would take it.
pub struct RunWriter {
    folder: PathBuf,
    empty: EmptyFolder,
    manifest: Manifest,
    started: Instant,
    started_wall: SystemTime,
    pub(crate) series: SeriesWriter,
    results: File,
    logs: BTreeMap<String, LatencyLog>,
}

impl RunWriter {
    /// Creates a new folder under `parent` (which is created too) and writes the manifest.
    ///
    /// # Errors
    /// When the folder cannot be made or written.
    pub fn create(parent: &Path, manifest: Manifest) -> Result<Self> {
        fs::create_dir_all(parent).map_err(|e| Error::io("create", parent, e))?;
        let stamp: String = manifest.started.chars().take(19).filter(|c| c.is_ascii_alphanumeric()).collect();
        let folder = make_folder(parent, &format!("{stamp}Z-{}-{}", manifest.verb, std::process::id()))?;
        let empty = EmptyFolder(Some(folder.clone()));
        let latency = folder.join(LATENCY);
        fs::create_dir(&latency).map_err(|e| Error::io("create", &latency, e))?;
        RunWriter::begin(RunLock::take_new(&folder)?, manifest, empty)
    }

    /// Resumes a run that was killed or stopped. Its results are written again; its readings and latencies stay.
    ///
    /// # Errors
    /// When the folder cannot be read or written.
    pub fn resume(lock: RunLock) -> Result<Self> {
        let mut manifest = Run::open(&lock.folder)?.manifest;
        (manifest.state, manifest.finished) = (State::Running, None);
        (manifest.error, manifest.error_id) = (None, None);
        let writer = RunWriter::begin(lock, manifest, EmptyFolder(None))?;
        writer.results.set_len(0).map_err(|e| writer.failed(RESULTS, e))?;
        Ok(writer)
    }

    fn begin(RunLock { folder, results }: RunLock, manifest: Manifest, empty: EmptyFolder) -> Result<Self> {
        let writer = RunWriter {
            series: SeriesWriter::open(&folder)?,
            results,
            started: Instant::now(),
            started_wall: SystemTime::now(),
            logs: BTreeMap::new(),
            empty,
            folder,
            manifest,
        };
        writer.write_manifest()?;
        Ok(writer)
    }

    /// The path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether nothing was measured so far: no reading, no result and no latency.
    pub fn is_empty(&self) -> bool {
        self.empty.0.is_some()
    }

    /// From now on the folder stays.
    fn keep(&mut self) {
        self.empty.0 = None;
    }

    /// Nanoseconds since the run's start: the clock of every time in the folder.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The monotonic instant that is the folder's time zero.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Adds readings; those that are not numbers are left out, so that no reader meets a NaN.
    pub fn readings(&mut self, readings: &[Reading]) -> Result<()> {
        if readings.iter().any(|reading| reading.value.is_finite()) {
            self.keep();
        }
        self.series.add(readings)
    }

    pub fn result(&mut self, entry: &Entry) -> Result<()> {
        let line = format!("{}\n", to_json(entry)?);
        self.keep();
        self.results.write_all(line.as_bytes()).map_err(|e| self.failed(RESULTS, e))
    }

    /// Adds one interval's histogram to `latency/<name>.hlog`; an empty one is left out.
    pub fn latency(&mut self, name: &str, window_ns: (u64, u64), histogram: &Histogram) -> Result<()> {
        if histogram.is_empty() {
            return Ok(());
        }
        self.keep();
        if !self.logs.contains_key(name) {
            let path = self.folder.join(LATENCY).join(format!("{name}.hlog"));
            self.logs.insert(name.to_owned(), LatencyLog::create(path, self.started_wall)?);
        }
        match self.logs.get_mut(name) {
            Some(log) => log.add(window_ns, histogram),
            None => Ok(()),
        }
    }

    pub fn findings(&mut self, findings: &[Finding]) -> Result<()> {
        replace(&self.folder.join(FINDINGS), &to_pretty_json(&findings)?)
    }

    /// Changes the manifest and writes it again.
    pub fn amend(&mut self, change: impl FnOnce(&mut Manifest)) -> Result<()> {
        change(&mut self.manifest);
        self.write_manifest()
    }

    /// Gives the run the files of a recording, and the times of the first and the last sample that count, in milliseconds since 1970. Its
    /// series are read from them.
    ///
    /// # Errors
    /// When the files cannot be moved into the folder.
    pub fn keep_recording(&mut self, copy: RecordingCopy, (begin_ms, end_ms): (i64, i64)) -> Result<()> {
        let files = copy.move_to(&self.folder)?;
        self.keep();
        self.amend(|manifest| manifest.recording = Some(SourceRecording { begin_ms, end_ms, files }))
    }

    /// Ends the run: seals the last readings, and writes to the manifest how it ended. The folder stays, even an empty one.
    pub fn finish(mut self, state: State, error: Option<String>) -> Result<PathBuf> {
        self.keep();
        match self.manifest.recording {
            None => self.series.finish()?,
            Some(_) => self.series.remove()?,
        }
        self.amend(|manifest| {
            manifest.state = state;
            manifest.error = error;
            // An imported recording ended earlier.
            manifest.finished.get_or_insert_with(|| jiff::Timestamp::now().to_string());
        })?;
        Ok(self.folder)
    }

    fn write_manifest(&self) -> Result<()> {
        replace(&self.folder.join(MANIFEST), &to_pretty_json(&self.manifest)?)
    }

    fn failed(&self, file: &str, source: std::io::Error) -> Error {
        Error::io("write", self.folder.join(file), source)
    }
}

/// A new folder, as long as it has no measurements. It is removed when this is dropped.
struct EmptyFolder(Option<PathBuf>);

impl Drop for EmptyFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed looks like a run that was cut off.
        let _ = self.0.take().map(|folder| discard(&folder));
    }
}

/// Creates a new folder with the name `base`, or `base` with a number.
fn make_folder(parent: &Path, base: &str) -> Result<PathBuf> {
    for number in 0..1000 {
        let folder = parent.join(if number == 0 { base.to_owned() } else { format!("{base}-{number}") });
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create", &folder, error)),
        }
    }
    Err(Error::new(Kind::Busy, format!("no free name for a run under {}", parent.display())))
}

/// Writes a whole file so that a reader sees the old or the new one, never a partial one.
fn replace(path: &Path, text: &str) -> Result<()> {
    let temporary = path.with_extension("new");
    fs::write(&temporary, text).map_err(|e| Error::io("write", &temporary, e))?;
    fs::rename(&temporary, path).map_err(|e| Error::io("replace", path, e))
}

fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::new(Kind::Malformed, "cannot write JSON").because(e))
}

fn to_pretty_json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    text.map(|t| t + "\n").map_err(|e| Error::new(Kind::Malformed, "cannot write JSON").because(e))
}
