//! The folder in which a run is put together, below the folder of runs, before it gets its name.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Result};

use crate::files::LATENCY;
use crate::folders::IMPORTING;

/// The directory that holds a run until all of it is right. It is deleted unless it is kept, and so are the directories that were made for it.
#[derive(Debug)]
pub(crate) struct StagingFolder {
    pub(crate) folder: PathBuf,
    /// Folders that were made, the outermost first.
    made: RefCell<Vec<PathBuf>>,
    /// Holds the lock that tells other processes that unpacking continues.
    held: RefCell<Option<File>>,
}

impl StagingFolder {
    pub(crate) fn new(parent: &Path) -> StagingFolder {
        let folder = parent.join(format!("{IMPORTING}{}", std::process::id()));
        StagingFolder { folder, made: RefCell::default(), held: RefCell::default() }
    }

    pub(crate) fn make(&self, parent: &Path) -> Result<()> {
        let missing = parent.ancestors().take_while(|one| !one.as_os_str().is_empty() && !one.exists());
        let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        for folder in missing.into_iter().rev() {
            match fs::create_dir(&folder) {
                // Another import made it at the same time.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made.map_err(|e| Error::io("create", &folder, e))?;
                    self.made.borrow_mut().push(folder);
                }
            }
        }
        for folder in [self.folder.clone(), self.folder.join(LATENCY)] {
            fs::create_dir(&folder).map_err(|e| Error::io("create", &folder, e))?;
            self.made.borrow_mut().push(folder);
        }
        let held = File::open(&self.folder).map_err(|e| Error::io("open", &self.folder, e))?;
        // Without locks, the rest of an interrupted import is not deleted. That is harmless.
        let _ = held.try_lock();
        *self.held.borrow_mut() = Some(held);
        Ok(())
    }

    /// Creates a file and the folders of its name, which is one of a run's files.
    pub(crate) fn create(&self, name: &str) -> Result<File> {
        let path = self.folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|e| Error::io("create", parent, e))?;
        }
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        made.map_err(|e| Error::io("create", &path, e))
    }

    pub(crate) fn keep(&self) {
        self.made.borrow_mut().clear();
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        let made = self.made.borrow();
        if made.contains(&self.folder) {
            let _ = fs::remove_dir_all(&self.folder);
        }
        // The directories that were made around it, unless another program uses them now.
        for folder in made.iter().rev().filter(|folder| !folder.starts_with(&self.folder)) {
            let _ = fs::remove_dir(folder);
        }
    }
}
