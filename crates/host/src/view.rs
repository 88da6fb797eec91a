//! A view of a machine: the live one, or a saved copy of its `/proc` and `/sys`, read by the same code.
//!
//! Paths are given without a leading slash (`proc/diskstats`). Symbolic links inside a saved copy are followed only as
//! far as the copy holds them. A missing file is `None`, not an error: kernels differ.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

/// The longest first line; a longer one is cut.
const MAX_LINE_BYTES: u64 = 256 << 10;

/// The source of facts.
#[derive(Clone, Debug)]
pub struct View {
    root: PathBuf,
    live: bool,
}

impl View {
    /// The machine this process runs on.
    pub fn live() -> Self {
        View { root: PathBuf::from("/"), live: true }
    }

    /// A folder made by `fathom doctor --save`, or by hand, holding `proc/` and `sys/`.
    pub fn snapshot(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        if !root.join("proc").is_dir() || !root.join("sys").is_dir() {
            let what = format!("{} is not a host snapshot: it has no proc/ and sys/ folders", root.display());
            return Err(Error::new(Kind::NotFound, what).advise("make one with 'fathom doctor --save DIR'"));
        }
        Ok(View { root, live: false })
    }

    /// Returns whether this is the running machine.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The folder that represents `/`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The whole text of a file, or `None` if it does not exist or may not be read. Bytes that are not UTF-8
    /// are replaced.
    pub fn text(&self, path: &str) -> Option<String> {
        fs::read(self.root.join(path)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The whole text of a file that must exist.
    pub fn required(&self, path: &str) -> Result<String> {
        let full = self.root.join(path);
        let bytes = fs::read(&full).map_err(|e| Error::io("read", &full, e))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A one-value file without the white space around it; `None` also when empty.
    pub fn value(&self, path: &str) -> Option<String> {
        self.text(path).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The first line of a file that may be long and slow to make (`numa_maps` walks a process's page tables).
    pub(crate) fn first_line(&self, path: &str) -> Option<String> {
        let mut line = String::new();
        let file = File::open(self.root.join(path)).ok()?.take(MAX_LINE_BYTES);
        BufReader::new(file).read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
    }

    /// Reads a file that has one number.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.value(path)?.parse().ok()
    }

    /// The word in square brackets of a choice file (`none [mq-deadline]`), or its only word.
    pub fn choice(&self, path: &str) -> Option<String> {
        let text = self.value(path)?;
        let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        chosen.map(str::to_owned).or_else(|| (!text.contains(char::is_whitespace)).then(|| text.clone()))
    }

    /// The last name in the target of a symbolic link; `None` if the path is no link.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        fs::read_link(self.root.join(path)).ok()?.file_name()?.to_str().map(str::to_owned)
    }

    /// The names in a folder, sorted; empty if it does not exist.
    pub fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Returns whether a file or folder is there.
    pub fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_machine_has_a_kernel_version() {
        assert!(View::live().value("proc/version").is_some_and(|v| v.starts_with("Linux")));
        assert!(View::live().list("sys/no-such-folder").is_empty());
    }

    #[test]
    fn a_folder_without_proc_is_no_snapshot() {
        assert!(View::snapshot("/nonexistent").is_err());
    }
}
