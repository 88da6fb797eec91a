//! `cargo xtask proof` (`make proof`): the tests that are slow by nature, step by step, as a report.
//!
//! A step is a row of `xtask/proof.toml`. Its tests run under cargo-nextest, which runs each in a process of its own and within a
//! time limit. Studies that found the machine disturbed are repeated once at the end, and named if it was disturbed again; they
//! prove nothing and fail nothing. The run fails only if a test or a command failed, or if a step hung.
//!
//! `ONLY=faults,guest` selects steps, and `ONLY=faults::device::proof::name` a test, which is what the last lines of a run give, or all tests of a module.
//! A word that selects nothing is an error before the first step.
//! Ctrl-C ends the step under way and prints the report so far.

mod report;
mod running;
mod step;

use std::collections::BTreeSet;
use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use report::{ProofOutcome, ProofReport, ReportRow};
use running::Runner;
use step::{ProofPlan, ProofStep};

/// Runs the selected steps; `true` if none failed.
pub fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    let plan = ProofPlan::read(&root)?;
    let only = env::var("ONLY").unwrap_or_default();
    let words =
        arguments.iter().map(String::as_str).chain([only.as_str()]).flat_map(|words| words.split(','));
    let only: Vec<String> = words.filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let steps = plan.select(&only)?;
    for step in steps.iter().filter(|step| !step.selected.is_empty()) {
        step::check_paths(&step.selected, &running::list_tests(&root)?)?;
    }
    let begun = Instant::now();
    let runner = Runner::new(root)?;
    let mut rows = Vec::new();
    for step in &steps {
        if runner.is_interrupted() {
            rows.push(ReportRow::new(step, ProofOutcome::NotReached));
            continue;
        }
        say(&format!("\n== {}: {}\n", step.name, step.proves))?;
        rows.push(runner.run(step)?);
    }
    for (step, row) in steps.iter().zip(&mut rows) {
        if !row.disturbed.is_empty() && !runner.is_interrupted() {
            repeat_disturbed(&runner, step, row)?;
        }
    }
    let report = ProofReport { rows, total: begun.elapsed(), is_interrupted: runner.is_interrupted() };
    say(&format!("\n{}", report.text()))?;
    Ok(report.is_passed())
}

/// Repeats the studies of a step that found the machine disturbed.
fn repeat_disturbed(runner: &Runner, step: &ProofStep, row: &mut ReportRow) -> Result<()> {
    let studies = std::mem::take(&mut row.disturbed);
    say(&format!("\n== {} once more: {}\n", step.name, join(&studies)))?;
    let again = runner.run_tests(step, &studies)?;
    row.add_repetition(again);
    Ok(())
}

/// The names, separated by commas as `ONLY` takes them.
fn join(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

fn say(text: &str) -> io::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())
}
