//! Runs as a table: a line of facts each, and lines with the result: the error, the main figure, the verdict.

use fathom_record::disk::Entry;
use fathom_record::figure::{Figure, figures, main_figure, tail_beside};
use fathom_record::folders::RunFolder;
use fathom_record::verdict::Outcome;
use fathom_record::{Finding, RunVerdict, Severity};
use fathom_units::{Bytes, Nanos, count, decimal, hours};
use serde::Serialize;

use crate::run_verdict::verdict_sentence;
use crate::terminal_text::{cut, printable};

/// A run in a list: the reason for its failure, its main figure, and the verdict or the worst finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Headline {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The main figure, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// The share of operations that failed, if any did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_share: Option<f64>,
    /// The verdict in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The mark of the verdict: `!` if something holds the system or the disk back, `?` if the verdict does not decide.
    #[serde(skip)]
    mark: &'static str,
    /// The worst finding that is an alarm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
    /// The severity of that finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

impl Headline {
    /// The headline from a run's error, results and findings.
    pub fn new(error: Option<&str>, results: &[Entry], findings: &[Finding]) -> Headline {
        let figures = figures(results);
        // The first of the worst is used, because findings are ranked.
        let alarms = || findings.iter().filter(|finding| finding.is_alarm());
        let severity = alarms().map(|finding| finding.severity).max();
        let worst = alarms().find(|finding| Some(finding.severity) == severity);
        let (mark, verdict) = verdict(results, findings).unzip();
        Headline {
            error: error.map(str::to_owned),
            figure: main_figure(&figures).map(|main| main_words(main, &figures)),
            failed_share: failed_share(results),
            verdict,
            mark: mark.unwrap_or_default(),
            finding: worst.map(|finding| finding.claim.clone()),
            severity,
        }
    }

    /// Its words on one line.
    pub fn words(&self) -> String {
        self.lines().join("; ")
    }

    /// The error, the share of failures with the main figure, and the verdict or else the worst finding.
    pub fn lines(&self) -> Vec<String> {
        let error = self.error.as_ref().map(|error| format!("x {error}"));
        let failed =
            self.failed_share.map(|share| format!("{} % of operations failed", decimal(share * 100.0)));
        let figures: Vec<String> = failed.into_iter().chain(self.figure.clone()).collect();
        let mark = if self.severity == Some(Severity::Critical) { "x" } else { "!" };
        let finding = self.finding.as_ref().map(|claim| format!("{mark} {claim}"));
        let verdict = self.verdict.as_ref().map(|verdict| format!("{}{verdict}", self.mark));
        let figures = (!figures.is_empty()).then(|| figures.join("; "));
        [error, figures, verdict.or(finding)].into_iter().flatten().map(|line| printable(&line)).collect()
    }
}

/// The verdict of the run with its mark.
fn verdict(results: &[Entry], findings: &[Finding]) -> Option<(&'static str, String)> {
    let verdict = RunVerdict::new(results, findings)?;
    let mark = match verdict.outcome {
        Outcome::HeldBack => "! ",
        Outcome::CannotTell | Outcome::NotExamined => "? ",
        Outcome::NotHeldBack => "",
    };
    Some((mark, verdict_sentence(&verdict)))
}

/// The share of the operations of all loads that failed; `None` if all succeeded.
fn failed_share(results: &[Entry]) -> Option<f64> {
    let operations = results.iter().flat_map(|entry| match entry {
        Entry::Load(load) => load.by_operation.as_slice(),
        _ => &[],
    });
    let (failed, all) = operations.fold((0, 0), |(failed, all), operation| {
        (failed + operation.failed, all + operation.failed + operation.count)
    });
    (failed > 0).then(|| failed as f64 / all as f64)
}

/// `12,345/s, p99 of read 1.20 ms`, with the subject.
fn main_words(main: &Figure, figures: &[Figure]) -> String {
    let p99 = tail_beside(main, figures)
        .map_or_else(String::new, |figure| format!(", {} {}", figure.metric, value(figure)));
    format!("{}{p99} ({})", value(main), main.subject)
}

/// A figure's value with its unit.
fn value(figure: &Figure) -> String {
    value_of(figure.value, &figure.unit)
}

/// A value in a figure's unit, in a readable form.
pub fn value_of(value: f64, unit: &str) -> String {
    match unit {
        "ns" => Nanos(value.max(0.0).round() as u64).to_string(),
        "1/s" => format!("{}/s", decimal(value)),
        "1" => count(value),
        unit => format!("{} {unit}", decimal(value)),
    }
}

/// The table: for each run its name, start, verb, state, duration and size, and the lines of its headline below. If the width is too small,
/// columns whose content is in the name too are dropped.
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
        let words = headline.lines();
        lines.extend(words.iter().map(|line| format!("    {}", cut(line, width.saturating_sub(4)))));
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
    use fathom_record::load::{Load, LoadOperation};
    use fathom_record::verdict::Verdict;
    use fathom_record::{Manifest, RunWriter, State};

    use super::*;

    fn folder(parent: &Path, verb: &str) -> RunFolder {
        let manifest = Manifest::new(verb, "0", []);
        look(&RunWriter::create(parent, manifest).unwrap().finish(State::Interrupted, None).unwrap()).unwrap()
    }

    #[test]
    fn the_verdict_replaces_findings_and_failures_come_before_the_figure() {
        let operation = |count, failed| LoadOperation {
            name: "READ".to_owned(),
            count,
            failed,
            service: None,
            response: None,
        };
        let load = |operation| {
            Entry::Load(Load {
                server: "db1".to_owned(),
                workload: "run".to_owned(),
                connections: 8,
                seconds: 2.0,
                operations: 100,
                per_s: 50.0,
                offered_per_s: None,
                by_operation: vec![operation],
                client_cpu_share: 0.1,
                client_limited: false,
            })
        };
        let judged = |outcome, sentence: &str| Entry::Judged(Box::new(Verdict::new(outcome, sentence)));
        let findings = [Finding::new("x", Severity::Warning, "A claim.")];
        let results = [
            load(operation(50, 50)),
            judged(Outcome::NotHeldBack, "All is well."),
            judged(Outcome::HeldBack, "The journal holds it back."),
        ];
        let headline = Headline::new(None, &results, &findings);
        assert_eq!(headline.failed_share, Some(0.5));
        let lines = headline.lines();
        assert!(lines[0].starts_with("50.0 % of operations failed; "), "{lines:?}");
        assert_eq!(lines[1..], ["! The journal holds it back."]);
        let lines = Headline::new(Some("no room"), &[load(operation(9, 0))], &findings).lines();
        assert_eq!((lines[0].as_str(), lines[2].as_str()), ("x no room", "! A claim."), "{lines:?}");
    }

    #[test]
    fn the_table_fits_a_terminal_and_nothing_in_it_steers_one() {
        let parent = std::env::temp_dir().join(format!("fathom-run-table-{}", std::process::id()));
        let run = folder(&parent, "checkup");
        let claim = format!("\x1b]0;owned\x07{}", "long ".repeat(40));
        let headline = Headline::new(None, &[], &[Finding::new("x", Severity::Critical, claim)]);
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
