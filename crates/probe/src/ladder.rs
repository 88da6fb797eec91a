//! The ladder: measures 1, 2, 4 … requests in flight, then bisects to the knee.

use fathom_errors::Result;
use fathom_record::disk::{Entry, Knee, Step};
use fathom_stats::{LadderLevel, pick_bisection};
use fathom_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::judge;
use crate::schedule::StepSum;
use crate::session::{ProbeSession, StepOutcome};
use crate::shape::{Job, WindowPlan};

/// A doubling that gains less than this has reached the plateau.
const MIN_DOUBLING_GAIN: f64 = 1.05;
/// The number of doublings on the plateau after which an incomplete ladder stops.
const MAX_FLAT_DOUBLINGS: usize = 3;
/// The most steps spent on bisection.
const MAX_BISECTIONS: usize = 4;
/// The longest warm-up: on a slow disk the mean needs at least one whole latency.
const MAX_WARM_UP: Nanos = Nanos::secs(15);

/// The depths to climb, and the bounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LadderPlan {
    pub phase: String,
    /// The job, whose depth is replaced.
    pub job: Job,
    /// The first rung; a knee needs it to be 1.
    pub depth_min: u32,
    /// The depth of the last rung.
    pub depth_max: u32,
    /// The duration of each rung.
    pub step: Nanos,
    /// Climb to the top even when throughput stopped growing.
    pub complete: bool,
    /// The factor from one depth to the next: 2, or 4 if time is short.
    pub factor: u32,
    /// End at the first rung without gain, without bisection, for callers that need only this point.
    pub is_brief: bool,
}

impl LadderPlan {
    /// The rungs above `depth`, if the ladder does not stop early.
    fn rungs_above(&self, depth: u32, depth_max: u32) -> usize {
        let up = |depth: &u32| self.next_depth(*depth, depth_max, 0);
        std::iter::successors(up(&depth), up).count()
    }

    /// The rung after `depth`; `None` at the top, and after enough doublings on the plateau unless the ladder is to be complete.
    fn next_depth(&self, depth: u32, depth_max: u32, flat: usize) -> Option<u32> {
        let flat_max = if self.is_brief { 1 } else { MAX_FLAT_DOUBLINGS };
        (depth < depth_max && (self.complete || flat < flat_max))
            .then(|| depth.saturating_mul(self.factor).min(depth_max))
    }

    /// The greatest number of bisections.
    fn bisections(&self) -> usize {
        if self.is_brief { 0 } else { MAX_BISECTIONS }
    }
}

/// The result of a ladder.
#[derive(Debug, Default)]
pub struct Climb {
    /// The rungs, in the order they ran.
    pub steps: Vec<Step>,
    /// The verdict, if there were enough rungs.
    pub knee: Option<Knee>,
    /// The first operation that failed.
    pub error: Option<fathom_errors::Error>,
}

impl ProbeSession<'_> {
    /// Climbs the ladder, bisects, and reports the knee.
    pub fn climb(&mut self, plan: &LadderPlan) -> Result<Climb> {
        let mut climb = Climb::default();
        let mut depth = plan.depth_min.max(1);
        let mut flat = 0;
        // A ladder that need not be complete ends at the depth for which the file has no further block.
        let depth_max = if plan.complete {
            plan.depth_max
        } else {
            plan.depth_max.min(self.depth_max(&plan.job)).max(depth)
        };
        while depth <= depth_max {
            let before = climb.steps.last().map_or(0.0, Step::per_s);
            let after = plan.rungs_above(depth, depth_max) + plan.bisections();
            if !self.rung(plan, depth, after, &mut climb)? {
                return Ok(climb);
            }
            let after = climb.steps.last().map_or(0.0, Step::per_s);
            flat = if before > 0.0 && after < before * MIN_DOUBLING_GAIN { flat + 1 } else { 0 };
            let Some(next) = plan.next_depth(depth, depth_max, flat) else { break };
            depth = next;
        }
        for after in (0..plan.bisections()).rev() {
            let Some(depth) = pick_bisection(&levels(&climb.steps)) else { break };
            if !self.rung(plan, depth, after, &mut climb)? {
                break;
            }
        }
        self.schedule.part = StepSum::default();
        climb.knee = judge::knee(&plan.phase, &climb.steps);
        if let Some(knee) = &climb.knee {
            self.sink.result(&Entry::Knee(knee.clone()))?;
        }
        Ok(climb)
    }

    /// Runs one rung, with at most `after` rungs behind it; returns false if the climb ends here.
    fn rung(&mut self, plan: &LadderPlan, depth: u32, after: usize, climb: &mut Climb) -> Result<bool> {
        let mut window = WindowPlan::new(&plan.phase, vec![Job { depth, ..plan.job.clone() }], plan.step);
        if let Some(last) = climb.steps.last().map(Step::per_s).filter(|per_s| *per_s > 0.0) {
            let latency_ns = (f64::from(depth) / last * 1.2e9) as u64;
            window.warm_up = window.warm_up.max(Nanos(latency_ns).min(MAX_WARM_UP));
        }
        self.schedule.part = StepSum::repeated(&window, after);
        let StepOutcome { step, error, interrupted, .. } = self.measure_step(&window)?;
        if !step.streams.iter().all(|stream| stream.operations.is_empty()) {
            climb.steps.push(step);
        }
        climb.error = error;
        Ok(climb.error.is_none() && !interrupted)
    }

    /// Runs a window and reports its step as a result, if any request ended in it.
    pub fn measure_step(&mut self, window: &WindowPlan) -> Result<StepOutcome> {
        self.measure_step_until(window, &mut |_| false)
    }

    /// As `measure_step`, but ends early if `is_over` says so. It is called after each interval, with the rates of all intervals so far.
    pub(crate) fn measure_step_until(
        &mut self,
        window: &WindowPlan,
        is_over: &mut dyn FnMut(&[f64]) -> bool,
    ) -> Result<StepOutcome> {
        let step = self.schedule.begin(window);
        self.sink.step_begins(&step)?;
        let outcome = self.run_until(window, is_over)?;
        if outcome.step.streams.iter().any(|stream| !stream.operations.is_empty()) {
            self.sink.result(&Entry::Step(outcome.step.clone()))?;
        }
        Ok(outcome)
    }
}

/// The steps of a ladder in the form that the models take.
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
    use crate::shape::{IoEngine, Pattern};

    #[test]
    fn a_ladder_ends_at_the_top_or_after_three_doublings_on_the_plateau() {
        let plan = |complete| LadderPlan {
            phase: "randread".to_owned(),
            job: Job::new(Pattern::RandRead, Bytes::kib(4), IoEngine::Psync, 1),
            depth_min: 1,
            depth_max: 100,
            step: Nanos::secs(1),
            complete,
            factor: 2,
            is_brief: false,
        };
        let brief = LadderPlan { is_brief: true, ..plan(false) };
        assert_eq!((brief.next_depth(8, 100, 0), brief.next_depth(8, 100, 1)), (Some(16), None));
        assert_eq!(plan(false).next_depth(8, 100, 2), Some(16));
        assert_eq!(plan(false).next_depth(8, 100, 3), None);
        assert_eq!(plan(true).next_depth(8, 100, 3), Some(16));
        for complete in [false, true] {
            assert_eq!(plan(complete).next_depth(64, 100, 0), Some(100), "the last rung is the top");
            assert_eq!(plan(complete).next_depth(100, 100, 0), None);
        }
        assert_eq!(plan(false).rungs_above(1, 100), 7, "2, 4, 8, 16, 32, 64, 100");
        assert_eq!(plan(false).rungs_above(100, 100), 0);
    }
}
