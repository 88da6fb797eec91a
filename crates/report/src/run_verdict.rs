//! The one verdict of a run in words.

use fathom_record::{RunVerdict, VerdictBasis};

use crate::capacity::capacity_sentences;

/// The verdict as one or several sentences.
pub fn verdict_sentence(verdict: &RunVerdict<'_>) -> String {
    match &verdict.basis {
        VerdictBasis::Needs(answers) => {
            let sentences: Vec<&str> = answers.iter().map(|answer| answer.sentence.as_str()).collect();
            sentences.join(" ")
        }
        VerdictBasis::Capacities(capacities) => capacity_sentences(capacities).join(" "),
        VerdictBasis::Cause(finding) if finding.claim.ends_with('.') => finding.claim.clone(),
        VerdictBasis::Cause(finding) => format!("{}.", finding.claim),
        VerdictBasis::Server(verdict) => verdict.sentence.clone(),
        VerdictBasis::Disk(fitness) => fitness.words.clone(),
    }
}
