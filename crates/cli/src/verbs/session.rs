//! `fathom session`: runs one session whose specification comes on standard input. It is how a study runs its trials, each in a process
//! of its own, and no verb for people.

use anyhow::Result;
use clap::Command;

use crate::outcome::Outcome;
use crate::output;

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Command::new(fathom_session::VERB)
        .about("Run a session whose specification comes on standard input; for use by 'fathom compare'")
        .hide(true)
}

/// Runs the session, and prints its report.
pub(crate) fn run() -> Result<Outcome> {
    fathom_session::become_session(output::note, &mut std::io::stdout())?;
    Ok(Outcome::Clean)
}
