//! Standard output and standard error without panics: a closed pipe is an error of its own kind, not a crash.
//!
//! Results go to standard output, all else (progress, warnings) to standard error, so that a pipe gets a clean
//! document.

use std::io::{self, Write};

use fathom_errors::{Error, Kind, Result};
use serde::Serialize;

/// Columns of the text of reports.
pub(crate) const WIDTH: usize = 80;

/// Writes `text` and a newline to standard output at once.
pub(crate) fn line(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|e| Error::io("write to", "standard output", e))
}

/// Writes a note for a person to standard error; one that cannot be delivered is dropped.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A value as one line of strict JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::new(Kind::Malformed, "cannot write JSON").because(e))
}
