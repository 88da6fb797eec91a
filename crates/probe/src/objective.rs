//! Implements `--slo p99<5ms`: finds the highest rate that holds a latency objective, by open loop and bisection.
//!
//! Response time counts from the intended start, so a rate that the disk cannot sustain shows at once as a growing lag. A rate
//! holds if the quantile is under the limit and at least 99 % of the offered requests were completed (A5).

use fathom_errors::{Error, Result};
use fathom_record::disk::{Entry, Objective};
use fathom_stats::{Histogram, Slo};
use fathom_units::{Nanos, count};

use crate::schedule::StepSum;
use crate::session::{ProbeSession, StepOutcome};
use crate::shape::{Job, WindowPlan};
use crate::tracks::Track;

/// The share of the offered rate that must be completed.
const MIN_ACHIEVED_SHARE: f64 = 0.99;
/// Bisection ends when the bracket is this narrow.
const MAX_BRACKET_RATIO: f64 = 1.03;
/// The most rates tried.
const MAX_RATES_TRIED: usize = 12;

/// One tried rate: offered, achieved, the quantile, whether it held.
type RateAttempt = (f64, f64, Option<u64>, bool);

impl ProbeSession<'_> {
    /// Finds the highest rate of `job` that holds `slo`, in windows of `step`. A closed loop comes first: its rate is the highest
    /// rate tried. Returns the first operation that failed.
    ///
    /// # Errors
    /// When a window could not begin, or the sink returned an error.
    pub fn objective(&mut self, job: &Job, slo: &Slo, step: Nanos) -> Result<Option<Error>> {
        let window = WindowPlan::new("closed loop", vec![job.clone()], step);
        self.schedule.part = StepSum::repeated(&window, MAX_RATES_TRIED);
        let closed = self.measure_step(&window)?;
        if closed.error.is_some() || self.interrupted() {
            return Ok(closed.error);
        }
        self.hold(job, slo, closed.step.per_s(), step)
    }

    /// Finds the highest rate, never above `rate_max_per_s`.
    fn hold(&mut self, job: &Job, slo: &Slo, rate_max_per_s: f64, step: Nanos) -> Result<Option<Error>> {
        let mut tried: Vec<RateAttempt> = Vec::new();
        let (mut low, mut high) = (0.0_f64, rate_max_per_s.max(1.0));
        let mut rate = high * 0.9;
        let mut failure = None;
        while tried.len() < MAX_RATES_TRIED && failure.is_none() && !self.interrupted() {
            let window = WindowPlan::new("objective", vec![job.clone().rate(rate.max(0.01))], step);
            self.schedule.part = StepSum::repeated(&window, MAX_RATES_TRIED - tried.len() - 1);
            let outcome = self.measure_step(&window)?;
            let attempt = judge_try(slo, rate, &outcome);
            tried.push(attempt);
            failure = outcome.error;
            if attempt.3 {
                low = rate
            } else {
                high = rate
            }
            if low > 0.0 && high / low < MAX_BRACKET_RATIO {
                break;
            }
            rate = if low > 0.0 { (low * high).sqrt() } else { rate / 3.0 };
            if rate < 0.01 {
                break;
            }
        }
        let objective = Objective {
            objective: slo.text().to_owned(),
            rate_per_s: (low > 0.0).then_some(low),
            words: words(slo, low, &tried),
            tried,
        };
        self.sink.result(&Entry::Objective(objective))?;
        Ok(failure)
    }
}

fn judge_try(slo: &Slo, offered: f64, outcome: &StepOutcome) -> RateAttempt {
    let mut response = Histogram::new();
    for tracks in &outcome.tracks {
        response.merge(tracks.get(Track::ReadResponse));
        response.merge(tracks.get(Track::WriteResponse));
    }
    let elapsed = (outcome.step.end_ns - outcome.step.begin_ns).max(1) as f64 / 1e9;
    let achieved = response.len() as f64 / elapsed;
    // Poisson counts vary by their square root: a slow rate must not fail because of late arrivals by chance.
    let slack = 3.0 * (offered * elapsed).sqrt() / elapsed;
    let kept_up = achieved >= offered * MIN_ACHIEVED_SHARE - slack;
    let quantile = slo.quantile_ns(&response);
    let held = kept_up && quantile.is_some_and(|ns| slo.holds(ns)) && outcome.error.is_none();
    (offered, achieved, quantile, held)
}

fn words(slo: &Slo, low: f64, tried: &[RateAttempt]) -> String {
    if low > 0.0 {
        let at = tried.iter().find(|attempt| attempt.0 == low).and_then(|attempt| attempt.2);
        let measured = at.map_or_else(String::new, |ns| format!(" (measured {})", Nanos(ns)));
        return format!("{} holds up to {} requests per second{measured}.", slo.text(), count(low));
    }
    match tried.last() {
        Some((rate, _, Some(ns), _)) => {
            format!(
                "{} is not met even at {} requests per second: it is {} there.",
                slo.text(),
                fathom_units::decimal(*rate),
                Nanos(*ns)
            )
        }
        _ => format!("{} could not be judged: no request ended.", slo.text()),
    }
}
