//! Derives findings and a verdict from steps: pure functions over the record, so that a newer version can judge a run again.
//!
//! The verdict answers in one sentence whether the disk is fit to be judged, and whether anything distorts its figures. It has
//! three outcomes, as everywhere: yes, no, cannot tell. It does not say whether the disk is fast enough for a given load: that
//! needs the load.

mod allowance_limit;
mod artefacts;
mod burst;
mod cap;
mod classes;
mod device_class;
mod evidence;
mod knee;
mod meaning;
mod medium;

use fathom_record::disk::{DiskFitness, FitnessOutcome, Knee};
use fathom_record::{Confidence, Finding, FindingOrigin};
use fathom_units::{Nanos, count};

pub use allowance_limit::{AllowanceLimit, MAX_BURST_END_SHARE, excluded_requests};
pub(crate) use burst::{RateReadings, is_full, judge as burst, level_of, levels, shows_bucket};
pub use classes::{StorageClass, nearest};
pub use device_class::{DeviceClass, device_class};
pub use evidence::DiskEvidence;
pub use knee::knee;
pub use meaning::{DatasetSize, meanings};
pub use medium::Medium;

/// All findings about the disk.
pub fn findings(evidence: &DiskEvidence<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(evidence.in_memory.map(artefacts::memory));
    findings.extend(cap::findings(evidence));
    let is_capped = findings.iter().any(Finding::is_alarm);
    findings.extend(classes::slower(evidence, is_capped));
    findings.extend(artefacts::flushes(evidence));
    findings.extend(evidence.layout.and_then(artefacts::first_write));
    findings.extend(artefacts::burst(evidence));
    findings.extend(artefacts::slowed(evidence.steps));
    findings.extend(artefacts::busy_cpu(evidence.steps));
    for finding in &mut findings {
        finding.set_origin(FindingOrigin::Disk);
        finding.priority = finding.priority();
    }
    findings
}

/// The judgement of a disk from its findings and its knee. Every alarm spoils it, except one that the evidence does not decide: then the figures are
/// not the disk's.
pub fn fitness(findings: &[Finding], knee: Option<&Knee>) -> DiskFitness {
    let (unsure, mut spoilers): (Vec<&Finding>, Vec<&Finding>) = findings
        .iter()
        .filter(|finding| finding.is_alarm())
        .partition(|finding| finding.confidence == Confidence::CannotTell);
    spoilers.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let say = |outcome, words| DiskFitness { outcome, words };
    if let Some(worst) = spoilers.first() {
        let more = match spoilers.len() {
            1 => String::new(),
            n => format!(" ({} more below)", n - 1),
        };
        return say(FitnessOutcome::Spoiled, format!("{}{more}.", worst.claim));
    }
    let Some(knee) = knee else {
        return say(FitnessOutcome::CannotTell, "Too little was measured for a verdict.".to_owned());
    };
    if let Some(why) = &knee.withheld {
        return say(FitnessOutcome::CannotTell, format!("No verdict on the disk: {why}."));
    }
    if !unsure.is_empty() {
        let words = "No verdict on the disk: in most steps the CPU set the pace; repeat on an idle machine.";
        return say(FitnessOutcome::CannotTell, words.to_owned());
    }
    let words = format!(
        "The probe found no problem with this disk: up to {} random 4 KiB reads per second, {} for one.",
        count(knee.throughput_max_per_s),
        Nanos(knee.latency_at_one_ns as u64)
    );
    say(FitnessOutcome::Sound, words)
}

#[cfg(test)]
mod tests;
