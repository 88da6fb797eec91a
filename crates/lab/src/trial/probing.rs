//! The probe of a trial: `fathom disk` with one shape, on the storage that was made.

use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use fathom_record::disk::Entry;

use crate::Bench;
use crate::setup::{Probe, Setup};

use super::targets::Targets;
use super::{Figures, child};

/// Probes, and reads what was found.
pub(super) fn run(
    bench: &Bench,
    setup: &Setup,
    targets: &Targets,
    seed: u64,
    folder: &Path,
) -> Result<Figures> {
    let arguments = arguments(&setup.probe, targets.folder(), seed);
    // A finding about the disk is what a probe is for.
    let run = child::record(bench, &arguments, &folder.join("probe"), true, &|pid| targets.adopt(0, pid))?;
    let step = run.results()?.into_iter().find_map(|entry| match entry {
        Entry::Step(step) => Some(step),
        _ => None,
    });
    let step =
        step.ok_or_else(|| Error::new(Kind::NotFound, "the probe ended before it measured anything"))?;
    Ok(Figures { step: Some(step), ..Figures::default() })
}

fn arguments(probe: &Probe, dir: &Path, seed: u64) -> Vec<String> {
    let Probe { pattern, block, engine, depth, size, time, durable, buffered } = probe;
    let mut words = vec!["disk".to_owned(), "--dir".to_owned(), dir.to_string_lossy().into_owned()];
    for (option, value) in [
        ("--pattern", pattern.clone()),
        ("--block", block.0.to_string()),
        ("--engine", engine.clone()),
        ("--depth", depth.to_string()),
        ("--size", size.0.to_string()),
        ("--time", format!("{}ms", time.as_millis())),
        ("--durable", durable.clone()),
        ("--seed", seed.to_string()),
    ] {
        words.extend([option.to_owned(), value]);
    }
    words.extend(buffered.then(|| "--buffered".to_owned()));
    words
}
