//! A fixture with a FUSE file system (Debian's `bindfs`), which a disk probe must recognise.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Result};
use fathom_process::{Guard, Resource, Tool};

use crate::scratch::{Scratch, fixture_ledger, root_fixture};
use crate::skip::Need;

/// A mounted FUSE file system that shows an empty folder of the disk below.
#[derive(Debug)]
pub struct FuseMount {
    // Taken down in this order; the program ends with its mount.
    _mount: Guard,
    _folder: Guard,
    path: PathBuf,
    _scratch: Scratch,
}

impl FuseMount {
    /// Mounts an empty one. The test ends as skipped if this machine does not support it.
    #[track_caller]
    pub fn mount() -> FuseMount {
        root_fixture(Need::Fuse, make)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn make() -> Result<FuseMount> {
    let scratch = Scratch::new()?;
    let ledger = fixture_ledger()?;
    let below = scratch.path().join("below");
    fs::create_dir(&below).map_err(|e| Error::io("create", &below, e))?;
    let path = scratch.path().join(ledger.unique_name() + ".mnt");
    let folder = ledger.create_directory(&path)?.guard();
    // bindfs shows the folder below as the mounted source.
    let source = below.to_string_lossy().into_owned();
    let entry = ledger.will_make(Resource::mount(&path, source))?;
    let mount = entry.guard();
    // It returns once the file system is mounted, and serves it from the background.
    Tool::new("bindfs", "bindfs")?.arg(&below).arg(&path).run()?;
    Ok(FuseMount { _mount: mount, _folder: folder, path, _scratch: scratch })
}
