//! The exit code of a checkup, from the causes found for the directory and the deployment, and from the need.

use fathom_record::capacity::{Capacity, CapacityLimit, NeedVerdict};
use fathom_record::disk::{Entry, capacities, need_answers};
use fathom_record::{Confidence, Finding};
use fathom_session::{Assessment, SessionResult};

use super::config::Config;
use super::deployment::parts;
use crate::outcome::VerbOutcome;

/// If there is a need, it alone decides. Otherwise a named cause of the deployment or the directory does, and then the deployment's verdict.
pub(super) fn verb_outcome(config: &Config, result: &SessionResult) -> VerbOutcome {
    if config.need.is_some() {
        return outcome_of_need(&result.results);
    }
    let (deployment, servers) = parts(config.is_watch(), &result.assessments);
    let of_deployment = deployment
        .and_then(|one| one.judgement.verdict.as_ref())
        .map_or(VerbOutcome::Unjudged, VerbOutcome::from);
    let of_directory = || {
        if config.measures_capacity() {
            outcome_of_capacities(&capacities(&result.results), &result.probe_findings)
        } else {
            outcome_without_capacity(&result.probe_findings, servers)
        }
    };
    match (config.is_watch(), config.examines_directory()) {
        (false, _) => of_directory(),
        (true, true) if of_directory() == VerbOutcome::Findings => VerbOutcome::Findings,
        (true, _) => of_deployment,
    }
}

/// The outcome of the worst answer to a need. Unjudged if the checkup ended before an answer.
fn outcome_of_need(results: &[Entry]) -> VerbOutcome {
    let verdicts: Vec<NeedVerdict> = need_answers(results).iter().map(|answer| answer.verdict).collect();
    if verdicts.contains(&NeedVerdict::No) {
        VerbOutcome::Findings
    } else if verdicts.is_empty() || verdicts.contains(&NeedVerdict::CannotTell) {
        VerbOutcome::Unjudged
    } else {
        VerbOutcome::Clean
    }
}

/// Findings of the probe that name a cause in storage: a limit in front of the disk, or a disk that is slower than its class.
const STORAGE_CAUSES: [&str; 5] =
    ["capped-by-cgroup", "capped-iops", "capped-bandwidth", "burst-exhausted", "slower-than-class"];

/// The findings of a probe that name a cause.
pub(super) fn storage_causes(disk: &[Finding]) -> impl Iterator<Item = &Finding> {
    disk.iter().filter(|one| STORAGE_CAUSES.contains(&one.id.as_str()) && is_named(one))
}

/// The outcome of measured capacities: findings for a cap or a slow disk, unjudged without any capacity.
fn outcome_of_capacities(capacities: &[&Capacity], disk: &[Finding]) -> VerbOutcome {
    let is_capped = |one: &&Capacity| one.limit == CapacityLimit::Cap;
    if capacities.iter().any(is_capped) || storage_causes(disk).next().is_some() {
        VerbOutcome::Findings
    } else if capacities.iter().any(|one| one.rate_per_s.is_some()) {
        VerbOutcome::Clean
    } else {
        VerbOutcome::Unjudged
    }
}

fn is_named(finding: &Finding) -> bool {
    finding.is_alarm() && finding.confidence != Confidence::CannotTell
}

/// The outcome of the findings on the disk and under load. Host settings alone do not count as findings here.
fn outcome_without_capacity(disk: &[Finding], loads: &[Assessment]) -> VerbOutcome {
    if disk.iter().any(is_named) {
        return VerbOutcome::Findings;
    }
    let under_load: Vec<VerbOutcome> =
        loads.iter().filter_map(|one| one.judgement.verdict.as_ref()).map(VerbOutcome::from).collect();
    if under_load.contains(&VerbOutcome::Findings) {
        VerbOutcome::Findings
    } else if under_load.contains(&VerbOutcome::Unjudged) || disk.iter().any(Finding::is_alarm) {
        VerbOutcome::Unjudged
    } else {
        VerbOutcome::Clean
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::Severity;
    use fathom_record::capacity::CapacityLoad;

    use super::*;

    fn capacity(rate_per_s: Option<f64>, limit: CapacityLimit) -> Capacity {
        Capacity {
            server: String::new(),
            load: CapacityLoad::Reads,
            objective: "p99<10ms".to_owned(),
            rate_per_s,
            broken_per_s: None,
            quantile_ns: None,
            device_reads_per_operation: None,
            device_reads_per_page: None,
            is_counted_by_process: false,
            limit,
            limit_reason: String::new(),
            saturation: None,
            checkpoints: None,
            withheld: None,
        }
    }

    #[test]
    fn a_capacity_is_good_news_unless_a_cause_stands_beside_it() {
        let held = capacity(Some(100.0), CapacityLimit::Disk);
        let none = capacity(None, CapacityLimit::Unknown);
        let capped = capacity(Some(100.0), CapacityLimit::Cap);
        let found = |id: &str, severity| vec![Finding::new(id, severity, "x")];
        assert_eq!(outcome_of_capacities(&[&held, &none], &[]), VerbOutcome::Clean);
        assert_eq!(outcome_of_capacities(&[&none], &[]), VerbOutcome::Unjudged);
        assert_eq!(outcome_of_capacities(&[], &[]), VerbOutcome::Unjudged);
        assert_eq!(outcome_of_capacities(&[&held, &capped], &[]), VerbOutcome::Findings);
        let slow = found("slower-than-class", Severity::Warning);
        assert_eq!(outcome_of_capacities(&[&held], &slow), VerbOutcome::Findings);
        let not_reached = found("capped-by-cgroup", Severity::Note);
        assert_eq!(outcome_of_capacities(&[&held], &not_reached), VerbOutcome::Clean);
        let memory = found("memory-not-disk", Severity::Warning);
        assert_eq!(outcome_of_capacities(&[&held], &memory), VerbOutcome::Clean);
        let untold = vec![slow[0].clone().confidence(Confidence::CannotTell)];
        assert_eq!(outcome_of_capacities(&[&held], &untold), VerbOutcome::Clean);
    }
}
