//! The findings that a person should look at first.

use fathom_explain::Judgement;
use fathom_record::{Confidence, Finding, Severity};
use serde::Serialize;

/// How many are shown.
const MOST: usize = 3;

/// One finding in a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Suspect {
    pub(crate) id: String,
    pub(crate) claim: String,
    pub(crate) confidence: Confidence,
    pub(crate) severity: Severity,
    /// The part of the mean response time that would go without it.
    pub(crate) cost_share: Option<f64>,
    /// What following its advice would take off, as a share, and of what.
    pub(crate) gain: Option<(f64, String)>,
}

/// The first of the findings that say that something is wrong or worth knowing, as they are ranked: by what they cost.
pub(super) fn top(judgement: &Judgement) -> Vec<Suspect> {
    let is_worth_a_line = |finding: &&Finding| finding.severity > Severity::Ok;
    judgement
        .findings
        .iter()
        .filter(is_worth_a_line)
        .take(MOST)
        .map(|finding| Suspect {
            id: finding.id.clone(),
            claim: finding.claim.clone(),
            confidence: finding.confidence,
            severity: finding.severity,
            cost_share: finding.cost.as_ref().map(|cost| cost.share),
            gain: finding.gain.as_ref().map(|gain| (gain.share, gain.of.clone())),
        })
        .collect()
}
