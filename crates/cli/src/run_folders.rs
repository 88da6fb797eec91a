//! Where run folders are, which is the newest, and which one a person means.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fathom_errors::{Error, Kind};
use fathom_record::folders::{self, Scan};
use fathom_record::{RunWriter, State};
use fathom_report::printable;

use crate::output;

/// Where run folders are: the place named, else the state folder's.
pub(crate) fn parent(named: Option<&Path>) -> fathom_errors::Result<PathBuf> {
    match named {
        Some(named) => Ok(named.to_owned()),
        None => Ok(fathom_process::ledger::state_folder()?.join("runs")),
    }
}

/// Ends a run folder. Returns its place if it was kept whole; a run that measured nothing before it ended early is not kept.
pub(crate) fn close(run: RunWriter, state: State, error: Option<String>) -> Option<PathBuf> {
    if run.is_empty() && state != State::Complete {
        return None;
    }
    run.finish(state, error)
        .inspect_err(|error| output::note(&format!("fathom: the run folder is incomplete: {error}")))
        .ok()
}

/// The run folder named, else the one below `parent` whose name, which begins with its time, is the last.
pub(crate) fn named_or_newest(named: Option<&Path>, parent: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        return find(named, parent);
    }
    let parent = self::parent(parent)?;
    let entries = std::fs::read_dir(&parent).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.join("manifest.json").exists());
    folders.filter(|path| holds_figures(path)).max().ok_or_else(|| {
        let what = format!("there is no run folder under {}", parent.display());
        Error::new(Kind::Unsupported, what)
            .advise("'fathom checkup' makes one, 'fathom ycsb run --watch' and 'fathom watch --record' too")
            .into()
    })
}

/// Whether a run folder holds more than its manifest. A call that is killed before its first figure leaves a folder without figures.
fn holds_figures(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut others = entries.filter(|entry| entry.file_name() != "manifest.json");
    others.any(|entry| entry.metadata().is_ok_and(|metadata| metadata.len() > 0))
}

/// What lies below `parent`; nothing where it is the state folder's place and nobody has run anything yet.
pub(crate) fn scan(parent: Option<&Path>) -> fathom_errors::Result<(PathBuf, Scan)> {
    let place = self::parent(parent)?;
    if parent.is_none() && !place.exists() {
        return Ok((place, Scan::default()));
    }
    let scan = folders::scan(&place)?;
    Ok((place, scan))
}

/// The run folder that a person names: a path, its name below `parent`, or a part of the name that no other has.
pub(crate) fn find(named: &Path, parent: Option<&Path>) -> Result<PathBuf> {
    let text = named.to_string_lossy();
    if named.join("manifest.json").exists() || text.contains('/') {
        return Ok(named.to_owned());
    }
    let (place, scan) = scan(parent)?;
    let mut alike: Vec<&str> = scan.runs.iter().map(|run| run.name.as_str()).collect();
    if !alike.contains(&&*text) {
        alike.retain(|name| name.contains(&*text));
    } else {
        alike = vec![&*text];
    }
    match alike.as_slice() {
        [one] => Ok(place.join(one)),
        [] => {
            let what = format!("there is no run '{}' under {}", printable(&text), place.display());
            Err(Error::new(Kind::NotFound, what).advise("'fathom runs' lists them").into())
        }
        several => {
            let names = several.iter().take(4).map(|name| printable(name)).collect::<Vec<_>>().join(", ");
            let what = format!("'{}' is part of {} names of runs: {names}", printable(&text), several.len());
            Err(Error::usage(what).advise("write more of it").into())
        }
    }
}
