//! Where run folders are, and which is the newest.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fathom_errors::{Error, Kind};

/// Where run folders are: the place named, else the state folder's.
pub(crate) fn parent(named: Option<&Path>) -> fathom_errors::Result<PathBuf> {
    match named {
        Some(named) => Ok(named.to_owned()),
        None => Ok(fathom_process::ledger::state_folder()?.join("runs")),
    }
}

/// The run folder named, else the one below `parent` whose name, which begins with its time, is the last.
pub(crate) fn named_or_newest(named: Option<&Path>, parent: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let parent = self::parent(parent)?;
    let entries = std::fs::read_dir(&parent).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.join("manifest.json").exists());
    folders.max().ok_or_else(|| {
        let what = format!("there is no run folder under {}", parent.display());
        Error::new(Kind::Unsupported, what).advise("watch a deployment: --uri mongodb://HOST").into()
    })
}
