//! The storage of a trial: one for all servers, one for each server, or a plain folder if no storage is to be made.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Result};
use fathom_process::Guard;
use fathom_storage::{Array, Base, PreparedTarget, TargetSpec};

use crate::Bench;
use crate::setup::{Setup, Storage};

/// The folders of a trial's data.
#[derive(Debug)]
pub(crate) struct Targets {
    made: Vec<PreparedTarget>,
    // The folder is deleted last: file systems may be mounted in it.
    folder: Guard,
    path: PathBuf,
}

/// The specification of the storage, if any is to be made.
fn specification(storage: &Storage, folder: &Path) -> Option<TargetSpec> {
    let base = if !storage.devices.is_empty() {
        Base::Disks(storage.devices.clone())
    } else if storage.is_made() {
        Base::Loops { folder: folder.to_owned(), count: storage.disks, size: storage.disk_size }
    } else {
        Base::Directory(folder.to_owned())
    };
    if !storage.is_made() && storage.cap.is_none() {
        return None;
    }
    let mut specification = TargetSpec::new(base);
    specification.array = storage.array.map(|kind| Array { kind, chunk_kib: storage.chunk_kib });
    specification.filesystem = storage.filesystem;
    specification.filesystem_options.mkfs.clone_from(&storage.mkfs);
    specification.filesystem_options.mount = storage.mount.join(",");
    specification.filesystem_options.access_times = storage.access_times;
    specification.cap = storage.cap;
    specification.queue = storage.queue.clone();
    Some(specification)
}

/// Describes the storage in one line; `None` for a plain folder.
pub(crate) fn described(bench: &Bench, setup: &Setup) -> Option<String> {
    Some(specification(&setup.storage, &bench.work)?.describe())
}

/// Refuses storage that cannot be made here; creates nothing.
pub(crate) fn check(bench: &Bench, setup: &Setup) -> Result<()> {
    specification(&setup.storage, &bench.work).map_or(Ok(()), |specification| specification.check())
}

/// Makes the storage of a trial.
pub(crate) fn prepare(bench: &Bench, setup: &Setup) -> Result<Targets> {
    let path = bench.work.join(bench.ledger.unique_name());
    let folder = bench.ledger.create_tree(&path)?.guard();
    let count = if setup.storage.per_member { setup.servers.data_servers() } else { 1 };
    let mut made = Vec::new();
    if let Some(specification) = specification(&setup.storage, &path) {
        for _ in 0..count {
            made.push(specification.prepare(&bench.ledger)?);
        }
    }
    Ok(Targets { made, folder, path })
}

impl Targets {
    /// The folder for the data of a server, by its place among those with data; it is made.
    pub(crate) fn folder_of(&self, at: usize) -> Result<PathBuf> {
        let base = self.made.get(at).or(self.made.first()).map_or(self.path.as_path(), PreparedTarget::path);
        let folder = base.join(format!("member{at}"));
        fs::create_dir_all(&folder).map_err(|cause| Error::io("create", &folder, cause))?;
        Ok(folder)
    }

    /// The folder of a probe.
    pub(crate) fn folder(&self) -> &Path {
        self.made.first().map_or(&self.path, PreparedTarget::path)
    }

    /// A folder next to the storage, not on it.
    pub(crate) fn beside(&self) -> &Path {
        &self.path
    }

    /// Puts the process of a server under its storage's limits.
    pub(crate) fn adopt(&self, at: usize, pid: u32) -> Result<()> {
        self.made.get(at).or(self.made.first()).map_or(Ok(()), |target| target.adopt_process(pid))
    }

    /// The storage that was made, and the kernel's description of it.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        // They are made alike, so one describes all.
        self.made.first().map(PreparedTarget::facts).unwrap_or_default()
    }

    /// Removes all of it, and returns the first error.
    pub(crate) fn undo(self) -> Result<()> {
        let Targets { made, folder, .. } = self;
        let undone = made.into_iter().rev().map(PreparedTarget::undo).fold(Ok(()), Result::and);
        undone.and(folder.undo())
    }
}
