//! The directory of a database before WiredTiger opens it: whose it is, and the journal's place in it.
//!
//! It refuses a directory that another engine filled: WiredTiger itself would just put its files beside them.

use std::fs;
use std::path::Path;

use fathom_engine::{Error, Kind, Result};

use crate::options::Options;

/// The folder of the journal, as `path=journal` names it.
const JOURNAL: &str = "journal";
/// The file that says that a directory is WiredTiger's, and its first word.
const MARKER: &str = "WiredTiger";

/// Makes the directory and the journal's, and refuses one that is not ours.
///
/// # Errors
/// `Kind::NotOurs` for files of another engine; the operating system's errors.
pub(crate) fn prepare(options: &Options) -> Result<()> {
    let dir = &options.dir;
    fs::create_dir_all(dir).map_err(|error| Error::io("make the directory", dir, error))?;
    let marker = dir.join(MARKER);
    match fs::read(&marker) {
        Ok(bytes) if bytes.starts_with(MARKER.as_bytes()) => {}
        Ok(_) => {
            let what = format!("{} was not written by WiredTiger", marker.display());
            return Err(Error::new(Kind::NotOurs, what).advise("take another directory"));
        }
        Err(_) => refuse_others(dir)?,
    }
    let journal = dir.join(JOURNAL);
    fs::create_dir_all(&journal).map_err(|error| Error::io("make the directory", &journal, error))
}

/// Refuses what MongoDB's other engines leave.
fn refuse_others(dir: &Path) -> Result<()> {
    let strangers = [("CURRENT", "RocksDB"), ("db/CURRENT", "RocksDB"), ("local.ns", "MMAPv1")];
    for (file, engine) in strangers {
        if dir.join(file).exists() {
            let what = format!("{} holds a database of {engine}", dir.display());
            return Err(Error::new(Kind::NotOurs, what).advise("take another directory, or that engine"));
        }
    }
    Ok(())
}

/// Whether there is a journal to recover before the database is opened without one.
pub(crate) fn has_journal(options: &Options) -> bool {
    fs::read_dir(options.dir.join(JOURNAL))
        .is_ok_and(|entries| entries.flatten().any(|entry| is_journal(&entry)))
}

/// Removes the journal's files, after everything in them was recovered and a checkpoint made.
///
/// # Errors
/// The operating system's.
pub(crate) fn remove_journal(options: &Options) -> Result<()> {
    let folder = options.dir.join(JOURNAL);
    let entries = fs::read_dir(&folder).map_err(|error| Error::io("read the directory", &folder, error))?;
    for entry in entries.flatten().filter(is_journal) {
        let path = entry.path();
        fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
    }
    Ok(())
}

fn is_journal(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let name = name.to_string_lossy();
    ["WiredTigerLog.", "WiredTigerPreplog.", "WiredTigerTmplog."].iter().any(|start| name.starts_with(start))
}
