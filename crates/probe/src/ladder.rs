//! The ladder: 1, 2, 4 … requests in flight, then bisection to the knee.

use fathom_errors::Result;
use fathom_record::disk::{Entry, Knee, Step};
use fathom_stats::{LadderLevel, pick_bisection};
use fathom_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::judge;
use crate::session::{Outcome, Session};
use crate::shape::{Job, WindowPlan};

/// A doubling that gains less than this has reached the plateau.
const GAIN: f64 = 1.05;
/// Doublings on the plateau after which a ladder that need not be complete stops.
const FLAT_DOUBLINGS: usize = 3;
/// The most steps spent on bisection.
const BISECTIONS: usize = 4;
/// The longest warm-up: a slow disk needs one whole latency before its mean means anything.
const WARM_UP_MAX: Nanos = Nanos::secs(15);

/// What to climb.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LadderPlan {
    /// The phase's name.
    pub phase: String,
    /// The job, whose depth is replaced.
    pub job: Job,
    /// The first rung; a knee needs it to be 1.
    pub depth_min: u32,
    /// The last rung.
    pub depth_max: u32,
    /// How long each rung is measured.
    pub step: Nanos,
    /// Climb to the top even when throughput stopped growing.
    pub complete: bool,
    /// How many times the depth grows from rung to rung: 2, or 4 in a hurry.
    pub factor: u32,
}

impl LadderPlan {
    /// The rung after `depth`; none at the top, and after enough doublings on the plateau unless the ladder is to be complete.
    fn next_depth(&self, depth: u32, depth_max: u32, flat: usize) -> Option<u32> {
        (depth < depth_max && (self.complete || flat < FLAT_DOUBLINGS))
            .then(|| depth.saturating_mul(self.factor).min(depth_max))
    }
}

/// What a ladder brought.
#[derive(Debug, Default)]
pub struct Climb {
    /// The rungs, in the order they ran.
    pub steps: Vec<Step>,
    /// The verdict, where there were rungs enough.
    pub knee: Option<Knee>,
    /// The first operation that failed.
    pub error: Option<fathom_errors::Error>,
}

impl Session<'_> {
    /// Climbs, bisects, and tells the knee.
    pub fn climb(&mut self, plan: &LadderPlan) -> Result<Climb> {
        let mut climb = Climb::default();
        let mut depth = plan.depth_min.max(1);
        let mut flat = 0;
        // A ladder that was not asked for rung by rung ends where the file has no block more.
        let depth_max = if plan.complete {
            plan.depth_max
        } else {
            plan.depth_max.min(self.depth_max(&plan.job)).max(depth)
        };
        while depth <= depth_max {
            let before = climb.steps.last().map_or(0.0, Step::per_s);
            if !self.rung(plan, depth, &mut climb)? {
                return Ok(climb);
            }
            let after = climb.steps.last().map_or(0.0, Step::per_s);
            flat = if before > 0.0 && after < before * GAIN { flat + 1 } else { 0 };
            let Some(next) = plan.next_depth(depth, depth_max, flat) else { break };
            depth = next;
        }
        for _ in 0..BISECTIONS {
            let Some(depth) = pick_bisection(&levels(&climb.steps)) else { break };
            if !self.rung(plan, depth, &mut climb)? {
                break;
            }
        }
        climb.knee = judge::knee(&plan.phase, &climb.steps);
        if let Some(knee) = &climb.knee {
            self.sink.result(&Entry::Knee(knee.clone()))?;
        }
        Ok(climb)
    }

    /// One rung; false when the climb is to end here.
    fn rung(&mut self, plan: &LadderPlan, depth: u32, climb: &mut Climb) -> Result<bool> {
        let mut window = WindowPlan::new(&plan.phase, vec![Job { depth, ..plan.job.clone() }], plan.step);
        if let Some(last) = climb.steps.last().map(Step::per_s).filter(|per_s| *per_s > 0.0) {
            let latency_ns = (f64::from(depth) / last * 1.2e9) as u64;
            window.warm_up = window.warm_up.max(Nanos(latency_ns).min(WARM_UP_MAX));
        }
        let Outcome { step, error, interrupted, .. } = self.measure_step(&window)?;
        if !step.streams.iter().all(|stream| stream.operations.is_empty()) {
            climb.steps.push(step);
        }
        climb.error = error;
        Ok(climb.error.is_none() && !interrupted)
    }

    /// Runs a window and tells its step as a result, if anything ended in it.
    pub fn measure_step(&mut self, window: &WindowPlan) -> Result<Outcome> {
        let outcome = self.run(window)?;
        if outcome.step.streams.iter().any(|stream| !stream.operations.is_empty()) {
            self.sink.result(&Entry::Step(outcome.step.clone()))?;
        }
        Ok(outcome)
    }
}

/// The steps of a ladder as the models want them.
pub(crate) fn levels(steps: &[Step]) -> Vec<LadderLevel> {
    let level = |step: &Step| {
        Some(LadderLevel {
            concurrency: step.streams.first()?.depth,
            throughput_per_s: step.per_s(),
            mean_latency_ns: step.mean_latency_ns()?,
        })
    };
    steps.iter().filter_map(level).collect()
}

#[cfg(test)]
mod tests {
    use fathom_units::Bytes;

    use super::*;
    use crate::shape::{Engine, Pattern};

    #[test]
    fn a_ladder_ends_at_the_top_or_after_three_doublings_on_the_plateau() {
        let plan = |complete| LadderPlan {
            phase: "randread".to_owned(),
            job: Job::new(Pattern::RandRead, Bytes::kib(4), Engine::Psync, 1),
            depth_min: 1,
            depth_max: 100,
            step: Nanos::secs(1),
            complete,
            factor: 2,
        };
        assert_eq!(plan(false).next_depth(8, 100, 2), Some(16));
        assert_eq!(plan(false).next_depth(8, 100, 3), None);
        assert_eq!(plan(true).next_depth(8, 100, 3), Some(16));
        for complete in [false, true] {
            assert_eq!(plan(complete).next_depth(64, 100, 0), Some(100), "the last rung is the top");
            assert_eq!(plan(complete).next_depth(100, 100, 0), None);
        }
    }
}
