//! What samplers bring, kept in a run folder. A folder that fails (its disk is full) must not end the watching: it is given up,
//! with a note.

use std::path::PathBuf;

use fathom_errors::Result;
use fathom_explain::Judgement;
use fathom_monitor::Batch;
use fathom_record::{Reading, RunWriter, State};

use crate::run_notes::NOTE;
use crate::{explaining, output, run_folders};

/// A run folder that samplers write into.
pub(crate) struct Kept {
    run: Option<RunWriter>,
}

impl Kept {
    pub(crate) fn new(run: RunWriter) -> Kept {
        Kept { run: Some(run) }
    }

    /// Keeps a batch.
    pub(crate) fn take(&mut self, batch: &Batch) {
        self.keep(|run| write(run, batch));
    }

    /// Keeps readings.
    pub(crate) fn readings(&mut self, readings: &[Reading]) {
        self.keep(|run| run.readings(readings));
    }

    /// Keeps what was judged: figures as results, findings as findings.
    pub(crate) fn judgement(&mut self, judgement: &Judgement) {
        self.keep(|run| {
            explaining::entries(judgement).iter().try_for_each(|entry| run.result(entry))?;
            run.findings(&judgement.findings)
        });
    }

    /// Ends the folder; where it is, if it is whole.
    pub(crate) fn close(self, state: State, error: Option<String>) -> Option<PathBuf> {
        run_folders::close(self.run?, state, error)
    }

    fn keep(&mut self, write: impl FnOnce(&mut RunWriter) -> Result<()>) {
        if let Some(run) = &mut self.run
            && let Err(error) = write(run)
        {
            output::note(&format!("fathom: the run folder is given up: {error}"));
            self.run = None;
        }
    }
}

/// Writes a batch into a run folder: readings, results, facts and notes.
pub(crate) fn write(run: &mut RunWriter, batch: &Batch) -> Result<()> {
    run.readings(&batch.readings)?;
    batch.entries.iter().try_for_each(|entry| run.result(entry))?;
    for (name, window_ns, histogram) in &batch.histograms {
        run.latency(name, *window_ns, histogram)?;
    }
    if batch.facts.is_empty() && batch.notes.is_empty() {
        return Ok(());
    }
    run.amend(|manifest| {
        manifest.environment.extend(batch.facts.iter().cloned());
        for note in &batch.notes {
            let number = manifest.environment.keys().filter(|key| key.starts_with(NOTE)).count();
            manifest.environment.insert(format!("{NOTE}{number:03}"), note.clone());
        }
    })
}
