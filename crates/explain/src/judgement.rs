//! The result of all rules for a run: budgets, and findings ranked by the gain of following them.

use std::collections::BTreeMap;

use fathom_record::amplification::Amplification;
use fathom_record::budget::Budget;
use fathom_record::disk::Entry;
use fathom_record::members::MemberRow;
use fathom_record::pictures::scaling::Scaling;
use fathom_record::queue::QueueLadder;
use fathom_record::verdict::Verdict;
use fathom_record::{Confidence, Finding, Severity};

/// The result of judging a run.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// The parts of the mean time, for each server and kind of operation.
    pub budgets: Vec<Budget>,
    /// The queues from the client down to each device.
    pub ladders: Vec<QueueLadder>,
    /// The bytes written and read for each byte of a user.
    pub amplifications: Vec<Amplification>,
    /// A row for each server, if there are several.
    pub members: Vec<MemberRow>,
    /// The findings, ranked: those that cost most first, then the worst severity, then the largest expected gain.
    pub findings: Vec<Finding>,
    /// When checkpoints of each server ran, by its number: begin and end in seconds since the run's start. Charts show them too.
    pub checkpoints: BTreeMap<String, Vec<(f64, f64)>>,
    /// The laws of scaling fitted to each ladder of connections. Charts show them too.
    pub scalings: Vec<Scaling>,
    /// The reasons why verdicts on the disk are withheld, a sentence each; empty if they are not. The guard runs first and fills it.
    pub withheld: Vec<String>,
    /// Whether something holds the system back; the last rule fills it.
    pub verdict: Option<Verdict>,
}

impl Judgement {
    /// Its figures and its verdict as results of a run; a run folder has the findings in another file.
    pub fn results(&self) -> Vec<Entry> {
        let mut results: Vec<Entry> = self.budgets.iter().cloned().map(Entry::Budget).collect();
        results.extend(self.ladders.iter().cloned().map(Entry::Queue));
        results.extend(self.amplifications.iter().cloned().map(Entry::Amplification));
        results.extend(self.members.iter().cloned().map(Entry::Member));
        results.extend(self.verdict.iter().cloned().map(|verdict| Entry::Judged(Box::new(verdict))));
        results
    }

    /// Adds a finding on the disk, or on another part of the path whose times grow with waits for a processor. If such
    /// verdicts are withheld, it becomes one that cannot be decided, with the reason.
    pub fn add_unless_withheld(&mut self, mut finding: Finding) {
        if !self.withheld.is_empty() {
            finding.severity = finding.severity.min(Severity::Note);
            finding.confidence = Confidence::CannotTell;
            finding.gain = None;
            let reasons = self.withheld.iter().map(|reason| format!("Withheld: {reason}"));
            finding.evidence.extend(reasons);
            finding.next_look = Some("Measure again when processors are free, then judge this.".to_owned());
        }
        self.findings.push(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_withheld_is_no_alarm_and_says_why() {
        let mut judgement = Judgement::default();
        let finding = || Finding::new("disk-slow", Severity::Warning, "The disk is slow.");
        judgement.add_unless_withheld(finding());
        judgement.withheld.push("the host's processors are busy.".to_owned());
        judgement.add_unless_withheld(finding());
        assert_eq!(judgement.findings[0], finding());
        let withheld = &judgement.findings[1];
        assert!(!withheld.is_alarm() && withheld.confidence == Confidence::CannotTell);
        assert!(withheld.evidence[0].contains("processors are busy"), "{withheld:#?}");
    }
}
