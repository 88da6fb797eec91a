//! Watching as part of a verb: samplers started, what they read collected into a run folder and into the last minutes, an end.
//!
//! One session serves `watch`, `explain`, and loads that are watched. Nothing here judges or draws; nothing that is watched is
//! changed.

mod judging;
mod keeping;
mod recent;
mod source;
mod under;

use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use fathom_errors::Result;
use fathom_monitor::{Batch, Clock};
use fathom_record::{Reading, RunWriter, State};

pub(crate) use self::judging::Judging;
pub(crate) use self::keeping::{Kept, write};
pub(crate) use self::recent::Recent;
use self::source::Samplers;
pub(crate) use self::source::{SourceArgs, WatchPlan};
use crate::metrics::SeriesMetrics;

/// Samplers that run, and what they have brought so far.
pub(crate) struct Session {
    samplers: Option<Samplers>,
    batches: Receiver<Batch>,
    clock: Clock,
    kept: Option<Kept>,
    metrics: Option<SeriesMetrics>,
    /// The last minutes, or everything.
    pub(crate) recent: Recent,
}

impl Session {
    /// Starts the samplers of a plan. What they bring goes into `run`, where there is one, and its clock counts.
    ///
    /// # Errors
    /// When the servers cannot be reached, or what is named is not there; a sampler that lacks a permission says so later.
    pub(crate) fn start(
        plan: &WatchPlan,
        run: Option<RunWriter>,
        hindsight: Option<Duration>,
    ) -> Result<Session> {
        let zero = run.as_ref().map_or_else(Instant::now, RunWriter::started);
        let mut session = Session::beside(plan, zero, hindsight)?;
        session.kept = run.map(Kept::new);
        Ok(session)
    }

    /// Starts the samplers beside a load, which keeps the run folder that began at `zero`: see [`Session::next`].
    ///
    /// # Errors
    /// As [`Session::start`].
    pub(crate) fn beside(plan: &WatchPlan, zero: Instant, hindsight: Option<Duration>) -> Result<Session> {
        let clock = Clock::since(zero);
        let (samplers, batches) = plan.start(clock)?;
        Ok(Session {
            samplers: Some(samplers),
            batches,
            clock,
            kept: None,
            metrics: None,
            recent: Recent::new(hindsight, 0),
        })
    }

    /// Nanoseconds since the clock's start.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Gives a page of metrics what comes from now on.
    pub(crate) fn publish(&mut self, metrics: Option<SeriesMetrics>) {
        self.metrics = metrics;
    }

    /// The next batch, where one comes within `wait`; it is part of what was seen and kept already.
    pub(crate) fn next(&mut self, wait: Duration) -> Option<Batch> {
        let batch = self.batches.recv_timeout(wait).ok()?;
        self.recent.take(&batch);
        if let Some(metrics) = &self.metrics {
            metrics.take(&batch.readings);
        }
        if let Some(kept) = &mut self.kept {
            kept.take(&batch);
        }
        Some(batch)
    }

    /// Takes what has come, and what comes within `wait`.
    pub(crate) fn gather(&mut self, wait: Duration) {
        let until = Instant::now() + wait;
        while self.next(until.saturating_duration_since(Instant::now())).is_some() {}
        // Samplers that are gone must not make a loop of this.
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }

    /// Notes that somebody marked this moment.
    pub(crate) fn mark(&mut self) {
        let now_ns = self.clock.now_ns();
        let mark = [Reading::new("watch.mark", "1", (now_ns, now_ns), 1.0)];
        self.recent.readings(&mark);
        if let Some(kept) = &mut self.kept {
            kept.readings(&mark);
        }
    }

    /// Stops the samplers; what they still had is with [`Session::next`]. Safe to call twice.
    pub(crate) fn stop(&mut self) {
        if let Some(samplers) = self.samplers.take() {
            samplers.stop();
        }
    }

    /// Stops, and closes the run folder; where that is, if it was kept whole.
    pub(crate) fn end(
        mut self,
        state: State,
        error: Option<String>,
        last: impl FnOnce(&mut Kept),
    ) -> Option<PathBuf> {
        self.stop();
        self.gather(Duration::ZERO);
        let mut kept = self.kept.take()?;
        last(&mut kept);
        kept.close(state, error)
    }
}
