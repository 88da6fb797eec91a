//! Runs as a table: a line of facts each, and a line that says what came of it.

use fathom_record::disk::Entry;
use fathom_record::figure::{Better, Figure, figures, main_figure, tail_beside};
use fathom_record::folders::RunFolder;
use fathom_record::{Finding, Severity};
use fathom_units::{Bytes, Nanos, count, decimal, hours};
use serde::Serialize;

use crate::terminal_text::{cut, printable};

/// What a list says of a run: its main figure, and the worst of what was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Headline {
    /// The main figure, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// The worst finding that is an alarm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
    /// How bad that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

impl Headline {
    /// Of a run's results and findings.
    pub fn of(results: &[Entry], findings: &[Finding]) -> Headline {
        let figures = figures(results);
        // The first of the worst: findings are ranked.
        let alarms = || findings.iter().filter(|finding| finding.is_alarm());
        let severity = alarms().map(|finding| finding.severity).max();
        let worst = alarms().find(|finding| Some(finding.severity) == severity);
        Headline {
            figure: main_figure(&figures).map(|main| main_words(main, &figures)),
            finding: worst.map(|finding| finding.claim.clone()),
            severity,
        }
    }

    /// On one line.
    pub fn words(&self) -> String {
        let mark = if self.severity == Some(Severity::Critical) { "x" } else { "!" };
        let finding = self.finding.as_ref().map(|claim| format!("{mark} {claim}"));
        let parts: Vec<String> = self.figure.iter().cloned().chain(finding).collect();
        printable(&parts.join("; "))
    }
}

/// `12,345/s, p99 of read 1.20 ms`, and of what.
fn main_words(main: &Figure, figures: &[Figure]) -> String {
    let p99 = tail_beside(main, figures)
        .map_or_else(String::new, |figure| format!(", {} {}", figure.metric, value(figure)));
    format!("{}{p99} ({})", value(main), main.subject)
}

/// A figure's value with its unit.
fn value(figure: &Figure) -> String {
    value_of(figure.value, &figure.unit)
}

/// A value in a figure's unit, as people read it.
pub fn value_of(value: f64, unit: &str) -> String {
    match unit {
        "ns" => Nanos(value.max(0.0).round() as u64).to_string(),
        "1/s" => format!("{}/s", decimal(value)),
        "1" => count(value),
        unit => format!("{} {unit}", decimal(value)),
    }
}

/// Whether a change by this factor is for the better; `None` where it is none.
pub fn is_better(better: Better, ratio: f64) -> Option<bool> {
    match better {
        _ if ratio == 1.0 || !ratio.is_finite() => None,
        Better::Higher => Some(ratio > 1.0),
        Better::Lower => Some(ratio < 1.0),
    }
}

/// The table: of each run its name, start, verb, state, duration and size, and its headline below. Columns that the name tells too go
/// where the width does not bear them.
pub fn run_table(runs: &[(&RunFolder, Headline)], width: usize) -> Vec<String> {
    let rows: Vec<[String; 6]> = runs.iter().map(|(run, _)| cells(run)).collect();
    let heads = ["run", "started (UTC)", "verb", "state", "took", "size"].map(str::to_owned);
    let widths: [usize; 6] = std::array::from_fn(|column| {
        let cells = std::iter::once(&heads).chain(&rows).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    });
    let mut shown = [true; 6];
    for droppable in [2, 1] {
        let total: usize = widths.iter().zip(shown).filter(|(_, shown)| *shown).map(|(w, _)| w + 2).sum();
        if total > width + 2
            && let Some(column) = shown.get_mut(droppable)
        {
            *column = false;
        }
    }
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).zip(shown).enumerate().filter(|(_, (_, shown))| *shown);
        let padded = cells.map(|(column, ((cell, width), _))| match column {
            4 | 5 => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&heads)];
    for (row, (_, headline)) in rows.iter().zip(runs) {
        lines.push(line(row));
        let words = headline.words();
        if !words.is_empty() {
            lines.push(format!("    {}", cut(&words, width.saturating_sub(4))));
        }
    }
    lines
}

fn cells(run: &RunFolder) -> [String; 6] {
    [
        printable(&run.name),
        run.started.short(),
        printable(&run.manifest.verb),
        run.condition.word().to_owned(),
        took(run.seconds),
        Bytes(run.contents.bytes()).to_string(),
    ]
}

/// A duration in the fewest characters: `59 s`, `12 min`, `3.2 days`.
pub fn took(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.1} s") } else { hours(seconds) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fathom_record::folders::look;
    use fathom_record::{Manifest, RunWriter, State};

    use super::*;

    fn folder(parent: &Path, verb: &str) -> RunFolder {
        let manifest = Manifest::new(verb, "0", []);
        look(&RunWriter::create(parent, manifest).unwrap().finish(State::Interrupted, None).unwrap()).unwrap()
    }

    #[test]
    fn the_table_fits_a_terminal_and_nothing_in_it_steers_one() {
        let parent = std::env::temp_dir().join(format!("fathom-run-table-{}", std::process::id()));
        let run = folder(&parent, "checkup");
        let claim = format!("\x1b]0;owned\x07{}", "long ".repeat(40));
        let headline = Headline::of(&[], &[Finding::new("x", Severity::Critical, claim)]);
        let lines = run_table(&[(&run, headline)], 80);
        std::fs::remove_dir_all(&parent).unwrap();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(lines[1].contains("interrupted") && lines[1].contains("checkup"), "{lines:#?}");
        assert!(
            lines[2].starts_with("    x \\u{1b}]0;owned\\u{7}long") && lines[2].ends_with('…'),
            "{lines:#?}"
        );
    }
}
