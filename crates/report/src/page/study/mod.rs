//! A study's part of the page, in the order in which an article presents its results: the answer, its basis, every cell, the article's
//! own table, and the limits of the conclusions. This module makes no verdict.

mod dots;
mod forest;
mod interaction;
mod scaling;
mod tables;

use fathom_record::disk::Entry;
use fathom_record::study::StudyResult;
use serde::Serialize;

use super::bars::BarTable;
use super::chart::Chart;
use crate::study::labels::{design, is_primary, sentence};

pub(super) use tables::verdict;

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
    made: Vec<tables::CellRow<'s>>,
    broken: usize,
    members: Vec<BarTable>,
    published: Vec<BarTable>,
    not_comparable: &'s [String],
    noise: Vec<BarTable>,
}

/// The studies among results; a run folder has one.
pub(super) fn studies(results: &[Entry]) -> impl Iterator<Item = &StudyResult> {
    results
        .iter()
        .filter_map(|entry| if let Entry::Study(study) = entry { Some(study.as_ref()) } else { None })
}

/// The part of the page that shows a study.
pub(super) fn part(study: &StudyResult) -> StudyPart<'_> {
    let (common, made) = tables::made(study);
    StudyPart {
        name: &study.name,
        question: &study.question,
        design: design(study),
        settings: &study.settings,
        cautions: &study.cautions,
        sentences: study.comparisons.iter().filter(|one| is_primary(study, one)).map(sentence).collect(),
        forests: forest::charts(study),
        pairs: forest::pair_charts(study),
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

#[cfg(test)]
mod tests;
