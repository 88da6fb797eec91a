//! `fathom runs show`: shows the text of a run again, from its folder: the answer that its verb printed.
//!
//! It measures nothing and changes nothing. Output that a verb only writes to standard output and does not record, such as YCSB's report,
//! is replaced by its figures.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fathom_record::disk::Entry;
use fathom_record::folders::RunFolder;
use fathom_record::{Finding, Run};
use fathom_report::{findings_brief, printable, took, verdict_lines, wrapped};
use fathom_session::Assessment;
use serde_json::json;

use super::list::{self, RunsFolder};
use crate::assessment_text;
use crate::outcome::VerbOutcome;
use crate::output::{self, WIDTH};
use crate::result_printer::{ResultText, disk_answer};
use crate::run_page::look_at;

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The run: a path, its name, a part of the name, or last, last~1 ... [default: last]
    #[arg(value_name = "RUN", default_value = "last", hide_default_value = true)]
    run: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ShowArgs, place: &RunsFolder) -> Result<VerbOutcome> {
    let folder = look_at(&place.find(&args.run)?)?;
    let run = Run::open(&folder.path)?;
    let (results, findings) = (run.results()?, run.findings()?);
    if args.json {
        let document = json!({ "run": list::of_run(&folder), "results": results, "findings": findings });
        output::line(&serde_json::to_string_pretty(&document)?)?;
        return Ok(VerbOutcome::Clean);
    }
    let mut blocks = heading(&folder);
    match folder.manifest.verb.as_str() {
        // These verbs print a judgement of their series.
        "explain" | "watch" | "import" => {
            let (assessment, state) = Assessment::from_folder(&folder.path, Vec::new())?;
            blocks.push(assessment_text::text(&assessment, state, Some(&folder.path)));
        }
        _ => {
            blocks.extend(answer(&results, &findings));
            blocks.push(format!("\nRun folder: {}", folder.path.display()));
        }
    }
    // A folder may come from an untrusted source: its text must not control the terminal.
    let mut lines = blocks.iter().flat_map(|block| block.split('\n'));
    lines.try_for_each(|line| output::line(&printable(line)))?;
    Ok(VerbOutcome::Clean)
}

/// The command line, and how the run ended.
fn heading(folder: &RunFolder) -> Vec<String> {
    let manifest = &folder.manifest;
    let mut lines = wrapped(&manifest.command_line.join(" "), "$ ", "    ", WIDTH);
    let (started, state) = (folder.started.short(), folder.condition.word());
    lines.push(format!("{started} UTC, {state} after {}", took(folder.seconds)));
    lines.extend(manifest.error.iter().flat_map(|error| wrapped(error, "x ", "  ", WIDTH)));
    lines.push(String::new());
    lines
}

/// Results in the order of their recording, then findings, then verdicts. Settings of the host, which rest on no series, come first.
fn answer(results: &[Entry], findings: &[Finding]) -> Vec<String> {
    let (settings, findings): (Vec<Finding>, Vec<Finding>) =
        findings.iter().cloned().partition(Finding::is_setting);
    let mut blocks = Vec::new();
    if !settings.is_empty() {
        blocks.push(format!("Host settings\n{}\n", findings_brief(&settings, WIDTH)));
    }
    let mut text = ResultText::default();
    let verdict = |entry: &Entry| match entry {
        Entry::Judged(verdict) => Some(verdict_lines(verdict, WIDTH, output::shows_ids())),
        _ => None,
    };
    blocks.extend(
        results.iter().filter(|entry| !matches!(entry, Entry::Judged(_))).flat_map(|entry| text.lines(entry)),
    );
    blocks.extend(disk_answer(results, &findings));
    for lines in results.iter().filter_map(verdict) {
        blocks.push(String::new());
        blocks.extend(lines);
    }
    blocks
}
