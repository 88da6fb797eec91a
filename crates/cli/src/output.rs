//! Standard output and standard error without panics: a closed pipe is an error with a kind of its own, not a crash.
//!
//! Results are written to standard output, and all other text (progress, warnings) to standard error, so that a pipe gets a clean
//! document.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_errors::{Error, Kind, Result};
use serde::Serialize;

use crate::command_line;

/// Columns of the text of reports.
pub(crate) const WIDTH: usize = 80;

/// Whether the command line asks for ids. It holds for the whole process, as standard output does.
static SHOWS_IDS: AtomicBool = AtomicBool::new(false);

/// Has findings and causes printed with their ids from now on.
pub(crate) fn show_ids() {
    SHOWS_IDS.store(true, Ordering::Relaxed);
}

pub(crate) fn shows_ids() -> bool {
    SHOWS_IDS.load(Ordering::Relaxed)
}

/// Writes `text` and a newline to standard output at once.
pub(crate) fn line(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|e| Error::io("write to", "standard output", e))
}

/// Writes a note to standard error, without the logins of the command line; a note that cannot be written is dropped.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", command_line::without_logins(text));
}

/// A value as one line of strict JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::new(Kind::Malformed, "cannot write JSON").because(e))
}
