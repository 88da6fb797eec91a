//! `fathom runs prune`: removes runs by age and size, and nothing else.
//!
//! What goes is shown first. A folder with anything in it that Fathom did not write, one that is still written, and whatever is no
//! run stays, and is named. It asks on a terminal, and wants `--yes` elsewhere.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::Result;
use clap::Args;
use fathom_errors::Error;
use fathom_record::folders::{self, Moment, Obstacle, RunFolder, Scan, days};
use fathom_report::{printable, took, wrapped};
use fathom_units::{Bytes, Nanos};
use serde_json::{Value, json};

use super::list::RunsFolder;
use crate::outcome::Outcome;
use crate::output;
use crate::output::WIDTH;

/// What the command line may say.
#[derive(Debug, Args)]
pub(super) struct PruneArgs {
    /// Only runs that began longer ago than this (30d, 2w, 36h)
    #[arg(long, value_name = "TIME", value_parser = days)]
    older: Option<Nanos>,
    /// Only runs that take more than this each (10GB)
    #[arg(long, value_name = "SIZE")]
    larger_than: Option<Bytes>,
    /// Also the oldest runs, until all together take no more than this (50GB)
    #[arg(long, value_name = "SIZE")]
    total: Option<Bytes>,
    /// The newest so many stay, whatever else is said
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: usize,
    /// Show what would go, and remove nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What is to be done with the runs of a place.
struct Plan<'s> {
    going: Vec<&'s RunFolder>,
    staying: Vec<(&'s RunFolder, Obstacle)>,
}

/// Shows what would go, asks, removes.
pub(super) fn run(args: &PruneArgs, place: &RunsFolder) -> Result<Outcome> {
    if args.older.is_none() && args.larger_than.is_none() && args.total.is_none() && args.keep == 0 {
        let what = "prune needs to be told what may go";
        return Err(Error::usage(what)
            .advise("--older 30d, --larger-than 10GB, --total 50GB or --keep 20")
            .into());
    }
    let (folder, scan) = place.scan()?;
    let plan = plan(args, &scan);
    if !args.json {
        show(&plan, &scan)?;
    }
    let nothing = plan.going.is_empty() && scan.unfinished.is_empty();
    if nothing || args.dry_run || !agreed(args, plan.going.len() + scan.unfinished.len())? {
        return finish(args, &plan, &[], &[]);
    }
    let (mut gone, mut failed) = (Vec::new(), Vec::new());
    for run in &plan.going {
        match folders::remove(run) {
            Ok(()) => gone.push(run.name.clone()),
            Err(error) => failed.push((run.name.clone(), error)),
        }
    }
    for name in &scan.unfinished {
        match folders::clear_unfinished(&folder.join(name)) {
            Ok(()) => gone.push(name.clone()),
            Err(error) => failed.push((name.clone(), error)),
        }
    }
    finish(args, &plan, &gone, &failed)
}

fn plan<'s>(args: &PruneArgs, scan: &'s Scan) -> Plan<'s> {
    let mut plan = Plan { going: Vec::new(), staying: Vec::new() };
    let limit = args.older.map(|older| Moment::now().before(older));
    let by_kind = args.older.is_some() || args.larger_than.is_some();
    let by_number = !by_kind && args.total.is_none();
    // The newest first: what they take is what the older ones must fit beside.
    let (mut taken, mut is_full) = (0u64, false);
    for (place, run) in scan.runs.iter().enumerate() {
        let bytes = run.contents.bytes();
        let is_old = limit.is_none_or(|limit| run.started < limit);
        let is_large = args.larger_than.is_none_or(|most| bytes > most.get());
        // What is older than one that goes for want of room goes too, however small it is.
        is_full |= args.total.is_some_and(|most| taken.saturating_add(bytes) > most.get());
        let goes = place >= args.keep && ((by_kind && is_old && is_large) || is_full || by_number);
        match folders::obstacle(run) {
            None if goes => {
                plan.going.push(run);
                continue;
            }
            Some(obstacle) if goes => plan.staying.push((run, obstacle)),
            _ => {}
        }
        taken = taken.saturating_add(bytes);
    }
    plan
}

fn show(plan: &Plan<'_>, scan: &Scan) -> Result<()> {
    let line = |text: String| output::line(&wrapped(&text, "", "  ", WIDTH).join("\n"));
    for (run, obstacle) in &plan.staying {
        line(format!("stays: {}: {}", printable(&run.name), words(obstacle)))?;
    }
    for stranger in &scan.strangers {
        let (name, why) = (printable(&stranger.name), printable(&stranger.why));
        line(format!("stays: {name} {why}"))?;
    }
    for run in &plan.going {
        let (name, size) = (printable(&run.name), Bytes(run.contents.bytes()));
        line(format!("goes: {name}, {size}, began {} ago", age(run)))?;
    }
    for name in &scan.unfinished {
        line(format!("goes: {}, broken off earlier", printable(name)))?;
    }
    if plan.going.is_empty() {
        output::line("No run is to go.")?;
    } else {
        let freed: u64 = plan.going.iter().map(|run| run.contents.bytes()).sum();
        output::line(&format!("{} of {} runs, {}", plan.going.len(), scan.runs.len(), Bytes(freed)))?;
    }
    Ok(())
}

fn age(run: &RunFolder) -> String {
    took(Moment::now().seconds_since(run.started).max(0.0))
}

fn words(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Running => "it is still running".to_owned(),
        Obstacle::Foreign(names) => {
            let shown = names.iter().take(3).map(|name| printable(name)).collect::<Vec<_>>().join(", ");
            format!("it holds what Fathom did not write ({} in all): {shown}", names.len())
        }
    }
}

/// Whether a person, or the command line, says yes.
fn agreed(args: &PruneArgs, count: usize) -> Result<bool> {
    if args.yes {
        return Ok(true);
    }
    if args.json || !std::io::stdin().is_terminal() {
        let what = "nothing was removed: nobody is there to ask";
        return Err(Error::usage(what).advise("say --yes, or --dry-run to look only").into());
    }
    let mut error = std::io::stderr().lock();
    let _ = write!(error, "Remove {count} for good? [y/N] ");
    let _ = error.flush();
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(|e| Error::io("read", "the answer", e))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn finish(args: &PruneArgs, plan: &Plan<'_>, gone: &[String], failed: &[(String, Error)]) -> Result<Outcome> {
    if args.json {
        let of = |run: &RunFolder| json!({ "name": run.name, "bytes": run.contents.bytes() });
        let going: Vec<Value> = plan.going.iter().map(|run| of(run)).collect();
        let staying: Vec<Value> = plan
            .staying
            .iter()
            .map(|(run, obstacle)| json!({ "name": run.name, "why": words(obstacle) }))
            .collect();
        let failures: Vec<Value> =
            failed.iter().map(|(name, error)| json!({ "name": name, "why": error.to_string() })).collect();
        let document = json!({ "dry_run": args.dry_run, "going": going, "staying": staying, "removed": gone, "failed": failures });
        output::line(&serde_json::to_string_pretty(&document)?)?;
    } else if !gone.is_empty() {
        output::line(&format!("removed: {}", gone.len()))?;
    }
    for (name, error) in failed {
        output::note(&format!("fathom: {} stays: {error}", printable(name)));
    }
    Ok(if failed.is_empty() { Outcome::Clean } else { Outcome::Findings })
}
