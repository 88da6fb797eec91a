//! Runs a study: trial after trial in the planned order, each recorded as it ends.
//!
//! A trial that breaks is recorded as broken, and the rest continues. The study stops early only on request, when the machine cannot
//! continue (a full disk), or at a planned look that settled the question.

use std::fs;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_stats::SeededRandom;

use crate::journal::{Journal, TrialRecord, TrialResult};
use crate::plan::{Trial, TrialPlan};
use crate::{Bench, METRICS, Study, answer, trial};

/// The progress of a study.
#[derive(Clone, Copy, Debug)]
pub struct TrialProgress<'a> {
    /// Trials that have ended, and all of them.
    pub done: usize,
    pub total: usize,
    /// The block of the trial that begins, from 0.
    pub block: usize,
    /// The levels of the trial that begins.
    pub levels: &'a [String],
    /// The time left, by the trials so far; absent before the first.
    pub left: Option<Duration>,
    /// The reason that the last trial broke, if it did.
    pub broken: Option<&'a str>,
}

/// The way in which a study ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyEnd {
    /// Every planned trial ran.
    Complete,
    /// A planned look settled the question after so many blocks.
    Settled(usize),
    /// It was asked to stop; completed trials are kept.
    Stopped,
}

/// Runs the trials that have not run yet.
///
/// # Errors If no trial could continue: a journal that cannot be written, a disk that is full. Earlier trials are in
/// the journal.
pub fn run(
    bench: &Bench,
    study: &Study,
    plan: &TrialPlan,
    journal: &mut Journal,
    tell: &mut dyn FnMut(TrialProgress<'_>),
) -> Result<StudyEnd> {
    let mut broken: Option<String> = None;
    for (at, trial) in plan.trials.iter().enumerate() {
        if journal.has(trial.number) {
            continue;
        }
        if plan.begins_block(at) && answer::is_settled(study, plan, journal.records(), trial.block) {
            return Ok(StudyEnd::Settled(trial.block));
        }
        if bench.signals.stopped() {
            return Ok(StudyEnd::Stopped);
        }
        let Some(levels) = plan.cells.get(trial.cell) else { continue };
        let labels = study.labels(levels);
        tell(TrialProgress {
            done: journal.records().len(),
            total: plan.trials.len(),
            block: trial.block,
            levels: &labels,
            left: left(plan, journal),
            broken: broken.as_deref(),
        });
        let record = one(bench, study, trial, levels, journal);
        if bench.signals.stopped() {
            return Ok(StudyEnd::Stopped);
        }
        let record = record?;
        broken = match &record.result {
            TrialResult::Broken(why) => Some(why.clone()),
            TrialResult::Measured { .. } => None,
        };
        journal.add(record)?;
    }
    Ok(StudyEnd::Complete)
}

/// The time left by the median time of a cell's trials, and of all trials for cells that have none.
fn left(plan: &TrialPlan, journal: &Journal) -> Option<Duration> {
    let took = |of: &dyn Fn(&Trial) -> bool| {
        let seconds: Vec<f64> = journal
            .records()
            .iter()
            .filter(|record| plan.trials.get(record.number).is_some_and(of))
            .map(|record| record.seconds)
            .collect();
        fathom_stats::median(&seconds)
    };
    let any = took(&|_| true)?;
    let open = plan.trials.iter().filter(|trial| !journal.has(trial.number));
    let seconds: f64 = open.map(|trial| took(&|other| other.cell == trial.cell).unwrap_or(any)).sum();
    Some(Duration::from_secs_f64(seconds))
}

/// Runs one trial; its failure becomes its record, unless later trials could not run either.
fn one(
    bench: &Bench,
    study: &Study,
    trial: &Trial,
    levels: &[usize],
    journal: &Journal,
) -> Result<TrialRecord> {
    let folder = journal.folder().join(Journal::trial_folder(trial.number));
    // Files of an interrupted trial.
    match fs::remove_dir_all(&folder) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io("remove", &folder, cause));
        }
        _ => {}
    }
    fs::create_dir_all(&folder).map_err(|cause| Error::io("create", &folder, cause))?;
    // All cells of a block load the same records and run the same operations.
    let seed = SeededRandom::from_seed(study.design.seed).split(trial.block as u64).bits() >> 33;
    let began = Instant::now();
    let outcome = study.setup(levels).and_then(|setup| trial::run(bench, study, &setup, seed, &folder));
    let result = match outcome {
        Ok(outcome) => {
            let read = |metric: &crate::TrialMetric| {
                Some((metric.name.to_owned(), (metric.read)(&outcome.figures)?))
            };
            let values = METRICS.iter().filter(|metric| metric.measures == study.measures).filter_map(read);
            let values = values.filter(|(_, value)| value.is_finite()).collect();
            let facts =
                [outcome.facts, vec![("took".to_owned(), format!("{:.1} s", outcome.took.as_secs_f64()))]]
                    .concat();
            TrialResult::Measured { values, facts, members: outcome.figures.members }
        }
        Err(error) if error.kind() == Kind::NoSpace => return Err(error),
        Err(error) => TrialResult::Broken(said(&error)),
    };
    Ok(TrialRecord { number: trial.number, seconds: began.elapsed().as_secs_f64(), result })
}

/// An error with its causes in one line.
fn said(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(one) = cause {
        let more = one.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = one.source();
    }
    text
}
