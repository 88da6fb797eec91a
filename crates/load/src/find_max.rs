//! The highest rate that a server sustains within a latency objective (facts/analysis.md A5).
//!
//! Operations come at random times (Poisson) at a rate that grows by a quarter from step to step until one is not sustained; then
//! the last two are closed in on, to 3 %, and both are tried once more in random order. A client that is busy itself
//! says nothing about a server: then there is no answer. It knows no server: who calls it runs the steps.

use fathom_errors::Error;
use fathom_stats::{MAX_CLIENT_CPU_SHARE, Seeded, Slo, mann_kendall};

/// The factor from step to step of the ladder.
const CLIMB: f64 = 1.25;
/// The search ends when the last two rates are this close.
const CLOSE: f64 = 1.03;
/// Where it begins, as a share of what a closed loop reaches.
const BEGIN: f64 = 0.25;
/// What of the offered rate must be done.
const ACHIEVED: f64 = 0.99;
/// The share of operations that may fail.
const FAILED: f64 = 0.001;
/// An upward trend of the schedule lag counts from this certainty and this slope on.
const TREND_P: f64 = 0.01;
const TREND_MS_PER_S: f64 = 1.0;
/// The most steps of the ladder, and of the search after it.
const STEPS: usize = 40;

/// What a step of the search measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Operations a second that were due.
    pub offered_per_s: f64,
    /// Operations a second that ended.
    pub achieved_per_s: f64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The objective's quantile of the response time, in nanoseconds.
    pub quantile_ns: Option<u64>,
    /// Of all operations, the share that failed.
    pub failed_share: f64,
    /// Mean schedule lag in milliseconds of each second.
    pub lag_ms: Vec<f64>,
    /// Processor time of the loops, as a share of what they can have.
    pub client_cpu_share: f64,
}

/// Why a step is not sustained, or that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Sustained,
    /// Less was done than was due.
    FallsBehind,
    /// The backlog grows.
    LagGrows,
    /// The objective does not hold.
    TooSlow,
    /// Too many operations failed.
    Fails,
    /// The client was busy itself.
    ClientLimited,
}

impl Verdict {
    /// In words, for a line of a table.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Sustained => "sustained",
            Verdict::FallsBehind => "falls behind",
            Verdict::LagGrows => "backlog grows",
            Verdict::TooSlow => "too slow",
            Verdict::Fails => "operations fail",
            Verdict::ClientLimited => "client-limited",
        }
    }
}

/// What the search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The highest rate that was sustained each time it was tried; none if none was.
    pub rate_per_s: Option<f64>,
    /// The lowest rate above it that was not, if one was reached.
    pub broken_per_s: Option<f64>,
    /// The client was busy itself, so there is no answer.
    pub client_limited: bool,
    /// Somebody stopped it before its end.
    pub interrupted: bool,
    /// Every step, in the order they were run.
    pub steps: Vec<(Step, Verdict)>,
}

/// Judges a step.
pub fn judge(step: &Step, slo: &Slo) -> Verdict {
    let points: Vec<(f64, f64)> = step.lag_ms.iter().enumerate().map(|(at, lag)| (at as f64, *lag)).collect();
    let grows =
        mann_kendall(&points).is_some_and(|trend| trend.p_upward <= TREND_P && trend.slope >= TREND_MS_PER_S);
    // Poisson counts vary by their square root: a slow rate must not fail for arriving late by chance.
    let slack = 3.0 * (step.offered_per_s / step.seconds.max(1e-9)).sqrt();
    let behind = step.achieved_per_s < step.offered_per_s * ACHIEVED - slack;
    let slow = step.quantile_ns.is_none_or(|quantile| !slo.holds(quantile));
    match () {
        () if step.client_cpu_share > MAX_CLIENT_CPU_SHARE => Verdict::ClientLimited,
        () if step.failed_share >= FAILED => Verdict::Fails,
        () if behind => Verdict::FallsBehind,
        () if grows => Verdict::LagGrows,
        () if slow => Verdict::TooSlow,
        () => Verdict::Sustained,
    }
}

/// Searches, beginning below `closed_per_s`, what a closed loop reached. `run` runs a step at a rate, or says that somebody
/// stopped it.
///
/// # Errors
/// Those of `run`.
pub fn find_max(
    closed_per_s: f64,
    slo: &Slo,
    seed: u64,
    mut run: impl FnMut(f64) -> Result<Option<Step>, Error>,
) -> Result<Found, Error> {
    let mut search = Search { slo, found: Found::default(), low: None, high: None };
    let mut rate = (closed_per_s * BEGIN).max(1.0);
    for _ in 0..STEPS {
        let Some(verdict) = search.attempt(rate, &mut run)? else { return Ok(search.end()) };
        rate = match (verdict, search.low, search.high) {
            (Verdict::ClientLimited, ..) => return Ok(search.end()),
            (_, Some(low), None) => low * CLIMB,
            (_, None, Some(high)) if high / 3.0 >= 1.0 => high / 3.0,
            (_, Some(low), Some(high)) if high / low > CLOSE => (low * high).sqrt(),
            _ => break,
        };
    }
    search.confirm(seed, &mut run)?;
    Ok(search.end())
}

struct Search<'s> {
    slo: &'s Slo,
    found: Found,
    /// The highest rate that was sustained, and the lowest that was not.
    low: Option<f64>,
    high: Option<f64>,
}

impl Search<'_> {
    /// Tries a rate; none if somebody stopped it.
    fn attempt(
        &mut self,
        rate: f64,
        run: &mut impl FnMut(f64) -> Result<Option<Step>, Error>,
    ) -> Result<Option<Verdict>, Error> {
        let Some(step) = run(rate)? else {
            self.found.interrupted = true;
            return Ok(None);
        };
        let verdict = judge(&step, self.slo);
        self.found.steps.push((step, verdict));
        match verdict {
            Verdict::Sustained => self.low = Some(self.low.map_or(rate, |low| low.max(rate))),
            Verdict::ClientLimited => self.found.client_limited = true,
            _ => self.high = Some(self.high.map_or(rate, |high| high.min(rate))),
        }
        Ok(Some(verdict))
    }

    /// Tries the last two once more, in random order; a rate that holds once only is not one that holds.
    fn confirm(
        &mut self,
        seed: u64,
        run: &mut impl FnMut(f64) -> Result<Option<Step>, Error>,
    ) -> Result<(), Error> {
        let (Some(low), Some(high)) = (self.low, self.high) else { return Ok(()) };
        let mut rates = [low, high];
        Seeded::from_seed(seed).shuffle(&mut rates);
        for rate in rates {
            match self.attempt(rate, run)? {
                Some(Verdict::Sustained | Verdict::ClientLimited) => {}
                None => return Ok(()),
                Some(_) if rate == low => {
                    let held = |(step, verdict): &(Step, Verdict)| {
                        (*verdict == Verdict::Sustained && step.offered_per_s < low)
                            .then_some(step.offered_per_s)
                    };
                    self.low = self.found.steps.iter().filter_map(held).reduce(f64::max);
                    self.high = Some(low);
                    return Ok(());
                }
                Some(_) => {}
            }
        }
        // What failed once and held once is not a rate that breaks.
        if self.low >= self.high {
            self.low = Some(low);
        }
        Ok(())
    }

    fn end(self) -> Found {
        let rate_per_s = self.low.filter(|_| !self.found.client_limited);
        Found { rate_per_s, broken_per_s: self.high, ..self.found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue with one server of exponential service, in steps of so many seconds: what a step at a rate would measure.
    fn queue(capacity_per_s: f64, stall: bool, seconds: f64, random: &mut Seeded, rate: f64) -> Step {
        let mean = 1.0 / capacity_per_s;
        let (mut now, mut free) = (0.0, 0.0_f64);
        let mut lag = vec![(0.0, 0_u64); seconds as usize];
        let (mut responses, mut done) = (Vec::new(), 0_u64);
        loop {
            now += random.exponential(1.0 / rate);
            if now >= seconds {
                break;
            }
            let mut begin = free.max(now);
            // A checkpoint of 0.2 s every 4 s.
            if stall && begin % 4.0 < 0.2 {
                begin += 0.2 - begin % 4.0;
            }
            free = begin + random.exponential(mean);
            responses.push(((free - now) * 1e9) as u64);
            done += u64::from(free <= seconds);
            if let Some((sum, count)) = lag.get_mut(now as usize) {
                *sum += (begin - now) * 1e3;
                *count += 1;
            }
        }
        responses.sort_unstable();
        Step {
            offered_per_s: rate,
            achieved_per_s: done as f64 / seconds,
            seconds,
            quantile_ns: responses.get(responses.len() * 99 / 100).copied(),
            failed_share: 0.0,
            lag_ms: lag.iter().map(|(sum, count)| sum / (*count).max(1) as f64).collect(),
            client_cpu_share: 0.1,
        }
    }

    /// The rate at which the 99th percentile of an M/M/1 queue is 50 ms: ln(100) / (capacity - rate) = 0.05.
    fn knee(capacity_per_s: f64) -> f64 {
        capacity_per_s - 100.0_f64.ln() / 0.05
    }

    #[test]
    fn the_knee_of_a_known_queue_is_found() {
        let slo: Slo = "p99<50ms".parse().unwrap();
        for (capacity, seed) in [(2000.0, 1), (5000.0, 2), (20_000.0, 3)] {
            let mut random = Seeded::from_seed(seed);
            let run = |rate| Ok(Some(queue(capacity, false, 60.0, &mut random, rate)));
            let found = find_max(capacity, &slo, seed, run).unwrap();
            let rate = found.rate_per_s.unwrap();
            assert!((rate / knee(capacity) - 1.0).abs() < 0.03, "{rate} for {}", knee(capacity));
            assert!(rate < capacity && found.broken_per_s.unwrap() > rate);
        }
    }

    #[test]
    fn stalls_lower_what_is_sustained() {
        let slo: Slo = "p99<100ms".parse().unwrap();
        let mut random = Seeded::from_seed(4);
        let run = |rate| Ok(Some(queue(5000.0, true, 60.0, &mut random, rate)));
        let found = find_max(5000.0, &slo, 4, run).unwrap();
        assert!(found.rate_per_s.is_none_or(|rate| rate < 0.95 * 5000.0), "{:?}", found.rate_per_s);
        assert!(found.steps.iter().any(|(_, verdict)| *verdict == Verdict::TooSlow));
    }

    #[test]
    fn a_busy_client_gives_no_answer_and_a_stop_ends_it() {
        let slo: Slo = "p99<50ms".parse().unwrap();
        let mut random = Seeded::from_seed(5);
        let busy = |rate: f64| {
            Ok(Some(Step {
                client_cpu_share: rate / 1000.0,
                ..queue(5000.0, false, 20.0, &mut random, rate)
            }))
        };
        let found = find_max(2000.0, &slo, 5, busy).unwrap();
        assert!(found.client_limited && found.rate_per_s.is_none());
        let stopped = find_max(2000.0, &slo, 5, |_| Ok(None)).unwrap();
        assert!(stopped.interrupted && stopped.steps.is_empty());
    }

    #[test]
    fn steps_are_judged_by_all_that_counts() {
        let slo: Slo = "p99<50ms".parse().unwrap();
        let fine = Step {
            offered_per_s: 1000.0,
            achieved_per_s: 998.0,
            seconds: 30.0,
            quantile_ns: Some(10_000_000),
            failed_share: 0.0,
            lag_ms: vec![0.1; 30],
            client_cpu_share: 0.2,
        };
        assert_eq!(judge(&fine, &slo), Verdict::Sustained);
        let grows = (0..30).map(|second| f64::from(second) * 2.0).collect();
        for (step, verdict) in [
            (Step { achieved_per_s: 900.0, ..fine.clone() }, Verdict::FallsBehind),
            (Step { lag_ms: grows, ..fine.clone() }, Verdict::LagGrows),
            (Step { quantile_ns: Some(60_000_000), ..fine.clone() }, Verdict::TooSlow),
            (Step { quantile_ns: None, ..fine.clone() }, Verdict::TooSlow),
            (Step { failed_share: 0.01, ..fine.clone() }, Verdict::Fails),
            (Step { client_cpu_share: 0.9, ..fine.clone() }, Verdict::ClientLimited),
        ] {
            assert_eq!(judge(&step, &slo), verdict);
        }
    }
}
