//! The recorded run: unpacked, read whole, judged, and gone from the disk again before anything is shown.
//!
//! It stands in the program as a bundle like those of `fathom runs export` (`cargo measure record-demo` makes it), and is unpacked as
//! `fathom runs import` does; `--keep` leaves it as a run folder.

use std::path::Path;

use anyhow::Result;
use fathom_errors::{Error, Kind};
use fathom_record::bundle::{BYTES_MAX, unpack_as};
use fathom_record::{Reading, Run};

use crate::explaining::Explained;
use crate::verbs::report;

static BUNDLE: &[u8] = include_bytes!("../../../fixtures/demo.tar.zst");

/// Everything that is shown of it.
pub(super) struct Recording {
    /// Its readings, by the ends of their windows.
    pub(super) readings: Vec<Reading>,
    pub(super) explained: Explained,
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
        let mut explained = Explained::of_folder(folder.to_owned(), Vec::new())?;
        explained.folder.take_if(|_| !is_kept);
        let mut readings = Run::open(folder)?.readings()?;
        readings.sort_by_key(|reading| reading.end_ns);
        Ok(Recording { readings, explained, page: report::page_named(folder, "fathom demo")? })
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
