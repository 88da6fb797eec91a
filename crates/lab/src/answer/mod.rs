//! The answer of a study: compares levels by the results of its trials, with intervals, the noise, and a sentence each.
//!
//! Everything is computed from the journal, so that a running or interrupted study can be judged by the trials so far. It never
//! compares trials of different blocks: a drift over time would look like an effect (docs/methods.md#blocks-and-pairs).

mod comparisons;
mod scalings;
mod sentences;
mod table;

use fathom_record::study::{StudyCell, StudyFactor, StudyResult as StudyRecord};
use fathom_stats::experiment::{self, fewest_pairs, planned_looks};

use crate::journal::{Journal, TrialRecord, TrialResult};
use crate::{Study, TrialPlan};

use table::MeasurementTable;

/// Judges the trials that have run so far.
pub fn answer(study: &Study, plan: &TrialPlan, records: &[TrialRecord]) -> StudyRecord {
    let table = MeasurementTable::new(study, plan, records);
    let noise = comparisons::noise(study, &table);
    let comparisons = comparisons::all(study, plan, &table, &noise);
    let interactions = comparisons::interactions(study, plan, &table);
    let is_primary =
        |name: &str| study.metrics.iter().any(|(metric, primary)| *primary && metric.name == name);
    let of_primary = comparisons.iter().filter(|one| is_primary(&one.metric)).count();
    StudyRecord {
        name: study.name.clone(),
        question: study.question.clone(),
        size: study.size.clone(),
        seed: study.design.seed,
        factors: study
            .factors
            .iter()
            .map(|varied| StudyFactor {
                name: varied.factor.name.to_owned(),
                levels: varied.levels.iter().map(|level| level.label.clone()).collect(),
            })
            .collect(),
        settings: study
            .settings
            .iter()
            .map(|(factor, level)| (factor.name.to_owned(), level.label.clone()))
            .collect(),
        metrics: study.metrics.iter().map(|(metric, primary)| metric.record(*primary)).collect(),
        blocks_planned: study.design.blocks,
        blocks_complete: table.blocks_complete(),
        cells: cells(study, plan, records, &table),
        scalings: scalings::all(study, plan, &table),
        cautions: cautions(study, plan, &table, of_primary),
        published: study.published.clone(),
        noise: noise.iter().map(|noise| noise.record(study.design.blocks)).collect(),
        comparisons,
        interactions,
    }
}

/// Returns whether a planned look before `block` settles every comparison of the primary metrics, so that no more need to run.
pub(crate) fn is_settled(study: &Study, plan: &TrialPlan, records: &[TrialRecord], block: usize) -> bool {
    if study.design.looks == 1 {
        return false;
    }
    let looks = planned_looks(study.design.looks, study.design.blocks);
    let Some(look) = looks.iter().find(|look| look.after_blocks == block && block < study.design.blocks)
    else {
        return false;
    };
    let judged = answer(study, plan, records);
    let primary: Vec<&str> =
        study.metrics.iter().filter(|(_, primary)| *primary).map(|(metric, _)| metric.name).collect();
    let mut of_primary =
        judged.comparisons.iter().filter(|one| primary.contains(&one.metric.as_str())).peekable();
    look.reachable && of_primary.peek().is_some() && of_primary.all(|one| one.adjusted_p <= look.p)
}

fn cells(
    study: &Study,
    plan: &TrialPlan,
    records: &[TrialRecord],
    table: &MeasurementTable,
) -> Vec<StudyCell> {
    let cell = |(at, levels): (usize, &Vec<usize>)| {
        let blocks = study.design.blocks;
        let mut cell = StudyCell {
            levels: study.labels(levels),
            values: (0..study.metrics.len()).map(|metric| table.row(metric, at)).collect(),
            broken: Vec::new(),
            runs: vec![None; blocks],
            facts: Vec::new(),
            members: Vec::new(),
        };
        for record in records {
            let Some(trial) =
                plan.trials.get(record.number).filter(|trial| trial.cell == at && !trial.is_twin)
            else {
                continue;
            };
            if let Some(place) = cell.runs.get_mut(trial.block) {
                *place = Some(Journal::trial_folder(trial.number));
            }
            match &record.result {
                TrialResult::Broken(why) => cell.broken.push((trial.block, why.clone())),
                TrialResult::Measured { facts, members, .. } => {
                    cell.facts.clone_from(facts);
                    cell.members.clone_from(members);
                }
            }
        }
        cell
    };
    plan.cells.iter().enumerate().map(cell).collect()
}

/// The study's own cautions, and the weaknesses of this run.
fn cautions(study: &Study, plan: &TrialPlan, table: &MeasurementTable, comparisons: usize) -> Vec<String> {
    let mut cautions = study.cautions.clone();
    let blocks = table.blocks_complete();
    if blocks < study.design.blocks {
        cautions.push(format!("Only {blocks} of {} blocks are complete.", study.design.blocks));
    }
    cautions.extend(shortage(blocks, comparisons));
    if !study.design.twin {
        cautions.push("No cell ran twice, so the noise between equal runs is not known.".to_owned());
    }
    let broken = plan.trials.iter().filter(|trial| table.is_broken(trial.number)).count();
    if broken > 0 {
        cautions.push(format!(
            "{broken} trials failed; their blocks do not count in the comparisons that need them."
        ));
    }
    cautions.extend(unmeasured(study, plan, table));
    cautions.extend(zeros(study, plan, table));
    if let Ok(fraction) = experiment::fraction(&study.shape(), study.design.fraction)
        && study.design.fraction > 0
    {
        cautions.push(format!(
            "Only a fraction of all combinations ran (resolution {}): an effect that is shown may be that of another factor: {}.",
            fraction.resolution,
            fraction.aliases.join("; ")
        ));
    }
    cautions
}

/// The fewest blocks with which any difference that a study asks for could be distinguished from chance.
pub fn fewest_blocks(study: &Study, plan: &TrialPlan) -> usize {
    fewest_pairs(comparisons::primary_count(study, plan))
}

/// Returns a warning before the first block if a study has too few blocks to distinguish any difference from chance.
pub fn planned_shortage(study: &Study, plan: &TrialPlan) -> Option<String> {
    shortage(study.design.blocks, comparisons::primary_count(study, plan))
}

fn shortage(blocks: usize, comparisons: usize) -> Option<String> {
    let fewest = fewest_pairs(comparisons);
    let count = if blocks == 1 { "one block".to_owned() } else { format!("{blocks} blocks") };
    (blocks < fewest).then(|| {
        format!(
            "With {count} and {comparisons} comparisons no difference can be distinguished from chance at 5 percent; {fewest} blocks are the fewest \
             that could: this is a look, not an answer."
        )
    })
}

/// Names the metrics of which some trial measured zero. Comparisons are of ratios, which these have none of.
fn zeros(study: &Study, plan: &TrialPlan, table: &MeasurementTable) -> Option<String> {
    let values =
        |metric: usize| (0..plan.cells.len()).flat_map(move |cell| table.row(metric, cell)).flatten();
    let metrics = study.metrics.iter().enumerate();
    let names: Vec<String> = metrics
        .filter(|(at, _)| values(*at).any(|value| value <= 0.0))
        .map(|(_, (metric, _))| metric.name.replace('_', " "))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "Some trials measured 0 of {}: a zero has no ratio, so the blocks of these trials are left out of the comparisons of it. The table has all values.",
            names.join(", ")
        )
    })
}

/// Names the metrics that all measured trials lack: the table shows dashes for them, and the answer gives the reason.
fn unmeasured(study: &Study, plan: &TrialPlan, table: &MeasurementTable) -> Option<String> {
    let has =
        |metric: usize| (0..plan.cells.len()).any(|cell| table.row(metric, cell).iter().any(Option::is_some));
    let (with, without): (Vec<usize>, Vec<usize>) = (0..study.metrics.len()).partition(|metric| has(*metric));
    if with.is_empty() || without.is_empty() {
        return None;
    }
    let names: Vec<String> =
        without.into_iter().filter_map(|at| Some(study.metrics.get(at)?.0.name.replace('_', " "))).collect();
    Some(format!(
        "No trial measured {}: servers and devices are looked at once a second, so a run must last some seconds, and the device must be \
         one that can be distinguished from others ('fathom explain' on a trial says what it lacks).",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = "\
name: caches
question: Which cache?
measures: load
factors:
  cache: [1G, 256M]
settings: {records: 1000, operations: 5000, workload: workloada}
metrics: {primary: [throughput], others: [device_read_per_operation]}
design: {blocks: 6, seed: 7, twin: false}
";

    /// The comparison of a metric that is 0 under one level was left out without a word.
    #[test]
    fn a_metric_with_zeros_is_named() {
        let study = Study::parse(STUDY, None).unwrap();
        let plan = TrialPlan::new(&study).unwrap();
        let cautions = |reads: [f64; 2]| {
            let record = |(number, trial): (usize, &crate::Trial)| {
                let values = [("throughput", 1000.0), ("device_read_per_operation", reads[trial.cell])]
                    .map(|(name, value)| (name.to_owned(), value));
                let result =
                    TrialResult::Measured { values: values.into(), facts: Vec::new(), members: Vec::new() };
                TrialRecord { number, seconds: 1.0, result }
            };
            let records: Vec<TrialRecord> = plan.trials.iter().enumerate().map(record).collect();
            answer(&study, &plan, &records).cautions
        };
        let told = |cautions: Vec<String>| {
            cautions.iter().any(|one| one.contains("measured 0 of device read per operation"))
        };
        assert!(told(cautions([0.0, 4096.0])) && !told(cautions([512.0, 4096.0])));
    }
}
