//! The verbs of the lab in a program that was built without it (feature `lab`): they name the build that has them.

use anyhow::Result;
use clap::{Arg, Command};

use crate::outcome::VerbOutcome;

/// `serve` without its implementation.
pub(crate) fn serve() -> Command {
    verb("serve", "Serve MongoDB's protocol on a real engine (not in this build)")
}

/// `route` without its implementation.
pub(crate) fn route() -> Command {
    verb("route", "Route commands to the shards of a cluster (not in this build)")
}

/// Accepts the arguments of the verb, so that the answer names this build and not an unknown flag.
fn verb(name: &'static str, about: &'static str) -> Command {
    let words = Arg::new("words").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true).hide(true);
    Command::new(name).about(about).arg(words)
}

pub(crate) fn refuse(verb: &str) -> Result<VerbOutcome> {
    Err(fathom_session::missing(&format!("fathom {verb}")).into())
}
