//! The highest rate that a server sustains within a latency objective (docs/methods.md#the-highest-rate-that-holds).
//!
//! Operations come at random times (Poisson) at a rate that grows from step to step until one is not sustained, and the search closes
//! in on the last two rates ([`SearchRates`]). The highest of many rates that held once held by chance as likely as not, so a second pass
//! tries the answer again, and its neighbours, until one rate holds and the next one does not; only this pass counts. A client that is busy
//! itself says nothing about a server: then there is no answer. It knows no server: who calls it runs the steps.

use fathom_errors::Error;
use fathom_stats::{MAX_CLIENT_CPU_SHARE, Slo, mann_kendall};
use fathom_units::Nanos;

use crate::search_rates::SearchRates;

/// What of the offered rate must be done.
const MIN_ACHIEVED_SHARE: f64 = 0.99;
/// The share of operations that may fail.
const MAX_FAILED_SHARE: f64 = 0.001;
/// An upward trend of the schedule lag counts from this certainty and this slope on.
const MAX_TREND_P: f64 = 0.01;
const MIN_TREND_MS_PER_S: f64 = 1.0;
/// The most steps of the ladder, and of the search after it.
const MAX_STEPS: usize = 40;
/// A stall of a device delays no operation by more. Writeback and commits of ext4 stalled disks by up to 40 ms (docs/checkup.md).
const MAX_STALL: Nanos = Nanos::millis(60);
/// Two stalls of a tenth of a second, as a throttle makes them, are 2 % of a step of ten seconds. A share of slow operations that is less than this many
/// times what the objective allows may be of them.
const MAX_CHANCE_FACTOR: f64 = 5.0;
/// No rate is tried at which a step would have fewer operations: what a percentile of a few says is chance.
const MIN_OPERATIONS: f64 = 50.0;
/// Random arrivals at more than this share of a closed loop's rate fill the queue for seconds now and then, and whether a step meets that is chance. Under
/// a cap of 300 requests a second, loads of 20 s held p99<10ms at 230 to 262 a second and missed it at 275 and more
/// (docs/methods.md#the-highest-rate-that-holds).
const MAX_SHARE_OF_CLOSED: f64 = 0.9;

/// The pass of a search that a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPass {
    /// It brackets the answer.
    Bracket,
    /// It tries the answer and its neighbours again, or a rate that broke.
    Confirmation,
}

/// The measurements of one step of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchStep {
    /// Operations a second that were due.
    pub offered_per_s: f64,
    /// Operations a second that ended.
    pub achieved_per_s: f64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The objective's quantile of the response time, in nanoseconds.
    pub quantile_ns: Option<u64>,
    /// Of the operations that succeeded, the share that took longer than the objective allows.
    pub slow_share: Option<f64>,
    /// Of all operations, the share that failed.
    pub failed_share: f64,
    /// Mean schedule lag in milliseconds of each second.
    pub lag_ms: Vec<f64>,
    /// Processor time of the loops, as a share of what they can have.
    pub client_cpu_share: f64,
}

/// Why a step is not sustained, or that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepVerdict {
    Sustained,
    /// Less was done than was due.
    FallsBehind,
    /// The schedule lag grows.
    LagGrows,
    /// The objective does not hold.
    TooSlow,
    /// Too many operations failed.
    Fails,
    /// The client was busy itself.
    ClientLimited,
}

impl StepVerdict {
    /// In words, for a line of a table.
    pub fn words(self) -> &'static str {
        match self {
            StepVerdict::Sustained => "sustained",
            StepVerdict::FallsBehind => "falls behind",
            StepVerdict::LagGrows => "backlog grows",
            StepVerdict::TooSlow => "too slow",
            StepVerdict::Fails => "operations fail",
            StepVerdict::ClientLimited => "client-limited",
        }
    }
}

/// The result of the search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchResult {
    /// The highest rate that was sustained each time it was tried.
    pub rate_per_s: Option<f64>,
    /// The lowest rate above it that was not, if one was reached.
    pub broken_per_s: Option<f64>,
    /// The client was busy itself, so there is no answer.
    pub client_limited: bool,
    /// The search was stopped before its end.
    pub interrupted: bool,
    /// Every step, in the order they were run.
    pub steps: Vec<(SearchStep, StepVerdict)>,
}

pub fn judge(step: &SearchStep, slo: &Slo) -> StepVerdict {
    let points: Vec<(f64, f64)> = step.lag_ms.iter().enumerate().map(|(at, lag)| (at as f64, *lag)).collect();
    let grows = mann_kendall(&points)
        .is_some_and(|trend| trend.p_upward <= MAX_TREND_P && trend.slope >= MIN_TREND_MS_PER_S);
    // Poisson counts vary by their square root: a slow rate must not fail for arriving late by chance.
    let slack = 3.0 * (step.offered_per_s / step.seconds.max(1e-9)).sqrt();
    let behind = step.achieved_per_s < step.offered_per_s * MIN_ACHIEVED_SHARE - slack;
    let slow = step.quantile_ns.is_none_or(|quantile| !slo.holds(quantile));
    match () {
        () if step.client_cpu_share > MAX_CLIENT_CPU_SHARE => StepVerdict::ClientLimited,
        () if step.failed_share >= MAX_FAILED_SHARE => StepVerdict::Fails,
        () if behind => StepVerdict::FallsBehind,
        () if grows => StepVerdict::LagGrows,
        () if slow => StepVerdict::TooSlow,
        () => StepVerdict::Sustained,
    }
}

/// Searches for the highest rate, beginning below `closed_per_s`, the rate of a closed loop. `run` runs a step of a pass at a rate, and returns
/// `None` to stop the search.
///
/// # Errors
/// Those of `run`.
pub fn find_max(
    closed_per_s: f64,
    rates: &SearchRates,
    slo: &Slo,
    mut run: impl FnMut(f64, SearchPass) -> Result<Option<SearchStep>, Error>,
) -> Result<SearchResult, Error> {
    let closed = rates.climb.is_none().then_some(closed_per_s);
    let found = SearchResult::default();
    let mut search = Search { slo, rates, closed, found, low: None, high: None, close: None };
    search.high = search.bound();
    let first = (closed_per_s * rates.first_share).max(1.0);
    search.bracket(first, &mut run)?;
    search.confirm(&mut run)?;
    Ok(search.end())
}

struct Search<'s> {
    slo: &'s Slo,
    rates: &'s SearchRates,
    /// The rate of the closed loop, if it counts as one that is not sustained.
    closed: Option<f64>,
    found: SearchResult,
    /// The highest rate of the pass that was sustained, and the lowest that was not.
    low: Option<f64>,
    high: Option<f64>,
    /// The lowest and the highest rate of the second pass whose percentile was too close to the objective to decide.
    close: Option<(f64, f64)>,
}

impl Search<'_> {
    /// Tries a rate, and returns the verdict on it; `None` ends the search.
    fn attempt(
        &mut self,
        rate: f64,
        pass: SearchPass,
        run: &mut impl FnMut(f64, SearchPass) -> Result<Option<SearchStep>, Error>,
    ) -> Result<Option<StepVerdict>, Error> {
        let Some(step) = run(rate, pass)? else {
            self.found.interrupted = true;
            return Ok(None);
        };
        let verdict = judge(&step, self.slo);
        let is_close = pass == SearchPass::Confirmation && self.is_close(&step);
        self.found.steps.push((step, verdict));
        match verdict {
            StepVerdict::Sustained | StepVerdict::TooSlow if is_close => self.add_close(rate),
            StepVerdict::Sustained => self.low = Some(self.low.map_or(rate, |low| low.max(rate))),
            StepVerdict::ClientLimited => self.found.client_limited = true,
            _ => self.high = Some(self.high.map_or(rate, |high| high.min(rate))),
        }
        Ok(Some(verdict).filter(|verdict| *verdict != StepVerdict::ClientLimited))
    }

    /// The rate from which on none is tried.
    fn bound(&self) -> Option<f64> {
        self.closed.map(|closed_per_s| closed_per_s * MAX_SHARE_OF_CLOSED)
    }

    /// Adds a rate that decided nothing.
    fn add_close(&mut self, rate: f64) {
        let both = self.close.map_or((rate, rate), |(lowest, highest)| (lowest.min(rate), highest.max(rate)));
        self.close = Some(both);
    }

    /// Whether the last step was too slow by so few operations that a stall or two explain it.
    fn broke_barely(&self) -> bool {
        let Some((step, StepVerdict::TooSlow)) = self.found.steps.last() else { return false };
        let most = MAX_CHANCE_FACTOR * self.slo.allowed_share();
        self.rates.share_factor > 1.0 && step.slow_share.is_some_and(|share| share < most)
    }

    /// Whether a step as long as the last one has enough operations at a rate.
    fn is_measurable(&self, rate: f64) -> bool {
        self.found.steps.last().is_some_and(|(step, _)| rate * step.seconds >= MIN_OPERATIONS)
    }

    /// Whether one stall of the device may have put the last step's percentile above the objective.
    fn may_be_chance(&self) -> bool {
        let quantile_ns = self.found.steps.last().and_then(|(step, _)| step.quantile_ns);
        quantile_ns.is_some_and(|quantile| self.slo.holds(quantile.saturating_sub(MAX_STALL.get())))
    }

    /// Whether the last step's share of slow operations is too close to what the objective allows to decide.
    fn is_share_close(&self) -> bool {
        self.found.steps.last().is_some_and(|(step, _)| self.has_close_share(step))
    }

    /// The first pass: climbs or descends from a rate until one was sustained and one was not, and halves what is between them.
    fn bracket(
        &mut self,
        first: f64,
        run: &mut impl FnMut(f64, SearchPass) -> Result<Option<SearchStep>, Error>,
    ) -> Result<(), Error> {
        let mut rate = first;
        for _ in 0..MAX_STEPS {
            let before = self.high;
            let Some(verdict) = self.attempt(rate, SearchPass::Bracket, run)? else { break };
            let is_chance = (self.rates.is_retried && self.may_be_chance()) || self.is_share_close();
            if verdict == StepVerdict::TooSlow && is_chance {
                self.high = before;
                if self.attempt(rate, SearchPass::Confirmation, run)?.is_none() {
                    break;
                }
            }
            let next = match (self.low, self.high) {
                (Some(low), None) => match self.rates.climb {
                    Some(climb) => low * climb,
                    None => break,
                },
                // A rate that decided nothing twice changed neither end.
                (None, Some(high)) => high.min(rate) / self.rates.descent,
                (Some(low), Some(high)) if high / low > self.rates.bracket => (low * high).sqrt(),
                _ => break,
            };
            if next == rate || (self.low.is_none() && !self.is_measurable(next)) {
                break;
            }
            rate = next;
        }
        Ok(())
    }

    /// The second pass: from the middle of a wide bracket, or the answer of a narrow one, downwards until a rate is sustained and upwards
    /// until one is not.
    fn confirm(
        &mut self,
        run: &mut impl FnMut(f64, SearchPass) -> Result<Option<SearchStep>, Error>,
    ) -> Result<(), Error> {
        let is_over = self.found.interrupted || self.found.client_limited;
        let (Some(low), Some(high)) = (self.low, self.high) else { return Ok(()) };
        if is_over || self.rates.confirmations == 0 {
            return Ok(());
        }
        (self.low, self.high) = (None, None);
        // Steps a little above the precision are as good.
        let precision = self.rates.precision * 1.01;
        let mut rate = if high / low > precision { (low * high).sqrt() } else { low.min(high) };
        // Further each time: what fails or holds again and again is far from the answer.
        let mut factor = self.rates.precision;
        for _ in 0..self.rates.confirmations {
            let before = (self.low, self.high);
            if self.attempt(rate, SearchPass::Confirmation, run)?.is_none() {
                break;
            }
            // A rate that broke by a few operations is tried once more. If it holds then, it decides nothing.
            if self.high != before.1 && self.broke_barely() {
                self.high = before.1;
                if self.attempt(rate, SearchPass::Confirmation, run)?.is_none() {
                    break;
                }
                if self.high == before.1 {
                    self.low = before.0;
                    self.add_close(rate);
                }
            }
            match self.next_rate(factor, precision) {
                Some(next) => rate = next,
                None => break,
            }
            factor *= factor;
        }
        // A signal or the last step may end it before a rate broke.
        self.high = self.high.or(self.bound()).or_else(|| self.low.filter(|low| *low < high).map(|_| high));
        Ok(())
    }

    /// The next rate of the second pass, by a factor below or above those that were tried; `None` where they are close enough together.
    fn next_rate(&self, factor: f64, precision: f64) -> Option<f64> {
        let (lowest, highest) = self.close.unzip();
        match (self.low, self.high) {
            (Some(low), None) => {
                self.rate_above(highest.map_or(low, |highest| highest.max(low)), factor, precision)
            }
            (None, high) => {
                let is_undecided = lowest.is_some_and(|lowest| high.is_none_or(|high| lowest < high));
                // Below a rate that decided nothing the answer is near.
                let factor = if is_undecided { self.rates.precision } else { factor };
                let below = lowest.into_iter().chain(high).reduce(f64::min)? / factor;
                self.is_measurable(below).then_some(below)
            }
            (Some(low), Some(high)) => {
                // The wider of the two gaps around the rates that are too close to the objective.
                let (lower, upper) = match self.close {
                    Some((lowest, highest)) if low < lowest && highest < high => {
                        if lowest / low > high / highest { (low, lowest) } else { (highest, high) }
                    }
                    _ => (low, high),
                };
                (upper / lower > precision).then(|| (lower * upper).sqrt())
            }
        }
    }

    /// The next rate above the highest that did not break: by a factor, or halfway to the bound. Rates that broke in the first pass do not bound it, since a
    /// short step breaks by chance.
    fn rate_above(&self, top: f64, factor: f64, precision: f64) -> Option<f64> {
        match self.bound() {
            Some(bound) if bound / top <= precision => None,
            Some(bound) if top * factor >= bound => Some((top * bound).sqrt()),
            _ => Some(top * factor),
        }
    }

    /// Whether a step's percentile, or its share of slow operations, is too close to the objective to decide.
    fn is_close(&self, step: &SearchStep) -> bool {
        step.quantile_ns.is_some_and(|quantile| self.slo.is_close(quantile, self.rates.tolerance))
            || self.has_close_share(step)
    }

    /// Whether the share of slow operations is less than the factor above what the objective allows, or less than its root below that.
    fn has_close_share(&self, step: &SearchStep) -> bool {
        let (allowed, factor) = (self.slo.allowed_share(), self.rates.share_factor);
        step.slow_share.is_some_and(|share| share * factor.sqrt() > allowed && share < allowed * factor)
    }

    fn end(self) -> SearchResult {
        // A rate that held, if barely, is better than none.
        let barely = || {
            let (lowest, highest) = self.close?;
            let held = self.found.steps.iter().filter(|(_, verdict)| *verdict == StepVerdict::Sustained);
            let rates = held.map(|(step, _)| step.offered_per_s);
            rates.filter(|rate| *rate <= highest).reduce(f64::max).map(|rate| rate.min(lowest))
        };
        let low = self.low.or_else(barely);
        let rate_per_s = low.filter(|_| !self.found.client_limited);
        // A rate that broke once and a higher one that held: the lower one is no bound.
        let broken_per_s = self.high.filter(|high| low.is_none_or(|low| low < *high));
        // Of the rates that were not tried only that of the closed loop is known to break.
        let broken_per_s = if broken_per_s == self.bound() { self.closed } else { broken_per_s };
        SearchResult { rate_per_s, broken_per_s, ..self.found }
    }
}

#[cfg(test)]
mod tests;
