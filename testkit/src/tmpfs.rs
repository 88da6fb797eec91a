//! A file system in memory, of any size that a test needs.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Result};
use fathom_process::{Guard, Resource};
use fathom_units::Bytes;
use rustix::mount::MountFlags;

use crate::scratch::{Scratch, fixture_ledger, root_fixture};
use crate::skip::Need;

#[derive(Debug)]
pub struct Tmpfs {
    // Taken down in this order.
    _mount: Guard,
    _folder: Guard,
    path: PathBuf,
    _scratch: Scratch,
}

impl Tmpfs {
    /// An empty one of `size`. The test ends as skipped if this machine does not support it.
    #[track_caller]
    pub fn new(size: Bytes) -> Tmpfs {
        root_fixture(Need::Root, || make(size))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn make(size: Bytes) -> Result<Tmpfs> {
    let scratch = Scratch::new()?;
    let ledger = fixture_ledger()?;
    let name = ledger.unique_name();
    let path = scratch.path().join(format!("{name}.mnt"));
    let folder = ledger.create_directory(&path)?.guard();
    let options =
        CString::new(format!("size={}", size.0)).map_err(|e| Error::usage("zero byte").because(e))?;
    let entry = ledger.will_make(Resource::mount(&path, name.clone()))?;
    let mount = entry.guard();
    rustix::mount::mount(name.as_str(), &path, "tmpfs", MountFlags::empty(), options.as_c_str())
        .map_err(|e| Error::io("mount tmpfs at", &path, e))?;
    Ok(Tmpfs { _mount: mount, _folder: folder, path, _scratch: scratch })
}
