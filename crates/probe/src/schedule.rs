//! The remaining steps of a plan, for progress displays.
//!
//! A ladder and a search end early once the answer is clear, so the number of their steps is an upper limit.

use fathom_units::Nanos;

use crate::shape::WindowPlan;

/// A step that begins.
#[derive(Clone, Debug)]
pub struct StepProgress {
    /// The step's window of time.
    pub window: WindowPlan,
    /// Its number, from 1 on.
    pub number: u32,
    /// The maximum number of steps in the plan, this one and those before it included.
    pub steps_max: u32,
    /// The time that this step and those after it take, if none is extended for a slow disk.
    pub left: Nanos,
}

/// A number of steps with the time that they take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepSum {
    count: u32,
    time: Nanos,
}

impl StepSum {
    /// All windows of a list.
    pub(crate) fn total(windows: &[WindowPlan]) -> StepSum {
        let time = windows.iter().map(|window| duration(window).get()).sum();
        StepSum { count: u32::try_from(windows.len()).unwrap_or(u32::MAX), time: Nanos(time) }
    }

    /// `count` times the same window.
    pub(crate) fn repeated(window: &WindowPlan, count: usize) -> StepSum {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        StepSum { count, time: Nanos(duration(window).get().saturating_mul(u64::from(count))) }
    }
}

/// The time that a window takes.
fn duration(window: &WindowPlan) -> Nanos {
    Nanos(window.length.get().saturating_add(window.warm_up.get()))
}

/// The steps of a session: the number that have begun, and the maximum that follow.
#[derive(Debug, Default)]
pub(crate) struct StepSchedule {
    begun: u32,
    /// The steps after the current one that belong to the same ladder or search.
    pub(crate) part: StepSum,
    /// The steps of the plan after that.
    pub(crate) rest: StepSum,
}

impl StepSchedule {
    /// Counts a step that begins.
    pub(crate) fn begin(&mut self, window: &WindowPlan) -> StepProgress {
        self.begun += 1;
        let after = [self.part, self.rest];
        let time = after.iter().map(|sum| sum.time.get()).fold(duration(window).get(), u64::saturating_add);
        StepProgress {
            window: window.clone(),
            number: self.begun,
            steps_max: after.iter().map(|sum| sum.count).fold(self.begun, u32::saturating_add),
            left: Nanos(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(length: Nanos) -> WindowPlan {
        WindowPlan { phase: String::new(), jobs: Vec::new(), length, warm_up: Nanos::secs(1) }
    }

    #[test]
    fn what_follows_is_counted_with_its_time() {
        let windows = [window(Nanos::secs(4)), window(Nanos::secs(9))];
        let mut schedule = StepSchedule { rest: StepSum::total(&windows), ..StepSchedule::default() };
        schedule.part = StepSum::repeated(&window(Nanos::secs(2)), 3);
        let first = window(Nanos::secs(2));
        let step = schedule.begin(&first);
        assert_eq!((step.number, step.steps_max, step.left), (1, 6, Nanos::secs(3 + 9 + 15)));
        // The ladder ended after its first rung.
        schedule.part = StepSum::default();
        schedule.rest = StepSum::total(&windows[1..]);
        let step = schedule.begin(&windows[0]);
        assert_eq!((step.number, step.steps_max, step.left), (2, 3, Nanos::secs(15)));
    }
}
