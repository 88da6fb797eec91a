//! The recorded run: unpacked, read whole, judged, and gone from the disk again before anything is shown; then brought as samplers bring
//! readings, only faster.
//!
//! It stands in the program as a bundle like those of `fathom runs export` (`cargo measure record-demo` makes it), and is unpacked as
//! `fathom runs import` does; `--keep` leaves it as a run folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use fathom_errors::{Error, Kind};
use fathom_record::bundle::{BYTES_MAX, unpack_as};
use fathom_record::disk::Entry;
use fathom_record::{Reading, Run, State};
use fathom_session::{Assessment, Feed, RecentWindow, mark};
use serde_json::Value;

use crate::assessment_text;
use crate::verbs::report;

static BUNDLE: &[u8] = include_bytes!("../../../fixtures/demo.tar.zst");

/// Everything that is shown of it.
pub(super) struct Recording {
    /// Its readings, by the ends of their windows.
    readings: Vec<Reading>,
    assessment: Assessment,
    state: State,
    /// Where it stays, if it does.
    folder: Option<PathBuf>,
    /// The page of `fathom report`.
    pub(super) page: String,
}

impl Recording {
    /// Unpacks and reads it; in `keep` it stays.
    ///
    /// # Errors
    /// When `keep` is there already, or nothing can be written.
    pub(super) fn unpack(keep: Option<&Path>) -> Result<Recording> {
        match keep {
            Some(keep) => {
                unpacked(keep)?;
                Recording::of(keep, true).inspect_err(|_| {
                    // Ours: it was made above.
                    let _ = std::fs::remove_dir_all(keep);
                })
            }
            None => {
                let failed = |error| refused(Error::io("create", std::env::temp_dir(), error));
                let place = tempfile::Builder::new().prefix("fathom-demo-").tempdir().map_err(failed)?;
                let folder = place.path().join("demo");
                unpacked(&folder)?;
                Recording::of(&folder, false)
            }
        }
    }

    fn of(folder: &Path, is_kept: bool) -> Result<Recording> {
        let (assessment, state) = Assessment::of_folder(folder, Vec::new())?;
        let mut readings = Run::open(folder)?.readings()?;
        readings.sort_by_key(|reading| reading.end_ns);
        let page = report::page_named(folder, "fathom demo")?;
        Ok(Recording { readings, assessment, state, folder: is_kept.then(|| folder.to_owned()), page })
    }

    /// What `fathom explain` says of it.
    pub(super) fn text(&self) -> String {
        assessment_text::text(&self.assessment, self.state, self.folder.as_deref())
    }

    /// What `fathom explain --json` says of it.
    pub(super) fn document(&self) -> Value {
        assessment_text::document(&self.assessment, self.state, self.folder.as_deref())
    }
}

/// Puts the recording there as a new folder.
fn unpacked(folder: &Path) -> Result<()> {
    unpack_as(BUNDLE, Path::new("the recording"), folder, BYTES_MAX).map_err(refused)?;
    Ok(())
}

/// What to do where it cannot be put there.
fn refused(error: Error) -> Error {
    match error.kind() {
        Kind::NotOurs => error.advise("name a folder that is not there yet with --keep"),
        _ => error
            .with_kind(Kind::Unsupported)
            .advise("name a place that can be written with TMPDIR or --keep"),
    }
}

/// How long the last screen stays.
const HELD: Duration = Duration::from_secs(2);

/// A recording that is being shown: each reading comes when its window has ended.
pub(super) struct Replay<'r> {
    readings: Vec<Reading>,
    /// How many of them have come.
    come: usize,
    /// What the servers' logs said, with when.
    logged: Vec<(u64, &'r Entry)>,
    /// When the first reading begins.
    zero_ns: u64,
    last_ns: u64,
    speed: u32,
    begun: Instant,
    window: RecentWindow,
}

impl<'r> Replay<'r> {
    /// Starts now. Lines have columns for servers only, as beside somebody else's load: there the client's readings stay away.
    pub(super) fn start(recording: &'r Recording, speed: u32, has_client: bool) -> Replay<'r> {
        let is_shown = |reading: &&Reading| has_client || !reading.name.starts_with("client.");
        let evidence = &recording.assessment.evidence;
        let mut window = RecentWindow::new(None, evidence.seed);
        window.evidence.environment = evidence.environment.clone();
        recording.assessment.notes.iter().for_each(|note| window.note(note));
        let mut logged: Vec<(u64, &Entry)> =
            evidence.results.iter().filter_map(|entry| Some((time_ns(entry)?, entry))).collect();
        logged.sort_by_key(|(at_ns, _)| *at_ns);
        Replay {
            readings: recording.readings.iter().filter(is_shown).cloned().collect(),
            come: 0,
            logged,
            zero_ns: evidence.window_ns.0,
            last_ns: evidence.window_ns.1,
            speed,
            begun: Instant::now(),
            window,
        }
    }

    /// The moment of the recording that is shown.
    fn now_ns(&self) -> u64 {
        let shown_ns = self.begun.elapsed().saturating_mul(self.speed).as_nanos();
        self.zero_ns.saturating_add(u64::try_from(shown_ns).unwrap_or(u64::MAX)).min(self.last_ns)
    }

    fn take(&mut self) {
        let now_ns = self.now_ns();
        let come = self.readings.partition_point(|reading| reading.end_ns <= now_ns);
        self.window.readings(self.readings.get(self.come..come).unwrap_or_default());
        self.come = come;
        let come = self.logged.partition_point(|(at_ns, _)| *at_ns <= now_ns);
        self.window.evidence.results.extend(self.logged.drain(..come).map(|(_, entry)| entry.clone()));
    }
}

/// When a server's log said it; what was measured as a whole is known only at the end.
fn time_ns(entry: &Entry) -> Option<u64> {
    match entry {
        Entry::SlowOperation(slow) => Some(slow.ended_ns),
        Entry::ServerEvent(event) => Some(event.at_ns),
        _ => None,
    }
}

impl Feed for Replay<'_> {
    fn gather(&mut self, wait: Duration) {
        std::thread::sleep(wait);
        self.take();
    }

    fn window(&self) -> &RecentWindow {
        &self.window
    }

    fn mark(&mut self) {
        let now_ns = self.now_ns();
        self.window.readings(&[mark(now_ns)]);
    }

    fn is_over(&self) -> bool {
        let length = Duration::from_nanos(self.last_ns.saturating_sub(self.zero_ns)) / self.speed;
        self.come == self.readings.len() && self.begun.elapsed() >= length + HELD
    }
}
