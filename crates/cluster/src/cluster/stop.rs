//! Stops servers and destroys a cluster: sends signals, waits until processes have ended, and removes what the cluster created;
//! other files in its folder stay.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_process::ProcessId;
use rustix::process::Signal;

use super::faults::proxy_files;
use super::{Cluster, Tools};
use crate::groups;
use crate::layout::Node;
use crate::server_process::{is_final, is_paused, wait_until_ended};
use crate::state::STATE_FILE;

/// The way in which servers are stopped.
#[derive(Clone, Copy, Debug)]
pub struct StopOptions {
    pub signal: Signal,
    /// Whether to wait until they have ended.
    pub wait: bool,
}

impl StopOptions {
    /// Uses a signal, and waits if the signal ends processes.
    pub fn with(signal: Signal) -> StopOptions {
        StopOptions { signal, wait: is_final(signal) }
    }
}

impl Cluster {
    /// Sends a signal to servers and waits, if requested, until they have ended: routers first, so that they do not lose a shard.
    /// Returns how many servers got it.
    pub fn stop(&mut self, tools: &Tools<'_>, places: &[usize], how: StopOptions) -> Result<usize> {
        let processes = self.processes();
        let (routers, mongods): (Vec<usize>, Vec<usize>) =
            places.iter().copied().partition(|at| self.nodes.get(*at).is_some_and(|node| !node.is_mongod()));
        let mut sent = 0;
        for round in [routers, mongods].into_iter().filter(|round| !round.is_empty()) {
            let ids: Vec<(usize, ProcessId)> =
                round.into_iter().filter_map(|at| Some((at, (*processes.get(at)?)?))).collect();
            for (_, id) in &ids {
                sent += usize::from(id.signal(how.signal)?);
                // A paused process would not receive the signal.
                if is_final(how.signal) && is_paused(*id) {
                    id.signal(Signal::CONT)?;
                }
            }
            if how.wait {
                let all = ids.iter().map(|(_, id)| *id).collect();
                self.await_end(tools, &ids, wait_until_ended(all, tools.timeout, &tools.signals))?;
            }
        }
        self.note_ended(tools)?;
        Ok(sent)
    }

    /// Pauses servers, or lets them continue (SIGSTOP, SIGCONT).
    pub fn pause(&self, places: &[usize], pause: bool) -> Result<usize> {
        let processes = self.processes();
        let signal = if pause { Signal::STOP } else { Signal::CONT };
        let ids = places.iter().filter_map(|at| *processes.get(*at)?);
        let mut changed = 0;
        for id in ids.filter(|id| is_paused(*id) != pause) {
            changed += usize::from(id.signal(signal)?);
        }
        Ok(changed)
    }

    fn await_end(&self, tools: &Tools<'_>, ids: &[(usize, ProcessId)], left: Vec<ProcessId>) -> Result<()> {
        let late = ids
            .iter()
            .find(|(_, id)| left.contains(id))
            .and_then(|(at, id)| Some((self.nodes.get(*at)?, id)));
        let Some((node, id)) = late else { return Ok(()) };
        if tools.signals.stopped() {
            return Err(crate::wait::interrupted());
        }
        let (title, seconds) = (Node::title(node), tools.timeout.as_secs());
        let what = format!("{title} (process {}) has not ended within {seconds} s", id.pid);
        Err(Error::new(Kind::Busy, what)
            .advise("wait longer with --timeout, or use 'fathom cluster kill --signal KILL'"))
    }

    /// Removes processes that have ended from the state, and their control groups from the machine.
    pub(super) fn note_ended(&mut self, tools: &Tools<'_>) -> Result<()> {
        let processes = self.processes();
        for (server, process) in self.state.servers.iter_mut().zip(&processes) {
            if process.is_none() {
                server.process = None;
                groups::remove(&tools.ledger, &server.groups)?;
                server.groups.clear();
            }
        }
        if processes.iter().all(Option::is_none) {
            self.stop_proxy()?;
        }
        // In an environment of mlaunch we write no state before we start a server in it.
        if self.is_mlaunch && !self.folder.join(crate::state::STATE_FILE).exists() {
            return Ok(());
        }
        self.write()
    }
}

impl Cluster {
    /// Ends all servers at once and removes everything that was created for them. Returns the entries of the folder that stay,
    /// because they are not the cluster's.
    pub fn destroy(mut self, tools: &Tools<'_>) -> Result<Vec<PathBuf>> {
        if self.is_mlaunch {
            let what = format!(
                "mlaunch made the environment in {}, which is not ours to remove",
                self.folder.display()
            );
            return Err(Error::new(Kind::NotOurs, what)
                .with_id("made-by-mlaunch")
                .advise("stop it with 'fathom cluster stop', and remove it by hand"));
        }
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        // Their data is deleted as well, so they need not shut down cleanly.
        self.stop(tools, &all, StopOptions::with(Signal::KILL))?;
        self.remove_made()?;
        Ok(self.others())
    }

    /// Removes the files of an attempt that failed; entries that cannot be removed stay.
    pub(super) fn forget_files(&self) {
        let _ = self.remove_made();
    }

    /// Removes the data and the files of the servers, and then what was made for them. A folder that was there before stays as it was, and so
    /// does one that holds anything else.
    fn remove_made(&self) -> Result<()> {
        for path in self.nodes.iter().filter_map(|node| node.db_path.as_deref()) {
            entries(path)?.iter().try_for_each(|entry| remove(entry))?;
        }
        for node in &self.nodes {
            server_files(node).into_iter().chain(logs(&node.log_path)).try_for_each(|path| remove(&path))?;
        }
        proxy_files(&self.folder).iter().try_for_each(|path| remove(path))?;
        let remove_folders = || self.state.made.iter().rev().try_for_each(|path| remove_if_empty(path));
        remove_folders()?;
        // The state is removed late, so that a removal that failed can be repeated. The folder of the cluster is empty without it.
        remove(&self.folder.join(STATE_FILE))?;
        remove_folders()
    }

    /// The entries of its folders that are not the cluster's.
    fn others(&self) -> Vec<PathBuf> {
        let made = &self.state.made;
        let inner = made.iter().filter(|path| path.starts_with(&self.folder) && **path != self.folder);
        let folders = [&self.folder].into_iter().chain(inner);
        let found = folders.flat_map(|folder| entries(folder).unwrap_or_default());
        found.filter(|path| !made.contains(path)).collect()
    }
}

/// The entries of a folder; empty if it does not exist.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(cause) => Err(Error::io("list", folder, cause)),
    }
}

/// The files that a server writes, apart from its data and older logs.
pub(super) fn server_files(node: &Node) -> Vec<PathBuf> {
    let mut files = vec![node.log_path.clone(), node.console_path()];
    files.extend(node.diagnostics_path());
    files
}

/// A log and its rotated files, such as `mongod.log.2026-11-22T10-00-00`.
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

/// Removes a file, or a folder that has become empty. One that is in use, or in a folder that we may not change, stays.
fn remove_if_empty(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            let _ = fs::remove_dir(path);
            Ok(())
        }
        _ => remove(path),
    }
}
