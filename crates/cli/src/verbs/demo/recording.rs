//! The recorded runs. They are unpacked, read whole, judged, and deleted before anything is shown. Then the readings of the first run are
//! replayed in the order in which samplers deliver readings, only faster.
//!
//! The program contains them as bundles like those of `fathom runs export` (`cargo measure record-demo` makes them), and unpacks them as
//! `fathom runs import` does; `--keep` leaves them as run folders. A probe of the same disk gives its performance at each depth.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fathom_errors::{Error, Kind};
use fathom_record::bundle::{MAX_BYTES, unpack_as};
use fathom_record::disk::Entry;
use fathom_record::{Reading, Run, State};
use fathom_session::{Assessment, Replay};
use serde_json::Value;

use super::change::DemoChange;
use crate::assessment_text;
use crate::run_page::{self, PageStyle};

/// The names of the runs within a kept folder.
pub(super) const BEFORE: &str = "before";
pub(super) const AFTER: &str = "after";
pub(super) const PROBE: &str = "probe";

static BUNDLES: [(&str, &[u8]); 3] = [
    (BEFORE, include_bytes!("../../../fixtures/demo-before.tar.zst")),
    (AFTER, include_bytes!("../../../fixtures/demo-after.tar.zst")),
    (PROBE, include_bytes!("../../../fixtures/demo-probe.tar.zst")),
];

/// The content that the demo shows of them.
pub(super) struct Recording {
    /// The readings before the change, by the ends of their windows.
    readings: Vec<Reading>,
    /// The assessment of the run before the change.
    assessment: Assessment,
    state: State,
    /// The change and its effect.
    pub(super) change: DemoChange,
    /// The folder of the run before the change, if it is kept.
    folder: Option<PathBuf>,
    /// The page that `fathom report` makes of both.
    pub(super) page: String,
}

impl Recording {
    /// Unpacks and reads them; in `keep` they stay.
    ///
    /// # Errors
    /// When `keep` exists already, or nothing can be written.
    pub(super) fn unpack(keep: Option<&Path>) -> Result<Recording> {
        match keep {
            Some(keep) => {
                create(keep)?;
                unpacked(keep).and_then(|()| Recording::read(keep, true)).inspect_err(|_| {
                    // This verb created it above.
                    let _ = std::fs::remove_dir_all(keep);
                })
            }
            None => {
                let failed = |error| refused(Error::io("create", std::env::temp_dir(), error));
                let place = tempfile::Builder::new().prefix("fathom-demo-").tempdir().map_err(failed)?;
                unpacked(place.path())?;
                Recording::read(place.path(), false)
            }
        }
    }

    fn read(place: &Path, is_kept: bool) -> Result<Recording> {
        let (before, after) = (place.join(BEFORE), place.join(AFTER));
        let mut probe = Run::open(place.join(PROBE))?.results()?;
        probe.retain(|entry| matches!(entry, Entry::Step(_)));
        let (assessment, state) = Assessment::from_folder(&before, probe.clone())?;
        let (assessment_after, _) = Assessment::from_folder(&after, probe)?;
        let runs = (Run::open(&before)?, Run::open(&after)?);
        let mut readings = runs.0.readings()?;
        readings.sort_by_key(|reading| reading.end_ns);
        let change = DemoChange::read((&runs.0, &assessment), (&runs.1, &assessment_after))?;
        let page = run_page::page_of_two(&before, &after, &PageStyle::default())?;
        let folder = is_kept.then_some(before);
        Ok(Recording { readings, assessment, state, change, folder, page })
    }

    /// The replay of the run before the change, starting now. Without a client, lines have columns for servers only.
    pub(super) fn replay(&self, speed: u32, has_client: bool) -> Replay {
        let is_shown = |reading: &&Reading| has_client || !reading.name.starts_with("client.");
        let readings = self.readings.iter().filter(is_shown).cloned().collect();
        Replay::start(&self.assessment.evidence, &self.assessment.notes, readings, speed, None)
    }

    /// The text of `fathom explain` on the run before the change.
    pub(super) fn text(&self) -> String {
        assessment_text::text(&self.assessment, self.state, self.folder.as_deref())
    }

    /// The document of `fathom explain --json` on it, with the change.
    pub(super) fn document(&self) -> Value {
        let mut document = assessment_text::document(&self.assessment, self.state, self.folder.as_deref());
        if let Some(fields) = document.as_object_mut() {
            fields.insert("change".to_owned(), self.change.document());
        }
        document
    }
}

/// Creates the folder that is kept.
fn create(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            refused(Error::new(Kind::NotOurs, format!("{} already exists", folder.display())))
        }
        _ => refused(Error::io("create", folder, error)),
    })
}

/// Unpacks the recordings there, each as a new folder.
fn unpacked(place: &Path) -> Result<()> {
    for (name, bundle) in BUNDLES {
        unpack_as(bundle, Path::new("the recording"), &place.join(name), MAX_BYTES).map_err(refused)?;
    }
    Ok(())
}

/// Adds the advice to the error of a folder that cannot be written.
fn refused(error: Error) -> Error {
    match error.kind() {
        Kind::NotOurs => error.advise("name a folder that is not there yet with --keep"),
        _ => error
            .with_kind(Kind::Unsupported)
            .advise("name a place that can be written with TMPDIR or --keep"),
    }
}
