//! A run folder as one file: a tar archive under Zstandard, whose first entry lists every other with its size and SHA-256.
//!
//! The same record gives the same bytes: no time, owner or machine enters, and what can be made again (`report.html`) stays out. What
//! comes back in is held for hostile until each file has the size and the sum that were promised: only plain files with names of a
//! run's files are taken, in the order of the list, and nothing is put where it can be seen before all of it is right.

mod pack;
mod parts;
mod unpack;

use std::path::Path;

use fathom_errors::{Error, Kind};
use serde::{Deserialize, Serialize};

pub use self::pack::{Packed, pack};
pub use self::unpack::{Unpacked, check, check_archive, unpack, unpack_as};

/// The format that is written.
const FORMAT: u32 = 1;
/// The entry that lists the others.
const LIST: &str = "fathom-bundle.json";
/// No name of an entry is this long, with the run's name before it.
const NAME_BYTES_MAX: u64 = 1024;
/// No list is this long.
const LIST_BYTES_MAX: u64 = 8 << 20;
/// The most that a bundle may unpack to, where nobody allows more.
pub const BYTES_MAX: u64 = 16 << 30;

/// The list of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleList {
    /// The format of the bundle.
    pub format: u32,
    /// The name of the run folder.
    pub run: String,
    /// Every file, by name.
    pub files: Vec<BundleFile>,
}

/// A file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleFile {
    /// Its name within the run folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

impl BundleList {
    /// What all files take together; `None` where that is more than can be counted.
    pub fn bytes(&self) -> Option<u64> {
        self.files.iter().try_fold(0u64, |sum, file| sum.checked_add(file.bytes))
    }
}

/// An error of a bundle that is not what it says.
fn refused(bundle: &Path, why: impl Into<String>) -> Error {
    let why = why.into();
    Error::new(Kind::Corruption, format!("{} is refused: {why}", bundle.display()))
}

#[cfg(test)]
mod tests;
