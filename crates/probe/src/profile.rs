//! Implements `--profile mongodb`: measures the I/O shapes of a mongod, one after another, then together.
//!
//! Depths follow mongod: reads up to its 128 tickets describe the server, beyond them the device
//! (docs/methods.md#the-knee-of-a-disk); one journal stream, since mongod has one log; checkpoints as bursts of 32 KiB pages with
//! an fsync. The first shape is measured again at the end, which shows a disk that slows down during the measurement.

use fathom_errors::{Error, Result};
use fathom_record::disk::{Knee, Step};
use fathom_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::ladder::LadderPlan;
use crate::schedule::StepSum;
use crate::session::ProbeSession;
use crate::shape::{IoEngine, Job, Pattern, WindowPlan, WriteSync};

/// The phase that repeats the reference shape at the end.
pub(crate) const REFERENCE_AGAIN: &str = "reference again";
/// The depth of the reference shape.
const REFERENCE_DEPTH: u32 = 16;

/// The pace of a profile, which bounds its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pace {
    /// About a minute and a half, plus the layout pass.
    Full,
    /// Within some ten seconds: fewer rungs, shorter windows.
    Quick,
}

impl Pace {
    fn rung(self) -> Nanos {
        match self {
            Pace::Full => Nanos::millis(2_500),
            Pace::Quick => Nanos::millis(500),
        }
    }

    fn shape(self) -> Nanos {
        match self {
            Pace::Full => Nanos::secs(4),
            Pace::Quick => Nanos::millis(700),
        }
    }

    /// Bytes of a checkpoint's burst: a quick profile has no time for a large one on a slow disk.
    fn burst(self) -> Bytes {
        match self {
            Pace::Full => Bytes::mib(32),
            Pace::Quick => Bytes::mib(4),
        }
    }

    /// The longest window for a slow disk.
    fn patience(self) -> Nanos {
        match self {
            Pace::Full => Nanos::secs(15),
            Pace::Quick => Nanos::millis(1_600),
        }
    }
}

/// The result of a profile, in addition to the entries sent to the sink.
#[derive(Debug, Default)]
pub struct Profile {
    /// Every step in order.
    pub steps: Vec<Step>,
    /// The knee of random reads.
    pub knee: Option<Knee>,
    /// The first operation that failed.
    pub error: Option<Error>,
    /// Whether a signal cut it short.
    pub interrupted: bool,
}

impl ProbeSession<'_> {
    /// Runs the whole profile.
    pub fn profile(&mut self, pace: Pace, engine: IoEngine) -> Result<Profile> {
        let mut profile = Profile::default();
        let small = Job::new(Pattern::RandRead, Bytes::kib(4), engine, 1);
        let factor = if pace == Pace::Quick { 4 } else { 2 };
        let ladder = LadderPlan {
            phase: "random reads".into(),
            job: small,
            depth_min: 1,
            depth_max: 1024,
            step: pace.rung(),
            complete: false,
            factor,
            is_brief: false,
        };
        let windows = shapes(pace, engine);
        self.schedule.rest = StepSum::total(&windows);
        let climb = self.climb(&ladder)?;
        profile.steps = climb.steps;
        profile.knee = climb.knee;
        profile.error = climb.error;
        for (place, window) in windows.iter().enumerate() {
            if profile.error.is_some() || self.interrupted() {
                break;
            }
            self.schedule.rest = StepSum::total(windows.get(place + 1..).unwrap_or_default());
            let window = self.patient(pace, window.clone(), &profile.steps);
            let outcome = self.measure_step(&window)?;
            profile.error = outcome.error;
            if outcome.step.per_s() > 0.0 {
                profile.steps.push(outcome.step);
            }
        }
        profile.interrupted = self.interrupted();
        Ok(profile)
    }

    /// A slow disk needs a longer window: long enough for about 20 operations or one burst, within the limit of time.
    fn patient(&self, pace: Pace, mut window: WindowPlan, steps: &[Step]) -> WindowPlan {
        let Some(one) = steps.iter().find(|step| step.streams.first().is_some_and(|s| s.depth == 1)) else {
            return window;
        };
        let mean_ns = one.mean_latency_ns().unwrap_or(0.0);
        let burst = window.jobs.iter().find(|job| job.pattern == Pattern::Checkpoint);
        let operations = burst.map_or(20.0, |job| job.burst_requests() as f64 * 1.1);
        window.length = window.length.max(Nanos((mean_ns * operations) as u64).min(pace.patience()));
        window
    }
}

/// Every shape after the ladder.
fn shapes(pace: Pace, engine: IoEngine) -> Vec<WindowPlan> {
    let (page, small) = (Bytes::kib(32), Bytes::kib(4));
    let job = |pattern, block, depth| Job::new(pattern, block, engine, depth);
    // One thread after another writes mongod's log: psync does the same.
    let journal = Job::new(Pattern::Append, small, IoEngine::Psync, 1).durable(WriteSync::Fdatasync);
    let checkpoint = Job { burst: pace.burst(), ..job(Pattern::Checkpoint, page, 4) };
    let together = vec![
        job(Pattern::RandRead, page, 16),
        journal.clone(),
        Job { burst_rest: Nanos::secs(1), ..checkpoint.clone() },
    ];
    let mut plans = vec![
        ("page reads", vec![job(Pattern::RandRead, page, 1)]),
        ("page reads", vec![job(Pattern::RandRead, page, 32)]),
        ("page reads", vec![job(Pattern::RandRead, page, 128)]),
        ("random writes", vec![job(Pattern::RandWrite, small, 1)]),
        ("random writes", vec![job(Pattern::RandWrite, small, 32)]),
        ("mixed", vec![job(Pattern::RandRw, page, 32)]),
        ("journal", vec![journal]),
        ("checkpoint", vec![checkpoint]),
        ("all together", together),
        (REFERENCE_AGAIN, vec![job(Pattern::RandRead, small, REFERENCE_DEPTH)]),
    ];
    if pace == Pace::Quick {
        plans.retain(|(phase, jobs)| !jobs.iter().any(|job| *phase == "page reads" && job.depth == 128));
    }
    let long = |phase: &str| matches!(phase, "checkpoint" | "all together" | "journal");
    let length = |phase: &str| if long(phase) { Nanos(pace.shape().get() * 2) } else { pace.shape() };
    plans.into_iter().map(|(phase, jobs)| WindowPlan::new(phase, jobs, length(phase))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time that windows and warm-ups take; a ladder has at most this many rungs and bisections.
    fn planned(pace: Pace, rungs: u64) -> Nanos {
        let window = |plan: &WindowPlan| plan.length.get() + plan.warm_up.get();
        let rung = WindowPlan::new("", Vec::new(), pace.rung());
        Nanos(shapes(pace, IoEngine::Psync).iter().map(window).sum::<u64>() + rungs * window(&rung))
    }

    #[test]
    fn the_pace_is_kept() {
        // With 4 s for the layout pass a quick look stays within 20 s, with 30 s a full one at about two minutes.
        assert!(planned(Pace::Quick, 6 + 4) < Nanos::secs(16), "{}", planned(Pace::Quick, 10));
        assert!(planned(Pace::Full, 11 + 4) < Nanos::secs(110), "{}", planned(Pace::Full, 15));
    }
}
