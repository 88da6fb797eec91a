//! The run folders below one directory: their list, the state of each, foreign files among them, and the removal of a folder.
//!
//! A scan follows no link and opens only plain files with plain names, because the contents may come from an untrusted source. An entry that
//! cannot be read as a run is listed with the reason, and never ends the scan.
//!
//! A folder is first renamed, so that a kill during its removal leaves nothing that looks like a run. It is then emptied file by file,
//! by the names that Fathom gives. Removal does not recurse, because that could delete files that were added meanwhile. Removals that
//! could lose data are refused.

mod contents;
mod utc_time;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

use crate::files::{MANIFEST, MAX_MANIFEST_BYTES};
use crate::{Manifest, Run, RunLock, State};

pub use self::contents::{Contents, RunFile};
pub use self::utc_time::{UtcTime, days};

pub(crate) use self::contents::is_record;

/// The prefix of a folder that is being removed; its old name follows.
pub(crate) const REMOVING: &str = ".removing-";
/// The prefix of a folder that a bundle is unpacked into; its final name follows.
pub(crate) const IMPORTING: &str = ".importing-";

/// One run, as far as a list shows it.
#[derive(Clone, Debug)]
pub struct RunFolder {
    pub name: String,
    pub path: PathBuf,
    pub manifest: Manifest,
    pub started: UtcTime,
    pub condition: Condition,
    /// The contents of the folder.
    pub contents: Contents,
    /// Its duration, or its duration until now, in seconds; for a run that was cut off, until the last write to it.
    pub seconds: f64,
}

/// An entry in the folder that is not a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignEntry {
    pub name: String,
    /// The reason why it is not a run.
    pub why: String,
}

/// The contents of a folder of runs.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The runs, newest first.
    pub runs: Vec<RunFolder>,
    /// Entries that are not runs or cannot be read as one, by name.
    pub strangers: Vec<ForeignEntry>,
    /// Folders whose removal or import was interrupted, by name.
    pub unfinished: Vec<String>,
}

/// Examines every folder below `parent`.
///
/// # Errors
/// When `parent` cannot be listed.
pub fn scan(parent: &Path) -> Result<Scan> {
    let entries = fs::read_dir(parent).map_err(|e| Error::io("list", parent, e))?;
    let mut scan = Scan::default();
    for entry in entries {
        let entry = entry.map_err(|e| Error::io("list", parent, e))?;
        let Ok(name) = entry.file_name().into_string() else {
            let name = entry.file_name().to_string_lossy().into_owned();
            scan.strangers.push(ForeignEntry { name, why: "its name is not UTF-8".to_owned() });
            continue;
        };
        if name.starts_with(REMOVING) || name.starts_with(IMPORTING) {
            scan.unfinished.push(name);
            continue;
        }
        match look(&entry.path()) {
            Ok(run) => scan.runs.push(run),
            Err(why) => scan.strangers.push(ForeignEntry { name, why }),
        }
    }
    scan.runs.sort_by(|one, two| (two.started, &two.name).cmp(&(one.started, &one.name)));
    scan.strangers.sort_by(|one, two| one.name.cmp(&two.name));
    scan.unfinished.sort();
    Ok(scan)
}

/// One folder as a run, or the reason why it is not a run.
///
/// # Errors
/// The end of a sentence: `has no manifest.json`.
pub fn look(path: &Path) -> Result<RunFolder, String> {
    let kind = fs::symlink_metadata(path).map_err(|e| format!("cannot be looked at: {e}"))?.file_type();
    if kind.is_symlink() {
        return Err("is a link, which is not followed".to_owned());
    }
    if !kind.is_dir() {
        return Err("is not a folder".to_owned());
    }
    // This check comes first, because a folder that is not a run may contain any number of files.
    if fs::symlink_metadata(path.join(MANIFEST)).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
        return Err("has no manifest.json".to_owned());
    }
    let contents = Contents::read(path).map_err(|e| e.to_string())?;
    if let Some(name) = contents.disguised.first() {
        return Err(format!("has a link or a special file in the place of {name}"));
    }
    match contents.files.iter().find(|file| file.name == MANIFEST) {
        None => return Err("has no manifest.json".to_owned()),
        Some(manifest) if manifest.bytes > MAX_MANIFEST_BYTES => {
            return Err(format!("has a manifest of {} bytes", manifest.bytes));
        }
        Some(_) => {}
    }
    let manifest = Run::open(path).map_err(|e| e.to_string())?.manifest;
    let started = UtcTime::parse(&manifest.started)
        .ok_or_else(|| "has a manifest without the time of its start".to_owned())?;
    let condition = Condition::new(manifest.state, path);
    let until = match condition {
        Condition::Running => Some(UtcTime::now()),
        Condition::CutOff => contents.written.map(UtcTime::from),
        _ => manifest.finished.as_deref().and_then(UtcTime::parse),
    };
    Ok(RunFolder {
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        path: path.to_owned(),
        started,
        condition,
        contents,
        seconds: until.map_or(0.0, |until| until.seconds_since(started)).max(0.0),
        manifest,
    })
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// A running process writes it.
    Running,
    /// The run has no end, and no process writes it any more.
    CutOff,
    /// Ran to its end.
    Complete,
    /// Ended early by a signal.
    Interrupted,
    /// Ended by an error.
    Failed,
}

impl Condition {
    /// Every condition, with its word.
    pub const ALL: [(Condition, &'static str); 5] = [
        (Condition::Running, "running"),
        (Condition::CutOff, "cut off"),
        (Condition::Complete, "complete"),
        (Condition::Interrupted, "interrupted"),
        (Condition::Failed, "failed"),
    ];

    /// The condition of the folder whose manifest says `state`.
    pub(crate) fn new(state: State, folder: &Path) -> Condition {
        match state {
            State::Running if RunLock::is_taken(folder) => Condition::Running,
            State::Running => Condition::CutOff,
            State::Complete => Condition::Complete,
            State::Interrupted => Condition::Interrupted,
            State::Failed => Condition::Failed,
        }
    }

    /// The condition in a word or two.
    pub fn word(self) -> &'static str {
        Condition::ALL.iter().find(|(one, _)| *one == self).map_or("", |(_, word)| word)
    }

    /// A search word in its normal form: hyphens and underscores are blanks.
    pub fn parse(word: &str) -> Option<Condition> {
        let word = word.to_ascii_lowercase().replace(['-', '_'], " ");
        Condition::ALL.iter().find(|(_, name)| *name == word).map(|(one, _)| *one)
    }
}

/// The reason why a run folder is not removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A running process writes it.
    Running,
    /// It contains files that Fathom did not write.
    Foreign(Vec<String>),
}

/// The obstacle to removing `run`, if there is one.
pub fn obstacle(run: &RunFolder) -> Option<Obstacle> {
    if run.condition == Condition::Running {
        return Some(Obstacle::Running);
    }
    (!run.contents.foreign.is_empty()).then(|| Obstacle::Foreign(run.contents.foreign.clone()))
}

/// Removes the folder of a run.
///
/// # Errors
/// When there is an obstacle, or it fails; [`clear_unfinished`] finishes a folder that is partly removed.
pub fn remove(run: &RunFolder) -> Result<()> {
    // It is examined again, because it may have changed since the list was made.
    let now = look(&run.path).map_err(|why| {
        Error::new(Kind::NotOurs, format!("{} {why}; it is left alone", run.path.display()))
    })?;
    if now.manifest.started != run.manifest.started || obstacle(&now).is_some() {
        let what = format!("{} has changed since it was listed; it is left alone", run.path.display());
        return Err(Error::new(Kind::Busy, what));
    }
    discard(&run.path)
}

/// Removes a folder that its caller knows to be a run's.
///
/// # Errors
/// As [`remove`].
pub(crate) fn discard(folder: &Path) -> Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let aside = folder.with_file_name(format!("{REMOVING}{name}"));
    fs::rename(folder, &aside).map_err(|e| Error::io("remove", folder, e))?;
    empty(&aside)
}

/// Deletes the rest of a removal or an import that was killed.
///
/// # Errors
/// When its name is not that of one, an import is under way in it, it contains a foreign file, or it cannot be deleted.
pub fn clear_unfinished(folder: &Path) -> Result<()> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_plain = fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir());
    if !(name.starts_with(REMOVING) || name.starts_with(IMPORTING)) || !is_plain {
        let what = format!("{} is not a folder that was being removed or imported", folder.display());
        return Err(Error::new(Kind::NotOurs, what));
    }
    // An import holds a lock on its folder. Without locks its end cannot be seen.
    let held = File::open(folder).map_err(|e| Error::io("open", folder, e))?;
    if name.starts_with(IMPORTING) && held.try_lock().is_err() {
        let what = format!("{} is still being imported", folder.display());
        return Err(Error::new(Kind::Busy, what).advise("wait for its end"));
    }
    empty(folder)
}

fn empty(folder: &Path) -> Result<()> {
    let mut contents = Contents::read(folder)?;
    if let Some(name) = contents.foreign.first().or(contents.disguised.first()) {
        let what = format!("{} holds {name}, which is not Fathom's", folder.display());
        return Err(Error::new(Kind::NotOurs, what).advise("look at it, and remove the folder yourself"));
    }
    // Without its manifest it is not a run any more, whatever other files still exist.
    contents.files.sort_by_key(|file| file.name != MANIFEST);
    for file in &contents.files {
        let path = folder.join(&file.name);
        fs::remove_file(&path).map_err(|e| Error::io("remove", &path, e))?;
    }
    for name in contents.folders.iter().rev() {
        let inner = folder.join(name);
        fs::remove_dir(&inner).map_err(|e| Error::io("remove", &inner, e))?;
    }
    fs::remove_dir(folder).map_err(|e| Error::io("remove", folder, e))
}

#[cfg(test)]
mod tests;
