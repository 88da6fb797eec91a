//! A study as lines for a terminal: the question, the answer first, then its basis and the limits of the conclusions.
//!
//! All of it comes from the record: this module makes no verdict, and a value that is missing because of a broken trial is a dash. Names and
//! sentences come from a file of possibly untrusted origin, so all of them pass [`printable`].

mod columns;
pub(crate) mod labels;

use fathom_record::study::{
    PublishedTable, StudyComparison, StudyMetric, StudyResult, StudyScaling, StudyVerdict,
};
use fathom_units::{Nanos, decimal};

use self::columns::columns;
use self::labels::{
    amount, answers, cell_name, chance, design, effect, effect_interval, given, interaction, metrics_of,
    middle, middle_words, percent, ratio_interval, sentence, spaced, tally, versus,
};
use crate::amplification::member_lines;
use crate::terminal_text::{cut, printable, wrap};

/// The study in lines of at most `width` characters.
pub fn study_lines(study: &StudyResult, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    say(&mut lines, "", "  ", &format!("Study {}: {}", study.name, study.question), width);
    say(&mut lines, "  ", "  ", &design(study), width);
    answer(study, width, &mut lines);
    cells(study, width, &mut lines);
    comparisons(study, width, &mut lines);
    if !study.interactions.is_empty() {
        heading("Interactions: whether the effect of one factor depends on another", &mut lines);
        for one in &study.interactions {
            say(&mut lines, "  ", "    ", &interaction(one), width);
        }
    }
    study.scalings.iter().for_each(|one| scaling(one, width, &mut lines));
    noise(study, width, &mut lines);
    broken(study, width, &mut lines);
    members(study, width, &mut lines);
    if let Some(table) = &study.published {
        published(table, width, &mut lines);
    }
    if !study.cautions.is_empty() {
        heading("Limits of this study", &mut lines);
        study.cautions.iter().for_each(|one| say(&mut lines, "  ! ", "    ", one, width));
    }
    lines
}

fn heading(title: &str, lines: &mut Vec<String>) {
    lines.extend([String::new(), title.to_owned()]);
}

/// Adds a sentence of a study, which may come from an untrusted source: without control characters, wrapped.
fn say(lines: &mut Vec<String>, first: &str, rest: &str, text: &str, width: usize) {
    lines.extend(wrap(&printable(text), first, rest, width));
}

/// A sign before an answer, so that it does not depend on colour.
fn sign(verdict: StudyVerdict) -> char {
    match verdict {
        StudyVerdict::Better => '+',
        StudyVerdict::Worse => '-',
        StudyVerdict::Same => '=',
        StudyVerdict::Undecided => '?',
    }
}

fn answer(study: &StudyResult, width: usize, lines: &mut Vec<String>) {
    let answers = answers(study);
    lines.push(String::new());
    say(lines, "", "  ", &format!("Answer. {}", tally(&answers)), width);
    for one in answers {
        say(lines, &format!("  {} ", sign(one.verdict)), "    ", &sentence(one), width);
    }
}

fn cells(study: &StudyResult, width: usize, lines: &mut Vec<String>) {
    if study.cells.is_empty() {
        return;
    }
    let factors: Vec<&str> = study.factors.iter().map(|factor| factor.name.as_str()).collect();
    let parts = [("Cells", true), ("What else was measured in each cell", false)];
    for (title, primary) in parts {
        let metrics = metrics_of(study, primary);
        if metrics.is_empty() {
            continue;
        }
        heading(title, lines);
        let head = |(_, metric): &(usize, &StudyMetric)| spaced(&metric.name);
        let heads: Vec<String> =
            std::iter::once(factors.join(", ")).chain(metrics.iter().map(head)).collect();
        let rows: Vec<Vec<String>> = study
            .cells
            .iter()
            .map(|cell| {
                let figures =
                    metrics.iter().map(|(place, metric)| middle_words(middle(cell, *place), &metric.unit));
                std::iter::once(cell_name(study, cell)).chain(figures).collect()
            })
            .collect();
        lines.extend(indented(columns(&heads, &rows, width.saturating_sub(2))));
        if primary {
            let how = "Medians over the blocks; in brackets the difference of the highest and the lowest, as a share of the median.";
            say(lines, "  ", "  ", how, width);
        }
    }
}

fn indented(lines: Vec<String>) -> impl Iterator<Item = String> {
    lines.into_iter().map(|line| if line.is_empty() { line } else { format!("  {line}") })
}

/// Characters of a metric's name in front of its figures.
const METRIC: usize = 18;

fn comparisons(study: &StudyResult, width: usize, lines: &mut Vec<String>) {
    if study.comparisons.is_empty() {
        return;
    }
    heading("Comparisons: level against baseline, 95 % interval, adjusted p, verdict", lines);
    // The compared levels are printed once, with their metrics below.
    let mut subjects: Vec<String> = Vec::new();
    for one in &study.comparisons {
        let subject = versus(one);
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    for subject in subjects {
        lines.push(format!("  {}", cut(&printable(&subject), width.saturating_sub(2))));
        let alike = study.comparisons.iter().filter(|one| versus(one) == subject);
        lines.extend(alike.flat_map(comparison_rows).map(|row| cut(&row, width)));
    }
}

/// A line, or two if the metric's name is long.
fn comparison_rows(one: &StudyComparison) -> Vec<String> {
    let verdict = match one.needs_blocks.filter(|_| one.verdict == StudyVerdict::Undecided) {
        Some(blocks) => format!("? +{blocks} blocks"),
        None => format!("{} {}", sign(one.verdict), one.answer()),
    };
    let name = printable(&spaced(&one.metric));
    let (above, name) =
        if name.chars().count() > METRIC { (Some(name), String::new()) } else { (None, name) };
    let interval = one.interval.map_or_else(|| "-".to_owned(), |_| effect_interval(one.interval));
    let chance = chance(one.adjusted_p);
    let row = format!("    {name:<METRIC$} {:>10}  {interval:<20} {chance:>7}  {verdict}", effect(one.ratio));
    above.map(|name| format!("    {name}")).into_iter().chain([row]).collect()
}

fn scaling(one: &StudyScaling, width: usize, lines: &mut Vec<String>) {
    let phase = one.phase.as_ref().map_or_else(String::new, |phase| format!(", {phase}"));
    let title = printable(&format!("Over {}{phase}{}", one.factor, given(&one.given)));
    heading(&cut(&title, width), lines);
    let heads = [&one.factor, "operations", "latency", "speed-up", "95 %"].map(|head| head.to_owned());
    let rows: Vec<Vec<String>> = one
        .points
        .iter()
        .map(|point| {
            vec![
                decimal_or_whole(point.count),
                amount(point.throughput_per_s, "1/s"),
                point.latency_ns.map_or_else(|| "-".to_owned(), |ns| Nanos(ns.max(0.0) as u64).to_string()),
                decimal(point.speedup),
                ratio_interval(point.interval),
            ]
        })
        .collect();
    lines.extend(indented(columns(&heads, &rows, width.saturating_sub(2))));
    say(lines, "  ", "  ", &one.words, width);
}

/// A count without meaningless decimals.
fn decimal_or_whole(count: f64) -> String {
    if count.fract() == 0.0 { fathom_units::count(count) } else { decimal(count) }
}

fn noise(study: &StudyResult, width: usize, lines: &mut Vec<String>) {
    if study.noise.is_empty() {
        return;
    }
    heading("Noise floor: how much two runs of the same cell differ", lines);
    let heads = ["metric", "95 % within", "detectable effect", "pairs"].map(str::to_owned);
    let rows: Vec<Vec<String>> = study
        .noise
        .iter()
        .map(|one| {
            let least = one.minimum_detectable.map_or_else(|| "-".to_owned(), percent);
            vec![spaced(&one.metric), percent(one.floor), least, one.pairs.to_string()]
        })
        .collect();
    lines.extend(indented(columns(&heads, &rows, width.saturating_sub(2))));
}

fn broken(study: &StudyResult, width: usize, lines: &mut Vec<String>) {
    if study.cells.iter().all(|cell| cell.broken.is_empty()) {
        return;
    }
    heading("Failed trials", lines);
    for cell in &study.cells {
        for (block, why) in &cell.broken {
            let text = format!("{}, block {}: {why}", cell_name(study, cell), block.saturating_add(1));
            say(lines, "  x ", "    ", &text, width);
        }
    }
}

fn members(study: &StudyResult, width: usize, lines: &mut Vec<String>) {
    for cell in study.cells.iter().filter(|cell| cell.members.len() > 1) {
        let title = format!("Servers of {} side by side, in its last trial", cell_name(study, cell));
        heading(&cut(&printable(&title), width), lines);
        lines
            .extend(member_lines(&cell.members, true, width).iter().map(|line| cut(&printable(line), width)));
    }
}

fn published(table: &PublishedTable, width: usize, lines: &mut Vec<String>) {
    heading("What the article printed", lines);
    say(lines, "  ", "  ", &table.caption, width);
    lines.extend(indented(columns(&table.columns, &table.rows, width.saturating_sub(2))));
    for one in &table.may_not_be_compared {
        say(lines, "  ! ", "    ", &format!("Not comparable: {one}"), width);
    }
}

#[cfg(test)]
pub(crate) mod tests;
