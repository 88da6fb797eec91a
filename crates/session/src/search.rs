//! Searches for the highest rate that a server sustains within an objective, in steps at rising rates, each a load of the run.

use std::time::Duration;

use fathom_errors::Result;
use fathom_load::client_settings::ClientSettings;
use fathom_load::core_workload::CoreSource;
use fathom_load::driving::{Arrivals, DrivingPlan, End, SecondMeasurements};
use fathom_load::find_max::{SearchPass, SearchResult, SearchStep, find_max, judge};
use fathom_load::measurements::OperationMeasurements;
use fathom_load::search_rates::SearchRates;
use fathom_record::disk::{Entry, Objective};
use fathom_stats::{Histogram, SeededRandom, Slo};
use fathom_units::{Nanos, count};

use crate::capacity_spec::SearchSteps;
use crate::load_drive::{CoreWorkloadDrive, LoadDrive, PartLabel, SearchOutcome};
use crate::load_spec::SearchSpec;

/// The length of the closed loop, whose rate sets the first step.
const CLOSED_LOOP_TIME: Duration = Duration::from_secs(5);
/// The start of each step that is not counted, in which connections and caches settle.
const WARMUP: Duration = Duration::from_secs(2);
/// A step whose rate has missed the objective for certain ends after this many seconds: the layers of an operation's time, in which a limit
/// is read, need three seconds besides the first and the last.
const MIN_BROKEN_STEP_S: i64 = 5;
/// Shorter steps see no checkpoint: mongod and the lab server make one a minute.
const MIN_STEP_WITH_CHECKPOINT: Nanos = Nanos::secs(120);

/// A search, and the names of its steps.
pub(crate) struct SearchPlan<'s> {
    /// The names of its closed loop and of its steps in results.
    pub(crate) names: (&'s str, &'s str),
    /// The prefix of the steps' tags in the run folder.
    pub(crate) tag: &'s str,
    pub(crate) slo: &'s Slo,
    pub(crate) steps: &'s SearchSteps,
}

/// A search that came to its end.
pub(crate) struct RateSearch {
    /// The closed loop, and its window on the run's clock.
    pub(crate) closed: (SearchStep, Window),
    pub(crate) found: SearchResult,
    /// The windows of the steps.
    pub(crate) windows: Vec<Window>,
}

/// A time range on the run's clock: begin and end in nanoseconds.
pub(crate) type Window = (u64, u64);

/// Runs `ycsb --find-max`. Each step is a load in the run folder, and the answer is the last result.
pub(crate) fn run(spec: &SearchSpec, core: &CoreWorkloadDrive, drive: &mut LoadDrive<'_, '_>) -> Result<()> {
    let step = Duration::from_nanos(spec.step.get());
    let steps = SearchSteps {
        closed: CLOSED_LOOP_TIME,
        step,
        confirmation: step,
        min_operations: 0.0,
        warmup: WARMUP,
        rates: SearchRates::default(),
    };
    let plan = SearchPlan { names: ("closed loop", "find-max"), tag: "", slo: &spec.slo, steps: &steps };
    let Some(search) = search(&plan, core, drive)? else { return Ok(()) };
    let found = search.found;
    let sentence = sentence(spec, &found);
    drive.context.result(&Entry::Objective(objective(spec, &found, &sentence)))?;
    let is_checkpoint_blind = spec.step < MIN_STEP_WITH_CHECKPOINT;
    drive.outcome.search = Some(SearchOutcome { found, sentence, is_checkpoint_blind });
    Ok(())
}

/// Searches for the highest rate of a workload. Returns `None` after a signal before the first step.
pub(crate) fn search(
    search: &SearchPlan<'_>,
    core: &CoreWorkloadDrive,
    drive: &mut LoadDrive<'_, '_>,
) -> Result<Option<RateSearch>> {
    let (settings, steps) = (&core.plan.settings, search.steps);
    // With one seed, every step would repeat the keys of the previous step, which are then in the server's cache.
    let plan_of_step = |number: usize| DrivingPlan {
        operations: None,
        warmup: steps.warmup,
        seed: SeededRandom::from_seed(settings.plan.seed).split(number as u64).bits(),
        ..settings.plan.clone()
    };
    let plan = DrivingPlan { arrivals: Arrivals::Closed, time: Some(steps.closed), ..plan_of_step(0) };
    let tag = format!("{}closed.", search.tag);
    let Some(closed) = measure(search, core, drive, (search.names.0, &tag), plan)? else { return Ok(None) };
    drive.context.events.search_begins(settings.plan.connections, closed.0.achieved_per_s)?;
    let mut windows = Vec::new();
    let found = find_max(closed.0.achieved_per_s, &steps.rates, search.slo, |rate, pass| {
        let time = match pass {
            SearchPass::Bracket => steps.step,
            SearchPass::Confirmation => steps.confirmation,
        };
        let enough = Duration::from_secs_f64(steps.min_operations / rate.max(1.0));
        let time = time.max(enough.min(4 * time));
        let number = windows.len() + 1;
        let plan =
            DrivingPlan { arrivals: Arrivals::Poisson(rate), time: Some(time), ..plan_of_step(number) };
        let tag = format!("{}step-{number}.", search.tag);
        let Some((step, window)) = measure(search, core, drive, (search.names.1, &tag), plan)? else {
            return Ok(None);
        };
        windows.push(window);
        drive.context.events.search_step(&step, judge(&step, search.slo))?;
        Ok(Some(step))
    })?;
    Ok(Some(RateSearch { closed, found, windows }))
}

/// Drives one step. Returns `None` after a signal.
fn measure(
    search: &SearchPlan<'_>,
    core: &CoreWorkloadDrive,
    drive: &mut LoadDrive<'_, '_>,
    (name, tag): (&str, &str),
    plan: DrivingPlan,
) -> Result<Option<(SearchStep, Window)>> {
    let seed = plan.seed;
    let source = |number: usize| CoreSource::new(&core.shared, seed, number as u64);
    let settings = ClientSettings { plan, ..core.plan.settings.clone() };
    let label = PartLabel { name, tag, phase: core.plan.phase };
    let rate_per_s = settings.plan.arrivals.rate_per_s();
    let time = settings.plan.time.map(|time| time.as_secs_f64());
    let most_operations = rate_per_s.zip(time).map(|(rate_per_s, time)| {
        let mean = rate_per_s * time;
        mean + 3.0 * mean.sqrt()
    });
    // A miss by less than the tolerance does not decide: a stall in the first half of a step weighs more in that half than in the whole.
    let rates = search.steps.rates;
    let mut so_far = Histogram::new();
    let mut is_broken = |second: &SecondMeasurements<'_>| {
        if second.second >= 0 {
            so_far.merge(&responses(second.metrics).0);
        }
        second.second + 1 >= MIN_BROKEN_STEP_S
            && most_operations.is_some_and(|operations| {
                search.slo.is_missed(&so_far, operations * rates.share_factor, rates.tolerance)
            })
    };
    let Some(driven) = drive.step(label, &settings, core.route(), source, &mut is_broken)? else {
        return Ok(None);
    };
    let ended = driven.ended;
    let seconds = time.filter(|_| ended.end != End::Stopped).unwrap_or(ended.elapsed.as_secs_f64());
    let (response, failed) = responses(&ended.metrics);
    let all = failed + response.len();
    let step = SearchStep {
        offered_per_s: rate_per_s.unwrap_or_default(),
        achieved_per_s: ended.operations as f64 / seconds,
        seconds,
        quantile_ns: search.slo.quantile_ns(&response),
        slow_share: search.slo.slow_share(&response),
        failed_share: failed as f64 / (all as f64).max(1.0),
        lag_ms: driven.lag_ms,
        client_cpu_share: ended.cpu.as_secs_f64() / (ended.loops as f64 * seconds),
    };
    Ok(Some((step, driven.window_ns)))
}

/// The response times of operations that succeeded, and how many failed.
fn responses(metrics: &[(String, OperationMeasurements)]) -> (Histogram, u64) {
    let is_whole = metrics.iter().any(|(name, _)| *name == "READ-MODIFY-WRITE");
    let mut response = Histogram::new();
    let mut failed = 0;
    for (name, measured) in metrics.iter().filter(|(name, _)| *name != "VERIFY") {
        // A read-modify-write is counted once, as a whole.
        if is_whole && matches!(name.as_str(), "READ" | "UPDATE") {
            continue;
        }
        response.merge(&measured.succeeded.response);
        failed += measured.failures();
    }
    (response, failed)
}

/// The answer, for the run folder.
fn objective(spec: &SearchSpec, found: &SearchResult, sentence: &str) -> Objective {
    let tried = found.steps.iter().map(|(step, verdict)| {
        let held = *verdict == fathom_load::find_max::StepVerdict::Sustained;
        (step.offered_per_s, step.achieved_per_s, step.quantile_ns, held)
    });
    Objective {
        objective: spec.slo.text().to_owned(),
        rate_per_s: found.rate_per_s.filter(|_| !found.client_limited),
        tried: tried.collect(),
        words: sentence.to_owned(),
    }
}

fn sentence(spec: &SearchSpec, found: &SearchResult) -> String {
    let slo = spec.slo.text();
    let blind = if spec.step < MIN_STEP_WITH_CHECKPOINT {
        " Steps this short see no checkpoint; --step 2m or more does."
    } else {
        ""
    };
    match (found.rate_per_s, found.broken_per_s) {
        _ if found.client_limited => {
            "No answer: this client was busy most of the time, so the server may be able to do more. Take more loops, or more machines.".to_owned()
        }
        (Some(rate), Some(_)) if !found.interrupted => {
            format!("{slo} holds up to {} operations a second.{blind}", count(rate))
        }
        (Some(rate), _) => format!("{slo} holds at {} operations a second; the search did not reach its end.", count(rate)),
        (None, Some(rate)) => format!("{slo} does not hold even at {} operations a second.", count(rate)),
        (None, None) => "The search was stopped before its first step ended.".to_owned(),
    }
}
