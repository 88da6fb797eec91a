//! The verbs of the lab in a program that was built without it (feature `lab`): they say where they are.

use anyhow::Result;
use clap::{Arg, Command};

use crate::outcome::Outcome;

/// `serve`, as far as it is here.
pub(crate) fn serve() -> Command {
    verb("serve", "Serve MongoDB's protocol on a real engine (not in this build)")
}

/// `route`, as far as it is here.
pub(crate) fn route() -> Command {
    verb("route", "Route commands to the shards of a cluster (not in this build)")
}

/// Takes what the verb takes, so that the answer is this build and not a flag that it lacks.
fn verb(name: &'static str, about: &'static str) -> Command {
    let words = Arg::new("words").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true).hide(true);
    Command::new(name).about(about).arg(words)
}

pub(crate) fn refuse(verb: &str) -> Result<Outcome> {
    Err(fathom_session::missing(&format!("fathom {verb}")).into())
}
