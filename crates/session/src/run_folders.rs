//! Finds run folders: their directory, the newest folder, and the folder of a name.

use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_record::folders::{self, Scan};
use fathom_report::printable;

/// The directory of run folders: `named`, or the default in the state folder.
pub fn parent(named: Option<&Path>) -> Result<PathBuf> {
    match named {
        Some(named) => Ok(named.to_owned()),
        None => Ok(fathom_process::ledger::state_folder()?.join("runs")),
    }
}

/// The run folder named, else the one below `parent` whose name, which begins with its time, is the last.
pub fn named_or_newest(named: Option<&Path>, parent: Option<&Path>) -> Result<PathBuf> {
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
    })
}

/// Whether a run folder holds more than its manifest. A call that is killed before its first figure leaves a folder without figures.
fn holds_figures(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut others = entries.filter(|entry| entry.file_name() != "manifest.json");
    others.any(|entry| entry.metadata().is_ok_and(|metadata| metadata.len() > 0))
}

/// The runs below `parent`. An empty list if the default directory does not exist yet.
pub fn scan(parent: Option<&Path>) -> Result<(PathBuf, Scan)> {
    let place = self::parent(parent)?;
    if parent.is_none() && !place.exists() {
        return Ok((place, Scan::default()));
    }
    let scan = folders::scan(&place)?;
    Ok((place, scan))
}

/// The run folder for a path, a name below `parent`, or a unique part of a name.
pub fn find(named: &Path, parent: Option<&Path>) -> Result<PathBuf> {
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
            Err(Error::new(Kind::NotFound, what).advise("'fathom runs' lists them"))
        }
        several => {
            let names = several.iter().take(4).map(|name| printable(name)).collect::<Vec<_>>().join(", ");
            let what = format!("'{}' is part of {} names of runs: {names}", printable(&text), several.len());
            Err(Error::usage(what).advise("write more of it"))
        }
    }
}
