//! Files of a run folder are opened as what they are: plain files. What lies in such a folder may come from anywhere, and neither a link nor
//! a pipe in the place of a file may lead elsewhere, make us wait, or be read without end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use fathom_errors::{Error, Kind, Result};

/// Opens a plain file for reading.
///
/// # Errors
/// When it cannot be opened, or is a link or no file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    Ok(file)
}

/// The text of a plain file.
///
/// # Errors
/// As [`open`]; and when it is no text or has more than `bytes_max` bytes.
pub(crate) fn text(path: &Path, bytes_max: u64) -> Result<String> {
    let failed = |e| Error::io("read", path, e);
    let mut text = String::new();
    open(path)
        .map_err(failed)?
        .take(bytes_max.saturating_add(1))
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > bytes_max {
        let what = format!("{} has more than {bytes_max} bytes", path.display());
        return Err(Error::new(Kind::Malformed, what));
    }
    Ok(text)
}
