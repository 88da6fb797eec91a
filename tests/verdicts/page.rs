//! The bench in the docs: its table in `docs/known-truth.md`, and the picture of claimed against true costs.

use std::fmt::Write as _;
use std::fs;

use fathom_testkit::note_stale;

use super::CellVerdict;
use super::cell::Cell;
use super::draw::{self, Draw};
use super::hold_out;
use super::scoring::{Answer, Score, Truth, score};
use crate::docs_section;

const BEGIN: &str = "<!-- The bench of verdicts: make refresh writes this. -->";
const END: &str = "<!-- End of the bench of verdicts. -->";
/// The side of the picture's square, and the room around it for words.
const SIDE: f64 = 400.0;
const MARGIN: f64 = 50.0;

/// Compares the docs with these verdicts; `FATHOM_UPDATE_DOCS=1` writes them.
pub(crate) fn check(judged: &[CellVerdict], truths: &[Truth], draws: &[Draw]) {
    let section = table(judged, truths) + &draw::table(truths, draws);
    // The score is the last cell, and the name of a cell of the bench the first.
    docs_section::check("known-truth.md", (BEGIN, END), &section, 1, |shown, present| {
        let rank =
            |cells: &[String]| cells.last().and_then(|words| Score::from_words(words)).map(Score::rank);
        rank(present) > rank(shown)
    });
    let picture = docs_section::docs().join("verdicts.svg");
    let drawing = scatter(judged);
    if docs_section::is_update() {
        fs::write(&picture, drawing).unwrap();
        return;
    }
    if fs::read_to_string(&picture).unwrap_or_default() != drawing {
        note_stale("docs/verdicts.svg");
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Milliseconds with three digits.
fn ms(us: f64) -> String {
    let ms = us / 1000.0;
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => fathom_units::count(ms),
    }
}

fn table(judged: &[CellVerdict], truths: &[Truth]) -> String {
    let count = |score: Score| judged.iter().filter(|one| one.score == score).count();
    let mut text = format!(
        "\n{} cells: {} right, {} \"cannot tell\", {} with the right cause and a wrong cost, {} whose fault did not occur, {} with a wrong cause, {} \"not held back\" despite a fault.\n\n",
        judged.len(),
        count(Score::Right),
        count(Score::CannotTell),
        count(Score::WrongCost),
        count(Score::NotMade),
        count(Score::WrongCause),
        count(Score::Green)
    );
    text.push_str("| cell | load | fault | without, ms | with, ms | true cost | claimed | named | score |\n|---|---|---|---|---|---|---|---|---|\n");
    for CellVerdict { cell, truth, answer, score } in judged {
        let claimed = answer.share.filter(|_| answer.cause.is_some());
        let _ = writeln!(
            text,
            "| {}{} | {} | {} | {} | {} | {} | {} | {} | {} |",
            cell.name,
            if hold_out::holds(cell) { " *" } else { "" },
            cell.load,
            cell.fault,
            ms(truth.calm_us),
            ms(truth.faulty_us),
            percent(truth.share()),
            claimed.map_or_else(String::new, percent),
            answer
                .cause
                .as_ref()
                .map_or_else(|| answer.outcome.replace('_', " "), |cause| format!("`{cause}`")),
            score.words()
        );
    }
    text.push('\n');
    text.push_str(&controls(judged, truths));
    text
}

/// The verdicts on all recordings of the controls, when they were recorded.
fn controls(judged: &[CellVerdict], truths: &[Truth]) -> String {
    let cells: Vec<&Cell> = judged.iter().map(|one| one.cell).filter(|cell| cell.is_control()).collect();
    let said: Vec<(Score, &Answer)> = cells
        .iter()
        .flat_map(|cell| {
            truths.iter().filter(|truth| truth.cell == cell.name).map(move |truth| (cell, truth))
        })
        .filter_map(|(cell, truth)| {
            let answer = truth.said.as_ref()?;
            Some((score(cell, truth, answer, |_| None), answer))
        })
        .collect();
    let count = |score: Score| said.iter().filter(|(one, _)| *one == score).count();
    format!(
        "{} controls were recorded three times each. Of these {} recordings {} are right, {} \"cannot tell\", {} name a cause, and {} do not count as controls, because \
         the load was a fifth faster on the fastest storage.\n\n",
        cells.len(),
        said.len(),
        count(Score::Right),
        count(Score::CannotTell),
        said.iter().filter(|(_, answer)| answer.outcome == "held_back").count(),
        count(Score::NoControl)
    )
}

/// Claimed over true share of each cell whose cause is named, with the band of a quarter around equality.
fn scatter(judged: &[CellVerdict]) -> String {
    let size = SIDE + 2.0 * MARGIN;
    let (x, y) = (|share: f64| MARGIN + SIDE * share, |share: f64| MARGIN + SIDE * (1.0 - share));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size} {size}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Claimed over true cost of each cell of the bench of verdicts</title>\n\
         <rect width=\"{size}\" height=\"{size}\" fill=\"white\"/>\n\
         <polygon points=\"{},{} {},{} {},{} {},{}\" fill=\"#e8eef7\"/>\n",
        x(0.0),
        y(0.0),
        x(0.8),
        y(1.0),
        x(1.0),
        y(1.0),
        x(1.0),
        y(0.75)
    );
    for tenth in (0..=10).step_by(2) {
        let share = f64::from(tenth) / 10.0;
        let label = percent(share);
        let _ = writeln!(
            svg,
            "<path d=\"M{0} {1}V{2}M{3} {4}H{5}\" stroke=\"#dddddd\"/><text x=\"{0}\" y=\"{6}\" text-anchor=\"middle\">{label}</text>\
             <text x=\"{7}\" y=\"{8}\" text-anchor=\"end\">{label}</text>",
            x(share),
            y(0.0),
            y(1.0),
            x(0.0),
            y(share),
            x(1.0),
            y(0.0) + 18.0,
            x(0.0) - 6.0,
            y(share) + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\">true cost, share of the mean time</text>\
         <text x=\"14\" y=\"{0}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {0})\">claimed cost</text>",
        size / 2.0,
        size - 10.0
    );
    for CellVerdict { cell, truth, answer, score } in judged {
        let Some(claimed) = answer.share.filter(|_| answer.cause.is_some()) else { continue };
        let fill = match score {
            Score::Right => "#1f6fb2",
            Score::CannotTell | Score::NotMade => "#999999",
            _ => "#c0392b",
        };
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{fill}\"><title>{}</title></circle>",
            x(truth.share()),
            y(claimed),
            cell.name
        );
    }
    svg.push_str("</svg>\n");
    svg
}
