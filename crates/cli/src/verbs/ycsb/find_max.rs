//! `--find-max --slo p99<10ms`: steps at rising rates, a table of them, and the highest rate that holds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fathom_errors::Error;
use fathom_load::client_settings::ClientSettings;
use fathom_load::core_workload::{CoreShared, CoreSource};
use fathom_load::driving::{Arrivals, Plan};
use fathom_load::find_max::{Found, Step, Verdict, find_max, judge};
use fathom_load::servers::Servers;
use fathom_record::disk::{Entry, Objective};
use fathom_stats::{Histogram, Slo};
use fathom_units::{Nanos, count};
use serde_json::json;

use super::drive::Drive;
use crate::outcome::Outcome;
use crate::output;

/// The closed loop that says where to begin.
const CLOSED: Duration = Duration::from_secs(5);
/// Of each step, what is not measured: connections and caches settle.
const WARMUP: Duration = Duration::from_secs(2);
/// Shorter steps see no checkpoint: mongod and the lab server make one a minute.
const BLIND: Nanos = Nanos::secs(120);

/// What is searched.
pub(super) struct Search<'s> {
    pub(super) slo: &'s Slo,
    pub(super) step: Nanos,
    pub(super) settings: &'s ClientSettings,
    pub(super) shared: &'s Arc<CoreShared>,
    pub(super) servers: &'s Servers,
}

impl Search<'_> {
    /// Searches and shows; every step is a load of the run folder.
    pub(super) fn run(&self, mut drive: Drive<'_>, json: bool) -> Result<Outcome> {
        let closed = Plan { arrivals: Arrivals::Closed, time: Some(CLOSED), ..self.plan_of_step() };
        let Some(closed) = self.measure(&mut drive, ("closed loop", "closed."), closed)? else {
            drive.close();
            return Ok(Outcome::Clean);
        };
        let per_s = count(closed.achieved_per_s);
        let connections = self.settings.plan.connections;
        output::note(&format!("closed loop with {connections} connections: {per_s} operations a second"));
        if !json {
            output::line(&format!(
                "{:>10} {:>10} {:>10} {:>8} {:>6}  {}",
                "offered/s",
                "done/s",
                self.slo.text().split('<').next().unwrap_or_default(),
                "lag ms",
                "CPU %",
                "verdict"
            ))?;
        }
        let mut number = 0;
        let found = find_max(closed.achieved_per_s, self.slo, self.settings.plan.seed, |rate| {
            let plan = Plan {
                arrivals: Arrivals::Poisson(rate),
                time: Some(Duration::from_nanos(self.step.get())),
                ..self.plan_of_step()
            };
            number += 1;
            let step = self.measure(&mut drive, ("find-max", &format!("step-{number}.")), plan)?;
            if let Some(step) = step.as_ref().filter(|_| !json) {
                output::line(&line(step, judge(step, self.slo)))?;
            }
            Ok(step)
        })?;
        drive.result(&Entry::Objective(self.objective(&found)));
        let folder = drive.close();
        self.show(&found, json.then_some(folder))?;
        Ok(if found.rate_per_s.is_some() { Outcome::Clean } else { Outcome::Findings })
    }

    fn plan_of_step(&self) -> Plan {
        Plan { operations: None, warmup: WARMUP, ..self.settings.plan.clone() }
    }

    /// Runs a step, `named` as in [`Drive::step`]; none if somebody stopped it.
    fn measure(&self, drive: &mut Drive<'_>, named: (&str, &str), plan: Plan) -> Result<Option<Step>, Error> {
        let seed = plan.seed;
        let source = |number: usize| CoreSource::new(self.shared, seed, number as u64);
        let settings = ClientSettings { plan, ..self.settings.clone() };
        let Some((ended, lag_ms)) = drive.step(named, &settings, self.servers, source)? else {
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
            quantile_ns: self.slo.of(&response),
            failed_share: failed as f64 / (all as f64).max(1.0),
            lag_ms,
            client_cpu_share: ended.cpu.as_secs_f64() / (ended.loops as f64 * seconds),
        }))
    }

    /// The answer, for the run folder.
    fn objective(&self, found: &Found) -> Objective {
        let tried = found.steps.iter().map(|(step, verdict)| {
            let held = *verdict == Verdict::Sustained;
            (step.offered_per_s, step.achieved_per_s, step.quantile_ns, held)
        });
        Objective {
            objective: self.slo.text().to_owned(),
            rate_per_s: found.rate_per_s.filter(|_| !found.client_limited),
            tried: tried.collect(),
            words: self.sentence(found),
        }
    }

    /// `folder` is the run folder, for the JSON document; without it, text.
    fn show(&self, found: &Found, folder: Option<Option<PathBuf>>) -> Result<()> {
        let sentence = self.sentence(found);
        let Some(folder) = folder else {
            output::line(&format!("\n{sentence}"))?;
            return Ok(());
        };
        let steps: Vec<_> = found
            .steps
            .iter()
            .map(|(step, verdict)| {
                json!({
                    "offered_per_s": step.offered_per_s,
                    "achieved_per_s": step.achieved_per_s,
                    "seconds": step.seconds,
                    "quantile_ns": step.quantile_ns,
                    "failed_share": step.failed_share,
                    "mean_lag_ms": step.lag_ms.iter().sum::<f64>() / step.lag_ms.len().max(1) as f64,
                    "client_cpu_share": step.client_cpu_share,
                    "verdict": verdict.words(),
                })
            })
            .collect();
        let document = json!({
            "schema": fathom_record::SCHEMA,
            "fathom_version": env!("CARGO_PKG_VERSION"),
            "verb": "ycsb",
            "objective": self.slo.text(),
            "rate_per_s": found.rate_per_s,
            "broken_per_s": found.broken_per_s,
            "client_limited": found.client_limited,
            "interrupted": found.interrupted,
            "checkpoint_blind": self.step < BLIND,
            "run_folder": folder,
            "steps": steps,
            "sentence": sentence,
        });
        Ok(output::line(&document.to_string())?)
    }

    fn sentence(&self, found: &Found) -> String {
        let slo = self.slo.text();
        let blind = if self.step < BLIND {
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
}

fn line(step: &Step, verdict: Verdict) -> String {
    let quantile = step.quantile_ns.map_or_else(|| "-".to_owned(), |ns| Nanos(ns).to_string());
    let lag = step.lag_ms.iter().sum::<f64>() / step.lag_ms.len().max(1) as f64;
    format!(
        "{:>10} {:>10} {quantile:>10} {lag:>8.2} {:>6.0}  {}",
        count(step.offered_per_s),
        count(step.achieved_per_s),
        step.client_cpu_share * 100.0,
        verdict.words()
    )
}
