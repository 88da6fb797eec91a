//! The outcome of a verb, and its exit code.

use fathom_explain::{Answer, FailCondition};
use fathom_record::disk::Entry;
use fathom_record::verdict::Verdict;

use crate::output;

/// How a verb ended when nothing went wrong with the tool itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All well: exit code 0.
    Clean,
    /// A finding, a named cause that holds the system back, or operations that failed: exit code 1.
    Findings,
    /// What was measured could not be judged: exit code 4.
    Unjudged,
}

impl From<&Verdict> for Outcome {
    fn from(verdict: &Verdict) -> Self {
        match verdict.exit_code() {
            0 => Outcome::Clean,
            1 => Outcome::Findings,
            _ => Outcome::Unjudged,
        }
    }
}

impl Outcome {
    /// What `--fail-if` makes of it: the condition alone decides, and standard error says why.
    pub(crate) fn or_by(self, condition: Option<&FailCondition>, results: &[Entry]) -> Outcome {
        let Some(condition) = condition else { return self };
        let (answer, sentence) = condition.check(results);
        output::note(&sentence);
        match answer {
            Answer::Yes => Outcome::Findings,
            Answer::No => Outcome::Clean,
            Answer::Unknown => Outcome::Unjudged,
        }
    }
}

impl From<Outcome> for std::process::ExitCode {
    fn from(outcome: Outcome) -> Self {
        std::process::ExitCode::from(match outcome {
            Outcome::Clean => 0,
            Outcome::Findings => 1,
            Outcome::Unjudged => 4,
        })
    }
}
