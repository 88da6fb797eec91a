//! Runs samplers, and writes their readings into the run folder and into the recent window.
//!
//! This module does not judge, and it changes nothing on the monitored systems.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use fathom_errors::Result;
use fathom_monitor::{Batch, Clock, Monitor};
use fathom_record::Reading;

use crate::{MonitorSpec, RecentWindow, RunRecorder};

/// A source of readings over time: samplers, or the replay of a recording.
pub trait Feed {
    /// Adds the readings that have arrived, and those that arrive within `wait`, to the window.
    fn gather(&mut self, wait: Duration);
    /// The readings so far.
    fn window(&self) -> &RecentWindow;
    /// Marks this moment in the series.
    fn mark(&mut self);
    /// Returns whether the source has ended.
    fn is_over(&self) -> bool;
}

/// A reading that marks a moment of the run's clock.
pub fn mark(now_ns: u64) -> Reading {
    Reading::new("watch.mark", "1", (now_ns, now_ns), 1.0)
}

/// Running samplers, and the window of their readings.
pub struct MonitorSession {
    monitor: Option<Monitor>,
    batches: Receiver<Batch>,
    clock: Clock,
    /// The last minutes, or everything.
    pub window: RecentWindow,
}

impl MonitorSession {
    /// Starts the samplers of a specification on the clock of a run.
    ///
    /// # Errors
    /// When the servers cannot be reached, or when a named directory or device does not exist. A sampler without a permission adds a note later.
    pub fn start(spec: &MonitorSpec, clock: Clock) -> Result<MonitorSession> {
        let (monitor, batches) = spec.start(clock)?;
        let window = RecentWindow::new(spec.hindsight, 0);
        Ok(MonitorSession { monitor: Some(monitor), batches, clock, window })
    }

    /// Records the next batch and adds it to the window. Returns `None` if no batch comes within `wait`.
    fn next(&mut self, recorder: &mut RunRecorder, wait: Duration) -> Option<Batch> {
        let batch = self.batches.recv_timeout(wait).ok()?;
        recorder.batch(&batch);
        self.window.add(&batch);
        Some(batch)
    }

    /// Records all batches that have come, without waiting.
    pub(crate) fn drain(&mut self, recorder: &mut RunRecorder) {
        while self.next(recorder, Duration::ZERO).is_some() {}
    }

    /// Stops the samplers and records their last batches.
    pub(crate) fn stop(&mut self, recorder: &mut RunRecorder) {
        if let Some(monitor) = self.monitor.take() {
            let _ = monitor.stop();
        }
        self.drain(recorder);
    }
}

/// Gets the readings of each batch.
type ReadingListener = Box<dyn Fn(&[Reading])>;

/// A monitoring session and its run folder, for the caller that follows it.
pub struct LiveFeed<'l> {
    session: &'l mut MonitorSession,
    recorder: &'l mut RunRecorder,
    listener: Option<ReadingListener>,
}

impl<'l> LiveFeed<'l> {
    pub(crate) fn new(session: &'l mut MonitorSession, recorder: &'l mut RunRecorder) -> LiveFeed<'l> {
        LiveFeed { session, recorder, listener: None }
    }

    /// The clock of the readings.
    pub fn clock(&self) -> Clock {
        self.session.clock
    }

    /// Also passes all later readings to a listener.
    pub fn listen(&mut self, listener: impl Fn(&[Reading]) + 'static) {
        self.listener = Some(Box::new(listener));
    }
}

impl Feed for LiveFeed<'_> {
    fn gather(&mut self, wait: Duration) {
        let until = Instant::now() + wait;
        while let Some(batch) =
            self.session.next(self.recorder, until.saturating_duration_since(Instant::now()))
        {
            if let Some(listener) = &self.listener {
                listener(&batch.readings);
            }
        }
        // Ended samplers must not turn this into a busy loop.
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        self.session.window.pass(self.session.clock.now_ns());
    }

    fn window(&self) -> &RecentWindow {
        &self.session.window
    }

    fn mark(&mut self) {
        let mark = [mark(self.session.clock.now_ns())];
        self.session.window.readings(&mark);
        self.recorder.readings(&mark);
    }

    fn is_over(&self) -> bool {
        false
    }
}
