//! Finds artefacts, effects that distort the figures of a disk: burst buckets, first writes, memory that appears as a disk, a busy
//! CPU, and syncs that do not reach the medium.
//!
//! Our syncs are compared with the device's flushes (docs/methods.md#first-writes-and-syncs-that-do-not-arrive).

use fathom_record::burst_allowance::{BurstAllowance, BurstVerdict};
use fathom_record::disk::{Layout, Step};
use fathom_record::{Confidence, Finding, Severity};
use fathom_stats::{SeededRandom, find_step};
use fathom_units::{Bytes, Nanos, count, decimal};

use super::evidence::DiskEvidence;

/// A step down must be at least this large to be called a burst bucket that ran dry.
const MAX_BURST_END_RATIO: f64 = 0.8;
/// The second write of a region must be this much faster than the first for the first to count as penalised.
const MIN_FIRST_WRITE_RATIO: f64 = 1.5;
/// Regions written faster than this carry no information: caches and clocks decide.
const MIN_REGION_SECONDS: f64 = 0.3;
/// The advice on a burst.
const PLAN_WITH_LOWER: &str =
    "Plan with the lower figure; the higher one lasts only until the bucket is empty again";
/// Surrogates for the step test: p down to 1/1000.
const SURROGATES: usize = 999;

pub(super) fn memory(file_system: &str) -> Finding {
    let claim =
        format!("The directory is on {file_system}, which is memory: the figures say nothing about a disk");
    Finding::new("memory-not-disk", Severity::Warning, claim)
        .advice("Name a directory on the disk with --dir")
}

/// A burst bucket that ran dry: in a drive that looked for it, otherwise within a window of half a minute or more.
pub(super) fn burst(evidence: &DiskEvidence<'_>) -> Option<Finding> {
    match evidence.burst_allowance {
        Some(allowance) => burst_of_drive(allowance),
        None => burst_of_steps(evidence.steps),
    }
}

fn burst_of_drive(allowance: &BurstAllowance) -> Option<Finding> {
    if allowance.verdict != BurstVerdict::Burst {
        return None;
    }
    let [first, .., last] = allowance.levels.as_slice() else { return None };
    let claim = format!(
        "The disk gives {} requests per second only in a burst, and sustains {}",
        count(first.per_s),
        count(last.per_s)
    );
    let evidence = format!(
        "{} requests in {} s, one rate a second",
        count(allowance.requests as f64),
        decimal(allowance.seconds)
    );
    Some(Finding::new("burst-exhausted", Severity::Warning, claim).evidence(evidence).advice(PLAN_WITH_LOWER))
}

fn burst_of_steps(steps: &[Step]) -> Option<Finding> {
    steps.iter().filter(|step| !step.cpu_bound() && step.streams.iter().all(|s| s.rate_per_s.is_none())).find_map(|step| {
        let found = find_step(&step.per_interval, SURROGATES, &mut SeededRandom::from_seed(42))?;
        if found.p > 0.01 || found.after > found.before * MAX_BURST_END_RATIO {
            return None;
        }
        let seconds = (step.end_ns - step.begin_ns) as f64 / 1e9 / step.per_interval.len().max(1) as f64 * found.index as f64;
        let claim = format!(
            "After {} s the disk fell from {} to {} operations per second and stayed there: a burst allowance ran out",
            decimal(seconds), count(found.before), count(found.after)
        );
        Some(
            Finding::new("burst-exhausted", Severity::Warning, claim)
                .confidence(Confidence::Likely)
                .evidence(format!("step test over {} intervals of '{}': p = {:.3}", step.per_interval.len(), step.phase, found.p))
                .advice(PLAN_WITH_LOWER),
        )
    })
}

/// The reference shape, measured first and last, was slower the second time.
pub(super) fn slowed(steps: &[Step]) -> Option<Finding> {
    let last = steps.iter().rev().find(|step| step.phase == "reference again")?;
    let first = steps.iter().find(|step| step.phase != last.phase && same_shape(step, last))?;
    if first.cpu_bound() || last.cpu_bound() || last.per_s() > first.per_s() * MAX_BURST_END_RATIO {
        return None;
    }
    let claim = format!(
        "The disk became slower while it was probed: {} operations per second at first, {} at the end",
        count(first.per_s()),
        count(last.per_s())
    );
    Some(
        Finding::new("slowed-down", Severity::Warning, claim)
            .confidence(Confidence::Likely)
            .evidence("the same shape and depth was measured at both ends of the profile")
            .advice("A burst bucket, a cache that filled up or a neighbour; repeat with --sustain to tell them apart"),
    )
}

fn same_shape(a: &Step, b: &Step) -> bool {
    let shape = |step: &Step| {
        step.streams
            .first()
            .map(|s| (s.pattern.clone(), s.block_bytes, s.depth, s.durable.clone(), s.engine.clone()))
    };
    a.streams.len() == 1 && b.streams.len() == 1 && shape(a) == shape(b)
}

/// Thin-provisioned or lazily zeroed storage (docs/methods.md#first-writes-and-syncs-that-do-not-arrive).
pub(super) fn first_write(layout: &Layout) -> Option<Finding> {
    let rewritten = layout.rewritten.as_ref()?;
    let seconds = Bytes(rewritten.bytes).as_mib() / rewritten.first_mib_per_s.max(1e-9);
    let ratio = rewritten.second_mib_per_s / rewritten.first_mib_per_s.max(1e-9);
    if ratio < MIN_FIRST_WRITE_RATIO || seconds < MIN_REGION_SECONDS {
        return None;
    }
    let claim = format!(
        "The first write of a block costs {} times the second: thin or lazily zeroed storage, or blocks that the file system allocates",
        decimal(ratio)
    );
    Some(
        Finding::new("first-write-penalty", Severity::Note, claim)
            .confidence(Confidence::Likely)
            .evidence(format!(
                "{} written at {} MiB/s, then again at {} MiB/s",
                Bytes(rewritten.bytes), decimal(rewritten.first_mib_per_s), decimal(rewritten.second_mib_per_s)
            ))
            .advice("Expect a new database to load slower than it will run; eager-zeroed or thick volumes avoid it"),
    )
}

/// The probe itself lacked CPU time: those steps allow no verdict on the disk.
pub(super) fn busy_cpu(steps: &[Step]) -> Option<Finding> {
    let starved: Vec<&Step> = steps.iter().filter(|step| step.cpu_bound()).collect();
    let worst = starved.iter().max_by(|a, b| wait(a).total_cmp(&wait(b)))?;
    let all = starved.len() * 2 > steps.len();
    let severity = if all { Severity::Warning } else { Severity::Note };
    let claim = format!(
        "In {} of {} steps the CPU, not the disk, set the pace; nothing is concluded about the disk from them",
        starved.len(),
        steps.len()
    );
    let ring = worst.streams.iter().all(|stream| stream.engine == "io_uring");
    let shape =
        worst.streams.first().map_or_else(String::new, |s| format!("{} at depth {}", s.pattern, s.depth));
    Some(
        Finding::new("cpu-not-disk", severity, claim)
            .confidence(if all { Confidence::CannotTell } else { Confidence::Certain })
            .evidence(format!(
                "worst: '{}' ({shape}): {:.0} % of the probe's time was spent ready but without a CPU, {:.0} % of its CPU share was used, the machine was {:.0} % busy",
                worst.phase, wait(worst), worst.generator_busy_pct.unwrap_or(0.0), worst.machine_busy_pct.unwrap_or(0.0)
            ))
            .advice(if ring {
                "Repeat on an idle machine"
            } else {
                "Repeat on an idle machine, or with 'fathom disk --engine io_uring', which needs less CPU per request"
            }),
    )
}

fn wait(step: &Step) -> f64 {
    step.run_queue_wait_pct.unwrap_or(0.0)
}

/// A flush faster than this is either protected by a capacitor or battery, or not executed.
const MIN_EXECUTED_FLUSH_NS: u64 = 100_000;

pub(super) fn flushes(evidence: &DiskEvidence<'_>) -> Option<Finding> {
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
        (Some(true), _) if sync.latency.p50_ns < MIN_EXECUTED_FLUSH_NS => Some(
            Finding::new("flush-very-fast", Severity::Note, format!("A flush takes {p50}: the device either protects its cache against power loss or does not flush; timing cannot tell which"))
                .confidence(Confidence::CannotTell)
                .evidence(asked)
                .advice("Ask for the device's model and its power-loss protection, or try a power-cut test"),
        ),
        (Some(false), _) => Some(
            Finding::new("cache-write-through", Severity::Ok, "The device reports that its cache is not volatile (write_cache = write through), so a sync is cheap")
                .evidence(asked)
                .advice("Check that 'write through' was not written into sysfs by hand: that only stops flushes from being sent"),
        ),
        _ => None,
    }
}
