//! The contents of a run folder: the files that Fathom writes, by their names, and all other files.
//!
//! It opens no file and follows no link: it only reads names, kinds and sizes.

use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use fathom_errors::{Error, Result};

use crate::files::{FINDINGS, LATENCY, MANIFEST, RESULTS};
use crate::series_parts::{self, HALF};
use crate::source_recording::{RECORDING, is_server_folder, is_source_file};

/// The page that `fathom report` makes.
const PAGE: &str = "report.html";
/// Names of files that remain when a process is killed during a write.
const HALF_WRITTEN: [&str; 2] = ["manifest.new", "findings.new"];

/// A file of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunFile {
    /// Its name within the folder, with `/`.
    pub name: String,
    pub bytes: u64,
}

impl RunFile {
    /// Whether it contains measurements or judgements, and not data that can be made again from them.
    pub fn is_record(&self) -> bool {
        is_record(&self.name)
    }
}

/// The contents of a run folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Files of a run, by name.
    pub files: Vec<RunFile>,
    /// Folders of a run, each before those within it.
    pub folders: Vec<String>,
    /// Names of files that Fathom did not write.
    pub foreign: Vec<String>,
    /// Names of a run's files that belong to something else than a plain file.
    pub disguised: Vec<String>,
    /// The time of the last write to a record of it.
    pub written: Option<SystemTime>,
}

impl Contents {
    /// Reads the contents of `folder`.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub fn read(folder: &Path) -> Result<Contents> {
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
            // A run in progress uses temporary names and renames: a listed file may have its final name by now.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            about => about.map_err(|e| Error::io("look at", entry.path(), e))?,
        };
        if [LATENCY, RECORDING].contains(&name.as_str()) || is_server_folder(&name) {
            match about.is_dir() {
                true => {
                    let prefix = format!("{name}/");
                    self.folders.push(name);
                    return self.list(&entry.path(), &prefix);
                }
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

/// Whether a file of that name in a run folder is part of the record.
pub(crate) fn is_record(name: &str) -> bool {
    if let Some(log) = name.strip_prefix("latency/") {
        let stem = log.strip_suffix(".hlog").unwrap_or_default();
        return !stem.is_empty()
            && log.len() <= 255
            && !stem.starts_with('.')
            && !stem.chars().any(|c| c.is_control() || matches!(c, '/' | '\\'));
    }
    if is_source_file(name) {
        return true;
    }
    let is_series = series_parts::split(name).is_some_and(|(_, extension)| extension != HALF);
    is_series || [MANIFEST, RESULTS, FINDINGS].contains(&name)
}

/// Whether it can be made again, or remains from a killed process.
fn is_remade(name: &str) -> bool {
    // The name that the crate tempfile gives to the unfinished page.
    let half_a_page = name.strip_prefix(".tmp").is_some_and(|rest| {
        !rest.is_empty() && rest.len() <= 12 && rest.chars().all(|c| c.is_ascii_alphanumeric())
    });
    let half_a_part = series_parts::split(name).is_some_and(|(_, extension)| extension == HALF);
    name == PAGE || is_page_of_two(name) || HALF_WRITTEN.contains(&name) || half_a_part || half_a_page
}

/// Whether it is the page of this run and another, by the name that Fathom gives it: `report-with-20261121T093000Z-ycsb-4711.html`.
fn is_page_of_two(name: &str) -> bool {
    let other = name.strip_prefix("report-with-").and_then(|rest| rest.strip_suffix(".html"));
    let stamp = other.and_then(|other| other.split_once("Z-")).map_or("", |(stamp, _)| stamp);
    let is_stamp = |(at, c): (usize, char)| if at == 8 { c == 'T' } else { c.is_ascii_digit() };
    stamp.len() == 15 && stamp.chars().enumerate().all(is_stamp)
}
