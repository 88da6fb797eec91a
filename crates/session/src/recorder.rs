//! The recorder of a run: it opens the run folder, writes into it, and closes it.
//!
//! A measurement is useful without its folder. If a folder cannot be created or written (its disk is full), the recorder gives it up with
//! a note, and the measurement continues. No other code decides this.

use std::path::{Path, PathBuf};
use std::time::Instant;

use fathom_errors::{Error, Result};
use fathom_explain::Judgement;
use fathom_host::{MachineSize, View};
use fathom_monitor::{Batch, Clock};
use fathom_process::ledger::StateFolder;
use fathom_record::{Finding, Manifest, Reading, RunWriter, State};
use serde::{Deserialize, Serialize};

use crate::run_folders;

/// The name, the parent and the manifest of a run folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordSpec {
    /// The verb in the manifest and in the folder's name.
    pub verb: String,
    /// The command line; secrets are removed from it.
    pub command_line: Vec<String>,
    /// The directory for run folders; without one, that of the state folder.
    pub parent: Option<PathBuf>,
    /// The directory whose host and disk the manifest describes.
    pub subject: PathBuf,
    /// The seed of all random streams.
    pub seed: u64,
}

impl RecordSpec {
    /// A folder for a verb of the program that runs now. A program that a link calls by the verb's name is recorded with the verb.
    pub fn new(verb: &str, parent: Option<PathBuf>, subject: &Path) -> RecordSpec {
        let mut command_line: Vec<String> = std::env::args().collect();
        let called_as = command_line.first().and_then(|program| Path::new(program).file_stem());
        if called_as.is_some_and(|name| name == verb) && command_line.get(1).is_none_or(|word| word != verb) {
            command_line.splice(..1, ["fathom".to_owned(), verb.to_owned()]);
        }
        RecordSpec { verb: verb.to_owned(), command_line, parent, subject: subject.to_owned(), seed: 0 }
    }

    /// The same with a seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> RecordSpec {
        self.seed = seed;
        self
    }

    fn create(&self) -> Result<RunWriter> {
        let mut manifest =
            Manifest::new(&self.verb, env!("CARGO_PKG_VERSION"), self.command_line.iter().cloned());
        manifest.seed = self.seed;
        let view = View::live();
        manifest.environment = fathom_host::environment::facts(&view, Some(&self.subject));
        let limits = MachineSize::read(&view).and_then(|size| size.limit_words());
        manifest.environment.extend(limits.map(|words| ("machine.limits".to_owned(), words)));
        RunWriter::create(&run_folders::parent(self.parent.as_deref())?, manifest)
    }
}

/// A run folder, if there is one, and the clock of the run.
pub struct RunRecorder {
    run: Option<RunWriter>,
    zero: Instant,
    note: fn(&str),
}

impl RunRecorder {
    /// Opens a new folder, or shows a note that says why it could not. Without a specification there is no folder.
    pub fn open(spec: Option<&RecordSpec>, note: fn(&str)) -> RunRecorder {
        let run = spec.and_then(|spec| match spec.create() {
            Ok(run) => {
                let state = StateFolder::find().ok().filter(|_| spec.parent.is_none());
                if let Some((path, reason)) = state.and_then(|state| Some((state.path, state.reason?))) {
                    note(&format!("fathom: {reason}, so the run folder is below {}", path.display()));
                }
                Some(run)
            }
            Err(error) => {
                note(&format!("fathom: this run is not kept: {error}"));
                None
            }
        });
        let zero = run.as_ref().map_or_else(Instant::now, RunWriter::started);
        RunRecorder { run, zero, note }
    }

    /// Returns whether there is a folder and all writes so far succeeded.
    pub fn is_recording(&self) -> bool {
        self.run.is_some()
    }

    /// The clock of every time in the folder; it also counts without a folder.
    pub fn clock(&self) -> Clock {
        Clock::since(self.zero)
    }

    pub fn started(&self) -> Instant {
        self.zero
    }

    /// Nanoseconds since the run's start.
    pub fn now_ns(&self) -> u64 {
        self.clock().now_ns()
    }

    /// Writes to the folder. A failed write gives the folder up.
    pub fn write(&mut self, write: impl FnOnce(&mut RunWriter) -> Result<()>) {
        if let Some(run) = &mut self.run
            && let Err(error) = write(run)
        {
            (self.note)(&format!("fathom: the run folder is given up: {error}"));
            self.run = None;
        }
    }

    pub fn readings(&mut self, readings: &[Reading]) {
        self.write(|run| run.readings(readings));
    }

    /// Writes a batch of a sampler: readings, results, distributions, facts and notes.
    pub fn batch(&mut self, batch: &Batch) {
        self.write(|run| write_batch(run, batch));
    }

    /// Writes the figures of a judgement as results.
    pub fn judgement(&mut self, judgement: &Judgement) {
        self.write(|run| judgement.results().iter().try_for_each(|entry| run.result(entry)));
    }

    /// Writes the id of the error that ends the run.
    pub fn error_id(&mut self, error: &Error) {
        self.write(|run| run.amend(|manifest| manifest.error_id = Some(error.id().to_owned())));
    }

    /// Writes the findings of a run that looked for any, and closes the folder. Returns its path if it is complete. A run that ended early
    /// and measured nothing is not kept.
    pub fn close(
        mut self,
        state: State,
        error: Option<String>,
        findings: Option<&[Finding]>,
    ) -> Option<PathBuf> {
        if let Some(findings) = findings {
            self.write(|run| run.findings(findings));
        }
        let run = self.run?;
        if run.is_empty() && state != State::Complete {
            return None;
        }
        run.finish(state, error)
            .inspect_err(|error| (self.note)(&format!("fathom: the run folder is incomplete: {error}")))
            .ok()
    }
}

fn write_batch(run: &mut RunWriter, batch: &Batch) -> Result<()> {
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
        batch.notes.iter().for_each(|note| manifest.add_note(note));
    })
}
