//! `fathom session`: runs one session whose specification comes on standard input. A study runs each of its trials through it in a process
//! of its own; it is not a verb for users.

use anyhow::Result;
use clap::Command;

use crate::outcome::VerbOutcome;
use crate::output;

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Command::new(fathom_session::VERB)
        .about("Run a session whose specification comes on standard input; for use by 'fathom compare'")
        .hide(true)
}

/// Runs the session, and prints its report.
pub(crate) fn run() -> Result<VerbOutcome> {
    fathom_session::become_session(output::note, &mut std::io::stdout())?;
    Ok(VerbOutcome::Clean)
}
