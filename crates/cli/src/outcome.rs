//! The outcome of a verb, and its exit code.

use fathom_explain::{ConditionAnswer, FailCondition};
use fathom_record::disk::Entry;
use fathom_record::verdict::{Outcome, Verdict};

use crate::output;

/// The outcome of a verb that did not fail itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerbOutcome {
    /// All well: exit code 0.
    Clean,
    /// A finding, a named cause that holds the system back, or operations that failed: exit code 1.
    Findings,
    /// The measurements do not allow a verdict: exit code 4.
    Unjudged,
}

impl From<&Verdict> for VerbOutcome {
    fn from(verdict: &Verdict) -> Self {
        VerbOutcome::from(verdict.outcome)
    }
}

impl From<Outcome> for VerbOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome.exit_code() {
            0 => VerbOutcome::Clean,
            1 => VerbOutcome::Findings,
            _ => VerbOutcome::Unjudged,
        }
    }
}

impl VerbOutcome {
    /// The stable id of the outcome, which docs/exits.md lists.
    pub(crate) fn id(self) -> &'static str {
        match self {
            VerbOutcome::Clean => "ok",
            VerbOutcome::Findings => "findings",
            VerbOutcome::Unjudged => "not-judged",
        }
    }

    pub(crate) fn exit_code(self) -> u8 {
        match self {
            VerbOutcome::Clean => 0,
            VerbOutcome::Findings => 1,
            VerbOutcome::Unjudged => 4,
        }
    }

    /// The outcome with `--fail-if`: the condition alone decides, and standard error has the reason.
    pub(crate) fn or_by(self, condition: Option<&FailCondition>, results: &[Entry]) -> VerbOutcome {
        let Some(condition) = condition else { return self };
        let (answer, sentence) = condition.check(results);
        output::note(&sentence);
        match answer {
            ConditionAnswer::Yes => VerbOutcome::Findings,
            ConditionAnswer::No => VerbOutcome::Clean,
            ConditionAnswer::Unknown => VerbOutcome::Unjudged,
        }
    }
}
