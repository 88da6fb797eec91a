//! From steps to claims: pure functions over the record, so that a run can be judged again by a newer version.

mod cap;
mod classes;
mod flush;
mod knee;
mod meaning;
mod pace;
#[cfg(test)]
mod tests;
mod verdict;

use fathom_host::cgroup::Limit;
use fathom_record::Finding;
use fathom_record::disk::{Knee, Layout, Step};

pub use classes::{StorageClass, nearest};
pub use knee::knee;
pub use meaning::{Documents, meanings};
pub use verdict::verdict;

/// Everything that the findings about a disk rest on.
#[derive(Default)]
pub struct Evidence<'a> {
    /// Every step, in order.
    pub steps: &'a [Step],
    /// The ladder's verdict.
    pub knee: Option<&'a Knee>,
    /// The layout pass.
    pub layout: Option<&'a Layout>,
    /// I/O limits of our own cgroup on the devices under test, with the device's name.
    pub limits: Vec<(String, Limit)>,
    /// Whether the devices have a volatile cache; `None` where unknown.
    pub cache_is_volatile: Option<bool>,
    /// Whether the data lie in memory.
    pub in_memory: Option<&'a str>,
}

/// All findings about the disk.
pub fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(evidence.in_memory.map(pace::memory));
    findings.extend(cap::findings(evidence));
    findings.extend(flush::findings(evidence));
    findings.extend(evidence.layout.and_then(pace::first_write));
    findings.extend(pace::burst(evidence.steps));
    findings.extend(pace::slowed(evidence.steps));
    findings.extend(pace::busy_cpu(evidence.steps));
    findings
}

/// The steps of a shape: pattern, block and durability.
pub(crate) fn of_shape<'a>(
    steps: &'a [Step],
    pattern: &'a str,
    block_bytes: u64,
) -> impl Iterator<Item = &'a Step> {
    steps.iter().filter(move |step| {
        matches!(step.streams.as_slice(), [stream]
            if stream.pattern == pattern && stream.block_bytes == block_bytes && stream.rate_per_s.is_none())
    })
}
