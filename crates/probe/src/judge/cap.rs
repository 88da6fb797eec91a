//! Finds caps: limits by configuration, as opposed to the limits of a device (docs/methods.md#limits-by-configuration).
//!
//! A limit of our own cgroup is read and named. A provider's limit can only be inferred: from a throughput that is flat over
//! several depths and steady within a step, and that is either a customary number or the same for two block sizes. A worn-out or
//! mechanical disk is flat too, but neither steady nor round.

use fathom_host::cgroup::{Limit, LimitKind};
use fathom_record::disk::Step;
use fathom_record::{Confidence, Finding, Severity};
use fathom_stats::{coefficient_of_variation, median};
use fathom_units::{count, decimal};

use super::evidence::{DiskEvidence, of_shape};

/// IOPS figures that providers sell or users configure (docs/methods.md#limits-by-configuration).
const ROUND_IOPS: &[f64] = &[
    100.0, 120.0, 150.0, 200.0, 240.0, 250.0, 300.0, 500.0, 600.0, 1_000.0, 1_100.0, 1_500.0, 2_000.0,
    2_300.0, 2_500.0, 3_000.0, 3_500.0, 4_000.0, 5_000.0, 6_000.0, 7_500.0, 8_000.0, 10_000.0, 12_000.0,
    15_000.0, 16_000.0, 20_000.0, 30_000.0, 32_000.0, 40_000.0, 64_000.0, 80_000.0, 100_000.0, 160_000.0,
    256_000.0,
];
/// MiB or MB per second of the same kind.
const ROUND_MB_PER_S: &[f64] = &[
    25.0, 50.0, 60.0, 90.0, 100.0, 125.0, 128.0, 150.0, 170.0, 200.0, 250.0, 300.0, 500.0, 600.0, 750.0,
    900.0, 1_000.0,
];
/// The relative distance within which two rates count as the same.
const MAX_RATE_DISTANCE: f64 = 0.02;
/// The relative distance to a round number, and the spread, within which the number counts: the table is so dense that one in three
/// rates is within 2 % of an entry by chance, while a throttle keeps its rate exactly.
const MAX_ROUND_DISTANCE: f64 = 0.01;
/// Spread of a plateau's levels, and of a step's intervals, below which a limit is at work.
const MAX_LIMITED_SPREAD: f64 = 0.03;

pub(super) fn findings(evidence: &DiskEvidence<'_>) -> Vec<Finding> {
    let named: Vec<Finding> =
        evidence.limits.iter().filter_map(|(device, limit)| own(device, limit, evidence.steps)).collect();
    if named.iter().any(Finding::is_alarm) {
        return named;
    }
    named.into_iter().chain(inferred(evidence)).collect()
}

/// A limit set by the cgroup of this process.
fn own(device: &str, limit: &Limit, steps: &[Step]) -> Option<Finding> {
    let value = limit.value as f64;
    let (what, reached) = match limit.kind {
        LimitKind::ReadIops => ("reads per second", most(steps, "read", |o| o.per_s)),
        LimitKind::WriteIops => ("writes per second", most(steps, "write", |o| o.per_s)),
        LimitKind::ReadBytes => ("bytes read per second", most(steps, "read", |o| o.mib_per_s * 1_048_576.0)),
        LimitKind::WriteBytes => {
            ("bytes written per second", most(steps, "write", |o| o.mib_per_s * 1_048_576.0))
        }
    };
    let file = &limit.file;
    let reached = reached?;
    let bites = reached > value * 0.9;
    let finding = if bites {
        let claim = format!(
            "The kernel caps this process at {} {what} on {device}; the disk itself was not reached",
            count(value)
        );
        Finding::new("capped-by-cgroup", Severity::Warning, claim)
            .advice("Probe outside this cgroup to see the disk, or lift the limit if it is not meant")
    } else {
        let claim =
            format!("A cgroup limit of {} {what} is set on {device}, and was not reached", count(value));
        Finding::new("cgroup-limit-not-reached", Severity::Note, claim)
    };
    Some(
        finding
            .evidence(format!("{file} says {}; the probe got up to {}", limit.value, count(reached)))
            .source("torvalds/linux:Documentation/admin-guide/cgroup-v2.rst, IO Interface Files"),
    )
}

/// The highest rate of any step for one kind.
fn most(steps: &[Step], kind: &str, figure: impl Fn(&fathom_record::disk::Operations) -> f64) -> Option<f64> {
    let figures =
        steps.iter().flat_map(|step| &step.streams).filter_map(|stream| stream.kind(kind)).map(figure);
    figures.max_by(f64::total_cmp)
}

/// A plateau of one shape: its level, and its steadiness.
struct ShapePlateau {
    per_s: f64,
    mib_per_s: f64,
    levels: usize,
    spread: f64,
    flicker: f64,
}

fn plateau(steps: &[&Step]) -> Option<ShapePlateau> {
    let best = steps.iter().map(|step| step.per_s()).max_by(f64::total_cmp)?;
    let flat: Vec<&&Step> =
        steps.iter().filter(|step| step.per_s() > best * (1.0 - 2.0 * MAX_LIMITED_SPREAD)).collect();
    let values: Vec<f64> = flat.iter().map(|step| step.per_s()).collect();
    let flickers: Vec<f64> =
        flat.iter().filter_map(|step| coefficient_of_variation(&step.per_interval)).collect();
    let mib: Vec<f64> = flat.iter().map(|step| step.mib_per_s()).collect();
    Some(ShapePlateau {
        per_s: median(&values)?,
        mib_per_s: median(&mib)?,
        levels: flat.len(),
        spread: coefficient_of_variation(&values).unwrap_or(0.0),
        flicker: median(&flickers).unwrap_or(f64::INFINITY),
    })
}

fn inferred(evidence: &DiskEvidence<'_>) -> Option<Finding> {
    let clean: Vec<Step> = evidence.steps.iter().filter(|step| !step.cpu_bound()).cloned().collect();
    let of = |block: u64| plateau(&of_shape(&clean, "randread", block).collect::<Vec<_>>());
    let small = of(4096)?;
    if small.levels < 3 || small.spread > MAX_LIMITED_SPREAD || small.flicker > MAX_LIMITED_SPREAD {
        return None;
    }
    let large = of(32_768);
    let exact = small.spread < MAX_ROUND_DISTANCE && small.flicker < MAX_ROUND_DISTANCE;
    let round = near_round(small.per_s, ROUND_IOPS).filter(|_| exact);
    let same_iops = large.as_ref().is_some_and(|large| near(large.per_s, small.per_s));
    let bandwidth = large.as_ref().and_then(|large| {
        let mb = large.mib_per_s * 1.048_576;
        near_round(large.mib_per_s, ROUND_MB_PER_S)
            .or_else(|| near_round(mb, ROUND_MB_PER_S))
            .filter(|_| large.flicker < MAX_ROUND_DISTANCE)
    });
    let level = count(small.per_s);
    let steady = format!(
        "{} depths give the same {level} reads per second within {:.1} %, and each varies by {:.1} % from interval to interval",
        small.levels,
        small.spread * 100.0,
        small.flicker * 100.0
    );
    let finding = |id: &str, claim: String| {
        Finding::new(id, Severity::Warning, claim)
            .confidence(Confidence::Likely)
            .evidence(steady.clone())
            .advice("Look up the volume's and the instance's provisioned limits; a faster tier, not tuning, raises them")
            .source("docs/methods.md#limits-by-configuration")
    };
    if let Some(large) = large.as_ref().filter(|_| same_iops) {
        let evidence = format!(
            "reads of 4 KiB and of 32 KiB come to the same rate ({level} and {})",
            count(large.per_s)
        );
        return Some(
            finding(
                "capped-iops",
                format!("Something caps this disk at about {level} operations per second"),
            )
            .evidence(evidence),
        );
    }
    if let Some(round) = round {
        let evidence = format!(
            "{level} is within {:.0} % of {}, a limit that is sold or set",
            MAX_ROUND_DISTANCE * 100.0,
            count(round)
        );
        return Some(
            finding(
                "capped-iops",
                format!("Something caps this disk at about {level} operations per second"),
            )
            .evidence(evidence),
        );
    }
    let mb = bandwidth?;
    let evidence = format!("reads of 32 KiB stop at {} MB/s, a limit that is sold or set", decimal(mb));
    Some(
        finding(
            "capped-bandwidth",
            format!("Something caps this disk at about {} MB per second", decimal(mb)),
        )
        .evidence(evidence),
    )
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < MAX_RATE_DISTANCE
}

fn near_round(value: f64, table: &[f64]) -> Option<f64> {
    table.iter().copied().find(|round| (value / round - 1.0).abs() < MAX_ROUND_DISTANCE)
}
