//! `fathom runs list` and `search`: the runs of a folder, newest first: those that are meant, or those whose command line, facts of the
//! machine, or findings hold some words.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use fathom_record::Run;
use fathom_record::folders::{Condition, Moment, RunFolder, Scan};
use fathom_report::{Headline, printable, run_table, wrapped};
use fathom_session::run_folders;
use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::output::{self, WIDTH};

/// Where run folders are.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunsFolder {
    /// Where run folders are [default: the state folder's runs/]
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
pub(super) fn list(filter: &Filter, place: &RunsFolder, json: bool) -> Result<Outcome> {
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
    const STRANGERS: usize = 5;
    for stranger in scan.strangers.iter().take(STRANGERS) {
        let (name, why) = (printable(&stranger.name), printable(&stranger.why));
        output::note(&format!("fathom: not a run: {name} {why}"));
    }
    if let Some(more) = scan.strangers.len().checked_sub(STRANGERS).filter(|more| *more > 0) {
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

/// What the command line may say.
#[derive(Debug, Args)]
pub(super) struct SearchArgs {
    /// Words that a run must all hold, anywhere; case does not matter
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// So many places of a run are shown.
const PLACES: usize = 8;

/// One place of a run where a word stands.
struct Match {
    place: String,
    text: String,
}

/// Searches.
pub(super) fn search(args: &SearchArgs, place: &RunsFolder) -> Result<Outcome> {
    let (folder, mut scan) = place.scan()?;
    let all = scan.runs.len();
    args.filter.apply(&mut scan.runs);
    let words: Vec<String> = args.words.iter().map(|word| word.to_lowercase()).collect();
    let found: Vec<(&RunFolder, Vec<Match>)> = scan
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
        return Ok(Outcome::Clean);
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
        output::line(&format!("None of {all} runs under {place} holds: {words}"))?;
    }
    notes(&scan);
    Ok(Outcome::Clean)
}

/// Whether a run holds all words, which are in small letters.
pub(super) fn holds(run: &RunFolder, words: &[String]) -> bool {
    !matches(run, words).is_empty()
}

/// Where the words stand; nothing unless all of them stand somewhere.
fn matches(folder: &RunFolder, words: &[String]) -> Vec<Match> {
    let fields = fields(folder);
    let lower: Vec<String> =
        fields.iter().map(|field| format!("{} {}", field.place, field.text).to_lowercase()).collect();
    let all = words.iter().all(|word| lower.iter().any(|field| field.contains(word)));
    if !all {
        return Vec::new();
    }
    let holds = |field: &String| words.iter().any(|word| field.contains(word));
    let pairs = fields.into_iter().zip(&lower).filter(|(_, field)| holds(field));
    pairs.map(|(field, _)| field).collect()
}

fn fields(folder: &RunFolder) -> Vec<Match> {
    let manifest = &folder.manifest;
    let field = |place: &str, text: &str| Match { place: place.to_owned(), text: text.to_owned() };
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

fn found_document(run: &RunFolder, matches: &[Match]) -> Value {
    let matches: Vec<Value> =
        matches.iter().map(|one| json!({ "place": one.place, "text": one.text })).collect();
    json!({ "run": of_run(run), "matches": matches })
}
