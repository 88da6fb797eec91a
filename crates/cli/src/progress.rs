//! Progress on a terminal: the bar that all verbs draw, its words, and the plan of a verb that does several things in turn.
//!
//! It is drawn on standard error if that is a terminal, and hidden otherwise, so that it never appears in logs.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use fathom_probe::StepProgress;
use fathom_process::Signals;
use fathom_session::{Feed, LiveFeed, pause};
use indicatif::{ProgressBar, ProgressStyle};

/// The bar of a file that is laid out.
const LAYOUT: &str = "laying out {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}";

/// A bar in indicatif's template language. Without a length it is for templates that show none.
pub(crate) fn progress_bar(template: &str, length: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    length.map_or_else(ProgressBar::no_length, ProgressBar::new).with_style(style)
}

/// The bar for writing a test file of this many bytes.
pub(crate) fn layout_bar(total_bytes: u64) -> ProgressBar {
    progress_bar(LAYOUT, Some(total_bytes))
}

/// A part of what a verb does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanPart {
    /// The key with which the verb reports that the part begins.
    pub(crate) key: String,
    /// The name of the part.
    pub(crate) name: String,
    /// Its duration, as far as that is known in advance.
    pub(crate) time: Duration,
}

/// The parts of a plan in their order, and the progress through them.
#[derive(Debug, Default)]
struct PlanProgress {
    parts: Vec<PlanPart>,
    /// The index of the part that runs.
    at: usize,
    detail: String,
    /// The time left of the part, if it reports one.
    left: Option<Duration>,
}

impl PlanProgress {
    /// Advances to the part with this key, which is the current one or a later one. Returns whether there is one.
    fn begin(&mut self, key: &str) -> bool {
        let found = self.parts.iter().skip(self.at).position(|part| part.key == key);
        found.is_some_and(|steps| {
            self.at += steps;
            steps > 0
        })
    }

    /// The time of all parts, and the remaining time when the current part has run for `elapsed`.
    fn times(&self, elapsed: Duration) -> (Duration, Duration) {
        let all: Duration = self.parts.iter().map(|part| part.time).sum();
        let part = self.parts.get(self.at).map_or(Duration::ZERO, |part| part.time);
        let later: Duration = self.parts.iter().skip(self.at + 1).map(|part| part.time).sum();
        (all, self.left.unwrap_or(part).saturating_sub(elapsed) + later)
    }

    /// `reads past memory: 800 a second, then journaled writes, 31 s left`.
    fn words(&self, elapsed: Duration) -> String {
        let name = self.parts.get(self.at).map_or("", |part| &part.name);
        let detail = if self.detail.is_empty() { String::new() } else { format!(": {}", self.detail) };
        let next =
            self.parts.get(self.at + 1).map_or_else(String::new, |part| format!(", then {}", part.name));
        format!("{name}{detail}{next}, {} left", time_words(self.times(elapsed).1))
    }
}

/// The bar of a plan: the current part, the next one, and the remaining time.
pub(crate) struct PlanBar {
    plan: PlanProgress,
    bar: ProgressBar,
    /// The start of the part, or of the remaining time that it last reported.
    begun: Instant,
}

impl PlanBar {
    /// The bar, which begins with the first part; without parts it stays hidden.
    pub(crate) fn new(parts: Vec<PlanPart>) -> PlanBar {
        let plan = PlanProgress { parts, ..PlanProgress::default() };
        let seconds = plan.times(Duration::ZERO).0.as_secs();
        let bar = if plan.parts.is_empty() {
            ProgressBar::hidden()
        } else {
            progress_bar("{bar:20} {wide_msg}", Some(seconds))
        };
        PlanBar { plan, bar, begun: Instant::now() }
    }

    /// Shows that the part with this key runs, and its current work.
    pub(crate) fn begin(&mut self, key: &str, detail: String) {
        self.show(key, detail, None);
    }

    /// The same for a part that knows its remaining time.
    pub(crate) fn begin_with_time(&mut self, key: &str, detail: String, left: Duration) {
        self.show(key, detail, Some(left));
    }

    fn show(&mut self, key: &str, detail: String, left: Option<Duration>) {
        if self.plan.begin(key) || left.is_some() {
            self.begun = Instant::now();
        }
        (self.plan.detail, self.plan.left) = (detail, left);
        self.tick();
    }

    /// Redraws the bar; called as time passes.
    pub(crate) fn tick(&self) {
        if self.bar.is_hidden() {
            return;
        }
        let elapsed = self.begun.elapsed();
        let (all, left) = self.plan.times(elapsed);
        self.bar.set_position(all.saturating_sub(left).as_secs());
        self.bar.set_message(self.plan.words(elapsed));
    }

    /// Hides the bar while `print` prints.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Follows samplers until the time is over or a signal comes.
    pub(crate) fn follow(&mut self, feed: &mut LiveFeed<'_>, until: Option<Instant>, signals: &Signals) {
        while let Some(wait) = pause(until, signals) {
            feed.gather(wait);
            self.tick();
        }
    }
}

impl Drop for PlanBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// `step 7 of 21: random reads at depth 64, 2 min left`; `elapsed` counts since the step began.
pub(crate) fn step_words(step: &StepProgress, elapsed: Duration) -> String {
    let depth = match step.window.jobs.as_slice() {
        [job] => format!(" at depth {}", job.depth),
        _ => String::new(),
    };
    let left = time_words(Duration::from(step.left).saturating_sub(elapsed));
    let (number, steps_max, phase) = (step.number, step.steps_max, &step.window.phase);
    format!("step {number} of {steps_max}: {phase}{depth}, {left} left")
}

/// A time as people say it: `59 s`, `2 min`, `2.5 h`.
pub(crate) fn time_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..5400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use fathom_probe::{IoEngine, Job, Pattern, WindowPlan};
    use fathom_units::{Bytes, Nanos};

    use super::*;

    #[test]
    fn times_read_as_people_say_them() {
        assert_eq!(time_words(Duration::from_secs(59)), "59 s");
        assert_eq!(time_words(Duration::from_secs(61)), "2 min");
        assert_eq!(time_words(Duration::from_secs(9000)), "2.5 h");
    }

    #[test]
    fn a_step_says_where_it_is_and_how_long_the_rest_takes() {
        let job = |depth| Job::new(Pattern::RandRead, Bytes::kib(4), IoEngine::Psync, depth);
        let window = WindowPlan::new("random reads", vec![job(64)], Nanos::secs(4));
        let step = StepProgress { window, number: 7, steps_max: 21, left: Nanos::secs(100) };
        assert_eq!(
            step_words(&step, Duration::from_secs(10)),
            "step 7 of 21: random reads at depth 64, 2 min left"
        );
        let window = WindowPlan::new("all together", vec![job(1), job(2)], Nanos::secs(4));
        let step = StepProgress { window, number: 8, steps_max: 8, left: Nanos::secs(4) };
        assert_eq!(step_words(&step, Duration::from_secs(9)), "step 8 of 8: all together, 0 s left");
    }
}
