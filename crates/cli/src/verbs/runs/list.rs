//! `fathom runs list` and `search`: list the runs of a folder, newest first: those that a filter selects, or those whose command line,
//! facts of the machine, or findings contain given words.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use fathom_record::Run;
use fathom_record::folders::{Condition, RunFolder, Scan, UtcTime};
use fathom_report::{Headline, printable, run_table, wrapped};
use fathom_session::run_folders;
use serde_json::{Value, json};

use crate::outcome::VerbOutcome;
use crate::output::{self, WIDTH};

/// Where run folders are.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunsFolder {
    /// Directory of run folders [default: the state folder's runs/]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) runs: Option<PathBuf>,
}

impl RunsFolder {
    pub(super) fn scan(&self) -> fathom_errors::Result<(PathBuf, Scan)> {
        run_folders::scan(self.runs.as_deref())
    }

    pub(super) fn find(&self, named: &Path) -> Result<PathBuf> {
        Ok(run_folders::find(named, self.runs.as_deref())?)
    }

    pub(super) fn parent(&self) -> fathom_errors::Result<PathBuf> {
        run_folders::parent(self.runs.as_deref())
    }
}

/// Which runs are meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RunFilter {
    /// Only runs of these verbs (disk, ycsb ...)
    #[arg(long, value_name = "VERB", value_delimiter = ',')]
    verb: Vec<String>,
    /// Only runs in these states: running, cut-off, complete, interrupted, failed
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<Condition>,
    /// Only runs started within PERIOD or since DATE (7d, 36h, 2026-11-21)
    #[arg(long, value_name = "PERIOD|DATE", value_parser = UtcTime::back_to)]
    since: Option<UtcTime>,
    /// Only the newest N runs
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl RunFilter {
    /// Whether any filter was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.verb.is_empty() && self.state.is_empty() && self.since.is_none() && self.limit.is_none()
    }

    /// Keeps only the runs that the filter selects.
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

pub(super) fn list(filter: &RunFilter, place: &RunsFolder, json: bool) -> Result<VerbOutcome> {
    let (folder, mut scan) = place.scan()?;
    let all = scan.runs.len();
    filter.apply(&mut scan.runs);
    if json {
        output::line(&serde_json::to_string_pretty(&document(&scan))?)?;
        return Ok(VerbOutcome::Clean);
    }
    let place = printable(&folder.display().to_string());
    if all == 0 {
        output::line(&format!("No runs yet under {place}; 'fathom disk' makes one."))?;
    } else if scan.runs.is_empty() {
        output::line(&format!("No run matches ({all} under {place})."))?;
    } else {
        let rows: Vec<(&RunFolder, Headline)> = scan.runs.iter().map(|run| (run, headline(run))).collect();
        output::line(&run_table(&rows, WIDTH).join("\n"))?;
        let shown = scan.runs.len();
        let of = if shown == all { String::new() } else { format!(" of {all}") };
        output::line(&format!("\n{shown}{of} {} under {place}", if all == 1 { "run" } else { "runs" }))?;
    }
    notes(&scan);
    Ok(VerbOutcome::Clean)
}

/// The headline of a run; a broken file in the run must not break the list.
pub(crate) fn headline(folder: &RunFolder) -> Headline {
    let Ok(run) = Run::open(&folder.path) else { return Headline::default() };
    let findings = run.findings().unwrap_or_default();
    Headline::new(folder.manifest.error.as_deref(), &run.results().unwrap_or_default(), &findings)
}

/// Prints a note on entries that are not runs.
pub(super) fn notes(scan: &Scan) {
    const STRANGERS: usize = 5;
    for stranger in scan.strangers.iter().take(STRANGERS) {
        let (name, why) = (printable(&stranger.name), printable(&stranger.why));
        output::note(&format!("fathom: not a run: {name} {why}"));
    }
    if let Some(more) = scan.strangers.len().checked_sub(STRANGERS).filter(|more| *more > 0) {
        output::note(&format!("fathom: and {more} more that are not runs; --json names all"));
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

#[derive(Debug, Args)]
pub(super) struct SearchArgs {
    /// Words that a run must contain, in any letter case
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    filter: RunFilter,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The most matching lines of a run that are shown.
const PLACES: usize = 8;

/// One line of a run that matches a word.
struct SearchHit {
    place: String,
    text: String,
}

pub(super) fn search(args: &SearchArgs, place: &RunsFolder) -> Result<VerbOutcome> {
    let (folder, mut scan) = place.scan()?;
    let all = scan.runs.len();
    args.filter.apply(&mut scan.runs);
    let words: Vec<String> = args.words.iter().map(|word| search_text(word)).collect();
    let found: Vec<(&RunFolder, Vec<SearchHit>)> = scan
        .runs
        .iter()
        .filter_map(|run| {
            let matches = matches(run, &words);
            (!matches.is_empty()).then_some((run, matches))
        })
        .collect();
    if args.json {
        let found: Vec<Value> = found.iter().map(|(run, matches)| found_document(run, matches)).collect();
        output::line(&serde_json::to_string_pretty(&json!({ "words": args.words, "found": found }))?)?;
        return Ok(VerbOutcome::Clean);
    }
    for (run, matches) in &found {
        output::line(&format!("{}  {}", printable(&run.name), run.condition.word()))?;
        for one in matches.iter().take(PLACES) {
            let (place, text) = (printable(&one.place), printable(&one.text));
            output::line(&wrapped(&text, &format!("  {place}: "), "    ", WIDTH).join("\n"))?;
        }
        if let Some(more) = matches.len().checked_sub(PLACES).filter(|more| *more > 0) {
            output::line(&format!("  and {more} more; --json has all"))?;
        }
    }
    if found.is_empty() {
        let words = printable(&args.words.join(" "));
        let place = printable(&folder.display().to_string());
        output::line(&format!("No run holds '{words}' ({all} under {place})."))?;
    }
    notes(&scan);
    Ok(VerbOutcome::Clean)
}

/// Whether a run contains all words.
pub(super) fn holds(run: &RunFolder, words: &str) -> bool {
    let words: Vec<String> = words.split_whitespace().map(search_text).collect();
    words.is_empty() || !matches(run, &words).is_empty()
}

/// A text in the form for searching: in small letters and without hyphens, since both `readahead` and `read-ahead` occur.
fn search_text(text: &str) -> String {
    text.to_lowercase().replace('-', "")
}

/// The lines with the words; empty unless every word occurs.
fn matches(folder: &RunFolder, words: &[String]) -> Vec<SearchHit> {
    let fields = fields(folder);
    let lower: Vec<String> =
        fields.iter().map(|field| search_text(&format!("{} {}", field.place, field.text))).collect();
    let all = words.iter().all(|word| lower.iter().any(|field| field.contains(word)));
    if !all {
        return Vec::new();
    }
    let holds = |field: &String| words.iter().any(|word| field.contains(word));
    let pairs = fields.into_iter().zip(&lower).filter(|(_, field)| holds(field));
    pairs.map(|(field, _)| field).collect()
}

fn fields(folder: &RunFolder) -> Vec<SearchHit> {
    let manifest = &folder.manifest;
    let field = |place: &str, text: &str| SearchHit { place: place.to_owned(), text: text.to_owned() };
    let mut fields =
        vec![field("name", &folder.name), field("command line", &manifest.command_line.join(" "))];
    fields.extend(manifest.error.as_ref().map(|error| field("error", error)));
    for (name, value) in &manifest.environment {
        fields.push(field(&format!("environment {name}"), value));
    }
    let findings = Run::open(&folder.path).and_then(|run| run.findings()).unwrap_or_default();
    for finding in findings {
        let place = format!("finding {}", finding.id);
        let sentences = std::iter::once(&finding.claim).chain(&finding.advice).chain(&finding.evidence);
        fields.extend(sentences.map(|sentence| field(&place, sentence)));
    }
    fields
}

fn found_document(run: &RunFolder, matches: &[SearchHit]) -> Value {
    let matches: Vec<Value> =
        matches.iter().map(|one| json!({ "place": one.place, "text": one.text })).collect();
    json!({ "run": of_run(run), "matches": matches })
}
