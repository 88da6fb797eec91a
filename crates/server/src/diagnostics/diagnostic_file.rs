//! The files of `diagnostic.data`: archives of whole chunks, and `metrics.interim` with the chunk in progress.
//!
//! As in mongod (mongodb/mongo:src/mongo/db/ftdc/README.md), an archive begins with a document on the server; a new archive follows when one exceeds
//! a size, the oldest is deleted when the folder is full, and the interim file is replaced by a rename. Nothing is synced: a crash may cost the last
//! samples.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use bson::RawDocument;
use fathom_errors::{Error, Result};
use fathom_ftdc::{ChunkWriter, Document, DocumentReader};

/// The number of samples between two writes of the interim file (`diagnosticDataCollectionSamplesPerInterimUpdate`).
const SAMPLES_PER_INTERIM: usize = 10;
const INTERIM: &str = "metrics.interim";
const INTERIM_TEMPORARY: &str = "metrics.interim.temp";
const ARCHIVE_PREFIX: &str = "metrics.2";

/// The maximum sizes of an archive and of the folder, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiagnosticLimits {
    pub(super) file_bytes: u64,
    pub(super) directory_bytes: u64,
}

/// An open archive, and the samples of its next chunk.
#[derive(Debug)]
pub(super) struct DiagnosticFile {
    directory: PathBuf,
    archive: File,
    archive_bytes: u64,
    chunk: ChunkWriter,
    /// The time at which the first sample of the chunk began.
    chunk_ms: i64,
    samples: usize,
}

impl DiagnosticFile {
    /// Creates a new archive. It begins with `metadata` and with the samples that an earlier process left in its interim file.
    ///
    /// # Errors
    /// If the directory or the file cannot be created or written.
    pub(super) fn create(directory: &Path, at_ms: i64, metadata: &RawDocument) -> Result<DiagnosticFile> {
        fs::create_dir_all(directory).map_err(|error| Error::io("create", directory, error))?;
        let mut file = DiagnosticFile {
            directory: directory.to_owned(),
            archive: create_archive(directory, at_ms)?,
            archive_bytes: 0,
            chunk: ChunkWriter::default(),
            chunk_ms: at_ms,
            samples: 0,
        };
        file.append(&Document::Metadata { at_ms, replies: metadata })?;
        let interim = directory.join(INTERIM);
        if let Ok(left) = File::open(&interim) {
            let mut reader = DocumentReader::new(left);
            // A truncated interim file is lost with its samples.
            while let Ok(Some(document)) = reader.next_document() {
                if matches!(document, Document::Metrics { .. }) {
                    file.append(&document)?;
                }
            }
            remove(&interim)?;
        }
        Ok(file)
    }

    /// Whether the archive is full, so that another one should follow.
    pub(super) fn is_full(&self, limits: DiagnosticLimits) -> bool {
        self.archive_bytes >= limits.file_bytes
    }

    /// Adds a sample that began at a time.
    ///
    /// # Errors
    /// If a file cannot be written, or the sample is malformed.
    pub(super) fn add_sample(&mut self, start_ms: i64, sample: &RawDocument) -> Result<()> {
        if self.samples == 0 {
            self.chunk_ms = start_ms;
        }
        self.samples += 1;
        if let Some(payload) = self.chunk.push(sample)? {
            let at_ms = std::mem::replace(&mut self.chunk_ms, start_ms);
            self.append(&Document::Metrics { at_ms, payload: &payload })?;
            self.samples = usize::from(self.chunk.interim()?.is_some());
            remove(&self.directory.join(INTERIM))?;
        } else if self.samples.is_multiple_of(SAMPLES_PER_INTERIM) {
            self.write_interim()?;
        }
        Ok(())
    }

    /// Writes the samples that no chunk holds yet, and ends the archive.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn finish(mut self) -> Result<()> {
        if let Some(payload) = self.chunk.finish()? {
            self.append(&Document::Metrics { at_ms: self.chunk_ms, payload: &payload })?;
        }
        remove(&self.directory.join(INTERIM))
    }

    fn append(&mut self, document: &Document<'_>) -> Result<()> {
        let bytes = document.encode();
        self.archive_bytes += bytes.len() as u64;
        self.archive.write_all(&bytes).map_err(|error| Error::io("write", &self.directory, error))
    }

    fn write_interim(&self) -> Result<()> {
        let Some(payload) = self.chunk.interim()? else { return Ok(()) };
        let temporary = self.directory.join(INTERIM_TEMPORARY);
        let bytes = Document::Metrics { at_ms: self.chunk_ms, payload: &payload }.encode();
        fs::write(&temporary, bytes).map_err(|error| Error::io("write", &temporary, error))?;
        fs::rename(&temporary, self.directory.join(INTERIM))
            .map_err(|error| Error::io("rename", &temporary, error))
    }
}

/// Deletes the oldest archives until the directory is within its limit.
///
/// # Errors
/// If the directory cannot be listed, or a file not be deleted.
pub(super) fn delete_oldest(directory: &Path, limits: DiagnosticLimits) -> Result<()> {
    let entries = fs::read_dir(directory).map_err(|error| Error::io("list", directory, error))?;
    let mut archives: Vec<(PathBuf, u64)> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(ARCHIVE_PREFIX))
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.len())))
        .collect();
    archives.sort();
    let mut bytes: u64 = archives.iter().map(|(_, bytes)| bytes).sum();
    for (path, length) in archives {
        if bytes <= limits.directory_bytes {
            break;
        }
        remove(&path)?;
        bytes -= length;
    }
    Ok(())
}

fn create_archive(directory: &Path, at_ms: i64) -> Result<File> {
    let time = bson::DateTime::from_millis(at_ms).try_to_rfc3339_string().unwrap_or_default();
    let stamp: String = time.chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
    for number in 0..100_000 {
        let path = directory.join(format!("metrics.{stamp}Z-{number:05}"));
        match File::options().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create", &path, error)),
        }
    }
    Err(Error::new(fathom_errors::Kind::Busy, format!("{} has no free name", directory.display())))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("delete", path, error)),
        _ => Ok(()),
    }
}
