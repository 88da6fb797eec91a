//! The estimate of the wait for the journal, compared with the exact wait that only the lab server counts.
//!
//! No mongod counts this wait. What is said of one rests on the estimate, so recordings are judged with the counter and without it.

use std::path::{Path, PathBuf};

use fathom_record::{Reading, Run};
use fathom_testkit::{Scratch, assert, test};

use super::cell::Operations;
use super::cells::CELLS;
use super::recording::copy_run;
use super::{bundle_of, hold_out};
use crate::faults::diagnosis::Diagnosis;
use crate::faults::study::import_bundle;

/// A thread that waits for a sync has to wake up after it, which the syncs do not tell.
const WAKE_US: f64 = 200.0;

/// A run folder without the counters of exact waits.
fn without_counter(run: &Run, parent: &Path) -> PathBuf {
    let mut readings: Vec<Reading> = Vec::new();
    for (name, series) in run.series().unwrap().iter().filter(|(name, _)| !name.ends_with("wait.journal_us"))
    {
        for point in &series.points {
            readings.push(Reading::new(name, &series.unit, (point.begin_ns, point.end_ns), point.value));
        }
    }
    copy_run(run, parent, readings, &run.results().unwrap())
}

#[test]
fn the_interval_of_the_estimated_wait_for_the_journal_holds_the_exact_one() {
    let mut count = 0;
    for cell in CELLS.iter().filter(|cell| !hold_out::holds(cell) && cell.server.engine == "wiredTiger") {
        let is_journaled = matches!(cell.load.operations, Operations::JournaledUpdates | Operations::Mixed);
        if !is_journaled || !bundle_of(cell).exists() {
            continue;
        }
        let scratch = Scratch::new().unwrap();
        let folder = import_bundle(&bundle_of(cell), &scratch.path().join("run"));
        let estimated = without_counter(&Run::open(&folder).unwrap(), &scratch.path().join("estimated"));
        let exact = Diagnosis::of_run(&folder).mean_us("writes", "journal");
        let diagnosis = Diagnosis::of_run(&estimated);
        let (estimate, interval) =
            (diagnosis.mean_us("writes", "journal"), diagnosis.interval_us("writes", "journal"));
        println!("{}: exact {exact:.0} us, estimated {estimate:.0} us, {interval:.0?}", cell.name);
        let is_within = exact >= interval.0 - WAKE_US && exact <= interval.1 + WAKE_US;
        assert!(is_within, "{}: exact {exact} us, estimated {estimate} us, {interval:?}", cell.name);
        count += 1;
    }
    assert!(count > 0, "no journaled cell is recorded");
}
