//! Standard output and standard error without panics: a closed pipe is an error of its own kind, not a crash.
//!
//! Results go to standard output, all else (progress, warnings) to standard error, so that a pipe gets a clean
//! document.

use std::io::{self, IsTerminal, Write};

use fathom_errors::{Error, Result};

/// Writes `text` and a newline to standard output at once.
pub fn line(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| Error::io("write to", "standard output", e))
}

/// Writes a note for a person to standard error; one that cannot be delivered is dropped.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether a person is looking at standard error (progress that overwrites itself is allowed).
#[allow(dead_code, reason = "used by the verbs that show progress")]
pub fn is_interactive() -> bool {
    io::stderr().is_terminal()
}
