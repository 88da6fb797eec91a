//! A study's part of the page, in the order in which an article tells its results: the answer, what it rests on, every cell, the article's
//! own table, and what may not be concluded. No verdict is made here.

mod dots;
mod forest;
mod interaction;
mod pairs;
mod scaling;
mod tables;
mod trials;

use fathom_record::disk::Entry;
use fathom_record::study::{Study, StudyComparison, StudyVerdict};
use serde::Serialize;

use super::bars::BarTable;
use super::cards::Card;
use super::chart::Chart;
use crate::study::told::{
    answers, chance, design, effect, effect_interval, is_primary, percent, sentence, spaced, tally, versus,
};

/// A study for the template.
#[derive(Serialize)]
pub(super) struct StudyPart<'s> {
    name: &'s str,
    question: &'s str,
    design: String,
    settings: &'s [(String, String)],
    cautions: &'s [String],
    /// The answers in sentences.
    sentences: Vec<String>,
    forests: Vec<Chart>,
    pairs: Vec<Chart>,
    comparisons: Vec<BarTable>,
    interactions: Vec<Chart>,
    curves: Vec<Chart>,
    speedups: Vec<Chart>,
    scalings: Vec<BarTable>,
    cells: Vec<BarTable>,
    common: Vec<&'s (String, String)>,
    made: Vec<trials::CellMade<'s>>,
    broken: usize,
    members: Vec<BarTable>,
    published: Vec<BarTable>,
    not_comparable: &'s [String],
    noise: Vec<BarTable>,
}

/// The studies among results; a run folder has one.
pub(super) fn studies(results: &[Entry]) -> impl Iterator<Item = &Study> {
    results
        .iter()
        .filter_map(|entry| if let Entry::Study(study) = entry { Some(study.as_ref()) } else { None })
}

/// What the page shows of a study.
pub(super) fn part(study: &Study) -> StudyPart<'_> {
    let (common, made) = trials::made(study);
    StudyPart {
        name: &study.name,
        question: &study.question,
        design: design(study),
        settings: &study.settings,
        cautions: &study.cautions,
        sentences: study.comparisons.iter().filter(|one| is_primary(study, one)).map(sentence).collect(),
        forests: forest::charts(study),
        pairs: pairs::charts(study),
        comparisons: tables::comparisons(study),
        interactions: interaction::charts(study),
        curves: scaling::curves(study),
        speedups: scaling::speedups(study),
        scalings: scaling::tables(study),
        cells: tables::cells(study),
        common,
        made,
        broken: study.cells.iter().map(|cell| cell.broken.len()).sum(),
        members: tables::members(study),
        published: study.published.as_ref().map_or_else(Vec::new, |table| tables::published(study, table)),
        not_comparable: study.published.as_ref().map_or(&[], |table| &table.may_not_be_compared),
        noise: tables::noise(study),
    }
}

/// The answer as cards: the whole first, then each comparison on which it rests.
pub(super) fn cards(study: &Study) -> Vec<Card> {
    let answers = answers(study);
    let has = |verdict: StudyVerdict| answers.iter().any(|one| one.verdict == verdict);
    let kind = match (has(StudyVerdict::Better), has(StudyVerdict::Worse)) {
        (true, false) => "good",
        (false, true) => "bad",
        // Both, or that there is no difference: neither good nor bad.
        _ if has(StudyVerdict::Worse) || has(StudyVerdict::Same) => "plain",
        _ => "unsure",
    };
    let (text, more) = match answers.as_slice() {
        [one] => (sentence(one), String::new()),
        many => (tally(many), design(study)),
    };
    let whole = Card { kind, label: study.question.clone(), text, more };
    std::iter::once(whole).chain(answers.into_iter().map(|one| card(study, one))).collect()
}

fn card(study: &Study, one: &StudyComparison) -> Card {
    let kind = match one.verdict {
        StudyVerdict::Better => "good",
        StudyVerdict::Worse => "bad",
        StudyVerdict::Same => "plain",
        StudyVerdict::Undecided => "unsure",
    };
    let floor = study.noise.iter().find(|noise| noise.metric == one.metric);
    let floor = floor.map_or_else(String::new, |noise| format!(" Noise floor {}.", percent(noise.floor)));
    Card {
        kind,
        label: format!("{}, {}", spaced(&one.metric), versus(one)),
        text: format!("{}: {}", tables::verdict(one).1, effect(one.ratio)),
        more: format!(
            "95 %: {}; p {} after all comparisons, {} pairs.{floor}",
            effect_interval(one.interval),
            chance(one.adjusted_p),
            one.pairs.len()
        ),
    }
}

#[cfg(test)]
mod tests;
