//! The comparison of two runs as text: obstacles to comparing them, then the differences, then the limits of the comparison.

use fathom_record::Severity;
use fathom_record::comparison::{Comparison, FactChange, FigureChange, FindingChange, Side};

use crate::run_list::value_of;
use crate::terminal_text::{cut, printable, wrap};

/// A ratio this close to 1 is written as no change.
const MAX_EQUAL_DIFFERENCE: f64 = 0.005;

/// The comparison in lines of at most `width` characters.
pub fn comparison_lines(comparison: &Comparison, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (letter, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        head(letter, side, width, &mut lines);
    }
    let sentences = |title: &str, sentences: &[String], lines: &mut Vec<String>| {
        if !sentences.is_empty() {
            lines.extend([String::new(), title.to_owned()]);
            lines.extend(sentences.iter().flat_map(|one| wrap(&printable(one), "  ! ", "    ", width)));
        }
    };
    sentences("Not comparable, or only with care", &comparison.obstacles, &mut lines);
    values("Command line", &comparison.settings, width, &mut lines);
    values("Machine", &comparison.environment, width, &mut lines);
    figures(&comparison.figures, width, &mut lines);
    for (letter, only) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        if !only.is_empty() {
            lines.extend([String::new(), format!("Only in {letter}")]);
            lines.extend(only.iter().flat_map(|one| wrap(&printable(one), "  ", "    ", width)));
        }
    }
    findings(&comparison.findings, width, &mut lines);
    lines.push(String::new());
    lines.extend(comparison.limits.iter().flat_map(|one| wrap(one, "", "", width)));
    lines
}

fn head(letter: &str, side: &Side, width: usize, lines: &mut Vec<String>) {
    lines.push(format!("{letter}  {}  {}", printable(&side.name), side.state.word()));
    let command = printable(&side.command_line.join(" "));
    lines.extend(wrap(&command, "   ", "     ", width));
}

fn values(title: &str, changes: &[FactChange], width: usize, lines: &mut Vec<String>) {
    if changes.is_empty() {
        lines.extend([String::new(), format!("{title}: no difference")]);
        return;
    }
    lines.extend([String::new(), title.to_owned()]);
    for change in changes {
        let side = |value: &Option<String>| value.as_deref().map_or_else(|| "-".to_owned(), printable);
        let text = format!("{}: {} -> {}", printable(&change.name), side(&change.a), side(&change.b));
        lines.extend(wrap(&text, "  ", "    ", width));
    }
}

fn figures(changes: &[FigureChange], width: usize, lines: &mut Vec<String>) {
    if changes.is_empty() {
        return;
    }
    lines.extend([String::new(), "Figures (B / A)".to_owned()]);
    let mut subject = "";
    for change in changes {
        if change.subject != subject {
            subject = &change.subject;
            lines.push(format!("  {}", cut(&printable(subject), width.saturating_sub(2))));
        }
        lines.push(cut(&row(change), width));
    }
}

fn row(change: &FigureChange) -> String {
    let value = |value: f64| value_of(value, &change.unit);
    let ratio = change.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    let is_same = change.ratio.is_some_and(|ratio| (ratio - 1.0).abs() < MAX_EQUAL_DIFFERENCE);
    let way = match change.is_better().filter(|_| !is_same) {
        Some(_) if change.beyond_noise == Some(false) => "noise",
        Some(true) => "better",
        Some(false) => "worse",
        None => "",
    };
    let is_beyond = change.beyond_noise == Some(true) && change.withheld.is_none();
    let mark = if is_beyond { '>' } else { ' ' };
    let noise = match (change.noise_a, change.noise_b) {
        (Some(a), Some(b)) => format!("±{:.0} % ±{:.0} %", a.half_pct(), b.half_pct()),
        _ => String::new(),
    };
    let (a, b) = (value(change.a), value(change.b));
    format!("  {mark} {:<20} {a:>12} {b:>12} {ratio:>6} {way:<6} {noise}", cut(&change.metric, 20))
        .trim_end()
        .to_owned()
}

fn findings(changes: &[FindingChange], width: usize, lines: &mut Vec<String>) {
    if changes.is_empty() {
        return;
    }
    lines.extend([String::new(), "Findings".to_owned()]);
    for change in changes {
        let Some((mark, what)) = what_became(change) else { continue };
        let text = format!("{mark} {what}: {}", printable(&change.claim));
        lines.extend(wrap(&text, "  ", "    ", width));
    }
}

/// The change of a finding from A to B: a mark for lines of text, and words; `None` if neither has it.
pub(crate) fn what_became(change: &FindingChange) -> Option<(char, String)> {
    match (change.a, change.b) {
        (None, Some(now)) => Some(('+', format!("new in B, {}", severity(now)))),
        (Some(was), None) => Some(('-', format!("absent in B, was {} in A", severity(was)))),
        (Some(was), Some(now)) => Some(('~', format!("{} in A, {} in B", severity(was), severity(now)))),
        (None, None) => None,
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => "passed",
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::comparison::RunNoise;
    use fathom_record::figure::BetterDirection;
    use fathom_record::folders::Condition;

    use super::*;

    fn side(name: &str) -> Side {
        Side {
            name: name.to_owned(),
            verb: "disk".to_owned(),
            started: "2026-11-21T09:30:00Z".to_owned(),
            state: Condition::Complete,
            fathom_version: "0".to_owned(),
            command_line: vec!["fathom".to_owned(), "\x1b[31m".to_owned()],
        }
    }

    #[test]
    fn what_stands_against_it_comes_before_any_figure_and_no_line_is_too_long() {
        let noise = Some(RunNoise { parts: 12, estimate: 10_000.0, low: 9_800.0, high: 10_200.0 });
        let figure = FigureChange {
            subject: "random reads: randread 4 KiB, io_uring, depth 32 ".repeat(3),
            metric: "throughput".to_owned(),
            unit: "1/s".to_owned(),
            better: BetterDirection::Higher,
            a: 10_000.0,
            b: 123_456_789.0,
            ratio: Some(1.234),
            noise_a: noise,
            noise_b: noise,
            beyond_noise: Some(true),
            withheld: None,
        };
        let mut within = figure.clone();
        (within.metric, within.beyond_noise) = ("within".to_owned(), Some(false));
        let comparison = Comparison {
            a: side("one"),
            b: side("two"),
            obstacles: vec!["Another machine: cpu.count is 2 and 8.".to_owned()],
            settings: Vec::new(),
            environment: vec![FactChange { name: "kernel".to_owned(), a: None, b: Some("x ".repeat(99)) }],
            figures: vec![figure, within],
            only_a: vec!["journal".to_owned()],
            only_b: Vec::new(),
            findings: vec![FindingChange {
                id: "cap".to_owned(),
                claim: "It is capped".to_owned(),
                a: None,
                b: Some(Severity::Critical),
            }],
            limits: vec!["no proof".to_owned()],
        };
        let lines = comparison_lines(&comparison, 80);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        let place = |text: &str| {
            lines.iter().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}: {lines:#?}"))
        };
        assert!(place("cpu.count") < place("Figures") && place("Figures") < place("no proof"));
        assert!(lines[place("throughput")].starts_with("  > throughput"), "{lines:#?}");
        assert!(lines[place("throughput")].contains("1.23 better ±2 % ±2 %"), "{lines:#?}");
        assert!(lines[place("    within")].contains("1.23 noise"), "no verdict from noise: {lines:#?}");
        assert!(lines.iter().any(|line| line == "  + new in B, critical: It is capped"));
        assert!(!lines.iter().any(|line| line.contains('\x1b')));
    }
}
