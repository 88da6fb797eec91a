//! The folders of runs below one place: which there are, how each stands, and what lies there that is none.
//!
//! Looking follows no link and opens nothing that is not a plain file of a plain name, since what lies in such a place may come from
//! anywhere. What cannot be read as a run is named with the reason, and never ends the look.

mod condition;
mod contents;
mod moment;
mod removal;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Result};

pub use self::condition::Condition;
pub(crate) use self::contents::is_record;
pub use self::contents::{Contents, RunFile};
pub use self::moment::{Moment, days};
pub(crate) use self::removal::discard;
pub use self::removal::{Obstacle, clear_unfinished, obstacle, remove};
use crate::file_names::MANIFEST;
use crate::file_names::MANIFEST_BYTES_MAX;
use crate::{Manifest, Run};

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

#[cfg(test)]
mod tests;
