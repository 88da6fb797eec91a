//! The folders of runs below one place: which there are, how each stands, what lies there that is none, and how one is taken away.
//!
//! Looking follows no link and opens nothing that is not a plain file of a plain name, since what lies in such a place may come from
//! anywhere. What cannot be read as a run is named with the reason, and never ends the look.
//!
//! A folder that goes is renamed first, so that a kill in the middle leaves nothing that looks like a run, and then emptied file by file
//! by the names that Fathom gives; nothing is removed by a recursion that could meet what somebody put there meanwhile. What could cost
//! somebody something is refused.

mod contents;
mod moment;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

use crate::files::{LATENCY, MANIFEST, MANIFEST_BYTES_MAX};
use crate::{Manifest, Run, RunLock, State};

pub use self::contents::{Contents, RunFile};
pub use self::moment::{Moment, days};

pub(crate) use self::contents::is_record;

/// A folder that is going away is called this and its old name.
pub(crate) const REMOVING: &str = ".removing-";
/// A folder that a bundle is unpacked into is called this and its name to be.
pub(crate) const IMPORTING: &str = ".importing-";

/// One run, as far as a list tells.
#[derive(Clone, Debug)]
pub struct RunFolder {
    /// The folder's name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// When it began.
    pub started: Moment,
    /// How it stands.
    pub condition: Condition,
    /// What lies in it.
    pub contents: Contents,
    /// How long it took, or takes until now, in seconds; of one that was cut off, until it was last written to.
    pub seconds: f64,
}

/// Something beside the runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Its name.
    pub name: String,
    /// Why it is no run.
    pub why: String,
}

/// What a place holds.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The runs, newest first.
    pub runs: Vec<RunFolder>,
    /// What is no run, or cannot be read as one, by name.
    pub strangers: Vec<Stranger>,
    /// Folders whose removal or import was broken off, by name.
    pub unfinished: Vec<String>,
}

/// Looks at every folder below `parent`.
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
            scan.strangers.push(Stranger { name, why: "its name is not UTF-8".to_owned() });
            continue;
        };
        if name.starts_with(REMOVING) || name.starts_with(IMPORTING) {
            scan.unfinished.push(name);
            continue;
        }
        match look(&entry.path()) {
            Ok(run) => scan.runs.push(run),
            Err(why) => scan.strangers.push(Stranger { name, why }),
        }
    }
    scan.runs.sort_by(|one, two| (two.started, &two.name).cmp(&(one.started, &one.name)));
    scan.strangers.sort_by(|one, two| one.name.cmp(&two.name));
    scan.unfinished.sort();
    Ok(scan)
}

/// One folder as a run, or why it is none.
///
/// # Errors
/// A sentence's end: `has no manifest.json`.
pub fn look(path: &Path) -> Result<RunFolder, String> {
    let kind = fs::symlink_metadata(path).map_err(|e| format!("cannot be looked at: {e}"))?.file_type();
    if kind.is_symlink() {
        return Err("is a link, which is not followed".to_owned());
    }
    if !kind.is_dir() {
        return Err("is no folder".to_owned());
    }
    // Asked first: what is no run may hold any number of files.
    if fs::symlink_metadata(path.join(MANIFEST)).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
        return Err("has no manifest.json".to_owned());
    }
    let contents = Contents::of(path).map_err(|e| e.to_string())?;
    if let Some(name) = contents.disguised.first() {
        return Err(format!("has a link or a special file in the place of {name}"));
    }
    match contents.files.iter().find(|file| file.name == MANIFEST) {
        None => return Err("has no manifest.json".to_owned()),
        Some(manifest) if manifest.bytes > MANIFEST_BYTES_MAX => {
            return Err(format!("has a manifest of {} bytes", manifest.bytes));
        }
        Some(_) => {}
    }
    let manifest = Run::open(path).map_err(|e| e.to_string())?.manifest;
    let started = Moment::parse(&manifest.started)
        .ok_or_else(|| "has a manifest without the time of its start".to_owned())?;
    let condition = Condition::of(manifest.state, path);
    let until = match condition {
        Condition::Running => Some(Moment::now()),
        Condition::CutOff => contents.written.map(Moment::from),
        _ => manifest.finished.as_deref().and_then(Moment::parse),
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

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// A living process writes it.
    Running,
    /// Nobody wrote an end, and nobody writes it any more.
    CutOff,
    /// Ran to its end.
    Complete,
    /// Ended early by a signal.
    Interrupted,
    /// Ended by an error.
    Failed,
}

impl Condition {
    /// Every one, with its word.
    pub const ALL: [(Condition, &'static str); 5] = [
        (Condition::Running, "running"),
        (Condition::CutOff, "cut off"),
        (Condition::Complete, "complete"),
        (Condition::Interrupted, "interrupted"),
        (Condition::Failed, "failed"),
    ];

    /// Of the folder whose manifest says `state`.
    pub(crate) fn of(state: State, folder: &Path) -> Condition {
        match state {
            State::Running if RunLock::is_taken(folder) => Condition::Running,
            State::Running => Condition::CutOff,
            State::Complete => Condition::Complete,
            State::Interrupted => Condition::Interrupted,
            State::Failed => Condition::Failed,
        }
    }

    /// In a word or two.
    pub fn word(self) -> &'static str {
        Condition::ALL.iter().find(|(one, _)| *one == self).map_or("", |(_, word)| word)
    }

    /// What a person means by `word`; hyphens and underscores are blanks.
    pub fn parse(word: &str) -> Option<Condition> {
        let word = word.to_ascii_lowercase().replace(['-', '_'], " ");
        Condition::ALL.iter().find(|(_, name)| *name == word).map(|(one, _)| *one)
    }
}

/// Why a run folder is not removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A living process writes it.
    Running,
    /// Files that Fathom did not write lie in it.
    Foreign(Vec<String>),
}

/// What stands against removing `run`.
pub fn obstacle(run: &RunFolder) -> Option<Obstacle> {
    if run.condition == Condition::Running {
        return Some(Obstacle::Running);
    }
    (!run.contents.foreign.is_empty()).then(|| Obstacle::Foreign(run.contents.foreign.clone()))
}

/// Removes the folder of a run.
///
/// # Errors
/// When something stands against it, or it cannot be done; a folder that is partly gone is finished by [`clear_unfinished`].
pub fn remove(run: &RunFolder) -> Result<()> {
    // Looked at again: much may have happened since the list was made.
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

/// Takes away what a removal or an import that was killed in the middle has left.
///
/// # Errors
/// When its name is not that of one, an import goes on in it, something foreign lies in it, or it cannot be done.
pub fn clear_unfinished(folder: &Path) -> Result<()> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_plain = fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir());
    if !(name.starts_with(REMOVING) || name.starts_with(IMPORTING)) || !is_plain {
        let what = format!("{} is not a folder that was being removed or imported", folder.display());
        return Err(Error::new(Kind::NotOurs, what));
    }
    // An import holds a lock on its folder; where no lock can be had nobody can tell that it is over.
    let held = File::open(folder).map_err(|e| Error::io("open", folder, e))?;
    if name.starts_with(IMPORTING) && held.try_lock().is_err() {
        let what = format!("{} is still being imported", folder.display());
        return Err(Error::new(Kind::Busy, what).advise("wait for its end"));
    }
    empty(folder)
}

fn empty(folder: &Path) -> Result<()> {
    let mut contents = Contents::of(folder)?;
    if let Some(name) = contents.foreign.first().or(contents.disguised.first()) {
        let what = format!("{} holds {name}, which is not Fathom's", folder.display());
        return Err(Error::new(Kind::NotOurs, what).advise("look at it, and remove the folder yourself"));
    }
    // Without its manifest it is no run any more, whatever else is still there.
    contents.files.sort_by_key(|file| file.name != MANIFEST);
    for file in &contents.files {
        let path = folder.join(&file.name);
        fs::remove_file(&path).map_err(|e| Error::io("remove", &path, e))?;
    }
    let latency = folder.join(LATENCY);
    if latency.exists() {
        fs::remove_dir(&latency).map_err(|e| Error::io("remove", &latency, e))?;
    }
    fs::remove_dir(folder).map_err(|e| Error::io("remove", folder, e))
}

#[cfg(test)]
mod tests;
