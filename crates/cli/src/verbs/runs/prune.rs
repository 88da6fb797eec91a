//! `fathom runs prune`: removes runs by age and size, and nothing else.
//!
//! The runs to delete are shown first. Folders with a file that Fathom did not write, runs in progress, and other folders
//! are kept and listed. The verb asks on a terminal, and needs `--yes` elsewhere.

use anyhow::Result;
use clap::Args;
use fathom_errors::Error;
use fathom_record::folders::{self, Obstacle, RunFolder, Scan, UtcTime, days};
use fathom_report::{printable, took, wrapped};
use fathom_units::{Bytes, Nanos};
use serde_json::{Value, json};

use super::list::RunsFolder;
use crate::confirmation;
use crate::outcome::VerbOutcome;
use crate::output;
use crate::output::WIDTH;

#[derive(Debug, Args)]
pub(super) struct PruneArgs {
    /// Only runs that began longer ago than TIME (30d, 2w, 36h)
    #[arg(long, value_name = "TIME", value_parser = days)]
    older: Option<Nanos>,
    /// Only runs larger than SIZE (10GB)
    #[arg(long, value_name = "SIZE")]
    larger_than: Option<Bytes>,
    /// Also the oldest runs, until all together take no more than SIZE (50GB)
    #[arg(long, value_name = "SIZE")]
    total: Option<Bytes>,
    /// Keep the newest N runs, whatever else is said
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: usize,
    /// Show what would be removed, and remove nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Remove runs without asking first
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The runs to delete and to keep.
struct PrunePlan<'s> {
    going: Vec<&'s RunFolder>,
    staying: Vec<(&'s RunFolder, Obstacle)>,
}

/// Shows the runs to delete, asks, and removes them.
pub(super) fn run(args: &PruneArgs, place: &RunsFolder) -> Result<VerbOutcome> {
    if args.older.is_none() && args.larger_than.is_none() && args.total.is_none() && args.keep == 0 {
        let what = "prune needs a rule for the runs that it deletes";
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

fn plan<'s>(args: &PruneArgs, scan: &'s Scan) -> PrunePlan<'s> {
    let mut plan = PrunePlan { going: Vec::new(), staying: Vec::new() };
    let limit = args.older.map(|older| UtcTime::now().before(older));
    let by_kind = args.older.is_some() || args.larger_than.is_some();
    let by_number = !by_kind && args.total.is_none();
    // Newest first: older runs must fit into the remaining size.
    let (mut taken, mut is_full) = (0u64, false);
    for (place, run) in scan.runs.iter().enumerate() {
        let bytes = run.contents.bytes();
        let is_old = limit.is_none_or(|limit| run.started < limit);
        let is_large = args.larger_than.is_none_or(|most| bytes > most.get());
        // A run older than one that does not fit is deleted too, however small it is.
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

fn show(plan: &PrunePlan<'_>, scan: &Scan) -> Result<()> {
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
        line(format!("remove {name}, {size}, began {} ago", age(run)))?;
    }
    for name in &scan.unfinished {
        line(format!("remove {}, left by an interrupted removal or import", printable(name)))?;
    }
    if plan.going.is_empty() {
        output::line("Nothing to remove.")?;
    } else {
        let freed: u64 = plan.going.iter().map(|run| run.contents.bytes()).sum();
        output::line(&format!("{} of {} runs, {}", plan.going.len(), scan.runs.len(), Bytes(freed)))?;
    }
    Ok(())
}

fn age(run: &RunFolder) -> String {
    took(UtcTime::now().seconds_since(run.started).max(0.0))
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

/// Whether the user, or the command line, agrees.
fn agreed(args: &PruneArgs, count: usize) -> Result<bool> {
    if args.yes {
        return Ok(true);
    }
    if args.json || !confirmation::can_ask() {
        let what = "nothing was removed: there is no terminal to ask on";
        return Err(Error::usage(what).advise("say --yes, or --dry-run to look only").into());
    }
    Ok(confirmation::ask(&format!("Remove {count} for good?"))?)
}

fn finish(
    args: &PruneArgs,
    plan: &PrunePlan<'_>,
    gone: &[String],
    failed: &[(String, Error)],
) -> Result<VerbOutcome> {
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
    Ok(if failed.is_empty() { VerbOutcome::Clean } else { VerbOutcome::Findings })
}
