//! A run folder as one file: a tar archive compressed by Zstandard, whose first entry lists all others with their sizes and SHA-256. This module
//! packs it: first the list, then each file of the record in the order of names.
//!
//! The same record gives the same bytes: the archive contains no time, owner or machine, and omits files that can be made again (`report.html`).
//! An unpacked bundle is treated as hostile until each file has the size and the checksum of the list. Only plain files with names of a
//! run's files are accepted, in the order of the list, and no file becomes visible before all of them are verified.

mod unpack;

use std::io::{self, Write};
use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use tar::{Builder, EntryType, Header};

use crate::checksum_stream::ChecksumStream;
use crate::files;
use crate::folders::{Condition, RunFile, RunFolder};

pub use self::unpack::{UnpackResult, check, check_archive, unpack, unpack_as};

/// The format that is written.
const FORMAT: u32 = 1;
/// The entry that lists the others.
const LIST: &str = "fathom-bundle.json";
/// The limit of the length of an entry's name, with the run's name before it.
const MAX_NAME_BYTES: u64 = 1024;
/// The limit of the size of a list.
const MAX_LIST_BYTES: u64 = 8 << 20;
/// The default limit of the unpacked size of a bundle.
pub const MAX_BYTES: u64 = 16 << 30;

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
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

impl BundleList {
    /// The size of all files together, or `None` if the sum overflows.
    pub fn bytes(&self) -> Option<u64> {
        self.files.iter().try_fold(0u64, |sum, file| sum.checked_add(file.bytes))
    }
}

/// The error of a bundle that does not match its own list.
fn refused(bundle: &Path, why: impl Into<String>) -> Error {
    let why = why.into();
    Error::new(Kind::Corruption, format!("{} is refused: {why}", bundle.display()))
}

/// The level of compression. Zstandard uses one thread, so that the bytes do not depend on the machine.
const LEVEL: i32 = 9;

/// The result of packing.
#[derive(Clone, Debug)]
pub struct PackResult {
    pub list: BundleList,
    /// Names of files in the folder that were left out.
    pub left_out: Vec<String>,
}

/// Packs `run` into `out`.
///
/// # Errors
/// When it is still written, a file of it cannot be read or changes meanwhile, or `out` fails.
pub fn pack(run: &RunFolder, out: impl Write) -> Result<PackResult> {
    if run.condition == Condition::Running {
        let what = format!("{} is still running", run.path.display());
        return Err(Error::new(Kind::Busy, what).advise("wait for its end"));
    }
    if !is_run_name(&run.name) {
        let what = format!("'{}' cannot be a name in a bundle", run.name.escape_debug());
        return Err(Error::usage(what).advise("rename the folder to letters, digits, '-', '_' and '.'"));
    }
    let (packed, left): (Vec<&RunFile>, Vec<&RunFile>) =
        run.contents.files.iter().partition(|file| file.is_record());
    let files = packed.into_iter().map(|file| summed(&run.path, file)).collect::<Result<Vec<_>>>()?;
    let list = BundleList { format: FORMAT, run: run.name.clone(), files };
    write(run, &list, out)?;
    let left_out = left.into_iter().map(|file| file.name.clone());
    Ok(PackResult { list, left_out: left_out.chain(run.contents.foreign.iter().cloned()).collect() })
}

fn summed(folder: &Path, file: &RunFile) -> Result<BundleFile> {
    let path = folder.join(&file.name);
    let read = |e| Error::io("read", &path, e);
    let mut through = ChecksumStream::new(io::sink());
    io::copy(&mut files::open(&path, MAX_BYTES)?, &mut through).map_err(read)?;
    let (bytes, sha256) = through.done();
    Ok(BundleFile { name: file.name.clone(), bytes, sha256 })
}

fn write(run: &RunFolder, list: &BundleList, out: impl Write) -> Result<()> {
    let failed = |e| Error::io("write", "the bundle", e);
    let encoder = zstd::stream::write::Encoder::new(out, LEVEL).map_err(failed)?;
    let mut archive = Builder::new(encoder);
    let text = serde_json::to_vec_pretty(list)
        .map_err(|e| Error::new(Kind::Malformed, "cannot write the bundle's list").because(e))?;
    archive.append_data(&mut header(text.len() as u64), LIST, text.as_slice()).map_err(failed)?;
    for file in &list.files {
        let path = run.path.join(&file.name);
        let source = files::open(&path, MAX_BYTES)?;
        let mut source = ChecksumStream::new(io::Read::take(source, file.bytes));
        let name = format!("{}/{}", run.name, file.name);
        archive.append_data(&mut header(file.bytes), name, &mut source).map_err(failed)?;
        if source.done() != (file.bytes, file.sha256.clone()) {
            let what = format!("{} changed while it was packed", path.display());
            return Err(Error::new(Kind::Busy, what).advise("try again"));
        }
    }
    let mut out = archive.into_inner().and_then(zstd::stream::write::Encoder::finish).map_err(failed)?;
    out.flush().map_err(failed)
}

/// A plain file without owner and time.
fn header(bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Whether a run folder may have this name: letters, digits, `-`, `_` and dots. A leading dot would hide it, and a leading `-` would become
/// an option when a shell expands `*`; both are refused.
fn is_run_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 200 && !name.starts_with(['.', '-']) && name.chars().all(plain)
}

#[cfg(test)]
mod tests;
