//! What lies in a run folder: the files that Fathom writes, by their names, and whatever else there is.
//!
//! Nothing is opened and no link is followed: only names, kinds and sizes are looked at.

use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use fathom_errors::{Error, Result};

use crate::files::{FINDINGS, LATENCY, MANIFEST, RESULTS};
use crate::series_parts::{self, HALF};

/// The page that `fathom report` makes.
const PAGE: &str = "report.html";
/// What a kill in the middle of writing leaves.
const HALF_WRITTEN: [&str; 2] = ["manifest.new", "findings.new"];

/// A file of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunFile {
    /// Its name within the folder, with `/`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

impl RunFile {
    /// Whether it holds what was measured or judged, and not what can be made of that again.
    pub fn is_record(&self) -> bool {
        is_record(&self.name)
    }
}

/// What lies in a run folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Files of a run, by name.
    pub files: Vec<RunFile>,
    /// What Fathom did not write, by name.
    pub foreign: Vec<String>,
    /// Names of files of a run that something else than a plain file has.
    pub disguised: Vec<String>,
    /// When a record of it was last written to.
    pub written: Option<SystemTime>,
}

impl Contents {
    /// Of `folder`.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub fn of(folder: &Path) -> Result<Contents> {
        let mut contents = Contents::default();
        contents.list(folder, "")?;
        contents.files.sort();
        contents.foreign.sort();
        contents.disguised.sort();
        Ok(contents)
    }

    /// Bytes of all files of the run.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn list(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let failed = |e| Error::io("list", folder, e);
        for entry in fs::read_dir(folder).map_err(failed)? {
            self.take(&entry.map_err(failed)?, prefix)?;
        }
        Ok(())
    }

    fn take(&mut self, entry: &DirEntry, prefix: &str) -> Result<()> {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let plain_name = entry.file_name().to_str().is_some();
        let about = match entry.metadata() {
            // A run that goes on writes beside a file and renames: what was listed may have its own name by now.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            about => about.map_err(|e| Error::io("look at", entry.path(), e))?,
        };
        if name == LATENCY {
            match about.is_dir() {
                true => return self.list(&entry.path(), "latency/"),
                false => self.disguised.push(name),
            }
        } else if !plain_name || !(is_record(&name) || is_remade(&name)) {
            self.foreign.push(name);
        } else if !about.is_file() {
            self.disguised.push(name);
        } else {
            if is_record(&name) {
                self.written = self.written.max(about.modified().ok());
            }
            self.files.push(RunFile { name, bytes: about.len() });
        }
        Ok(())
    }
}

/// Whether a file of that name, as it stands within a run folder, is part of the record.
pub(crate) fn is_record(name: &str) -> bool {
    if let Some(log) = name.strip_prefix("latency/") {
        let stem = log.strip_suffix(".hlog").unwrap_or_default();
        return !stem.is_empty()
            && log.len() <= 255
            && !stem.starts_with('.')
            && !stem.chars().any(|c| c.is_control() || matches!(c, '/' | '\\'));
    }
    let is_series = series_parts::split(name).is_some_and(|(_, extension)| extension != HALF);
    is_series || [MANIFEST, RESULTS, FINDINGS].contains(&name)
}

/// Whether it can be made again, or is what a kill left.
fn is_remade(name: &str) -> bool {
    // As the crate tempfile calls what becomes the page.
    let half_a_page = name.strip_prefix(".tmp").is_some_and(|rest| {
        !rest.is_empty() && rest.len() <= 12 && rest.chars().all(|c| c.is_ascii_alphanumeric())
    });
    let half_a_part = series_parts::split(name).is_some_and(|(_, extension)| extension == HALF);
    name == PAGE || is_page_of_two(name) || HALF_WRITTEN.contains(&name) || half_a_part || half_a_page
}

/// Whether it is the page of this run beside another, by the name that Fathom gives to both: `report-with-20261121T093000Z-ycsb-4711.html`.
fn is_page_of_two(name: &str) -> bool {
    let other = name.strip_prefix("report-with-").and_then(|rest| rest.strip_suffix(".html"));
    let stamp = other.and_then(|other| other.split_once("Z-")).map_or("", |(stamp, _)| stamp);
    let is_stamp = |(at, c): (usize, char)| if at == 8 { c == 'T' } else { c.is_ascii_digit() };
    stamp.len() == 15 && stamp.chars().enumerate().all(is_stamp)
}
