//! Destroying a cluster: its processes end, and what it made goes; whatever else is in its folder stays.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use rustix::process::Signal;

use super::{Cluster, Stopping, Tools, key_file};
use crate::layout::Purpose;
use crate::state::STATE_FILE;

impl Cluster {
    /// Ends all servers at once and removes everything that was made for them. What stays in the folder, because it is not the
    /// cluster's, comes back.
    pub fn destroy(mut self, tools: &Tools<'_>) -> Result<Vec<PathBuf>> {
        if self.is_mlaunch {
            let what = format!(
                "mlaunch made the environment in {}, which is not ours to remove",
                self.folder.display()
            );
            return Err(Error::new(Kind::NotOurs, what)
                .advise("stop it with 'fathom cluster stop', and remove it by hand"));
        }
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        // Their data goes as well: there is nothing that they should put in order first.
        self.stop(tools, &all, Stopping::with(Signal::KILL))?;
        for path in self.made() {
            remove(&path)?;
        }
        remove(&self.folder.join(STATE_FILE))?;
        match fs::remove_dir(&self.folder) {
            Ok(()) => Ok(Vec::new()),
            Err(cause) if cause.kind() == ErrorKind::DirectoryNotEmpty => {
                let entries =
                    fs::read_dir(&self.folder).map_err(|cause| Error::io("list", &self.folder, cause))?;
                Ok(entries.flatten().map(|entry| entry.path()).collect())
            }
            // A mount point, or a folder in one that we may not change.
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Removes what stands in a folder that was there before a making that failed; what cannot be removed stays.
    pub(super) fn forget_files(&self) {
        for path in self.made().into_iter().chain([self.folder.join(STATE_FILE)]) {
            let _ = remove(&path);
        }
    }

    /// Everything that was made, the state file left out.
    fn made(&self) -> Vec<PathBuf> {
        let mut made = self.state.folders.clone();
        made.extend(self.state.topology.sets().iter().map(|set| self.folder.join(&set.name)));
        for node in &self.nodes {
            made.extend(node.db_path.clone());
            made.push(node.console_path());
            made.extend(node.diagnostics_path());
            made.extend(logs(&node.log_path));
        }
        if self.nodes.iter().filter(|node| node.purpose == Purpose::Router).count() > 1 {
            made.push(self.folder.join("mongos"));
        }
        if self.state.topology.auth.as_ref().is_some_and(|auth| auth.key_file.is_none()) {
            made.extend(key_file::of(&self.state.topology, &self.folder));
        }
        made.extend(self.network_files());
        made
    }
}

/// A log and those that were moved aside: `mongod.log.2026-11-22T10-00-00`.
pub(super) fn logs(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let rotated = format!("{name}.2");
    let is_log = |found: &str| found == name || found.starts_with(&rotated);
    let mut logs: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_log))
        .map(|entry| entry.path())
        .collect();
    logs.sort();
    logs
}

fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(cause) => Err(cause),
    };
    match removed {
        Err(cause) if !matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(Error::io("remove", path, cause))
        }
        _ => Ok(()),
    }
}
