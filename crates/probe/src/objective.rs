//! `--slo p99<5ms`: the highest rate that holds a latency objective, by open loop and bisection.
//!
//! Response time counts from the intended start, so a rate the disk cannot keep shows at once as a growing lag.
//! A rate holds when the quantile is under the limit and at least 99 % of what was offered was done (A5).

use fathom_errors::{Error, Result};
use fathom_record::disk::{Entry, Objective};
use fathom_stats::{Histogram, Slo};
use fathom_units::{Nanos, count};

use crate::session::{Outcome, Session};
use crate::shape::{Job, WindowPlan};
use crate::tracks::Track;

/// Share of the offered rate that must be done.
const ACHIEVED: f64 = 0.99;
/// Bisection ends when the bracket is this narrow.
const BRACKET: f64 = 1.03;
/// The most rates tried.
const TRIES: usize = 12;

/// One rate tried: offered, achieved, the quantile, whether it held.
type Try = (f64, f64, Option<u64>, bool);

impl Session<'_> {
    /// Finds the highest rate of `job` that holds `slo`, never above `rate_max_per_s` (what the closed loop
    /// reached), in windows of `step`. Also returns the first operation that failed.
    pub fn hold(
        &mut self,
        job: &Job,
        slo: &Slo,
        rate_max_per_s: f64,
        step: Nanos,
    ) -> Result<(Objective, Option<Error>)> {
        let mut tried: Vec<Try> = Vec::new();
        let (mut low, mut high) = (0.0_f64, rate_max_per_s.max(1.0));
        let mut rate = high * 0.9;
        let mut failure = None;
        while tried.len() < TRIES && failure.is_none() && !self.interrupted() {
            let window = WindowPlan::new("objective", vec![job.clone().rate(rate.max(0.01))], step);
            let outcome = self.measure_step(&window)?;
            let attempt = judge_try(slo, rate, &outcome);
            tried.push(attempt);
            failure = outcome.error;
            if attempt.3 {
                low = rate
            } else {
                high = rate
            }
            if low > 0.0 && high / low < BRACKET {
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
        self.sink.result(&Entry::Objective(objective.clone()))?;
        Ok((objective, failure))
    }
}

fn judge_try(slo: &Slo, offered: f64, outcome: &Outcome) -> Try {
    let mut response = Histogram::new();
    for tracks in &outcome.tracks {
        response.merge(tracks.get(Track::ReadResponse));
        response.merge(tracks.get(Track::WriteResponse));
    }
    let elapsed = (outcome.step.end_ns - outcome.step.begin_ns).max(1) as f64 / 1e9;
    let achieved = response.len() as f64 / elapsed;
    // Poisson counts vary by their square root: a slow rate must not fail for arriving late by chance.
    let slack = 3.0 * (offered * elapsed).sqrt() / elapsed;
    let kept_up = achieved >= offered * ACHIEVED - slack;
    let quantile = slo.of(&response);
    let held = kept_up && quantile.is_some_and(|ns| slo.holds(ns)) && outcome.error.is_none();
    (offered, achieved, quantile, held)
}

fn words(slo: &Slo, low: f64, tried: &[Try]) -> String {
    if low > 0.0 {
        let at = tried.iter().find(|attempt| attempt.0 == low).and_then(|attempt| attempt.2);
        let measured = at.map_or_else(String::new, |ns| format!(" (measured {})", Nanos(ns)));
        return format!("{} holds up to {} requests per second{measured}.", slo.text(), count(low));
    }
    match tried.last() {
        Some((rate, _, Some(ns), _)) => {
            format!(
                "{} does not hold even at {} requests per second, where it is {}.",
                slo.text(),
                fathom_units::decimal(*rate),
                Nanos(*ns)
            )
        }
        _ => format!("{} could not be judged: no request ended.", slo.text()),
    }
}
