//! An assessment: a judgement together with its evidence, from a monitored window or from a run folder.

use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use fathom_explain::{Evidence, Judgement, judge, judge_in_turn};
use fathom_record::disk::Entry;
use fathom_record::verdict::Verdict;
use fathom_record::{Finding, FindingOrigin, RunVerdict, State, VerdictBasis};
use fathom_report::verdict_sentence;

use crate::RecentWindow;
use crate::recorded_series::open_run;

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
    pub(crate) fn from_window(subject: String, window: RecentWindow) -> Assessment {
        let RecentWindow { evidence, notes, .. } = window;
        Assessment { subject, judgement: judge(&evidence), evidence, notes }
    }

    /// Judges a run folder by the rules of this version and does not change the folder. `more` adds results, such as the steps of a
    /// probe of the same device. Also returns how the run ended.
    ///
    /// # Errors
    /// When the folder cannot be read, or holds no series.
    pub fn from_folder(folder: &Path, more: Vec<Entry>) -> Result<(Assessment, State)> {
        let run = open_run(folder)?;
        let mut evidence = Evidence::from_run(&run)?;
        evidence.results.extend(more);
        if evidence.series.iter().next().is_none() {
            let what = format!("{} holds no series to judge", folder.display());
            return Err(Error::new(Kind::Unsupported, what).advise("name a run of ycsb, watch or explain"));
        }
        let manifest = &run.manifest;
        let judgement = match manifest.verb.as_str() {
            "checkup" => judgement_of_checkup(&evidence, run.findings()?),
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
/// verdicts, by an older version, is judged again in the same way; its need or its capacities still decide the verdict.
fn judgement_of_checkup(evidence: &Evidence, findings: Vec<Finding>) -> Judgement {
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
    judgement.findings = findings;
    judgement.verdict = RunVerdict::with_servers(&evidence.results, &judgement.findings, &verdicts)
        .map(|verdict| recorded_verdict(&verdict));
    judgement.findings.retain(is_under_load);
    if !verdicts.is_empty() || (judgement.verdict.is_some() && evidence.members().is_empty()) {
        return judgement;
    }
    let again = judge_in_turn(evidence);
    let verdict = judgement.verdict.or_else(|| again.verdict.clone());
    Judgement { verdict, ..again }
}

#[cfg(test)]
mod tests {
    use fathom_record::capacity::{Capacity, CapacityLimit, CapacityLoad};
    use fathom_record::verdict::Outcome;
    use fathom_record::{Point, SeriesSet};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A minute of a server whose capacity was stated, and which stopped once for 4 s.
    fn searched(recorded: Vec<Entry>) -> Evidence {
        let mut series = SeriesSet::default();
        let mut begin_ns = 0;
        for second in 0..60 {
            let end_ns = begin_ns + if second == 20 { 5 * SECOND } else { SECOND };
            series.add("server.0.reads.operations", "1", Point { begin_ns, end_ns, value: 100.0 });
            begin_ns = end_ns;
        }
        let capacity = Capacity {
            server: "s".to_owned(),
            load: CapacityLoad::Reads,
            objective: "p99<10ms".to_owned(),
            rate_per_s: Some(100.0),
            broken_per_s: None,
            quantile_ns: None,
            device_reads_per_operation: None,
            device_reads_per_page: None,
            is_counted_by_process: false,
            limit: CapacityLimit::Disk,
            limit_reason: String::new(),
            saturation: None,
            checkpoints: None,
            withheld: None,
        };
        let results = std::iter::once(Entry::Capacity(Box::new(capacity))).chain(recorded).collect();
        Evidence { series, results, window_ns: (0, begin_ns), ..Evidence::default() }
    }

    #[test]
    fn the_closed_loops_of_an_old_search_are_judged_and_decide_nothing() {
        let ids = |judgement: &Judgement| -> Vec<String> {
            judgement.findings.iter().map(|finding| finding.id.clone()).collect()
        };
        let outcome = |judgement: &Judgement| judgement.verdict.as_ref().map(|verdict| verdict.outcome);
        let old = judgement_of_checkup(&searched(Vec::new()), Vec::new());
        assert!(ids(&old).contains(&"server-stood-still".to_owned()), "{:?}", ids(&old));
        assert_eq!(outcome(&old), Some(Outcome::NotHeldBack));
        let closed = Verdict::new(Outcome::HeldBack, "The server.");
        let recorded = searched(vec![Entry::Judged(Box::new(closed))]);
        let new = judgement_of_checkup(&recorded, Vec::new());
        assert_eq!((ids(&new), outcome(&new)), (Vec::new(), Some(Outcome::NotHeldBack)));
    }
}
