//! The output of studies: their list, the plan of one, and its progress, as a bar on a terminal and otherwise as a line for each
//! trial.

use std::io::IsTerminal;

use anyhow::Result;
use fathom_lab::{
    Estimate, FACTORS, METRICS, Measures, STUDIES, Study, TrialPart, TrialPlan, TrialProgress, fewest_blocks,
};
use fathom_report::wrapped;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::output::{self, WIDTH};
use crate::progress::{progress_bar, time_words};

/// The list of built-in studies.
pub(super) fn studies() -> String {
    let lines = STUDIES.iter().flat_map(|study| {
        let mut lines = vec![study.name.to_owned()];
        lines.extend(wrapped(study.about, "    ", "    ", WIDTH));
        lines
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// All factors and metrics.
pub(super) fn factors() -> String {
    let mut lines = Vec::new();
    for (place, title) in [
        (TrialPart::Any, "Several at once"),
        (TrialPart::Storage, "Storage"),
        (TrialPart::Servers, "Servers (studies that measure a load)"),
        (TrialPart::Load, "Load (studies that measure a load)"),
        (TrialPart::Probe, "Probe (studies that measure a probe)"),
    ] {
        lines.push(format!("{}{title}", if lines.is_empty() { "" } else { "\n" }));
        for factor in FACTORS.iter().filter(|factor| factor.place == place) {
            lines.extend(row(factor.name, factor.levels));
        }
    }
    for (measures, title) in [(Measures::Load, "Metrics of a load"), (Measures::Probe, "Metrics of a probe")]
    {
        lines.push(format!("\n{title}"));
        for metric in METRICS.iter().filter(|metric| metric.measures == measures) {
            lines.extend(row(metric.name, &format!("{} ({})", metric.about, metric.unit)));
        }
    }
    lines.join("\n")
}

/// The built-in studies, as a document.
pub(super) fn studies_document() -> Value {
    let studies = STUDIES.iter().map(|study| json!({ "name": study.name, "about": study.about }));
    json!({ "studies": studies.collect::<Vec<_>>() })
}

/// All factors and metrics, as a document.
pub(super) fn factors_document() -> Value {
    let factors = FACTORS.iter().map(|factor| json!({ "name": factor.name, "levels": factor.levels }));
    let metrics = METRICS.iter().map(|metric| {
        json!({ "name": metric.name, "about": metric.about, "unit": metric.unit, "measures": metric.measures })
    });
    json!({ "factors": factors.collect::<Vec<_>>(), "metrics": metrics.collect::<Vec<_>>() })
}

fn row(name: &str, about: &str) -> Vec<String> {
    const NAME: usize = 18;
    let indent = " ".repeat(NAME + 3);
    if name.len() > NAME {
        let mut lines = vec![format!("  {name}")];
        lines.extend(wrapped(about, &indent, &indent, WIDTH));
        return lines;
    }
    wrapped(about, &format!("  {name:<NAME$} "), &indent, WIDTH)
}

/// The plan of a study; `made` lists the storage that it creates, `warnings` the weaknesses of its figures.
pub(super) fn plan(
    study: &Study,
    plan: &TrialPlan,
    estimate: &Estimate,
    made: &[String],
    warnings: &[String],
    as_json: bool,
) -> Result<String> {
    let cell = |cell: usize| plan.labels(study, cell).join(", ");
    if as_json {
        let trials = plan.trials.iter().map(|trial| {
            json!({ "number": trial.number, "block": trial.block, "levels": plan.labels(study, trial.cell), "twin": trial.is_twin })
        });
        let document = json!({
            "study": study.name,
            "size": study.size,
            "blocks": study.design.blocks,
            "fewest_blocks": fewest_blocks(study, plan),
            "trials": trials.collect::<Vec<_>>(),
            "estimated_s": estimate.time.as_secs_f64(),
            "room_bytes": estimate.room.0,
            "storage": made,
            "warnings": warnings,
        });
        return output::json(&document).map_err(Into::into);
    }
    let mut lines = vec![
        format!("{} ({}): {}", study.name, study.size, study.question),
        format!(
            "{} combinations, {} blocks, {} trials; about {}; up to {} of room at a time",
            plan.cells.len(),
            study.design.blocks,
            estimate.trials,
            time_words(estimate.time),
            estimate.room
        ),
        "The time is a guess until the first trials have run.".to_owned(),
    ];
    lines.extend(warnings.iter().flat_map(|text| wrapped(text, "", "", WIDTH)));
    for storage in made {
        lines.extend(wrapped(storage, "storage: ", "         ", WIDTH));
    }
    for block in 0..study.design.blocks {
        lines.push(format!("\nblock {}", block + 1));
        for trial in plan.trials.iter().filter(|trial| trial.block == block) {
            let again = if trial.is_twin { " (once more, for the noise)" } else { "" };
            lines.push(format!("  {:>4}  {}{again}", trial.number + 1, cell(trial.cell)));
        }
    }
    Ok(lines.join("\n"))
}

pub(super) struct ProgressPrinter {
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl ProgressPrinter {
    /// Prints progress on standard error. With a document on standard output and no terminal, it prints none.
    pub(super) fn new(document: bool) -> ProgressPrinter {
        let terminal = std::io::stderr().is_terminal();
        let bar = terminal.then(|| progress_bar("{bar:20} {pos}/{len}  {msg}", Some(0)));
        ProgressPrinter { bar, quiet: document && !terminal }
    }

    pub(super) fn show(&mut self, progress: TrialProgress<'_>) {
        let levels = progress.levels.join(", ");
        let left =
            progress.left.map_or_else(String::new, |left| format!(", about {} left", time_words(left)));
        if let Some(why) = progress.broken {
            self.say(&format!("fathom: the trial before failed: {why}"));
        }
        let block = progress.block + 1;
        match &self.bar {
            Some(bar) => {
                bar.set_length(progress.total as u64);
                bar.set_position(progress.done as u64);
                bar.set_message(format!("block {block}: {levels}{left}"));
            }
            None if self.quiet => {}
            None => output::note(&format!(
                "trial {} of {}, block {block}: {levels}{left}",
                progress.done + 1,
                progress.total
            )),
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    /// Called after the last trial.
    pub(super) fn end(&mut self) {
        self.bar.take().into_iter().for_each(|bar| bar.finish_and_clear());
    }
}
