//! The events of a session, for a caller that shows progress and results. Measuring and recording do not depend on them.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use fathom_errors::Result;
use fathom_load::client_settings::ClientSettings;
use fathom_load::core_workload::Phase;
use fathom_load::driving::{LoadResult, SecondMeasurements};
use fathom_load::find_max::{SearchStep, StepVerdict};
use fathom_probe::{StepOutcome, StepProgress};
use fathom_process::Signals;
use fathom_record::disk::Entry;

use crate::{Assessment, Feed, LiveFeed};

/// The time that a session waits for samplers between two checks of the signals and the time.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// One part of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadPart<'p> {
    /// The deployment, or the name of the lab server.
    pub server: &'p str,
    /// The name of the part.
    pub name: &'p str,
    /// Its phase: loading records or running operations.
    pub phase: Phase,
    /// The settings of the client.
    pub settings: &'p ClientSettings,
}

/// A caller that follows a session. Every method has a default that does nothing.
pub trait Events {
    /// The test file is being laid out.
    fn layout_progress(&mut self, _done_bytes: u64, _total_bytes: u64) {}

    /// A result was recorded.
    ///
    /// # Errors
    /// When it cannot be shown; the session ends then.
    fn result(&mut self, _entry: &Entry) -> Result<()> {
        Ok(())
    }

    /// A deployment that was monitored without a load was judged.
    ///
    /// # Errors
    /// When it cannot be shown; the session ends then.
    fn assessed(&mut self, _assessment: &Assessment) -> Result<()> {
        Ok(())
    }

    /// A step of a probe begins.
    fn probe_step_begins(&mut self, _step: &StepProgress) {}

    /// About a second of a step of a probe is over.
    fn probe_interval(&mut self) {}

    /// A step of a probe has ended.
    fn probe_step(&mut self, _outcome: &StepOutcome) {}

    /// A part of a load begins, or a step of a search.
    ///
    /// # Errors
    /// When it cannot be shown; the load is not driven then.
    fn part_begins(&mut self, _part: LoadPart<'_>) -> Result<()> {
        Ok(())
    }

    /// A second of a load is over.
    fn second(&mut self, _interval: &SecondMeasurements<'_>) {}

    /// A part of a load has ended, `wall` after its warm-up. `Break` leaves out the parts that follow.
    fn part_ends(&mut self, _part: LoadPart<'_>, _ended: &LoadResult, _wall: Duration) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// The closed loop that a search begins with has ended, at a rate.
    ///
    /// # Errors
    /// When it cannot be shown; the search ends then.
    fn search_begins(&mut self, _connections: usize, _closed_per_s: f64) -> Result<()> {
        Ok(())
    }

    /// A step of a search has ended.
    ///
    /// # Errors
    /// When it cannot be shown; the search ends then.
    fn search_step(&mut self, _step: &SearchStep, _verdict: StepVerdict) -> Result<()> {
        Ok(())
    }

    /// Follows the running samplers until the time is over or a signal comes.
    ///
    /// # Errors When their readings cannot be shown.
    fn follow(&mut self, feed: &mut LiveFeed<'_>, until: Option<Instant>, signals: &Signals) -> Result<()> {
        while let Some(wait) = pause(until, signals) {
            feed.gather(wait);
        }
        Ok(())
    }
}

/// The time to wait for samplers before the next check, or `None` after `until` or a signal.
pub fn pause(until: Option<Instant>, signals: &Signals) -> Option<Duration> {
    let left = until.map_or(CHECK_INTERVAL, |until| until.saturating_duration_since(Instant::now()));
    (!signals.stopped() && !left.is_zero()).then(|| left.min(CHECK_INTERVAL))
}

/// A caller that shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl Events for NoEvents {}
