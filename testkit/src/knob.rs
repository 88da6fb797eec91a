//! Changes a setting of the kernel for a test, and restores it at the end, also after a panic.

use std::fs;
use std::path::PathBuf;

use fathom_errors::{Error, Result};

/// A file of one value under `/sys` or `/proc/sys`. Dropped, it has its old value again.
#[derive(Debug)]
pub struct Knob {
    path: PathBuf,
    before: String,
}

impl Knob {
    /// Sets it; the old value is kept.
    pub fn set(path: impl Into<PathBuf>, value: &str) -> Result<Knob> {
        let path = path.into();
        let before = fs::read_to_string(&path).map_err(|e| Error::io("read", &path, e))?;
        let knob = Knob { before: before.trim().to_owned(), path };
        fs::write(&knob.path, value).map_err(|e| Error::io("write", &knob.path, e))?;
        Ok(knob)
    }
}

impl Drop for Knob {
    fn drop(&mut self) {
        // A device that no longer exists has no setting to restore.
        let _ = fs::write(&self.path, &self.before);
    }
}
