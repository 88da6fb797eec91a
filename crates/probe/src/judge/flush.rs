//! Does a sync reach the medium? Compares our syncs with the device's flushes (disk.md 5, "cache lies").

use fathom_record::disk::Step;
use fathom_record::{Confidence, Finding, Severity};
use fathom_units::Nanos;

use super::Evidence;

/// A flush faster than this is either protected by a capacitor or battery, or not done.
const HONEST_FLUSH_NS: u64 = 100_000;

pub(super) fn findings(evidence: &Evidence<'_>) -> Option<Finding> {
    let step = evidence.steps.iter().find(|step| {
        !step.cpu_bound()
            && step.streams.len() == 1
            && step.streams.iter().any(|s| s.pattern == "append" && s.durable == "fdatasync")
    })?;
    let sync = step.streams.first()?.kind("sync")?;
    if sync.count < 10 || step.devices.is_empty() {
        return None;
    }
    let flushes: Option<f64> = step.devices.iter().map(|device| device.flushes_per_s).sum();
    let p50 = Nanos(sync.latency.p50_ns);
    let asked = format!("{:.0} fdatasync per second, p50 {p50}", sync.per_s);
    match (evidence.cache_is_volatile, flushes) {
        (Some(true), Some(flushes)) if flushes < 0.01 * sync.per_s => Some(
            Finding::new("flush-swallowed", Severity::Critical, "fdatasync returns, but no flush reaches the disk, whose cache is volatile: a power cut loses committed writes")
                .evidence(format!("{asked}; the device counted {flushes:.1} flushes per second and says write_cache = write back"))
                .advice("Look for nobarrier or barrier=0 in the mount options, and for cache=unsafe in the virtual machine's disk"),
        ),
        (Some(true), _) if sync.latency.p50_ns < HONEST_FLUSH_NS => Some(
            Finding::new("flush-very-fast", Severity::Note, format!("A flush takes {p50}: the device either protects its cache against power loss or does not flush; timing cannot tell which"))
                .confidence(Confidence::CannotTell)
                .evidence(asked)
                .advice("Ask for the device's model and its power-loss protection, or try a power-cut test"),
        ),
        (Some(false), _) => Some(
            Finding::new("cache-write-through", Severity::Ok, "The device says that its cache is not volatile (write_cache = write through), so a sync is cheap")
                .evidence(asked)
                .advice("Check that nobody wrote 'write through' into sysfs by hand: that only stops flushes from being sent"),
        ),
        _ => None,
    }
}

/// Used by the meaning of a commit: the step with single-stream durable appends.
pub(super) fn journal_step(steps: &[Step]) -> Option<&Step> {
    steps.iter().find(|step| {
        matches!(step.streams.as_slice(), [stream] if stream.pattern == "append" && stream.depth == 1 && stream.durable != "none" && stream.rate_per_s.is_none())
    })
}
