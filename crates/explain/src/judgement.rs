//! All rules over one run: budgets, and findings ranked by what following them would bring.

use fathom_record::Finding;
use fathom_record::amplification::Amplification;
use fathom_record::budget::Budget;
use fathom_record::members::MemberRow;
use fathom_record::queue::QueueLadder;

use crate::{Evidence, RULES};

/// What a run says.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Where the mean time went, for each server and kind of operation.
    pub budgets: Vec<Budget>,
    /// Why verdicts on the disk are withheld, a sentence each; empty where they are not.
    pub withheld: Vec<String>,
    /// The queues from the client down to each device.
    pub ladders: Vec<QueueLadder>,
    /// What is written and read for each byte of a user.
    pub amplifications: Vec<Amplification>,
    /// The servers side by side, where there are several.
    pub members: Vec<MemberRow>,
    /// The findings, ranked: the worst severity first, then the largest expected gain.
    pub findings: Vec<Finding>,
}

/// Judges a run by every rule of the table.
pub fn judge(evidence: &Evidence) -> Judgement {
    let mut judgement = Judgement::default();
    for rule in RULES {
        (rule.judge)(evidence, &mut judgement);
    }
    let gain = |finding: &Finding| finding.gain.as_ref().map_or(0.0, |gain| gain.share);
    judgement.findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| gain(b).total_cmp(&gain(a))));
    judgement
}
