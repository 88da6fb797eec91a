//! `fathom cleanup`: undoes what processes that were killed left behind.
//!
//! A run that ends, also by Ctrl-C, undoes what it made. After a `kill -9`, a crash or a power cut only the undo
//! journal knows. This verb refuses to touch what a living process made, or what replaced a file of ours.

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_process::ledger::{self, Fate, Found, Outcome as Undoing};
use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::output;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom cleanup --dry-run     list what would be undone
  sudo fathom cleanup          undo what runs as root left
  fathom cleanup --json        one JSON document, for scripts

Exit codes: 0 nothing is left, 1 something could not be undone, 3 not enough rights to undo it.";

/// What the command line may say.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// List what would be undone, and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    // The words come last: the derived arguments would put the comment on `Config` in their place.
    Config::augment_args(Command::new("cleanup"))
        .about("Undo what killed runs left: files, mounts, arrays, loop devices, cgroups, settings")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Undoes everything that dead processes owe, and says so line by line.
pub(crate) fn run(config: Config) -> Result<Outcome> {
    if config.dry_run {
        show_found(&ledger::dead_things()?, config.json)?;
        return Ok(Outcome::Clean);
    }
    let undoings = ledger::undo_dead()?;
    show_undoings(&undoings, config.json)?;
    verdict(&undoings)
}

fn show_found(found: &[Found], as_json: bool) -> Result<()> {
    if as_json {
        let things: Vec<_> = found.iter().map(|found| to_json(found, "would undo", None)).collect();
        return Ok(output::line(&json!({ "dry_run": true, "things": things }).to_string())?);
    }
    for found in found {
        output::line(&format!("would undo: {}{}", found.thing, left_by(found)))?;
    }
    nothing_to_undo(found.is_empty())
}

fn show_undoings(undoings: &[Undoing], as_json: bool) -> Result<()> {
    if as_json {
        let things: Vec<_> = undoings
            .iter()
            .map(|Undoing { found, fate }| match fate {
                Fate::Undone => to_json(found, "undone", None),
                Fate::Gone => to_json(found, "gone", None),
                Fate::Kept(error) => to_json(found, "kept", Some(error)),
            })
            .collect();
        return Ok(output::line(&json!({ "dry_run": false, "things": things }).to_string())?);
    }
    for Undoing { found, fate } in undoings {
        let (thing, left_by) = (&found.thing, left_by(found));
        output::line(&match fate {
            Fate::Undone => format!("undone: {thing}{left_by}"),
            Fate::Gone => format!("already gone: {thing}{left_by}"),
            Fate::Kept(error) => format!("not undone: {thing}{left_by}: {error}"),
        })?;
    }
    nothing_to_undo(undoings.is_empty())
}

fn nothing_to_undo(nothing: bool) -> Result<()> {
    if nothing {
        output::line("nothing to undo")?;
    }
    Ok(())
}

fn left_by(found: &Found) -> String {
    found.owner.map_or_else(String::new, |owner| format!(" (left by process {})", owner.pid))
}

fn to_json(found: &Found, fate: &str, reason: Option<&Error>) -> Value {
    json!({
        "thing": found.thing,
        "name": found.thing.to_string(),
        "pid": found.owner.map(|owner| owner.pid),
        "fate": fate,
        "reason": reason.map(Error::to_string),
    })
}

/// Missing rights are the environment's fault, anything else that stays is a finding.
fn verdict(undoings: &[Undoing]) -> Result<Outcome> {
    let kept = undoings.iter().filter_map(|undoing| match &undoing.fate {
        Fate::Kept(error) => Some(error.kind()),
        _ => None,
    });
    let kinds: Vec<Kind> = kept.collect();
    if kinds.contains(&Kind::Permission) {
        let what = "something could not be undone for want of rights";
        let state = ledger::state_folder()?;
        let advice = format!("sudo env FATHOM_STATE={} fathom cleanup", state.display());
        return Err(Error::new(Kind::Permission, what).advise(advice).into());
    }
    Ok(if kinds.is_empty() { Outcome::Clean } else { Outcome::Findings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_process::Thing;

    fn kept(kind: Kind) -> Undoing {
        let found = Found { owner: None, thing: Thing::file("/x") };
        Undoing { found, fate: Fate::Kept(Error::new(kind, "no")) }
    }

    #[test]
    fn what_stays_decides_the_exit_code() {
        assert_eq!(verdict(&[]).unwrap(), Outcome::Clean);
        assert_eq!(verdict(&[kept(Kind::Busy)]).unwrap(), Outcome::Findings);
        let error = verdict(&[kept(Kind::Busy), kept(Kind::Permission)]).unwrap_err();
        assert_eq!(error.downcast_ref::<Error>().map(Error::kind), Some(Kind::Permission));
    }
}
