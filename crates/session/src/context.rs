//! The state that the parts of a session share: the recorder, the caller, and the results so far.

use fathom_errors::Result;
use fathom_probe::{Interval, Outcome, Sink};
use fathom_process::Signals;
use fathom_record::disk::{Entry, Knee, Step};

use crate::{Assessment, Events, RunRecorder};

/// The means of the process that runs a session.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The signals that end the session.
    pub signals: Signals,
    /// Shows a sentence that is not a result, such as a warning.
    pub note: fn(&str),
}

/// The state of a session.
pub(crate) struct Context<'c> {
    pub(crate) tools: &'c Tools,
    pub(crate) events: &'c mut dyn Events,
    pub(crate) recorder: RunRecorder,
    pub(crate) results: Vec<Entry>,
    pub(crate) assessments: Vec<Assessment>,
}

impl Context<'_> {
    /// Records a result, and tells the caller.
    pub(crate) fn result(&mut self, entry: &Entry) -> Result<()> {
        self.recorder.write(|run| run.result(entry));
        self.results.push(entry.clone());
        self.events.result(entry)
    }

    /// Shows a sentence that is not a result.
    pub(crate) fn note(&self, sentence: &str) {
        (self.tools.note)(sentence);
    }

    /// Whether a signal asked the session to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.tools.signals.stopped()
    }

    /// The steps of the probe so far.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let step = |entry: &Entry| if let Entry::Step(step) = entry { Some(step.clone()) } else { None };
        self.results.iter().filter_map(step).collect()
    }

    /// The last knee of the probe.
    pub(crate) fn knee(&self) -> Option<&Knee> {
        self.results
            .iter()
            .rev()
            .find_map(|entry| if let Entry::Knee(knee) = entry { Some(knee) } else { None })
    }
}

impl Sink for Context<'_> {
    fn layout_progress(&mut self, done_bytes: u64, total_bytes: u64) -> Result<()> {
        self.events.layout_progress(done_bytes, total_bytes);
        Ok(())
    }

    fn interval(&mut self, interval: &Interval<'_>) -> Result<()> {
        self.recorder.write(|run| {
            run.readings(interval.readings)?;
            interval
                .latencies
                .iter()
                .try_for_each(|(name, histogram)| run.latency(name, interval.window_ns, histogram))
        });
        Ok(())
    }

    fn result(&mut self, entry: &Entry) -> Result<()> {
        Context::result(self, entry)
    }

    fn step(&mut self, outcome: &Outcome) -> Result<()> {
        self.events.probe_step(outcome);
        Ok(())
    }
}
