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
    /// What following its advice would take off, as a share, and of what.
    pub(crate) gain: Option<(f64, String)>,
}

/// The first of the ranked findings that say that something is wrong or worth knowing; what cannot be told comes last.
pub(super) fn top(judgement: &Judgement) -> Vec<Suspect> {
    let told = |finding: &&Finding| finding.confidence != Confidence::CannotTell;
    let worth = |finding: &&Finding| finding.severity > Severity::Ok;
    let findings = || judgement.findings.iter().filter(worth);
    findings()
        .filter(told)
        .chain(findings().filter(|finding| !told(finding)))
        .take(MOST)
        .map(|finding| Suspect {
            id: finding.id.clone(),
            claim: finding.claim.clone(),
            confidence: finding.confidence,
            severity: finding.severity,
            gain: finding.gain.as_ref().map(|gain| (gain.share, gain.of.clone())),
        })
        .collect()
}
