//! The state that the parts of a session share: the recorder, the caller, and the results so far.

use fathom_errors::Result;
use fathom_probe::{ProbeSecond, Sink, StepOutcome, StepProgress};
use fathom_process::Signals;
use fathom_record::disk::{Entry, Knee, Step};

use crate::{Assessment, Events, RunRecorder};

/// The means of the process that runs a session.
#[derive(Clone, Debug)]
pub struct SessionTools {
    /// The signals that end the session.
    pub signals: Signals,
    /// Shows a sentence that is not a result, such as a warning.
    pub note: fn(&str),
}

/// The state of a session.
pub(crate) struct SessionContext<'c> {
    pub(crate) tools: &'c SessionTools,
    pub(crate) events: &'c mut dyn Events,
    pub(crate) recorder: RunRecorder,
    pub(crate) results: Vec<Entry>,
    pub(crate) assessments: Vec<Assessment>,
}

impl SessionContext<'_> {
    /// Records a result, and passes it to the caller.
    pub(crate) fn result(&mut self, entry: &Entry) -> Result<()> {
        self.recorder.write(|run| run.result(entry));
        self.results.push(entry.clone());
        self.events.result(entry)
    }

    /// Shows a sentence that is not a result.
    pub(crate) fn note(&self, sentence: &str) {
        (self.tools.note)(sentence);
    }

    /// Returns whether a signal asked the session to end.
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

impl Sink for SessionContext<'_> {
    fn layout_progress(&mut self, done_bytes: u64, total_bytes: u64) -> Result<()> {
        self.events.layout_progress(done_bytes, total_bytes);
        Ok(())
    }

    fn step_begins(&mut self, step: &StepProgress) -> Result<()> {
        self.events.probe_step_begins(step);
        Ok(())
    }

    fn interval(&mut self, interval: &ProbeSecond<'_>) -> Result<()> {
        self.recorder.write(|run| {
            run.readings(interval.readings)?;
            interval
                .latencies
                .iter()
                .try_for_each(|(name, histogram)| run.latency(name, interval.window_ns, histogram))
        });
        self.events.probe_interval();
        Ok(())
    }

    fn result(&mut self, entry: &Entry) -> Result<()> {
        SessionContext::result(self, entry)
    }

    fn step(&mut self, outcome: &StepOutcome) -> Result<()> {
        self.events.probe_step(outcome);
        Ok(())
    }
}
