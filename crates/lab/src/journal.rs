//! The journal of trial results, one line each as they end, from which an interrupted study continues.
//!
//! The folder also holds the study as it was read, so that resuming needs neither the file nor its options again. A torn last line, left
//! by a process that was killed while it wrote, counts as not written.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_record::members::MemberRow;
use serde::{Deserialize, Serialize};

const TRIALS: &str = "trials.jsonl";
const STUDY: &str = "study.yaml";
const CHOICES: &str = "study.json";

/// One trial that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Its number in the plan.
    pub number: usize,
    /// Its duration, in seconds.
    pub seconds: f64,
    pub result: TrialResult,
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialResult {
    Measured {
        /// Every metric that it has, by name.
        values: BTreeMap<String, f64>,
        /// The storage and servers that were made for it.
        facts: Vec<(String, String)>,
        /// The requests of each server to its disk.
        members: Vec<MemberRow>,
    },
    /// The trial failed, for this reason.
    Broken(String),
}

/// The choices of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Choices {
    size: Option<String>,
    work: PathBuf,
}

/// The journal of a study.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    trials: File,
    records: Vec<TrialRecord>,
}

/// A study that can be resumed.
#[derive(Debug)]
pub struct StudyProgress {
    pub journal: Journal,
    /// The text of the study.
    pub text: String,
    pub size: Option<String>,
    /// The folder for its storage and data.
    pub work: PathBuf,
}

impl Journal {
    /// Begins a journal in the study's run folder.
    pub fn begin(folder: &Path, text: &str, size: Option<&str>, work: &Path) -> Result<Journal> {
        let choices = Choices { size: size.map(str::to_owned), work: work.to_owned() };
        let choices = serde_json::to_string_pretty(&choices)
            .map_err(|cause| Error::usage("cannot be written").because(cause))?;
        let path = folder.join(STUDY);
        fs::write(&path, text).map_err(|cause| Error::io("write", &path, cause))?;
        // The choices are written last and atomically: once they exist, the study has begun, even if it is killed early.
        let (path, part) = (folder.join(CHOICES), folder.join(format!("{CHOICES}.part")));
        let written = fs::write(&part, choices).and_then(|()| fs::rename(&part, &path));
        written.map_err(|cause| Error::io("write", &path, cause))?;
        Ok(Journal { folder: folder.to_owned(), trials: append(folder)?, records: Vec::new() })
    }

    /// Returns whether a study in this folder has begun, so that it can resume.
    pub fn is_begun(folder: &Path) -> bool {
        folder.join(CHOICES).exists()
    }

    /// Opens the journal of an interrupted study.
    pub fn resume(folder: &Path) -> Result<StudyProgress> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|cause| {
                Error::new(
                    Kind::NotFound,
                    format!("{} is not a study that can be continued", folder.display()),
                )
                .because(cause)
            })
        };
        let (text, choices) = (read(STUDY)?, read(CHOICES)?);
        let Choices { size, work } = serde_json::from_str(&choices).map_err(|cause| {
            Error::new(Kind::Malformed, format!("{} of {} cannot be read", CHOICES, folder.display()))
                .because(cause)
        })?;
        let mut trials = append(folder)?;
        let records = whole_lines(&mut trials, folder)?;
        Ok(StudyProgress {
            journal: Journal { folder: folder.to_owned(), trials, records },
            text,
            size,
            work,
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The trials that have ended.
    pub fn records(&self) -> &[TrialRecord] {
        &self.records
    }

    /// Returns whether a trial has ended.
    pub fn has(&self, number: usize) -> bool {
        self.records.iter().any(|record| record.number == number)
    }

    /// The place of a trial's records, relative to the folder.
    pub fn trial_folder(number: usize) -> String {
        format!("trials/{number:04}")
    }

    /// Adds a trial; it is durable when this returns.
    pub fn add(&mut self, record: TrialRecord) -> Result<()> {
        let failed = |cause| Error::io("write", self.folder.join(TRIALS), cause);
        let line = serde_json::to_string(&record)
            .map_err(|cause| Error::usage("cannot be written").because(cause))?;
        self.trials
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| self.trials.sync_data())
            .map_err(failed)?;
        self.records.push(record);
        Ok(())
    }
}

fn append(folder: &Path) -> Result<File> {
    let path = folder.join(TRIALS);
    let opened = OpenOptions::new().create(true).read(true).append(true).open(&path);
    opened.map_err(|cause| Error::io("open", &path, cause))
}

/// Reads the complete lines; a torn line at the end is cut off.
fn whole_lines(file: &mut File, folder: &Path) -> Result<Vec<TrialRecord>> {
    let path = folder.join(TRIALS);
    let failed = |cause| Error::io("read", &path, cause);
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    file.set_len(whole as u64).map_err(failed)?;
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|cause| {
            Error::new(Kind::Malformed, format!("{}:{} cannot be read", path.display(), number + 1))
                .because(cause)
        })
    };
    text.get(..whole).unwrap_or_default().lines().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: usize) -> TrialRecord {
        TrialRecord { number, seconds: 1.0, result: TrialResult::Broken("no".to_owned()) }
    }

    #[test]
    fn a_torn_line_counts_as_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal =
            Journal::begin(folder.path(), "name: x\n", Some("quick"), Path::new("/data")).unwrap();
        journal.add(record(0)).unwrap();
        drop(journal);
        let path = folder.path().join(TRIALS);
        let mut torn = fs::read(&path).unwrap();
        torn.extend(b"{\"number\":1,\"seco");
        fs::write(&path, torn).unwrap();
        let StudyProgress { mut journal, text, size, work } = Journal::resume(folder.path()).unwrap();
        assert_eq!(
            (text.as_str(), size.as_deref(), work.as_path()),
            ("name: x\n", Some("quick"), Path::new("/data"))
        );
        assert!(journal.has(0) && !journal.has(1));
        journal.add(record(1)).unwrap();
        let records = Journal::resume(folder.path()).unwrap().journal;
        assert_eq!(records.records(), [record(0), record(1)]);
    }

    #[test]
    fn a_folder_without_a_study_cannot_go_on() {
        let folder = tempfile::tempdir().unwrap();
        // Killed before all of it was written.
        fs::write(folder.path().join(STUDY), "name: x\n").unwrap();
        assert!(!Journal::is_begun(folder.path()));
        assert_eq!(Journal::resume(folder.path()).unwrap_err().kind(), Kind::NotFound);
        Journal::begin(folder.path(), "name: x\n", None, Path::new("/data")).unwrap();
        assert!(Journal::is_begun(folder.path()));
    }
}
