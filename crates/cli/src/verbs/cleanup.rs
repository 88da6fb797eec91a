//! `fathom cleanup`: undoes the changes that killed processes left behind.
//!
//! A run that ends, even by Ctrl-C, undoes its own changes. After a `kill -9`, a crash or a power cut only the undo
//! journal has a record of them. This verb refuses to touch changes of a running process, and files that replaced those of Fathom.

use anyhow::Result;
use clap::{Args, Command};
use fathom_errors::{Error, Kind};
use fathom_process::ledger::{self, CleanupOutcome, DeadEntry, ResourceFate as Undoing};
use serde_json::{Value, json};

use crate::outcome::VerbOutcome;
use crate::output;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom cleanup --dry-run     list what would be undone
  sudo fathom cleanup          undo what runs of root left
  fathom cleanup --json        one JSON document, for scripts

Exit codes: 0 nothing is left, 1 something could not be undone, 2 usage,
3 not enough rights to undo it.";

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

/// Undoes all recorded changes of dead processes, and prints a line for each.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    if config.dry_run {
        show_found(&ledger::dead_things()?, config.json)?;
        return Ok(VerbOutcome::Clean);
    }
    let undoings = ledger::undo_dead()?;
    show_undoings(&undoings, config.json)?;
    verdict(&undoings)
}

fn show_found(found: &[DeadEntry], as_json: bool) -> Result<()> {
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
                CleanupOutcome::Undone => to_json(found, "undone", None),
                CleanupOutcome::Gone => to_json(found, "gone", None),
                CleanupOutcome::Kept(error) => to_json(found, "kept", Some(error)),
            })
            .collect();
        return Ok(output::line(&json!({ "dry_run": false, "things": things }).to_string())?);
    }
    for Undoing { found, fate } in undoings {
        let (thing, left_by) = (&found.thing, left_by(found));
        output::line(&match fate {
            CleanupOutcome::Undone => format!("undone: {thing}{left_by}"),
            CleanupOutcome::Gone => format!("removed already: {thing}{left_by}"),
            CleanupOutcome::Kept(error) => format!("not undone: {thing}{left_by}: {error}"),
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

fn left_by(found: &DeadEntry) -> String {
    found.owner.map_or_else(String::new, |owner| format!(" (left by process {})", owner.pid))
}

fn to_json(found: &DeadEntry, fate: &str, reason: Option<&Error>) -> Value {
    json!({
        "thing": found.thing,
        "name": found.thing.to_string(),
        "pid": found.owner.map(|owner| owner.pid),
        "fate": fate,
        "reason": reason.map(Error::to_string),
    })
}

/// Missing permissions are errors of the environment; any other change that remains is a finding.
fn verdict(undoings: &[Undoing]) -> Result<VerbOutcome> {
    let kept = undoings.iter().filter_map(|undoing| match &undoing.fate {
        CleanupOutcome::Kept(error) => Some(error.kind()),
        _ => None,
    });
    let kinds: Vec<Kind> = kept.collect();
    if kinds.contains(&Kind::Permission) {
        let what = "something could not be undone for want of rights";
        let state = ledger::state_folder()?;
        let advice = format!("sudo env FATHOM_STATE={} fathom cleanup", state.display());
        return Err(Error::new(Kind::Permission, what).advise(advice).into());
    }
    Ok(if kinds.is_empty() { VerbOutcome::Clean } else { VerbOutcome::Findings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_process::Resource;

    fn kept(kind: Kind) -> Undoing {
        let found = DeadEntry { owner: None, thing: Resource::file("/x") };
        Undoing { found, fate: CleanupOutcome::Kept(Error::new(kind, "no")) }
    }

    #[test]
    fn what_stays_decides_the_exit_code() {
        assert_eq!(verdict(&[]).unwrap(), VerbOutcome::Clean);
        assert_eq!(verdict(&[kept(Kind::Busy)]).unwrap(), VerbOutcome::Findings);
        let error = verdict(&[kept(Kind::Busy), kept(Kind::Permission)]).unwrap_err();
        assert_eq!(error.downcast_ref::<Error>().map(Error::kind), Some(Kind::Permission));
    }
}
