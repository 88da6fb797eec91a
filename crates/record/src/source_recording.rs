//! The files of a mongod's recording of itself that a run folder keeps: the manifest lists them with their sizes and SHA-256, and the series of the
//! run are read from them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

use crate::checksum_stream::ChecksumStream;
use crate::files;

/// The folder of recordings within a run folder. Each server has a folder with a number in it.
pub(crate) const RECORDING: &str = "recording";
/// The largest file that is read. mongod begins a new one after 10 MiB.
const MAX_FILE_BYTES: u64 = 16 << 30;
/// The digits of a server's number.
const DIGITS: usize = 3;
/// The most servers of a run.
pub(crate) const MAX_SERVERS: usize = 1000;

/// The part of a recording that is a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecording {
    /// The first sample of the run, in milliseconds since 1970 in UTC: zero of all times in the folder.
    pub begin_ms: i64,
    /// The last sample of the run. The files may hold samples before the first and after this one.
    pub end_ms: i64,
    /// The files, in the order in which they are read.
    pub files: Vec<SourceFile>,
}

/// A file of a recording within a run folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Its name within the run folder: `recording/000/metrics.2026-11-24T20-20-28Z-00000`.
    pub name: String,
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

impl SourceRecording {
    /// The paths of the files, after each was compared with its checksum.
    ///
    /// # Errors
    /// When a file is missing, is another one, or cannot be read.
    pub fn verified_paths(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        self.files.iter().map(|file| file.verified_path(folder)).collect()
    }
}

impl SourceFile {
    fn verified_path(&self, folder: &Path) -> Result<PathBuf> {
        let damaged = |what: String| {
            Error::new(Kind::Corruption, what)
                .with_id("damaged-recording")
                .advise("import the recording again, or unpack the bundle of this run again")
        };
        // The manifest may come from an untrusted source.
        if !is_source_file(&self.name) {
            let what = format!("'{}' is not a file of a recording in a run folder", self.name.escape_debug());
            return Err(damaged(what));
        }
        let path = folder.join(&self.name);
        for parent in path.ancestors().skip(1).take(2) {
            if fs::symlink_metadata(parent).is_ok_and(|about| !about.is_dir()) {
                return Err(damaged(format!("{} is not a folder", parent.display())));
            }
        }
        let file = match files::open(&path, MAX_FILE_BYTES) {
            Err(error) if error.kind() == Kind::NotFound => {
                let what = format!("{} is missing; its SHA-256 is {}", path.display(), self.sha256);
                return Err(damaged(what));
            }
            opened => opened?,
        };
        let mut summed = ChecksumStream::new(file);
        io::copy(&mut summed, &mut io::sink()).map_err(|e| Error::io("read", &path, e))?;
        let (bytes, sha256) = summed.done();
        if (bytes, &sha256) == (self.bytes, &self.sha256) {
            return Ok(path);
        }
        Err(damaged(format!(
            "{} is damaged: it has {bytes} bytes and the SHA-256 {sha256}, and {} bytes with the SHA-256 {} were imported",
            path.display(),
            self.bytes,
            self.sha256
        )))
    }
}

/// The name of a server's folder within a run folder.
pub(crate) fn server_folder(server: usize) -> String {
    format!("{RECORDING}/{server:0DIGITS$}")
}

/// Whether it is the name of a server's folder.
pub(crate) fn is_server_folder(name: &str) -> bool {
    let number = name.strip_prefix(RECORDING).and_then(|rest| rest.strip_prefix('/'));
    number.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether it is the name of a file of a recording within a run folder.
pub(crate) fn is_source_file(name: &str) -> bool {
    name.rsplit_once('/').is_some_and(|(folder, file)| is_server_folder(folder) && is_file_name(file))
}

/// Whether a file keeps its name in a run folder: those that mongod gives, of plain characters.
pub(crate) fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.starts_with("metrics.") && name.len() <= 200 && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_an_import_gives_are_read() {
        for name in ["recording/000/metrics.interim", "recording/017/metrics.2026-11-24T20-20-28Z-00000"] {
            assert!(is_source_file(name), "{name}");
        }
        for name in [
            "metrics.interim",
            "recording/metrics.interim",
            "recording/0/metrics.interim",
            "recording/000/../metrics.interim",
            "recording/../000/metrics.interim",
            "/recording/000/metrics.interim",
            "recording/000/metrics.a b",
            "recording/000/passwd",
        ] {
            assert!(!is_source_file(name), "{name}");
        }
        assert!(is_server_folder(&server_folder(999)) && !is_server_folder("recording/1000"));
    }
}
