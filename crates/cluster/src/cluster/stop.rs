//! Stops servers and destroys a cluster: sends signals, waits until processes have ended, and removes what the cluster created;
//! other files in its folder stay.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_process::ProcessId;
use rustix::process::Signal;

use super::{Cluster, Tools, servers};
use crate::groups;
use crate::layout::{Node, Purpose};
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
                .advise("stop it with 'fathom cluster stop', and remove it by hand"));
        }
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        // Their data is deleted as well, so they need not shut down cleanly.
        self.stop(tools, &all, StopOptions::with(Signal::KILL))?;
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
            // A mount point, or a folder whose parent we may not change.
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Removes the entries of a folder that existed before an attempt that failed; entries that cannot be removed stay.
    pub(super) fn forget_files(&self) {
        for path in self.made().into_iter().chain([self.folder.join(STATE_FILE)]) {
            let _ = remove(&path);
        }
    }

    /// All created files and folders, except the state file.
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
            made.extend(servers::key_file(&self.state.topology, &self.folder));
        }
        made.extend(self.network_files());
        made
    }
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
