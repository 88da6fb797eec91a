//! `cargo xtask proof` (`make proof`): the tests that are slow by nature, step by step, as one table.
//!
//! A step is a row of `xtask/proof.toml`. Its tests run under cargo-nextest, which runs each in a process of its own and within a
//! time limit. A step that exceeds its budget by half fails, so that the total time cannot creep up. Studies that found the machine
//! disturbed in each of their attempts are repeated once more at the end, while time is left.
//!
//! `ONLY=faults,guest` selects steps. `FATHOM_DEADLINE` (seconds since 1970) ends the run: steps that were not reached are listed
//! and fail. `FATHOM_MAX_DISTURBED` is the number of disturbed studies that do not fail the whole; 0 unless set.

mod report;
mod running;
mod step;

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};

use report::{Report, Row, Verdict};
use running::Runner;
use step::{Plan, Step};

/// Runs the selected steps; `true` when all passed.
pub fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    let plan = Plan::read(&root)?;
    let only = env::var("ONLY").unwrap_or_default();
    let words = only.split(',').map(str::to_owned).chain(arguments.iter().cloned());
    let only: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    let steps = plan.select(&only)?;
    let (begun, deadline) = (Instant::now(), deadline()?);
    let runner = Runner::new(root)?;
    let mut rows = Vec::new();
    for step in steps {
        say(&format!("\n== {}: {}\n", step.name, step.proves))?;
        let row = match left(deadline) {
            Some(left) => runner.run(step, left)?,
            None => not_reached(step),
        };
        rows.push((step, row));
    }
    repeat_disturbed(&runner, &mut rows, deadline)?;
    let max_disturbed = variable("FATHOM_MAX_DISTURBED")?.unwrap_or_default();
    let report = Report {
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        total: begun.elapsed(),
        max_total: plan.max_total(),
        max_disturbed: usize::try_from(max_disturbed)?,
    };
    say(&format!("\n{}", report.text()))?;
    Ok(report.is_passed())
}

/// Repeats the studies that the machine disturbed.
fn repeat_disturbed(runner: &Runner, rows: &mut [(&Step, Row)], deadline: Option<SystemTime>) -> Result<()> {
    for (step, row) in rows.iter_mut().filter(|(_, row)| !row.disturbed.is_empty()) {
        let Some(left) = left(deadline) else { return Ok(()) };
        say(&format!("\n== {} once more: {}\n", step.name, row.disturbed.join(", ")))?;
        let again = runner.run_tests_again(step, &row.disturbed, left)?;
        row.seconds += again.seconds;
        row.failed = row.failed.saturating_sub(again.passed);
        row.passed += again.passed;
        row.disturbed = again.disturbed;
        if row.failed == 0 && row.verdict == Verdict::Failed {
            row.verdict = Verdict::Passed;
        }
    }
    Ok(())
}

fn not_reached(step: &Step) -> Row {
    Row {
        name: step.name.clone(),
        proves: step.proves.clone(),
        seconds: 0,
        budget_seconds: step.budget().as_secs(),
        verdict: Verdict::NotReached,
        passed: 0,
        failed: 0,
        skipped: Vec::new(),
        disturbed: Vec::new(),
    }
}

/// The time until the deadline; a day without a deadline, and `None` once it has passed.
fn left(deadline: Option<SystemTime>) -> Option<Duration> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    deadline.map_or(Some(DAY), |deadline| deadline.duration_since(SystemTime::now()).ok())
}

fn deadline() -> Result<Option<SystemTime>> {
    Ok(variable("FATHOM_DEADLINE")?.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
}

fn variable(name: &str) -> Result<Option<u64>> {
    let Ok(value) = env::var(name) else { return Ok(None) };
    value.parse().map(Some).with_context(|| format!("{name} is no number: '{value}'"))
}

fn say(text: &str) -> io::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())
}
