//! The search for the highest rate that a server sustains within an objective: steps at rising rates, each a load of the run.

use std::time::Duration;

use fathom_errors::Result;
use fathom_load::client_settings::ClientSettings;
use fathom_load::core_workload::CoreSource;
use fathom_load::driving::{Arrivals, Plan};
use fathom_load::find_max::{Found, Step, find_max, judge};
use fathom_record::disk::{Entry, Objective};
use fathom_stats::Histogram;
use fathom_units::{Nanos, count};

use crate::load_drive::{Core, Drive, PartLabel, SearchOutcome};
use crate::load_spec::SearchSpec;

/// The length of the closed loop, whose rate sets the first step.
const CLOSED_LOOP_TIME: Duration = Duration::from_secs(5);
/// The start of each step that is not counted, in which connections and caches settle.
const WARMUP: Duration = Duration::from_secs(2);
/// Shorter steps see no checkpoint: mongod and the lab server make one a minute.
const MIN_STEP_WITH_CHECKPOINT: Nanos = Nanos::secs(120);

/// Runs the search. Each step is a load in the run folder, and the answer is the last result.
pub(crate) fn run(spec: &SearchSpec, core: &Core, drive: &mut Drive<'_, '_>) -> Result<()> {
    let settings = &core.plan.settings;
    let plan_of_step = || Plan { operations: None, warmup: WARMUP, ..settings.plan.clone() };
    let plan = Plan { arrivals: Arrivals::Closed, time: Some(CLOSED_LOOP_TIME), ..plan_of_step() };
    let Some(closed) = measure(spec, core, drive, ("closed loop", "closed."), plan)? else { return Ok(()) };
    drive.context.events.search_begins(settings.plan.connections, closed.achieved_per_s)?;
    let mut number = 0;
    let found = find_max(closed.achieved_per_s, &spec.slo, settings.plan.seed, |rate| {
        let plan = Plan {
            arrivals: Arrivals::Poisson(rate),
            time: Some(Duration::from_nanos(spec.step.get())),
            ..plan_of_step()
        };
        number += 1;
        let step = measure(spec, core, drive, ("find-max", &format!("step-{number}.")), plan)?;
        if let Some(step) = &step {
            drive.context.events.search_step(step, judge(step, &spec.slo))?;
        }
        Ok(step)
    })?;
    let sentence = sentence(spec, &found);
    drive.context.result(&Entry::Objective(objective(spec, &found, &sentence)))?;
    let is_checkpoint_blind = spec.step < MIN_STEP_WITH_CHECKPOINT;
    drive.outcome.search = Some(SearchOutcome { found, sentence, is_checkpoint_blind });
    Ok(())
}

/// Drives one step; none after a signal.
fn measure(
    spec: &SearchSpec,
    core: &Core,
    drive: &mut Drive<'_, '_>,
    (name, tag): (&str, &str),
    plan: Plan,
) -> Result<Option<Step>> {
    let seed = plan.seed;
    let source = |number: usize| CoreSource::new(&core.shared, seed, number as u64);
    let settings = ClientSettings { plan, ..core.plan.settings.clone() };
    let label = PartLabel { name, tag, phase: core.plan.phase };
    let Some((ended, lag_ms)) = drive.step(label, &settings, core.route(), source)? else {
        return Ok(None);
    };
    let seconds = settings.plan.time.unwrap_or(ended.elapsed).as_secs_f64();
    let mut response = Histogram::new();
    let (mut failed, mut all) = (0, 0);
    for (name, measured) in ended.metrics.iter().filter(|(name, _)| *name != "VERIFY") {
        // A read-modify-write is counted once, as a whole.
        if matches!(name.as_str(), "READ" | "UPDATE")
            && ended.metrics.iter().any(|(other, _)| *other == "READ-MODIFY-WRITE")
        {
            continue;
        }
        response.merge(&measured.succeeded.response);
        failed += measured.failures();
        all += measured.failures() + measured.succeeded.response.len();
    }
    Ok(Some(Step {
        offered_per_s: settings.plan.arrivals.rate_per_s().unwrap_or_default(),
        achieved_per_s: ended.operations as f64 / seconds,
        seconds,
        quantile_ns: spec.slo.of(&response),
        failed_share: failed as f64 / (all as f64).max(1.0),
        lag_ms,
        client_cpu_share: ended.cpu.as_secs_f64() / (ended.loops as f64 * seconds),
    }))
}

/// The answer, for the run folder.
fn objective(spec: &SearchSpec, found: &Found, sentence: &str) -> Objective {
    let tried = found.steps.iter().map(|(step, verdict)| {
        let held = *verdict == fathom_load::find_max::Verdict::Sustained;
        (step.offered_per_s, step.achieved_per_s, step.quantile_ns, held)
    });
    Objective {
        objective: spec.slo.text().to_owned(),
        rate_per_s: found.rate_per_s.filter(|_| !found.client_limited),
        tried: tried.collect(),
        words: sentence.to_owned(),
    }
}

fn sentence(spec: &SearchSpec, found: &Found) -> String {
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
