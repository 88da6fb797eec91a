//! The files of a run folder: their names, and the functions that open each as a plain file.
//!
//! A run folder may come from an untrusted source. If a file is replaced by a link, a pipe or an endless file, that must not lead
//! elsewhere, block the reader, or exhaust its memory.

use fathom_errors::{Error, Kind, Result};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const RESULTS: &str = "results.jsonl";
pub(crate) const FINDINGS: &str = "findings.json";
pub(crate) const LATENCY: &str = "latency";

/// The largest manifest that is read.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 4 << 20;

/// The longest line of results, readings or latency logs.
pub(crate) const MAX_LINE_BYTES: u64 = 16 << 20;

/// Opens a plain file for reading.
///
/// # Errors
/// When it cannot be opened, is not a plain file, or has more than `max_bytes` bytes.
pub(crate) fn open(path: &Path, max_bytes: u64) -> Result<File> {
    let failed = |e| Error::io("open", path, e);
    let refused = |why: &str| Error::new(Kind::Malformed, format!("{} {why}", path.display()));
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits()).unwrap_or(0);
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(e) if Errno::from_io_error(&e) == Some(Errno::LOOP) => {
            return Err(refused("is a symbolic link, which is not followed"));
        }
        opened => opened.map_err(failed)?,
    };
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(refused("is not a plain file"));
    }
    if about.len() > max_bytes {
        return Err(refused(&format!("has more than {max_bytes} bytes")));
    }
    Ok(file)
}

/// Returns the text of a plain file.
///
/// # Errors
/// As [`open`]; and when the file is not UTF-8.
pub(crate) fn text(path: &Path, max_bytes: u64) -> Result<String> {
    let mut text = String::new();
    let mut file = open(path, max_bytes)?.take(max_bytes);
    file.read_to_string(&mut text).map_err(|e| Error::io("read", path, e))?;
    Ok(text)
}

/// Calls `take` with each line of a plain file, and keeps one line in memory at a time. A line longer than [`MAX_LINE_BYTES`] comes in pieces.
///
/// # Errors
/// As [`open`]; when the file cannot be read; and those of `take`.
pub(crate) fn each_line(
    path: &Path,
    max_bytes: u64,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut file = BufReader::new(open(path, max_bytes)?.take(max_bytes));
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| {
        line.clear();
        (&mut file).take(MAX_LINE_BYTES).read_until(b'\n', line)
    };
    while next(&mut line).map_err(|e| Error::io("read", path, e))? > 0 {
        take(&line)?;
    }
    Ok(())
}
