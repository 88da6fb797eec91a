//! Taking a run folder away for good, and refusing where that could cost somebody something.
//!
//! It is renamed first, so that a kill in the middle leaves nothing that looks like a run, and then emptied file by file by the names
//! that Fathom gives; nothing is removed by a recursion that could meet what somebody put there meanwhile. No link is followed.

use std::fs::{self, File};
use std::path::Path;

use fathom_errors::{Error, Kind, Result};

use super::{Condition, Contents, IMPORTING, REMOVING, RunFolder};
use crate::file_names::{LATENCY, MANIFEST};

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
    let now = super::look(&run.path).map_err(|why| {
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
