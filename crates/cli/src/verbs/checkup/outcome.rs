//! The exit code of a checkup, from the verdict of its run.

use fathom_record::RunVerdict;
use fathom_session::SessionResult;

use super::config::Config;
use crate::outcome::VerbOutcome;

/// The outcome of the verdict. A need that an interruption left without an answer is not judged.
pub(super) fn verb_outcome(config: &Config, result: &SessionResult) -> VerbOutcome {
    let verdict = RunVerdict::new(&result.results, &result.probe_findings);
    match verdict {
        Some(verdict) if config.need.is_none() || verdict.is_of_need() => VerbOutcome::from(verdict.outcome),
        _ => VerbOutcome::Unjudged,
    }
}
