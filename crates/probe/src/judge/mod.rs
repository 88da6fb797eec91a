//! From steps to claims: pure functions over the record, so that a run can be judged again by a newer version.
//!
//! The verdict is the one sentence a person came for: is this disk fit to be judged, and does anything spoil it? Three
//! outcomes, as everywhere: yes, no, cannot tell. It says nothing about whether the disk is fast enough for somebody's
//! load: that needs the load.

mod artefacts;
mod cap;
mod classes;
mod evidence;
mod knee;
mod meaning;

use fathom_record::disk::{Knee, Verdict, VerdictOutcome};
use fathom_record::{Finding, Severity};
use fathom_units::{Nanos, count};

pub use classes::{StorageClass, nearest};
pub use evidence::Evidence;
pub use knee::knee;
pub use meaning::{Documents, meanings};

/// All findings about the disk.
pub fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(evidence.in_memory.map(artefacts::memory));
    findings.extend(cap::findings(evidence));
    findings.extend(artefacts::flushes(evidence));
    findings.extend(evidence.layout.and_then(artefacts::first_write));
    findings.extend(artefacts::burst(evidence.steps));
    findings.extend(artefacts::slowed(evidence.steps));
    findings.extend(artefacts::busy_cpu(evidence.steps));
    findings
}

/// Findings that name a limit or a defect of the storage itself.
const SPOILERS: [&str; 7] = [
    "flush-swallowed",
    "capped-by-cgroup",
    "capped-iops",
    "capped-bandwidth",
    "burst-exhausted",
    "slowed-down",
    "memory-not-disk",
];

/// The verdict over a disk's findings and its knee.
pub fn verdict(findings: &[Finding], knee: Option<&Knee>) -> Verdict {
    let mut spoilers: Vec<&Finding> = findings
        .iter()
        .filter(|finding| SPOILERS.contains(&finding.id.as_str()) && finding.is_alarm())
        .collect();
    spoilers.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let say = |outcome, words| Verdict { outcome, words };
    if let Some(worst) = spoilers.first() {
        let more = match spoilers.len() {
            1 => String::new(),
            n => format!(" ({} more below)", n - 1),
        };
        return say(VerdictOutcome::Spoiled, format!("{}{more}.", worst.claim));
    }
    let Some(knee) = knee else {
        return say(VerdictOutcome::CannotTell, "Too little was measured for a verdict.".to_owned());
    };
    if let Some(why) = &knee.withheld {
        return say(VerdictOutcome::CannotTell, format!("No verdict on the disk: {why}."));
    }
    if findings.iter().any(|finding| finding.id == "cpu-not-disk" && finding.severity >= Severity::Warning) {
        let words = "No verdict on the disk: in most steps the CPU set the pace; repeat on an idle machine.";
        return say(VerdictOutcome::CannotTell, words.to_owned());
    }
    let words = format!(
        "Nothing spoils this disk that the probe can see: up to {} random 4 KiB reads per second, {} for one.",
        count(knee.throughput_max_per_s),
        Nanos(knee.latency_at_one_ns as u64)
    );
    say(VerdictOutcome::Sound, words)
}

#[cfg(test)]
mod tests;
