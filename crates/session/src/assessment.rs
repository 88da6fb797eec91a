//! An assessment: a judgement together with its evidence, from a monitored window or from a run folder.

use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use fathom_explain::{Evidence, Judgement, judge, judge_in_turn};
use fathom_record::disk::Entry;
use fathom_record::verdict::Verdict;
use fathom_record::{Finding, FindingOrigin, Run, RunVerdict, State, VerdictBasis};
use fathom_report::verdict_sentence;

use crate::RecentWindow;

/// A judgement with its evidence.
#[derive(Debug)]
pub struct Assessment {
    /// The judged system in words: a deployment, a lab server, or a run.
    pub subject: String,
    /// The evidence of the judgement.
    pub evidence: Evidence,
    /// The figures, the findings and the verdict.
    pub judgement: Judgement,
    /// One sentence for each thing that could not be read.
    pub notes: Vec<String>,
}

impl Assessment {
    /// Judges a monitored window.
    pub(crate) fn of_window(subject: String, window: RecentWindow) -> Assessment {
        let RecentWindow { evidence, notes, .. } = window;
        Assessment { subject, judgement: judge(&evidence), evidence, notes }
    }

    /// Judges a run folder by the rules of this version and does not change the folder. `more` adds results, such as the steps of a
    /// probe of the same device. Also returns how the run ended.
    ///
    /// # Errors
    /// When the folder cannot be read, or holds no series.
    pub fn of_folder(folder: &Path, more: Vec<Entry>) -> Result<(Assessment, State)> {
        let run = Run::open(folder)?;
        let mut evidence = Evidence::from_run(&run)?;
        evidence.results.extend(more);
        if evidence.series.iter().next().is_none() {
            let what = format!("{} holds no series to judge", folder.display());
            return Err(Error::new(Kind::Unsupported, what).advise("name a run of ycsb, watch or explain"));
        }
        let manifest = &run.manifest;
        let judgement = match manifest.verb.as_str() {
            "checkup" => judgement_of_checkup(&evidence, &run)?,
            _ => judge(&evidence),
        };
        let subject = format!("{} of {}", manifest.verb, manifest.started);
        let assessment = Assessment { subject, judgement, notes: manifest.notes(), evidence };
        Ok((assessment, manifest.state))
    }
}

/// The findings of several assessments, the costliest first.
pub fn ranked_findings(assessments: &[Assessment]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        assessments.iter().flat_map(|one| one.judgement.findings.iter().cloned()).collect();
    // The findings of each server are ranked already.
    let share = |finding: &Finding| finding.cost.as_ref().map_or(-1.0, |cost| cost.share);
    findings.sort_by(|a, b| share(b).total_cmp(&share(a)).then_with(|| b.severity.cmp(&a.severity)));
    findings
}

/// The verdict of a run as one on a system.
fn recorded_verdict(verdict: &RunVerdict<'_>) -> Verdict {
    match &verdict.basis {
        VerdictBasis::Server(verdict) => verdict.clone(),
        _ => Verdict::new(verdict.outcome, verdict_sentence(verdict)),
    }
}

/// Whether a finding was made under load, and is no setting of the host or result of a probe.
fn is_under_load(finding: &Finding) -> bool {
    !matches!(finding.origin(), FindingOrigin::Host | FindingOrigin::Disk)
}

/// The recorded judgement of a checkup. Its loads ran one after another, so each server was judged by itself. A checkup without recorded
/// verdicts is judged again in the same way.
fn judgement_of_checkup(evidence: &Evidence, run: &Run) -> Result<Judgement> {
    let mut judgement = Judgement::default();
    let mut verdicts = Vec::new();
    for entry in evidence.results.iter().cloned() {
        match entry {
            Entry::Budget(budget) => judgement.budgets.push(budget),
            Entry::Queue(ladder) => judgement.ladders.push(ladder),
            Entry::Amplification(one) => judgement.amplifications.push(one),
            Entry::Member(row) => judgement.members.push(row),
            Entry::Judged(verdict) => verdicts.push(*verdict),
            _ => {}
        }
    }
    judgement.findings = run.findings()?;
    judgement.verdict = RunVerdict::with_servers(&evidence.results, &judgement.findings, &verdicts)
        .map(|verdict| recorded_verdict(&verdict));
    judgement.findings.retain(is_under_load);
    Ok(if judgement.verdict.is_some() { judgement } else { judge_in_turn(evidence) })
}
