//! Asks the user at the terminal before a change that cannot be undone.

use std::io::{BufRead, IsTerminal, Write};

use fathom_errors::{Error, Result};

/// Whether standard input and standard error are terminals, so that a user sees the question and can answer.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on standard error; every answer but a clear yes is a no.
pub(crate) fn ask(question: &str) -> Result<bool> {
    let mut error = std::io::stderr().lock();
    let _ = write!(error, "{question} [y/N] ");
    let _ = error.flush();
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(|e| Error::io("read", "the answer", e))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
