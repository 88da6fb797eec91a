//! A run that is read once, for who compares it and shows it.

use fathom_errors::Result;
use fathom_record::comparison::Side;
use fathom_record::disk::Entry;
use fathom_record::folders::RunFolder;
use fathom_record::{Finding, Run};

/// One run, read: so that who compares it and shows it reads it once.
#[derive(Debug)]
pub struct ReadRun {
    /// Its folder.
    pub folder: RunFolder,
    /// The same, opened.
    pub run: Run,
    /// Its results, as they stand in the folder.
    pub results: Vec<Entry>,
    /// Its findings, as they stand in the folder.
    pub findings: Vec<Finding>,
}

impl ReadRun {
    /// Reads a folder.
    ///
    /// # Errors
    /// When its manifest, its results or its findings cannot be read.
    pub fn of(folder: RunFolder) -> Result<ReadRun> {
        let run = Run::open(&folder.path)?;
        Ok(ReadRun { folder, results: run.results()?, findings: run.findings()?, run })
    }

    pub(super) fn side(&self) -> Side {
        let manifest = &self.folder.manifest;
        Side {
            name: self.folder.name.clone(),
            verb: manifest.verb.clone(),
            started: manifest.started.clone(),
            state: self.folder.condition,
            fathom_version: manifest.fathom_version.clone(),
            command_line: manifest.command_line.clone(),
        }
    }
}
