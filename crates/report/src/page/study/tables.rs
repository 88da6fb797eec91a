//! Tables of a study's page: comparisons, every cell with its storage and trials, a comparison of servers, the article's own table,
//! and the noise floor.
//!
//! A table that does not fit a sheet of paper continues in another. Links to the run folders of trials are relative,
//! because these are below the study's own folder. A name that leads elsewhere (an address, a path upwards) is text without a link.

use std::collections::BTreeSet;

use fathom_record::study::{PublishedTable, StudyCell, StudyComparison, StudyResult, StudyVerdict};
use serde::Serialize;

use super::super::bars::{BarRow, BarTable};
use crate::amplification::ROWS;
use crate::runs_page::url_part;
use crate::study::labels::{
    amount, cell_name, chance, effect, effect_interval, metrics_of, middle, middle_words, more_blocks,
    percent, spaced, versus,
};

/// More rows than this continue in another table.
const MAX_ROWS: usize = 24;
/// The most metrics in one table.
const MAX_METRICS: usize = 4;

/// A table in as many parts as it needs. Empty if there are no rows.
fn in_parts(id: &str, title: &str, how: &str, heads: Vec<String>, rows: Vec<BarRow>) -> Vec<BarTable> {
    let parts = rows.chunks(MAX_ROWS).enumerate().map(|(number, part)| BarTable {
        id: format!("{id}-{number}"),
        title: if number == 0 { title.to_owned() } else { format!("{title}, continued") },
        how: how.to_owned(),
        heads: heads.clone(),
        rows: part.to_vec(),
        doubts: Vec::new(),
    });
    parts.collect()
}

fn heads<const N: usize>(heads: [&str; N]) -> Vec<String> {
    heads.map(str::to_owned).to_vec()
}

/// The class and the words of a verdict.
pub(in crate::page) fn verdict(one: &StudyComparison) -> (&'static str, String) {
    let word = one.answer();
    match (one.verdict, one.needs_blocks) {
        (StudyVerdict::Better, _) => ("good", word.to_owned()),
        (StudyVerdict::Worse, _) => ("bad", word.to_owned()),
        (StudyVerdict::Same, _) => ("", word.to_owned()),
        (StudyVerdict::Undecided, Some(blocks)) => ("", format!("{word}, needs {}", more_blocks(blocks))),
        (StudyVerdict::Undecided, None) => ("", word.to_owned()),
    }
}

/// Every comparison with its figures.
pub(super) fn comparisons(study: &StudyResult) -> Vec<BarTable> {
    let row = |one: &StudyComparison| {
        let (kind, verdict) = verdict(one);
        let cells = vec![
            versus(one),
            spaced(&one.metric),
            effect(one.ratio),
            effect_interval(one.interval),
            chance(one.p),
            chance(one.adjusted_p),
            one.pairs.len().to_string(),
            verdict,
        ];
        BarRow { cells, kind, ..BarRow::default() }
    };
    in_parts(
        "comparisons",
        "Every comparison",
        "Effects are level over baseline. p is the chance of a difference this large without an effect, by flipping the signs of pairs; \
         behind it the same after all comparisons had their chance.",
        heads(["of", "metric", "effect", "95 %", "p", "adjusted p", "pairs", "verdict"]),
        study.comparisons.iter().map(row).collect(),
    )
}

/// Every cell with its medians and spreads, the metrics on which the answer rests first.
pub(super) fn cells(study: &StudyResult) -> Vec<BarTable> {
    let mut tables = Vec::new();
    for (title, primary) in
        [("Medians of what the answer rests on", true), ("What else was measured in each cell", false)]
    {
        for (number, metrics) in metrics_of(study, primary).chunks(MAX_METRICS).enumerate() {
            let names = metrics.iter().map(|(_, metric)| spaced(&metric.name));
            let heads = study.factors.iter().map(|factor| factor.name.clone()).chain(names).collect();
            let row = |cell: &StudyCell| {
                let figures =
                    metrics.iter().map(|(place, metric)| middle_words(middle(cell, *place), &metric.unit));
                BarRow { cells: cell.levels.iter().cloned().chain(figures).collect(), ..BarRow::default() }
            };
            tables.extend(in_parts(
                &format!("cells-{}-{number}", if primary { "primary" } else { "other" }),
                title,
                "Medians over blocks; in brackets the spread: the highest less the lowest, as a share of the median. A dash: no trial of \
                 the cell gave a value.",
                heads,
                study.cells.iter().map(row).collect(),
            ));
        }
    }
    tables
}

/// The requests of each server of a cell to its disk.
pub(super) fn members(study: &StudyResult) -> Vec<BarTable> {
    let of_cell = |(number, cell): (usize, &StudyCell)| {
        let servers = cell.members.iter().map(|row| format!("server {}", row.member));
        let rows = ROWS.iter().filter_map(|(name, of)| {
            let cells: Vec<Option<String>> = cell.members.iter().map(of).collect();
            let is_known = cells.iter().any(Option::is_some);
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
            let cells = std::iter::once((*name).to_owned()).chain(cells).collect();
            is_known.then(|| BarRow { cells, ..BarRow::default() })
        });
        let shared = cell.members.iter().filter(|row| !row.shared_devices.is_empty()).map(|row| {
            let devices = row.shared_devices.join(", ");
            format!(
                "Server {} shares {devices} with another: the figures of that device are those of both.",
                row.member
            )
        });
        BarTable {
            id: format!("members-{number}"),
            title: format!("Servers of {} side by side", cell_name(study, cell)),
            how: "The cell's last trial, each server's own counters and those of its device.".to_owned(),
            heads: std::iter::once(String::new()).chain(servers).collect(),
            rows: rows.collect(),
            doubts: shared.collect(),
        }
    };
    let several = study.cells.iter().filter(|cell| cell.members.len() > 1);
    several.enumerate().map(of_cell).filter(|table| !table.rows.is_empty()).collect()
}

/// The article's table, and the study's own results in the metrics on which the answer rests.
pub(super) fn published(study: &StudyResult, table: &PublishedTable) -> Vec<BarTable> {
    let rows = table.rows.iter().filter(|row| !row.is_empty());
    let theirs = in_parts(
        "published",
        "What the article printed",
        &table.caption,
        table.columns.clone(),
        rows.map(|row| BarRow { cells: row.clone(), ..BarRow::default() }).collect(),
    );
    let metrics = metrics_of(study, true);
    let names = metrics.iter().map(|(_, metric)| spaced(&metric.name));
    let row = |cell: &StudyCell| {
        let median = |(place, metric): &(usize, &fathom_record::study::StudyMetric)| {
            middle(cell, *place).map_or_else(|| "-".to_owned(), |middle| amount(middle.median, &metric.unit))
        };
        let cells = std::iter::once(cell_name(study, cell)).chain(metrics.iter().map(median)).collect();
        BarRow { cells, ..BarRow::default() }
    };
    let ours = in_parts(
        "ours",
        "What was measured here",
        "Medians over blocks.",
        std::iter::once("cell".to_owned()).chain(names).collect(),
        study.cells.iter().map(row).collect(),
    );
    theirs.into_iter().chain(ours).collect()
}

/// The difference between two runs of the same thing.
pub(super) fn noise(study: &StudyResult) -> Vec<BarTable> {
    let row = |one: &fathom_record::study::StudyNoise| BarRow {
        cells: vec![
            spaced(&one.metric),
            percent(one.floor),
            one.minimum_detectable.map_or_else(|| "-".to_owned(), percent),
            one.pairs.to_string(),
        ],
        ..BarRow::default()
    };
    in_parts(
        "noise",
        "How much two runs of the same cell differ",
        "95 % of the pairs of equal runs differ by less than the floor; no smaller effect is reported. The least effect is the one that so many \
         blocks find four times out of five.",
        heads(["metric", "noise floor", "detectable effect", "pairs of equal runs"]),
        study.noise.iter().map(row).collect(),
    )
}

/// A cell for the template.
#[derive(Serialize)]
pub(super) struct CellRow<'s> {
    name: String,
    /// The facts that hold for it and not for all cells.
    facts: Vec<&'s (String, String)>,
    trials: Vec<TrialRow<'s>>,
}

/// A trial of it.
#[derive(Serialize)]
struct TrialRow<'s> {
    block: usize,
    folder: Option<&'s str>,
    link: Option<String>,
    broken: Option<&'s str>,
}

/// The facts that hold for all cells, and the cells with their other facts.
pub(super) fn made(study: &StudyResult) -> (Vec<&(String, String)>, Vec<CellRow<'_>>) {
    let is_common = |fact: &&(String, String)| study.cells.iter().all(|cell| cell.facts.contains(fact));
    let common: Vec<&(String, String)> =
        study.cells.first().into_iter().flat_map(|cell| &cell.facts).filter(is_common).collect();
    let cells = study.cells.iter().map(|cell| CellRow {
        name: cell_name(study, cell),
        facts: cell.facts.iter().filter(|fact| !common.contains(fact)).collect(),
        trials: trials(cell),
    });
    let cells = cells.collect();
    (common, cells)
}

fn trials(cell: &StudyCell) -> Vec<TrialRow<'_>> {
    let with_folder = cell.runs.iter().enumerate().filter(|(_, run)| run.is_some()).map(|(block, _)| block);
    let blocks: BTreeSet<usize> = with_folder.chain(cell.broken.iter().map(|(block, _)| *block)).collect();
    let trial = |block: usize| {
        let folder = cell.runs.get(block).and_then(Option::as_deref);
        TrialRow {
            block: block.saturating_add(1),
            folder,
            link: folder.and_then(link),
            broken: cell.broken.iter().find(|(of, _)| *of == block).map(|(_, why)| why.as_str()),
        }
    };
    blocks.into_iter().map(trial).collect()
}

/// The address of a folder below the page's own, or `None` for any other path.
fn link(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let is_below = parts.iter().all(|part| !matches!(*part, "" | "." | ".."));
    let encoded: Vec<String> = parts.into_iter().map(url_part).collect();
    is_below.then(|| format!("./{}/", encoded.join("/")))
}

#[cfg(test)]
mod tests {
    use super::link;

    #[test]
    fn only_what_lies_below_is_a_link() {
        assert_eq!(link("trials/1 a").as_deref(), Some("./trials/1%20a/"));
        for elsewhere in ["/etc", "../x", "a/../../b", "", "a//b", "."] {
            assert_eq!(link(elsewhere), None, "{elsewhere}");
        }
        let script = link("javascript:alert(1)").unwrap();
        assert_eq!(script, "./javascript%3Aalert%281%29/", "a folder's name, however odd");
    }
}
