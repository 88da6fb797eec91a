//! Where run folders are, and which is the newest.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fathom_errors::{Error, Kind};

/// The folder whose name, which begins with its time, is the last.
pub(crate) fn newest(parent: Option<&Path>) -> Result<PathBuf> {
    let parent = match parent {
        Some(parent) => parent.to_owned(),
        None => fathom_process::ledger::state_folder()?.join("runs"),
    };
    let entries = std::fs::read_dir(&parent).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.join("manifest.json").exists());
    folders.max().ok_or_else(|| {
        let what = format!("there is no run folder under {}", parent.display());
        Error::new(Kind::Unsupported, what).advise("watch a deployment: --uri mongodb://HOST").into()
    })
}
