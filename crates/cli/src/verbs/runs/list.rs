//! `fathom runs list`: the runs, newest first.

use anyhow::Result;
use clap::Args;
use fathom_record::Run;
use fathom_record::folders::{Condition, Moment, RunFolder, Scan};
use fathom_report::{Headline, printable, run_table};
use serde_json::{Value, json};

use super::folder::RunsFolder;
use crate::live::WIDTH;
use crate::outcome::Outcome;
use crate::output;

/// Which runs are meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filter {
    /// Only runs of these verbs (disk, ycsb ...)
    #[arg(long, value_name = "VERB", value_delimiter = ',')]
    verb: Vec<String>,
    /// Only runs in these states: running, cut-off, complete, interrupted, failed
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<Condition>,
    /// Only runs that began so long ago at most, or on that day or later (7d, 36h, 2026-11-21)
    #[arg(long, value_name = "TIME", value_parser = Moment::back_to)]
    since: Option<Moment>,
    /// Only the newest so many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl Filter {
    /// Whether anything was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.verb.is_empty() && self.state.is_empty() && self.since.is_none() && self.limit.is_none()
    }

    /// Leaves the runs that are meant.
    pub(crate) fn apply(&self, runs: &mut Vec<RunFolder>) {
        let any_verb = |run: &RunFolder| self.verb.is_empty() || self.verb.contains(&run.manifest.verb);
        let any_state = |run: &RunFolder| self.state.is_empty() || self.state.contains(&run.condition);
        let recent = |run: &RunFolder| self.since.is_none_or(|since| run.started >= since);
        runs.retain(|run| any_verb(run) && any_state(run) && recent(run));
        runs.truncate(self.limit.unwrap_or(usize::MAX));
    }
}

fn state(text: &str) -> Result<Condition, String> {
    Condition::parse(text)
        .ok_or_else(|| "states are running, cut-off, complete, interrupted and failed".to_owned())
}

/// Lists.
pub(super) fn run(filter: &Filter, place: &RunsFolder, json: bool) -> Result<Outcome> {
    let (folder, mut scan) = place.scan()?;
    let all = scan.runs.len();
    filter.apply(&mut scan.runs);
    if json {
        output::line(&serde_json::to_string_pretty(&document(&scan))?)?;
        return Ok(Outcome::Clean);
    }
    let place = printable(&folder.display().to_string());
    if all == 0 {
        output::line(&format!("No runs yet under {place}; 'fathom disk' makes one."))?;
    } else if scan.runs.is_empty() {
        output::line(&format!("None of the {all} runs under {place} is meant."))?;
    } else {
        let rows: Vec<(&RunFolder, Headline)> = scan.runs.iter().map(|run| (run, headline(run))).collect();
        output::line(&run_table(&rows, WIDTH).join("\n"))?;
        let shown = scan.runs.len();
        let of = if shown == all { String::new() } else { format!(" of {all}") };
        output::line(&format!("\n{shown}{of} {} under {place}", if all == 1 { "run" } else { "runs" }))?;
    }
    notes(&scan);
    Ok(Outcome::Clean)
}

/// What a list says of a run; a broken file of it must not cost the list.
pub(crate) fn headline(folder: &RunFolder) -> Headline {
    let Ok(run) = Run::open(&folder.path) else { return Headline::default() };
    let findings = run.findings().unwrap_or_default();
    Headline::of(&run.results().unwrap_or_default(), &findings)
}

/// Says what lies beside the runs.
pub(super) fn notes(scan: &Scan) {
    const SHOWN: usize = 5;
    for stranger in scan.strangers.iter().take(SHOWN) {
        let (name, why) = (printable(&stranger.name), printable(&stranger.why));
        output::note(&format!("fathom: not a run: {name} {why}"));
    }
    if let Some(more) = scan.strangers.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        output::note(&format!("fathom: and {more} more that are no runs; --json names all"));
    }
    if !scan.unfinished.is_empty() {
        let what = format!("{} broken off while they were removed or imported", scan.unfinished.len());
        output::note(&format!("fathom: {what}; 'fathom runs prune' clears them away"));
    }
}

fn document(scan: &Scan) -> Value {
    let strangers: Vec<Value> =
        scan.strangers.iter().map(|one| json!({ "name": one.name, "why": one.why })).collect();
    let runs: Vec<Value> = scan.runs.iter().map(of_run).collect();
    json!({ "runs": runs, "not_runs": strangers, "unfinished": scan.unfinished })
}

/// A run as JSON.
pub(super) fn of_run(run: &RunFolder) -> Value {
    json!({
        "name": run.name,
        "path": run.path.to_string_lossy(),
        "started": run.manifest.started,
        "finished": run.manifest.finished,
        "verb": run.manifest.verb,
        "state": run.condition,
        "seconds": run.seconds,
        "bytes": run.contents.bytes(),
        "fathom_version": run.manifest.fathom_version,
        "command_line": run.manifest.command_line,
        "error": run.manifest.error,
        "foreign": run.contents.foreign,
        "headline": headline(run),
    })
}
