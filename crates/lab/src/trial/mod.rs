//! Runs one trial: makes storage, starts servers, loads and queries them, or probes the disk, and then deletes all of it.
//!
//! A trial that fails leaves nothing behind and reports the reason; the study continues with the next.

pub(crate) mod serving;
pub(crate) mod targets;

use std::path::Path;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_probe::{Job, WindowPlan};
use fathom_record::disk::Entry;
use fathom_session::{ProbePlan, ProbeSpec, RecordSpec, SessionSpec, run_in_child};
use fathom_units::Nanos;

use self::targets::Targets;
use crate::metrics::MetricSources;
use crate::setup::Probe;
use crate::{Bench, Measures, Setup, Study};

/// The result of a trial.
#[derive(Debug)]
pub(crate) struct TrialOutcome {
    pub figures: MetricSources,
    /// The storage that was made for it, and the kernel's description of that.
    pub facts: Vec<(String, String)>,
    /// The duration of the whole trial.
    pub took: Duration,
}

/// Runs a trial whose records go below `folder`.
pub(crate) fn run(
    bench: &Bench,
    study: &Study,
    setup: &Setup,
    seed: u64,
    folder: &Path,
) -> Result<TrialOutcome> {
    let began = Instant::now();
    let targets = targets::prepare(bench, setup)?;
    let facts = targets.facts();
    let figures = match study.measures {
        Measures::Load => serving::run(bench, setup, &targets, seed, folder),
        Measures::Probe => probe(bench, setup, &targets, seed, folder),
    };
    let undone = targets.undo();
    let figures = figures?;
    undone?;
    Ok(TrialOutcome { figures, facts, took: began.elapsed() })
}

/// Probes the disk, and reads the result.
fn probe(bench: &Bench, setup: &Setup, targets: &Targets, seed: u64, folder: &Path) -> Result<MetricSources> {
    let folder = folder.join("probe");
    let spec = SessionSpec {
        record: Some(RecordSpec::new("disk", Some(folder.clone()), targets.folder()).seed(seed)),
        probe: Some(probe_spec(&setup.probe, targets.folder(), seed)),
        ..SessionSpec::default()
    };
    let run = run_in_child(bench.child_tools(), &spec, &folder, &|pid| targets.adopt(0, pid))?;
    let step = run.results()?.into_iter().find_map(|entry| match entry {
        Entry::Step(step) => Some(step),
        _ => None,
    });
    let step =
        step.ok_or_else(|| Error::new(Kind::NotFound, "the probe ended before it measured anything"))?;
    Ok(MetricSources { step: Some(step), ..MetricSources::default() })
}

/// The specification of the probe: one pattern on the storage that was made.
fn probe_spec(probe: &Probe, dir: &Path, seed: u64) -> ProbeSpec {
    let &Probe { pattern, block, engine, depth, size, time, durable, buffered } = probe;
    let job = Job::new(pattern, block, engine, depth).durable(durable);
    let window = WindowPlan::new(pattern.word(), vec![job], Nanos::from(time));
    ProbeSpec {
        size: Some(size),
        is_direct: !buffered,
        seed,
        ..ProbeSpec::new(dir, ProbePlan::Window(window))
    }
}
