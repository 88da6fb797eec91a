//! The exit code of a checkup, from the verdict of its run.

use fathom_session::SessionResult;

use crate::outcome::VerbOutcome;

/// The outcome of the verdict that text, page and JSON state. A need that an interruption left without an answer is not judged.
pub(super) fn verb_outcome(has_need: bool, result: &SessionResult) -> VerbOutcome {
    match result.verdict() {
        Some(verdict) if !has_need || verdict.is_of_need() => VerbOutcome::from(verdict.outcome),
        _ => VerbOutcome::Unjudged,
    }
}

#[cfg(test)]
mod tests {
    use fathom_explain::{Evidence, Judgement};
    use fathom_record::State;
    use fathom_record::disk::{DiskFitness, Entry, FitnessOutcome};
    use fathom_record::verdict::{Outcome, Verdict};
    use fathom_session::Assessment;

    use super::*;

    fn watched(outcome: Outcome, disk: Option<FitnessOutcome>) -> SessionResult {
        let verdict = Verdict { is_of_deployment: true, ..Verdict::new(outcome, "The server.") };
        let judgement = Judgement { verdict: Some(verdict), ..Judgement::default() };
        let fitness = |outcome| Entry::Fitness(DiskFitness { outcome, words: "The disk.".to_owned() });
        SessionResult {
            state: State::Complete,
            folder: None,
            results: disk.map(fitness).into_iter().collect(),
            probe_findings: Vec::new(),
            assessments: vec![Assessment {
                subject: "a".to_owned(),
                evidence: Evidence::default(),
                judgement,
                notes: Vec::new(),
            }],
            search: None,
            is_interrupted: false,
            broken: None,
            error: None,
        }
    }

    #[test]
    fn the_deployment_decides_the_exit_code_with_and_without_a_directory() {
        let exit_code = |outcome, disk| verb_outcome(false, &watched(outcome, disk)).exit_code();
        let codes = [
            (Outcome::HeldBack, 1),
            (Outcome::NotHeldBack, 0),
            (Outcome::CannotTell, 4),
            (Outcome::NotExamined, 4),
        ];
        for (outcome, code) in codes {
            assert_eq!(exit_code(outcome, None), code, "{outcome:?}");
            assert_eq!(exit_code(outcome, Some(FitnessOutcome::Sound)), code, "{outcome:?}");
        }
        assert_eq!(exit_code(Outcome::NotHeldBack, Some(FitnessOutcome::Spoiled)), 1);
    }

    #[test]
    fn a_need_without_an_answer_is_not_judged() {
        assert_eq!(verb_outcome(true, &watched(Outcome::NotHeldBack, None)), VerbOutcome::Unjudged);
    }
}
