//! The one verdict of a run: from the answer to its need, its capacities, the verdicts on servers, and the fitness of the disk.
//!
//! Text, pages, JSON and exit codes all use it, so that none of them can contradict another.

use crate::capacity::{Capacity, CapacityLimit, NeedAnswer, NeedVerdict};
use crate::disk::{DiskFitness, FitnessOutcome, capacities, need_answers};
use crate::entry::Entry;
use crate::verdict::{Outcome, Verdict};
use crate::{Confidence, Finding, FindingOrigin};

/// Findings of a probe that name a limit in front of the disk, or a disk that is slower than its class. A capacity was measured under them, so
/// other findings of the probe do not change it.
const STORAGE_CAUSES: [&str; 5] =
    ["capped-by-cgroup", "capped-iops", "capped-bandwidth", "burst-exhausted", "slower-than-class"];

/// The findings of a probe that name the cause of a low capacity.
pub fn storage_causes<'f>(
    findings: impl IntoIterator<Item = &'f Finding>,
) -> impl Iterator<Item = &'f Finding> {
    findings.into_iter().filter(|one| {
        one.origin() == FindingOrigin::Disk
            && STORAGE_CAUSES.contains(&one.id.as_str())
            && one.is_alarm()
            && one.confidence != Confidence::CannotTell
    })
}

/// The outcome of a run, with the part of the record that decided it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunVerdict<'r> {
    pub outcome: Outcome,
    pub basis: VerdictBasis<'r>,
}

/// The part of a record that decides the verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum VerdictBasis<'r> {
    /// The answers to a need, one for each server.
    Needs(Vec<&'r NeedAnswer>),
    /// The capacities that a search measured.
    Capacities(Vec<&'r Capacity>),
    /// A finding of the probe that names a limit of the storage.
    Cause(&'r Finding),
    /// The verdict on the worst server.
    Server(Verdict),
    /// The judgement of the probe.
    Disk(&'r DiskFitness),
}

impl<'r> RunVerdict<'r> {
    /// The verdict over a recorded run; `None` if nothing was judged.
    pub fn new(results: &'r [Entry], findings: &'r [Finding]) -> Option<RunVerdict<'r>> {
        let judged = results.iter().filter_map(|entry| match entry {
            Entry::Judged(verdict) => Some(verdict.as_ref()),
            _ => None,
        });
        RunVerdict::with_servers(results, findings, judged)
    }

    /// The verdict over these results and findings and the verdicts on servers; `None` if nothing was judged. A need alone decides, if there is
    /// one. A named limit of the storage comes before the verdict on a deployment, and that before capacities. Settings of the host decide
    /// nothing.
    pub fn with_servers<'v>(
        results: &'r [Entry],
        findings: &'r [Finding],
        servers: impl IntoIterator<Item = &'v Verdict>,
    ) -> Option<RunVerdict<'r>> {
        let needs = need_answers(results);
        if !needs.is_empty() {
            return Some(RunVerdict { outcome: outcome_of_needs(&needs), basis: VerdictBasis::Needs(needs) });
        }
        let capacities = capacities(results);
        let server = server_verdict(servers, !capacities.is_empty());
        let server = server
            .map(|verdict| RunVerdict { outcome: verdict.outcome, basis: VerdictBasis::Server(verdict) });
        if capacities.is_empty() {
            // Of two that are as bad the first counts: the verdict on a server has a cost.
            let disk = disk_verdict(results, findings);
            return server.into_iter().chain(disk).min_by_key(RunVerdict::rank);
        }
        if capacities.iter().any(|one| one.limit == CapacityLimit::Cap) {
            let basis = VerdictBasis::Capacities(capacities);
            return Some(RunVerdict { outcome: Outcome::HeldBack, basis });
        }
        if let Some(cause) = storage_causes(findings).next() {
            return Some(RunVerdict { outcome: Outcome::HeldBack, basis: VerdictBasis::Cause(cause) });
        }
        let is_known = capacities.iter().any(|one| one.rate_per_s.is_some());
        let outcome = if is_known { Outcome::NotHeldBack } else { Outcome::CannotTell };
        Some(server.unwrap_or(RunVerdict { outcome, basis: VerdictBasis::Capacities(capacities) }))
    }

    /// The rank of its outcome. A sound disk does not answer for a deployment that was watched and could not be examined.
    fn rank(&self) -> u8 {
        match &self.basis {
            VerdictBasis::Server(verdict) if verdict.is_of_deployment => {
                self.outcome.rank().min(Outcome::NotHeldBack.rank())
            }
            _ => self.outcome.rank(),
        }
    }

    /// Whether it answers a need.
    pub fn is_of_need(&self) -> bool {
        matches!(self.basis, VerdictBasis::Needs(_))
    }
}

/// The probe's judgement; without one, as after a single window, a limit that the probe names.
fn disk_verdict<'r>(results: &'r [Entry], findings: &'r [Finding]) -> Option<RunVerdict<'r>> {
    let fitness = results.iter().rev().find_map(|entry| match entry {
        Entry::Fitness(fitness) => Some(fitness),
        _ => None,
    });
    let of_fitness = fitness
        .map(|fitness| RunVerdict { outcome: fitness.outcome.into(), basis: VerdictBasis::Disk(fitness) });
    of_fitness.or_else(|| {
        let cause = storage_causes(findings).next()?;
        Some(RunVerdict { outcome: Outcome::HeldBack, basis: VerdictBasis::Cause(cause) })
    })
}

fn outcome_of_needs(needs: &[&NeedAnswer]) -> Outcome {
    let has = |verdict| needs.iter().any(|answer| answer.verdict == verdict);
    if has(NeedVerdict::No) {
        Outcome::HeldBack
    } else if has(NeedVerdict::CannotTell) {
        Outcome::CannotTell
    } else {
        Outcome::NotHeldBack
    }
}

/// The worst verdict on a server. A closed loop that measures a capacity is meant to be held back, so only the verdict on a deployment that
/// was watched counts next to capacities.
fn server_verdict<'v>(
    servers: impl IntoIterator<Item = &'v Verdict>,
    has_capacities: bool,
) -> Option<Verdict> {
    let counted = servers.into_iter().filter(|verdict| verdict.is_of_deployment || !has_capacities);
    Verdict::worst(counted.cloned())
}

impl From<FitnessOutcome> for Outcome {
    fn from(outcome: FitnessOutcome) -> Outcome {
        match outcome {
            FitnessOutcome::Sound => Outcome::NotHeldBack,
            FitnessOutcome::Spoiled => Outcome::HeldBack,
            FitnessOutcome::CannotTell => Outcome::CannotTell,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;
    use crate::capacity::CapacityLoad;

    fn capacity(rate_per_s: Option<f64>, limit: CapacityLimit) -> Entry {
        Entry::Capacity(Box::new(Capacity {
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
        }))
    }

    fn fitness(outcome: FitnessOutcome) -> Entry {
        Entry::Fitness(DiskFitness { outcome, words: "The disk.".to_owned() })
    }

    fn judged(outcome: Outcome, is_of_deployment: bool) -> Entry {
        Entry::Judged(Box::new(Verdict { is_of_deployment, ..Verdict::new(outcome, "The server.") }))
    }

    fn outcome(results: &[Entry], findings: &[Finding]) -> Option<Outcome> {
        RunVerdict::new(results, findings).map(|verdict| verdict.outcome)
    }

    fn found(id: &str, severity: Severity) -> Finding {
        Finding { origin: Some(FindingOrigin::Disk), ..Finding::new(id, severity, "x") }
    }

    #[test]
    fn a_capacity_is_good_news_unless_a_cause_is_named() {
        let held = capacity(Some(100.0), CapacityLimit::Disk);
        let none = capacity(None, CapacityLimit::Unknown);
        let capped = capacity(Some(100.0), CapacityLimit::Cap);
        let of = |results: &[Entry], findings: &[Finding]| outcome(results, findings).unwrap();
        assert_eq!(of(&[held.clone(), none.clone()], &[]), Outcome::NotHeldBack);
        assert_eq!(of(&[none], &[]), Outcome::CannotTell);
        assert_eq!(of(&[held.clone(), capped], &[]), Outcome::HeldBack);
        let held = [held];
        let slow = found("slower-than-class", Severity::Warning);
        assert_eq!(of(&held, std::slice::from_ref(&slow)), Outcome::HeldBack);
        assert_eq!(of(&held, &[found("capped-by-cgroup", Severity::Note)]), Outcome::NotHeldBack);
        assert_eq!(of(&held, &[found("memory-not-disk", Severity::Warning)]), Outcome::NotHeldBack);
        assert_eq!(of(&held, &[slow.clone().confidence(Confidence::CannotTell)]), Outcome::NotHeldBack);
        // A finding under load of the same name is no result of the probe.
        let elsewhere = Finding { origin: Some(FindingOrigin::Server), ..slow };
        assert_eq!(of(&held, &[elsewhere]), Outcome::NotHeldBack);
    }

    #[test]
    fn no_outcome_of_disk_and_load_hides_a_worse_one() {
        use FitnessOutcome::{Sound, Spoiled};
        use Outcome::{CannotTell, HeldBack, NotExamined, NotHeldBack};

        for disk in [None, Some(Sound), Some(Spoiled), Some(FitnessOutcome::CannotTell)] {
            for load in [None, Some(HeldBack), Some(NotHeldBack), Some(CannotTell), Some(NotExamined)] {
                let results: Vec<Entry> =
                    load.map(|load| judged(load, false)).into_iter().chain(disk.map(fitness)).collect();
                let both: Vec<Outcome> = load.into_iter().chain(disk.map(Outcome::from)).collect();
                let expected = both.iter().copied().min_by_key(|outcome| outcome.rank());
                assert_eq!(outcome(&results, &[]), expected, "{disk:?} {load:?}");
                if disk == Some(Spoiled) || load == Some(HeldBack) {
                    assert_eq!(expected.map(Outcome::exit_code), Some(1));
                }
            }
        }
    }

    #[test]
    fn a_closed_loop_decides_nothing_and_a_deployment_does() {
        let held = capacity(Some(100.0), CapacityLimit::Disk);
        let closed = judged(Outcome::HeldBack, false);
        assert_eq!(outcome(&[held.clone(), closed.clone()], &[]), Some(Outcome::NotHeldBack));
        use Outcome::{CannotTell, HeldBack, NotExamined, NotHeldBack};
        for of_deployment in [HeldBack, CannotTell, NotHeldBack, NotExamined] {
            let deployment = judged(of_deployment, true);
            // A quick checkup has no closed loops.
            assert_eq!(outcome(&[deployment.clone(), held.clone()], &[]), Some(of_deployment));
            let results = [deployment, held.clone(), closed.clone()];
            assert_eq!(outcome(&results, &[]), Some(of_deployment));
        }
    }

    #[test]
    fn a_sound_disk_does_not_answer_for_a_deployment() {
        let of_both = |disk| outcome(&[judged(Outcome::NotExamined, true), fitness(disk)], &[]);
        assert_eq!(of_both(FitnessOutcome::Sound), Some(Outcome::NotExamined));
        assert_eq!(of_both(FitnessOutcome::CannotTell), Some(Outcome::CannotTell));
        assert_eq!(of_both(FitnessOutcome::Spoiled), Some(Outcome::HeldBack));
    }

    #[test]
    fn a_need_alone_decides() {
        let need = |verdict| {
            Entry::Need(Box::new(NeedAnswer {
                server: String::new(),
                need: "reads=1".to_owned(),
                verdict,
                sentence: String::new(),
                device_reads_per_s: 1.0,
                writes_per_s: 0.0,
                factor: None,
                broken_factor: None,
                assumptions: Vec::new(),
            }))
        };
        let capped = capacity(Some(100.0), CapacityLimit::Cap);
        let of = |verdicts: &[NeedVerdict]| {
            let needs = verdicts.iter().map(|verdict| need(*verdict));
            outcome(&needs.chain([capped.clone()]).collect::<Vec<_>>(), &[])
        };
        assert_eq!(of(&[NeedVerdict::Yes]), Some(Outcome::NotHeldBack));
        assert_eq!(of(&[NeedVerdict::Yes, NeedVerdict::CannotTell]), Some(Outcome::CannotTell));
        assert_eq!(of(&[NeedVerdict::CannotTell, NeedVerdict::No]), Some(Outcome::HeldBack));
    }
}
