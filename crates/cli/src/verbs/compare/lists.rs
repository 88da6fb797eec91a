//! What there is, and what a study would do: lists for people.

use anyhow::Result;
use fathom_lab::{Estimate, FACTORS, METRICS, Measures, Place, Plan, STUDIES, Study, fewest_blocks};
use fathom_report::wrapped;
use serde_json::json;

use super::progress::words;
use crate::live::WIDTH;
use crate::output;

/// The studies that are included.
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
        (Place::Any, "Several at once"),
        (Place::Storage, "Storage"),
        (Place::Servers, "Servers (studies that measure a load)"),
        (Place::Load, "Load (studies that measure a load)"),
        (Place::Probe, "Probe (studies that measure a probe)"),
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

/// What a study would do; `made` is the storage that it makes, a line each, `warnings` what its figures will not bear.
pub(super) fn plan(
    study: &Study,
    plan: &Plan,
    estimate: &Estimate,
    made: &[String],
    warnings: &[String],
    as_json: bool,
) -> Result<String> {
    let cell = |cell: usize| study.labels_of(plan, cell).join(", ");
    if as_json {
        let trials = plan.trials.iter().map(|trial| {
            json!({ "number": trial.number, "block": trial.block, "levels": study.labels_of(plan, trial.cell), "twin": trial.is_twin })
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
            words(estimate.time),
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
