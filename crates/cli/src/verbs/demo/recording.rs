//! The recorded run: unpacked, read whole, judged, and gone from the disk again before anything is shown.
//!
//! It stands in the program as a compressed archive (`cargo xtask record-demo` makes it); `--keep` leaves it as a run folder.

use std::path::Path;

use anyhow::Result;
use fathom_errors::{Error, Kind};
use fathom_record::{Reading, Run};

use crate::explaining::Explained;
use crate::verbs::report;

static ARCHIVE: &[u8] = include_bytes!("../../../fixtures/demo.tar.zst");

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
                std::fs::create_dir(keep).map_err(|error| refused(keep, error))?;
                Recording::within(keep, true).inspect_err(|_| {
                    // Ours: it was made above.
                    let _ = std::fs::remove_dir_all(keep);
                })
            }
            None => {
                let failed = |error| refused(&std::env::temp_dir(), error);
                let folder = tempfile::Builder::new().prefix("fathom-demo-").tempdir().map_err(failed)?;
                Recording::within(folder.path(), false)
            }
        }
    }

    fn within(folder: &Path, is_kept: bool) -> Result<Recording> {
        let archive = zstd::stream::read::Decoder::new(ARCHIVE)
            .and_then(|plain| tar::Archive::new(plain).unpack(folder));
        archive.map_err(|error| refused(folder, error))?;
        let mut explained = Explained::of_folder(folder.to_owned(), Vec::new())?;
        explained.folder.take_if(|_| !is_kept);
        let mut readings = Run::open(folder)?.readings()?;
        readings.sort_by_key(|reading| reading.end_ns);
        Ok(Recording { readings, explained, page: report::page_named(folder, "fathom demo")? })
    }
}

fn refused(folder: &Path, error: std::io::Error) -> Error {
    let taken = error.kind() == std::io::ErrorKind::AlreadyExists;
    let (kind, advice) = match taken {
        true => (Kind::NotOurs, "name a folder that is not there yet with --keep"),
        false => (Kind::Unsupported, "name a place that can be written with TMPDIR or --keep"),
    };
    Error::io("unpack the recording into", folder, error).with_kind(kind).advise(advice)
}
