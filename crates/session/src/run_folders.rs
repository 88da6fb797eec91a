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

/// The named run folder, else the one below `parent` whose name comes last; names begin with the time.
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
            .with_id("no-run-folder")
            .advise("'fathom checkup' makes one, 'fathom ycsb run --watch' and 'fathom watch --record' too")
    })
}

/// Returns whether a run folder holds more than its manifest. A call that is killed before its first figure leaves a folder without figures.
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

/// The number of runs before the newest that a name means: 0 for `last`, 2 for `last~2`.
fn runs_before_last(name: &str) -> Option<usize> {
    match name.strip_prefix("last")? {
        "" => Some(0),
        "~" => Some(1),
        back => back.strip_prefix('~')?.parse().ok(),
    }
}

/// The newest run of the same verb, in the same directory, that began before the run at `folder`.
pub fn previous(folder: &Path) -> Result<PathBuf> {
    let folder = folder.canonicalize().map_err(|error| Error::io("open", folder, error))?;
    let place = folder.parent().unwrap_or(Path::new("/"));
    let runs = folders::scan(place)?.runs;
    let verb = runs.iter().find(|run| run.path == folder).map(|run| run.manifest.verb.as_str());
    let mut older = runs.iter().skip_while(|run| run.path != folder).skip(1);
    let found = older.find(|run| Some(run.manifest.verb.as_str()) == verb && holds_figures(&run.path));
    found.map(|run| run.path.clone()).ok_or_else(|| {
        let what = format!(
            "there is no earlier run of '{}' in the directory of {}",
            printable(verb.unwrap_or_default()),
            folder.display()
        );
        Error::new(Kind::NotFound, what)
            .with_id("no-such-run")
            .advise("name two runs; 'fathom runs' lists them")
    })
}

/// The run folder for a path, a name below `parent`, a unique part of a name, or `last`, `last~1` and so on.
pub fn find(named: &Path, parent: Option<&Path>) -> Result<PathBuf> {
    let text = named.to_string_lossy();
    if named.join("manifest.json").exists() || text.contains('/') {
        return Ok(named.to_owned());
    }
    let (place, scan) = scan(parent)?;
    if let Some(back) = runs_before_last(&text) {
        let mut runs = scan.runs.iter().filter(|run| holds_figures(&run.path));
        let count = runs.clone().count();
        return runs.nth(back).map(|run| run.path.clone()).ok_or_else(|| {
            let what =
                format!("there is no run '{text}': {} holds {count} runs with results", place.display());
            Error::new(Kind::NotFound, what).with_id("no-such-run").advise("'fathom runs' lists them")
        });
    }
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
            Err(Error::new(Kind::NotFound, what).with_id("no-such-run").advise("'fathom runs' lists them"))
        }
        several => {
            let names = several.iter().take(4).map(|name| printable(name)).collect::<Vec<_>>().join(", ");
            let what = format!("'{}' matches {} runs: {names}", printable(&text), several.len());
            Err(Error::usage(what).with_id("ambiguous-run").advise("write more of it"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_runs_have_names() {
        assert_eq!(["last", "last~", "last~1", "last~12"].map(runs_before_last), [0, 1, 1, 12].map(Some));
        assert_eq!(["latest", "last1", "last~x", "~1", ""].map(runs_before_last), [None; 5]);
    }
}
