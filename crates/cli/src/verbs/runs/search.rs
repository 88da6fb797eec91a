//! `fathom runs search`: runs whose command line, facts of the machine, or findings hold some words.

use anyhow::Result;
use clap::Args;
use fathom_record::Run;
use fathom_record::folders::RunFolder;
use fathom_report::{printable, wrapped};
use serde_json::{Value, json};

use super::folder::RunsFolder;
use super::list::{self, Filter};
use crate::live::WIDTH;
use crate::outcome::Outcome;
use crate::output;

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
const SHOWN: usize = 8;

/// One place of a run where a word stands.
struct Match {
    place: String,
    text: String,
}

/// Searches.
pub(super) fn run(args: &SearchArgs, place: &RunsFolder) -> Result<Outcome> {
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
        let found: Vec<Value> = found.iter().map(|(run, matches)| document(run, matches)).collect();
        output::line(&serde_json::to_string_pretty(&json!({ "words": args.words, "found": found }))?)?;
        return Ok(Outcome::Clean);
    }
    for (run, matches) in &found {
        output::line(&format!("{}  {}", printable(&run.name), run.condition.word()))?;
        for one in matches.iter().take(SHOWN) {
            let (place, text) = (printable(&one.place), printable(&one.text));
            output::line(&wrapped(&text, &format!("  {place}: "), "    ", WIDTH).join("\n"))?;
        }
        if let Some(more) = matches.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            output::line(&format!("  and {more} more; --json has all"))?;
        }
    }
    if found.is_empty() {
        let words = printable(&args.words.join(" "));
        let place = printable(&folder.display().to_string());
        output::line(&format!("None of {all} runs under {place} holds: {words}"))?;
    }
    list::notes(&scan);
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

fn document(run: &RunFolder, matches: &[Match]) -> Value {
    let matches: Vec<Value> =
        matches.iter().map(|one| json!({ "place": one.place, "text": one.text })).collect();
    json!({ "run": list::of_run(run), "matches": matches })
}
